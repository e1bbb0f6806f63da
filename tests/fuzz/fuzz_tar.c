/*
 * Archives of results that a server makes up, unpacked into a directory with links that lead out of
 * it: any bytes (the sums of headers are mended), and lines that say what is in an archive, by the
 * writer and by one that lies.  Nothing beside the directory changes; a second time all files are
 * there; in pieces, the reader finds the same as in the whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "base/tar/tar.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/ustar.h"

enum {
	BLOCK = 512,
	ENTRIES = 50,
	TAR_MAX = 256 << 10,
	TOLD_MAX = 1 << 20,
	LONGEST = 5000,
	NOTE = 100
};

/* ---- a directory, and beside it one that must stay as it is --------------------------------- */

static char top[] = "/tmp/rest-lit-fuzz.XXXXXX";
static int top_fd, outside = -1;
static struct stat kept;

static void yard_remove(void)
{
	(void)tree_remove(AT_FDCWD, top, SIZE_MAX);
}

/* Once. */
static void yard_make(void)
{
	bool made = mkdtemp(top) && atexit(yard_remove) == 0;
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	made = made && mkdirat(top_fd, "outside", 0700) == 0;
	outside = openat(top_fd, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FD_AUTO fd = openat(outside, "kept", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	made = made && fd_write_all(fd, SPAN("kept")) == 0 && fstat(fd, &kept) == 0;
	assert(made);
}

static void yard_begin(void)
{
	static const char *const LINKS[][2] = {
		{ "../outside", "dir/out" },
		{ "../../outside", "dir/d/out" },
		{ "../outside/kept", "dir/kept" },
		{ "../outside/new", "dir/" TAR_PART },
		{ "../../outside/kept", "dir/d/" TAR_PART },
	};
	int rc = mkdirat(top_fd, "dir", 0700) | mkdirat(top_fd, "dir/d", 0700);
	for (size_t i = 0; i < ARRAY_SIZE(LINKS); i++)
		rc |= symlinkat(LINKS[i][0], top_fd, LINKS[i][1]);
	rc |= linkat(outside, "kept", top_fd, "dir/same", 0);
	assert(rc == 0);
}

static size_t yard_count(int dir, const char *name)
{
	DIR_AUTO *all = dir_list(dir, name);
	size_t n = 0;
	while (dir_next(all))
		n++;
	return n;
}

static void yard_end(void)
{
	static const char *const PARTS[] = { "dir/" TAR_PART, "dir/d/" TAR_PART };
	struct stat st;
	char text[8];
	for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++)
		assert(fstatat(top_fd, PARTS[i], &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		       S_ISLNK(st.st_mode));
	int rc = tree_remove(top_fd, "dir", SIZE_MAX);
	assert(rc == 0 && yard_count(top_fd, ".") == 1 && yard_count(outside, ".") == 1);
	rc = fstatat(outside, "kept", &st, AT_SYMLINK_NOFOLLOW);
	assert(rc == 0 && st.st_ino == kept.st_ino && st.st_mode == kept.st_mode);
	assert(memcmp(&st.st_mtim, &kept.st_mtim, sizeof(st.st_mtim)) == 0);
	assert(fd_read_at(outside, "kept", text, sizeof(text)) == 4 && !strcmp(text, "kept"));
}

/* ---- reading -------------------------------------------------------------------------------- */

static int told_entry(void *arg, const struct tar_entry *entry, struct err *e)
{
	(void)e;
	assert(tar_path_ok(entry->path) && entry->size >= 0 && entry->time_ns >= 0);
	assert(entry->kind == TAR_FILE || (!entry->size && !entry->executable));
	str_printf(arg, "\n%d %s %d %lld %lld ", entry->kind, entry->path, entry->executable,
	           (long long)entry->size, (long long)entry->time_ns);
	return 0;
}

static int told_data(void *arg, struct span bytes, struct err *e)
{
	(void)e;
	assert(bytes.n > 0);
	str_span(arg, bytes);
	return 0;
}

static int told_complete(void *arg, struct err *e)
{
	(void)e;
	str_puts(arg, " whole");
	return 0;
}

static int told_note(void *arg, const char *text, struct err *e)
{
	(void)e;
	str_printf(arg, "\nnote %s", text);
	return 0;
}

static int tar_feed(struct tar_sink sink, struct span tar, size_t piece, struct err *e)
{
	struct tar_reader *r = tar_reader_new(sink, ENTRIES);
	int rc = 0;
	while (tar.n && rc == 0) {
		size_t n = piece < tar.n ? piece : tar.n;
		rc = tar_reader_feed(r, span_to(tar, n), e);
		tar = span_from(tar, n);
	}
	if (rc == 0)
		rc = tar_reader_end(r, e);
	tar_reader_free(r);
	assert((rc != 0) == (e->notes.n > 0));
	return rc;
}

static void tar_tell(struct span tar, size_t piece, struct str *told)
{
	ERR_AUTO e = { 0 };
	const struct tar_sink sink = { told_entry, told_data, told_complete, told_note, told };
	int rc = tar_feed(sink, tar, piece, &e);
	assert(rc == 0 || e.http == 502);
	str_printf(told, "\n%d %s", rc, rc ? err_msg(&e) : "");
}

static void tar_try(struct span tar, size_t piece, bool force)
{
	STR_AUTO whole = STR_INIT(TOLD_MAX);
	STR_AUTO pieces = STR_INIT(TOLD_MAX);
	tar_tell(tar, SIZE_MAX, &whole);
	tar_tell(tar, piece, &pieces);
	assert(span_eq(str_view(&whole), str_view(&pieces)));
	yard_begin();
	for (int again = 0; again < 2; again++) {
		ERR_AUTO e = { 0 };
		FD_AUTO dir = openat(top_fd, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct tar_unpack u = { .dir = dir, .force = force };
		int rc = tar_feed(tar_unpack_sink(&u), tar, piece, &e);
		tar_unpack_end(&u);
		assert(!u.file && !u.parent && (rc < 0 || !again || !u.files));
	}
	yard_end();
}

/* ---- archives ------------------------------------------------------------------------------- */

/* The headers of an entry as another program could write them. */
static void put_lie(struct str *out, char type, const struct tar_entry *entry)
{
	STR_AUTO records = STR_INIT(LONGEST + 100);
	STR_AUTO size = STR_INIT(LONGEST);
	char head[BLOCK];
	str_int(&size, entry->size);
	record_put(&records, "path", span_of(entry->path));
	record_put(&records, "size", str_view(&size));
	record_put(&records, "mtime", SPAN("1.500000000"));
	head_fill(head, 'x', "rest-lit", records.n);
	head_sum(head, 0);
	str_put(out, head, BLOCK);
	str_span(out, str_view(&records));
	tar_put_padding(out, (int64_t)records.n);
	head_fill(head, type, entry->path, (size_t)entry->size);
	head_octal(head + 136, 11, 1);
	head_sum(head, 0);
	str_put(out, head, BLOCK);
}

/* What it is: a file, program or directory, a note, bytes, the end, or the type of another entry;
 * a size; a path, where @ is what is beside the directory. */
static void put_line(struct str *out, struct span line)
{
	STR_AUTO path = STR_INIT(LONGEST);
	unsigned char what = line.n ? fuzz_byte(&line) : 'e';
	unsigned char bits = line.n ? fuzz_byte(&line) : 0;
	struct tar_entry entry = { .executable = what == 'x', .time_ns = 1500000000 };
	if (what == 'd')
		entry.kind = TAR_DIRECTORY;
	else
		entry.size = bits % 64;
	bool at = line.n && *line.p == '@';
	if (at)
		str_printf(&path, "%s/outside", top);
	str_span(&path, span_from(line, at));
	entry.path = str_c(&path);
	switch (what) {
	case 'e':
		tar_put_end(out);
		return;
	case 'r':
		str_span(out, line);
		return;
	case 'n':
		if (strlen(entry.path) <= NOTE)
			tar_put_note(out, entry.path);
		return;
	case 'd':
	case 'f':
	case 'x':
		if (tar_path_ok(entry.path))
			tar_put_entry(out, &entry);
		else
			put_lie(out, what == 'd' ? '5' : '0', &entry);
		break;
	default:
		put_lie(out, (char)what, &entry);
	}
	for (int64_t i = 0; i < entry.size; i++)
		str_char(out, 'x');
	tar_put_padding(out, entry.size);
}

FUZZ(text)
{
	STR_AUTO tar = STR_INIT(TAR_MAX);
	if (outside < 0)
		yard_make();
	unsigned how = text.n ? fuzz_byte(&text) : 0;
	bool lines = how & 1;
	while (lines && text.n)
		put_line(&tar, span_next(&text, '\n'));
	str_span(&tar, text);
	for (size_t at = 0; !lines && at + BLOCK <= tar.n; at += BLOCK)
		if (memcmp(tar.p + at + 257, "ustar", 6) == 0)
			head_sum(tar.p + at, 0);
	tar_try(str_view(&tar), 1 + (size_t)(how >> 2) * 13, how & 2);
}
