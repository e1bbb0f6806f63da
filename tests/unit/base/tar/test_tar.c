/* Archives of results: what the writer writes is what the reader gives back; what a server that
 * lies sends is refused, and nothing is written outside the directory. */

#include "tests/unit/base/cmocka.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "base/tar/tar.h"
#include "tests/lib/ustar.h"

enum { ARCHIVE_MAX = 4 << 20, BLOCK = 512, LIMIT = 100 };

/* ---- a directory to unpack into, beside one that must stay ------------------------------------
 */

struct yard {
	char top[32];
	int fd, dir; /* top, and top/dir */
};

static struct yard yard_begin(void)
{
	struct yard p = { .top = "/tmp/rest-lit-tar.XXXXXX" };
	assert_non_null(mkdtemp(p.top));
	p.fd = open(p.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_return_code(mkdirat(p.fd, "dir", 0700), errno);
	assert_return_code(mkdirat(p.fd, "outside", 0700), errno);
	p.dir = openat(p.fd, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return p;
}

static size_t yard_count(int at, const char *name)
{
	DIR_AUTO *all = dir_list(at, name);
	size_t n = 0;
	while (dir_next(all))
		n++;
	return n;
}

static void yard_end(const struct yard *p)
{
	(void)close(p->dir);
	(void)close(p->fd);
	assert_int_equal(tree_remove(AT_FDCWD, p->top, SIZE_MAX), 0);
}

/* Unpacks in pieces of this size. */
static int yard_unpack(const struct yard *p, struct tar_unpack *u, struct span tar, size_t piece,
                       struct err *e)
{
	u->dir = p->dir;
	struct tar_reader *r = tar_reader_new(tar_unpack_sink(u), LIMIT);
	int rc = 0;
	while (tar.n && rc == 0) {
		size_t n = tar.n < piece ? tar.n : piece;
		rc = tar_reader_feed(r, span_to(tar, n), e);
		tar = span_from(tar, n);
	}
	if (rc == 0)
		rc = tar_reader_end(r, e);
	if (rc == 0 && !u->ended)
		rc = err_set(e, 502, NULL, "no end");
	tar_reader_free(r);
	tar_unpack_end(u);
	return rc;
}

static void put_file(struct str *out, const char *path, const char *text)
{
	const struct tar_entry entry = { TAR_FILE, path, false, (int64_t)strlen(text), 1500000000 };
	tar_put_entry(out, &entry);
	str_puts(out, text);
	tar_put_padding(out, entry.size);
}

static void put_directory(struct str *out, const char *path)
{
	tar_put_entry(out, &(struct tar_entry){ TAR_DIRECTORY, path, false, 0, 0 });
}

static void put_end(struct str *out)
{
	tar_put_end(out);
	tar_put_note(out, "end 0");
}

static void read_back(int dir, const char *path, const char *text)
{
	char got[64];
	assert_true(fd_read_at(dir, path, got, sizeof(got)) >= 0);
	assert_string_equal(got, text);
}

TEST(test_files_of_any_names_come_back_whole)
{
	static const char ODD[] = "caf\xe9\nsecond line, \x01 and \xff";
	struct yard p = yard_begin();
	STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
	STR_AUTO deep = STR_INIT(TAR_PATH);
	put_directory(&tar, "d");
	for (size_t i = 0; i < TAR_DEPTH - 1; i++) {
		str_puts(&deep, i ? "/d" : "d");
		if (i)
			put_directory(&tar, str_c(&deep));
	}
	put_file(&tar, "empty", "");
	put_file(&tar, ODD, "odd");
	str_puts(&deep,
	         "/a name of more than a hundred bytes, which the header of ustar does not hold, "
	         "and so the extended header does");
	put_file(&tar, str_c(&deep), "deep");
	tar_put_entry(&tar, &(struct tar_entry){ TAR_FILE, "run", true, BLOCK, 3000000007 });
	for (size_t i = 0; i < BLOCK; i++)
		str_char(&tar, 'x');
	put_end(&tar);
	for (size_t piece = 1; piece < 100000; piece = piece * 7 + 3) {
		ERR_AUTO e = { 0 };
		struct tar_unpack u = { .force = true };
		struct stat st;
		assert_int_equal(yard_unpack(&p, &u, str_view(&tar), piece, &e), 0);
		assert_int_equal(u.files + u.same, 4);
		read_back(p.dir, ODD, "odd");
		read_back(p.dir, str_c(&deep), "deep");
		assert_return_code(fstatat(p.dir, "run", &st, 0), errno);
		assert_int_equal(st.st_mode & 0100, 0100);
		assert_int_equal(st.st_size, BLOCK);
		assert_int_equal(st.st_mtim.tv_sec, 3);
		assert_int_equal(st.st_mtim.tv_nsec, 7);
		assert_int_equal(unlinkat(p.dir, "run", 0), 0);
	}
	yard_end(&p);
}

TEST(test_a_second_archive_completes_and_replaces_nothing)
{
	struct yard p = yard_begin();
	STR_AUTO first = STR_INIT(ARCHIVE_MAX);
	STR_AUTO second = STR_INIT(ARCHIVE_MAX);
	put_file(&first, "a", "one");
	put_end(&first);
	put_file(&second, "a", "other");
	put_file(&second, "b", "new");
	tar_put_note(&second, "grew");
	put_end(&second);
	for (int round = 0; round < 4; round++) {
		ERR_AUTO e = { 0 };
		struct tar_unpack u = { .force = round == 3 };
		struct span tar = str_view(round < 2 ? &first : &second);
		assert_int_equal(yard_unpack(&p, &u, tar, 4096, &e), 0);
		assert_int_equal(u.same, round == 1 || round == 3);
		assert_int_equal(u.news[TAR_OTHER], round == 2);
		assert_int_equal(u.news[TAR_GREW], round >= 2);
		read_back(p.dir, "a", round < 3 ? "one" : "other");
	}
	assert_int_equal(yard_count(p.dir, "."), 2);
	yard_end(&p);
}

TEST(test_an_archive_that_is_cut_off_leaves_whole_files_only)
{
	struct yard p = yard_begin();
	STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
	put_file(&tar, "a", "one");
	size_t first = tar.n;
	put_file(&tar, "b", "two");
	put_end(&tar);
	for (size_t n = 0; n < tar.n; n += n < first ? 511 : 1) {
		ERR_AUTO e = { 0 };
		struct tar_unpack u = { .dir = p.dir };
		assert_int_equal(yard_unpack(&p, &u, span_to(str_view(&tar), n), 100, &e), -1);
		assert_true(faccessat(p.dir, TAR_PART, F_OK, 0) < 0);
		assert_true(yard_count(p.dir, ".") <= 2);
	}
	read_back(p.dir, "a", "one");
	read_back(p.dir, "b", "two");
	yard_end(&p);
}

/* ---- lies -------------------------------------------------------------------------------------
 */

/* An entry, as another program could write it. */
struct lie {
	const char *what;      /* for messages */
	const char *path;      /* in the extended header */
	size_t path_n;         /* 0: as long as the text */
	const char *size;      /* there; NULL: that of the text */
	const char *time;      /* NULL: 1.5 s */
	char type;             /* 0: a file */
	const char *text;      /* the content */
	const char *name;      /* of the header of ustar; NULL: the path */
	const char *head_size; /* octal; NULL: that of the text */
	const char *target;
	bool false_sum, no_extended, dirty;
	/* Before it: a directory or a file of the archive; in the directory; behind it. */
	const char *directory, *file, *link, *behind;
	bool force, no_end;
	bool taken; /* it is not refused, and stays inside */
};

static void put_head(struct str *out, const struct lie *l, char type, const char *name, size_t n)
{
	char head[BLOCK];
	bool extended = type == 'x';
	head_fill(head, type, name, n);
	head_octal(head + 136, 11, !extended);
	if (!extended && l->head_size)
		memcpy(head + 124, l->head_size, strlen(l->head_size));
	if (!extended && l->target)
		memcpy(head + 157, l->target, strlen(l->target));
	head_sum(head, !extended && l->false_sum);
	str_put(out, head, BLOCK);
}

static void put_lie(struct str *out, const struct lie *l)
{
	STR_AUTO records = STR_INIT(ARCHIVE_MAX);
	char size[24];
	const char *text = l->text ?: "";
	(void)snprintf(size, sizeof(size), "%zu", strlen(text));
	if (l->directory)
		put_directory(out, l->directory);
	if (l->file)
		put_file(out, l->file, "first");
	record_put(&records, "path",
	           (struct span){ l->path, l->path_n ? l->path_n : strlen(l->path) });
	record_put(&records, "size", span_of(l->size ?: size));
	record_put(&records, "mtime", span_of(l->time ?: "1.500000000"));
	if (!l->no_extended) {
		put_head(out, l, 'x', "rest-lit", records.n);
		str_span(out, str_view(&records));
		tar_put_padding(out, (int64_t)records.n);
	}
	char type = '0';
	if (l->type)
		type = l->type;
	put_head(out, l, type, l->name ?: l->path, strlen(text));
	str_puts(out, text);
	size_t before = out->n;
	tar_put_padding(out, (int64_t)strlen(text));
	if (l->dirty)
		out->p[before] = 'x';
	if (l->behind)
		str_puts(out, l->behind);
	if (!l->no_end)
		put_end(out);
}

#define TEN(a)    a a a a a a a a a a
#define LONG_NAME TEN("0123456789012345678901234") "012345" /* 256 */
#define DEEP_64   TEN("d/d/d/d/d/d/") "d/d/d/d"
#define PATH_4100 TEN(TEN("0123456789/0123456789/0123456789/0123456/"))

static const struct lie LIES[] = {
	{ "an honest entry", "a", .text = "x", .taken = true },
	{ "above", "..", .text = "x" },
	{ "a file above", "../x", .text = "x" },
	{ "the neighbour", "../outside/x", .text = "x" },
	{ "above from below", "a/../../x", .text = "x", .directory = "a" },
	{ "back to the top", "a/../x", .text = "x", .directory = "a" },
	{ "above at the end", "a/..", .type = '5', .directory = "a" },
	{ "absolute", "/tmp/x", .text = "x" },
	{ "absolute, twice", "//x", .text = "x" },
	{ "the root", "/", .type = '5' },
	{ "no name", "", .text = "x" },
	{ "itself", ".", .type = '5' },
	{ "by itself", "./x", .text = "x" },
	{ "a dot within", "a/./x", .text = "x", .directory = "a" },
	{ "an empty part", "a//x", .text = "x", .directory = "a" },
	{ "a slash at the end", "x/", .text = "x" },
	{ "NUL in the path", "x\0/../../y", .path_n = 10, .text = "x" },
	{ "a name that is too long", LONG_NAME, .text = "x" },
	{ "a path that is too deep", DEEP_64 "/x", .text = "x" },
	{ "a path that is too long", PATH_4100, .text = "x" },
	{ "a header with another path", "x", .name = "../x", .text = "x" },
	{ "a header without the extended one", "../x", .no_extended = true, .text = "x" },
	{ "a symbolic link", "l", .type = '2', .target = "../outside" },
	{ "a file below a link of the archive", "l/x", .text = "x", .type = '0', .file = "l" },
	{ "a hard link", "l", .type = '1', .target = "../outside/kept" },
	{ "a character device", "n", .type = '3' },
	{ "a block device", "n", .type = '4' },
	{ "a fifo", "n", .type = '6' },
	{ "a contiguous file", "n", .type = '7', .text = "x" },
	{ "a GNU long name", "././@LongLink", .type = 'L', .text = "../x" },
	{ "a sparse file", "n", .type = 'S', .text = "x" },
	{ "a file below a link that is here", "out/x", .text = "x", .directory = "out",
	  .link = "out" },
	{ "the same with --force", "out/x", .text = "x", .directory = "out", .link = "out",
	  .force = true },
	{ "a link as the name that incomplete files have", "a", .text = "x", .link = TAR_PART,
	  .taken = true },
	{ "a link in place of the file", "out", .text = "x", .link = "out", .taken = true },
	{ "the same with --force", "out", .text = "x", .link = "out", .force = true,
	  .taken = true },
	{ "a directory where a link is", "out", .type = '5', .link = "out", .force = true },
	{ "the name of incomplete files", TAR_PART, .text = "x" },
	{ "without its directory", "a/x", .text = "x" },
	{ "a file twice", "a", .text = "x", .file = "a", .force = true },
	{ "a directory twice", "a", .type = '5', .directory = "a" },
	{ "a file, then a directory", "a", .type = '5', .file = "a" },
	{ "a directory, then a file", "a", .text = "x", .directory = "a", .force = true },
	{ "a file below a file", "a/x", .text = "x", .file = "a" },
	{ "a directory with bytes", "a", .type = '5', .text = "x" },
	{ "a size below zero", "a", .size = "-1", .text = "x" },
	{ "a size that is no number", "a", .size = "1x", .text = "x" },
	{ "a size beyond 64 bits", "a", .size = "99999999999999999999", .text = "x" },
	{ "a size in octal with other digits", "a", .head_size = "0000000000x", .text = "x" },
	{ "two sizes", "a", .size = "3", .text = "x" },
	{ "a size of all disks", "a", .size = "9000000000000000000", .head_size = "00000000000",
	  .text = "x" },
	{ "less bytes than announced", "a", .size = "5", .head_size = "00000000005", .text = "abc",
	  .no_end = true },
	{ "more bytes than announced", "a", .text = "x",
	  .behind = "more bytes than there is a name for" },
	{ "a time before 1970", "a", .time = "-5.000000000", .text = "x" },
	{ "a time without end", "a", .time = "99999999999.000000000", .text = "x" },
	{ "a time with too many digits", "a", .time = "1.5000000000", .text = "x" },
	{ "a wrong sum", "a", .false_sum = true, .text = "x" },
	{ "padding with bytes", "a", .dirty = true, .text = "x" },
	{ "no end", "a", .text = "x", .no_end = true },
};

TEST(test_a_server_that_lies_writes_nothing_outside_the_directory)
{
	assert_true(ARRAY_SIZE(LIES) >= 40);
	for (size_t i = 0; i < ARRAY_SIZE(LIES); i++) {
		const struct lie *l = &LIES[i];
		ERR_AUTO e = { 0 };
		struct yard p = yard_begin();
		struct tar_unpack u = { .force = l->force };
		STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
		FD_AUTO kept = openat(p.fd, "outside/kept", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(fd_write_all(kept, SPAN("kept")), 0);
		if (l->link)
			assert_return_code(symlinkat(strcmp(l->path, l->link) == 0 ||
			                                     strcmp(l->link, TAR_PART) == 0
			                                 ? "../outside/kept"
			                                 : "../outside",
			                             p.dir, l->link),
			                   errno);
		put_lie(&tar, l);
		int rc = yard_unpack(&p, &u, str_view(&tar), 1000, &e);
		if (rc != (l->taken ? 0 : -1))
			fail_msg("%s: %s", l->what, err_msg(&e));
		if (yard_count(p.fd, ".") != 2 || yard_count(p.fd, "outside") != 1)
			fail_msg("%s: something is outside", l->what);
		read_back(p.fd, "outside/kept", "kept");
		struct stat st;
		assert_int_not_equal(stat("/tmp/x", &st), 0);
		yard_end(&p);
	}
}

TEST(test_paths_are_relative_and_have_bounds)
{
	static const char *const GOOD[] = { "a", "...", ".a", "a/..b", "\xff\n", DEEP_64 };
	static const char *const BAD[] = {
		"",           "/",      "/a",    "a/",   "a//b", ".",       "..",
		"./a",        "a/.",    "a/./b", "a/..", "../a", LONG_NAME, "a/" LONG_NAME,
		DEEP_64 "/d", PATH_4100
	};
	STR_AUTO longest = STR_INIT(TAR_PATH + 1);
	for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++)
		if (!tar_path_ok(GOOD[i]))
			fail_msg("\"%s\" is refused", GOOD[i]);
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		if (tar_path_ok(BAD[i]))
			fail_msg("\"%s\" is taken", BAD[i]);
	str_char(&longest, 'a');
	for (int i = 0; i < 15; i++)
		str_printf(&longest, "/%.255s", LONG_NAME);
	str_printf(&longest, "/%.253s", LONG_NAME);
	assert_int_equal(longest.n, TAR_PATH);
	assert_true(tar_path_ok(str_c(&longest)));
	str_char(&longest, 'x');
	assert_false(tar_path_ok(str_c(&longest)));
}

TEST(test_no_byte_of_a_header_can_be_another)
{
	struct yard p = yard_begin();
	STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
	put_directory(&tar, "d");
	put_file(&tar, "d/x", "y");
	put_end(&tar);
	/* The bytes that no other ones repeat: the content, parts of seconds, the number at the
	 * end. */
	size_t content = tar.n - (size_t)5 * BLOCK;
	size_t parts = span_find(str_view(&tar), 0, "mtime=1.") + 8;
	size_t of_directory = span_find(str_view(&tar), 0, "mtime=0.") + 8;
	for (size_t i = 0; i < tar.n; i++) {
		ERR_AUTO e = { 0 };
		struct tar_unpack u = { .force = true };
		tar.p[i] ^= 1;
		bool taken = yard_unpack(&p, &u, str_view(&tar), 1 << 20, &e) == 0;
		bool said_once = i == content || i - parts < 9 || i - of_directory < 9 ||
		                 (i >= 4 && memcmp(tar.p + i - 4, "end ", 4) == 0);
		if (taken != said_once)
			fail_msg("byte %zu is %s", i, taken ? "taken" : "refused");
		tar.p[i] ^= 1;
	}
	yard_end(&p);
}

TEST(test_a_header_that_announces_too_much_is_refused_at_once)
{
	ERR_AUTO e = { 0 };
	struct tar_unpack u = { .dir = -1 };
	STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
	struct tar_reader *r = tar_reader_new(tar_unpack_sink(&u), LIMIT);
	put_head(&tar, &(struct lie){ 0 }, 'x', "rest-lit", 1 << 30);
	assert_int_equal(tar_reader_feed(r, str_view(&tar), &e), -1);
	tar_reader_free(r);
	tar_unpack_end(&u);
}

TEST(test_what_is_here_and_is_another_stays)
{
	struct yard p = yard_begin();
	STR_AUTO first = STR_INIT(ARCHIVE_MAX);
	STR_AUTO second = STR_INIT(ARCHIVE_MAX);
	STR_AUTO large = STR_INIT(ARCHIVE_MAX);
	put_file(&first, "file", "one");
	put_end(&first);
	put_file(&second, "place", "x"); /* of a directory */
	tar_put_entry(&second, &(struct tar_entry){ TAR_FILE, "file", false, 3, 7500000000 });
	str_puts(&second, "two");
	tar_put_padding(&second, 3);
	put_end(&second);
	tar_put_entry(&large, &(struct tar_entry){ TAR_FILE, "large", false, INT64_C(1) << 60, 0 });
	assert_return_code(mkdirat(p.dir, "place", 0700), errno);
	for (int force = 0; force < 2; force++) {
		struct tar_unpack u = { .force = force };
		if (!force)
			assert_int_equal(yard_unpack(&p, &u, str_view(&first), 4096, no_err()), 0);
		u = (struct tar_unpack){ .force = force };
		assert_int_equal(yard_unpack(&p, &u, str_view(&second), 4096, no_err()), 0);
		assert_int_equal(u.news[TAR_OTHER], force ? 1 : 2); /* the directory, the time */
		read_back(p.dir, "file", force ? "two" : "one");
		assert_int_equal(yard_count(p.dir, "place"), 0);
	}
	struct tar_unpack u = { .force = true };
	struct err *e = no_err();
	assert_int_equal(yard_unpack(&p, &u, str_view(&large), 4096, e), -1);
	assert_non_null(strstr(err_msg(e), "No space left"));
	/* A directory that is here, but not in the archive. */
	STR_AUTO below = STR_INIT(ARCHIVE_MAX);
	put_file(&below, "place/x", "x");
	put_end(&below);
	u = (struct tar_unpack){ .force = true };
	assert_int_equal(yard_unpack(&p, &u, str_view(&below), 4096, no_err()), -1);
	assert_int_equal(yard_count(p.dir, "."), 2);
	yard_end(&p);
}

TEST(test_a_directory_that_becomes_a_link_is_not_written_through)
{
	ERR_AUTO e = { 0 };
	struct yard p = yard_begin();
	struct tar_unpack u = { .dir = p.dir, .force = true };
	STR_AUTO before = STR_INIT(ARCHIVE_MAX);
	STR_AUTO after = STR_INIT(ARCHIVE_MAX);
	put_directory(&before, "d");
	put_directory(&before, "d/e");
	put_file(&after, "d/e/x", "x");
	struct tar_reader *r = tar_reader_new(tar_unpack_sink(&u), LIMIT);
	assert_int_equal(tar_reader_feed(r, str_view(&before), &e), 0);
	assert_return_code(renameat(p.dir, "d", p.dir, "was"), errno);
	assert_return_code(mkdirat(p.fd, "outside/e", 0700), errno);
	assert_return_code(symlinkat("../outside", p.dir, "d"), errno);
	assert_int_equal(tar_reader_feed(r, str_view(&after), &e), -1);
	assert_non_null(strstr(err_msg(&e), "its directory is a link"));
	tar_reader_free(r);
	tar_unpack_end(&u);
	assert_int_equal(yard_count(p.fd, "outside/e"), 0);
	yard_end(&p);
}

#define BEHIND_A "the archive, behind \"a\", "
#define UNKNOWN  "the archive has a note that is unknown"
#define EARLY    BEHIND_A "ends too early"
#define LATE     BEHIND_A "goes on after its end"
#define OTHER    BEHIND_A "has an entry that rest-lit does not write"
#define DIRTY    BEHIND_A "has other bytes than zeros for padding"

TEST(test_notes_and_ends_are_as_the_server_writes_them)
{
	static const struct {
		const char *notes[3]; /* "!": two blocks of zeros, "0": one, "?": other bytes, "^":
		                         behind a NUL, "+": a file */
		const char *want;
	} BAD[] = {
		{ { "!", "end 0", "end 0" }, UNKNOWN },
		{ { "!", "end" }, UNKNOWN },
		{ { "!", "end -2" }, UNKNOWN },
		{ { "!", "melted", "end 0" }, UNKNOWN },
		{ { "!", "end 0", "grew" }, UNKNOWN },
		{ { "!" }, "no end" },
		{ { "end 0" }, EARLY },
		{ { "!", "!", "end 0" }, LATE },
		{ { "!", "end 0", "?" }, EARLY },
		{ { "!", "end 0", "!" }, LATE },
		{ { "!", "+", "end 0" }, LATE },
		{ { "!", "end 0", "+" }, LATE },
		{ { "?", "!", "end 0" }, OTHER },
		{ { "0", "?", "!" }, DIRTY },
		{ { "!", "0", "end 0" }, LATE },
		{ { "^", "!" }, DIRTY },
		{ { "end 0", "+", "!" }, "the archive goes on after its end" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		ERR_AUTO e = { 0 };
		struct yard p = yard_begin();
		struct tar_unpack u = { .force = false };
		STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
		put_file(&tar, "a", "x");
		for (size_t k = 0; k < 3 && BAD[i].notes[k]; k++) {
			if (strcmp(BAD[i].notes[k], "!") == 0)
				tar_put_end(&tar);
			else if (strcmp(BAD[i].notes[k], "+") == 0)
				put_file(&tar, "b", "x");
			else if (strcmp(BAD[i].notes[k], "?") == 0)
				str_puts(&tar, "other bytes");
			else if (strcmp(BAD[i].notes[k], "^") == 0)
				str_put(&tar, "\0other bytes", 12);
			else if (strcmp(BAD[i].notes[k], "0") == 0)
				for (size_t n = 0; n < BLOCK; n++)
					str_char(&tar, '\0');
			else
				tar_put_note(&tar, BAD[i].notes[k]);
		}
		if (yard_unpack(&p, &u, str_view(&tar), 1 << 20, &e) == 0 ||
		    strcmp(err_msg(&e), BAD[i].want) != 0)
			fail_msg("case %zu: %s", i, err_msg(&e));
		yard_end(&p);
	}
}

TEST(test_an_archive_without_end_is_ended)
{
	for (int notes = 0; notes < 2; notes++) {
		ERR_AUTO e = { 0 };
		struct yard p = yard_begin();
		struct tar_unpack u = { .dir = p.dir };
		struct tar_reader *r = tar_reader_new(tar_unpack_sink(&u), LIMIT);
		int rc = 0;
		int n = 0;
		for (; rc == 0 && n < 2 * LIMIT; n++) {
			STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
			char name[16];
			(void)snprintf(name, sizeof(name), "%d", n);
			if (notes)
				tar_put_note(&tar, "grew");
			else
				put_file(&tar, name, "x");
			rc = tar_reader_feed(r, str_view(&tar), &e);
		}
		assert_int_equal(n, LIMIT + 1);
		tar_reader_free(r);
		tar_unpack_end(&u);
		yard_end(&p);
	}
}
