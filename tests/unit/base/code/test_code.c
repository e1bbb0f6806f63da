/* Archives of code: what the writer writes, what the reader refuses, and the sink that unpacks. */

#include "tests/unit/base/cmocka.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/code/code.h"
#include "base/gzip.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "tests/lib/ustar.h"

enum { ARCHIVE_MAX = 4 << 20, BLOCK = 512 };

static const struct code_limits LIMITS = { 100, 1 << 20 };

/* ---- archives -------------------------------------------------------------------------------- */

struct made {
	char type;               /* '0', '2', '5' or another */
	const char *path, *text; /* content or target */
	size_t at;               /* bytes of the header that are replaced; patch NULL: none */
	const char *patch;
	size_t n;
	bool false_sum;
};

static void put_made(struct str *out, const struct made *m)
{
	char head[BLOCK];
	size_t n = m->text && m->type == '0' ? strlen(m->text) : 0;
	head_fill(head, m->type, m->path, n);
	if (m->type != '0' && m->text)
		memcpy(head + 157, m->text, strlen(m->text));
	if (m->patch)
		memcpy(head + m->at, m->patch, m->n);
	head_sum(head, m->false_sum);
	str_put(out, head, BLOCK);
	if (n == 0)
		return;
	str_put(out, m->text, n);
	while (out->n % BLOCK)
		str_char(out, '\0');
}

static void put_end(struct str *out)
{
	static const char ZEROS[2 * BLOCK];
	str_put(out, ZEROS, sizeof(ZEROS));
}

/* ---- what the reader finds ------------------------------------------------------------------- */

static int told_entry(void *arg, const struct code_entry *entry, struct err *e)
{
	(void)e;
	str_printf(arg, "%s%c %s%s%s", ((struct str *)arg)->n ? "\n" : "", "FDL"[entry->kind],
	           entry -> path,
	           entry -> kind == CODE_LINK   ? " -> "
	                    : entry->executable ? " x"
	                                        : "",
	           entry->kind == CODE_LINK ? entry->target : "");
	if (entry->kind == CODE_FILE)
		str_printf(arg, " %lld ", (long long)entry->size);
	return 0;
}

static int told_data(void *arg, struct span bytes, struct err *e)
{
	(void)e;
	assert_true(bytes.n > 0);
	str_span(arg, bytes);
	return 0;
}

/* Reads in pieces of so many bytes. */
static int read_code(struct span packed, size_t piece, struct str *told, struct code_facts *facts,
                     struct err *e)
{
	struct code_reader *r =
	    code_reader_new(&LIMITS, &(struct code_sink){ told_entry, told_data, told });
	int rc = 0;
	while (packed.n && rc == 0) {
		size_t n = piece < packed.n ? piece : packed.n;
		rc = code_reader_feed(r, span_to(packed, n), e);
		packed = span_from(packed, n);
	}
	if (rc == 0)
		rc = code_reader_end(r, facts, e);
	code_reader_free(r);
	return rc;
}

static void assert_refused(struct span packed, int http, const char *text, const char *why)
{
	STR_AUTO told = STR_INIT(ARCHIVE_MAX);
	struct code_facts facts;
	int rc = read_code(packed, SIZE_MAX, &told, &facts, no_err());
	if (rc != -1 || unit.e.http != http || strcmp(err_msg(&unit.e), text) != 0)
		fail_msg("%s: %d, %d %s", why, rc, unit.e.http, err_msg(&unit.e));
}

static struct span pack_tar(const struct str *tar, struct arena *a)
{
	struct span packed;
	assert_true(gzip_pack(str_view(tar), ARCHIVE_MAX, a, &packed));
	return packed;
}

static int keep_packed(void *arg, struct span packed, struct err *e)
{
	(void)e;
	str_span(arg, packed);
	return 0;
}

static void write_code(struct str *packed, struct code_facts *facts)
{
	static const struct {
		struct code_entry entry;
		const char *text;
	} ENTRIES[] = {
		{ { CODE_FILE, ".hidden", NULL, false, 0 }, "" },
		{ { CODE_DIRECTORY, "a", NULL, false, 0 }, NULL },
		{ { CODE_FILE, "a/b", NULL, true, 5 }, "hello" },
		{ { CODE_LINK, "a/up", "../a-b", false, 0 }, NULL },
		{ { CODE_FILE, "a-b", NULL, false, 3 }, "abc" },
		{ { CODE_DIRECTORY, "empty", NULL, false, 0 }, NULL },
		{ { CODE_LINK, "here", "./a/./b", false, 0 }, NULL },
		{ { CODE_FILE, "\xc3\xbc x", NULL, false, 1 }, "u" },
	};
	struct code_writer *w = code_writer_new(keep_packed, packed);
	for (size_t i = 0; i < ARRAY_SIZE(ENTRIES); i++) {
		assert_int_equal(code_writer_entry(w, &ENTRIES[i].entry, no_err()), 0);
		for (const char *p = ENTRIES[i].text; p && *p; p++)
			assert_int_equal(code_writer_data(w, (struct span){ p, 1 }, no_err()), 0);
	}
	assert_int_equal(code_writer_end(w, facts, no_err()), 0);
}

static const char TOLD[] = "F .hidden 0 \nD a\nF a/b x 5 hello\nL a/up -> ../a-b\nF a-b 3 abc\n"
			   "D empty\nL here -> ./a/./b\nF \xc3\xbc x 1 u";

TEST(test_code_that_was_written_is_read)
{
	static const size_t PIECES[] = { 1, 7, 100, SIZE_MAX };
	STR_AUTO packed = STR_INIT(ARCHIVE_MAX);
	struct code_facts facts;
	write_code(&packed, &facts);
	assert_int_equal(facts.entries, 8);
	assert_int_equal(facts.bytes, 9);
	/* The same on each machine.  Python's tarfile makes the same headers, but for a slash
	 * behind directories. */
	assert_string_equal(facts.sha256,
	                    "b19be8439fd7c1ea51422f590be792fdfbc06953931a35e9fce5e3c6ae5b1319");
	for (size_t i = 0; i < ARRAY_SIZE(PIECES); i++) {
		STR_AUTO told = STR_INIT(ARCHIVE_MAX);
		struct code_facts again;
		assert_int_equal(read_code(str_view(&packed), PIECES[i], &told, &again, no_err()),
		                 0);
		assert_string_equal(str_c(&told), TOLD);
		assert_memory_equal(&again, &facts, sizeof(facts));
	}
}

TEST(test_code_of_nothing_is_an_archive)
{
	STR_AUTO packed = STR_INIT(ARCHIVE_MAX);
	STR_AUTO told = STR_INIT(ARCHIVE_MAX);
	struct code_facts facts;
	struct code_writer *w = code_writer_new(keep_packed, &packed);
	assert_int_equal(code_writer_end(w, &facts, no_err()), 0);
	assert_int_equal(read_code(str_view(&packed), 1, &told, &facts, no_err()), 0);
	assert_int_equal(facts.entries + facts.bytes, 0);
}

#define LONG_NAME                                                                                  \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567" \
	"8901234567890"

TEST(test_code_paths_have_255_bytes)
{
	static const char WANT[] =
	    "entry \"...7890123456789012345678901234567890123456789012345678901234"
	    "5678901234567890\": at most 155 bytes, a / and 100 bytes fit into a path";
	STR_AUTO packed = STR_INIT(ARCHIVE_MAX);
	STR_AUTO told = STR_INIT(ARCHIVE_MAX);
	char path[300];
	struct code_facts facts;
	struct code_writer *w = code_writer_new(keep_packed, &packed);
	struct code_entry entry = { .kind = CODE_DIRECTORY, .path = path };
	/* 50 directories of four bytes, and a name of the rest. */
	memset(path, '\0', sizeof(path));
	for (size_t n = 5; n <= 250; n += 5) {
		memset(path, 'd', n);
		for (size_t i = 4; i < n; i += 5)
			path[i] = '/';
		path[n - 1] = '\0';
		assert_int_equal(code_writer_entry(w, &entry, no_err()), 0);
	}
	path[249] = '/';
	memset(path + 250, 'f', 5);
	entry.kind = CODE_FILE;
	assert_int_equal(code_writer_entry(w, &entry, no_err()), 0);
	assert_int_equal(code_writer_end(w, &facts, no_err()), 0);
	assert_int_equal(read_code(str_view(&packed), 100, &told, &facts, no_err()), 0);
	assert_int_equal(facts.entries, 51);
	assert_true(span_find(str_view(&told), 0, path) != SIZE_MAX);
	w = code_writer_new(keep_packed, &packed);
	entry.path = LONG_NAME;
	assert_int_equal(code_writer_entry(w, &entry, no_err()), -1);
	assert_string_equal(err_msg(&unit.e), WANT);
	memset(path, 'x', 256);
	path[256] = '\0';
	entry.path = path;
	assert_int_equal(code_writer_entry(w, &entry, no_err()), -1);
	assert_non_null(strstr(err_msg(&unit.e), "a path has 1 to 255 bytes, this one 256"));
	entry = (struct code_entry){ .kind = CODE_FILE, .path = "f", .size = INT64_C(8) << 30 };
	assert_int_equal(code_writer_entry(w, &entry, no_err()), -1);
	assert_string_equal(err_msg(&unit.e), "entry \"f\": a file has less than 8 GiB");
	assert_int_equal(code_writer_end(w, NULL, no_err()), 0);
}

TEST(test_code_writer_wants_the_size_of_files)
{
	STR_AUTO packed = STR_INIT(ARCHIVE_MAX);
	struct code_facts facts;
	struct code_writer *w = code_writer_new(keep_packed, &packed);
	const struct code_entry entry = { .kind = CODE_FILE, .path = "f", .size = 3 };
	assert_int_equal(code_writer_entry(w, &entry, no_err()), 0);
	assert_int_equal(code_writer_data(w, SPAN("abcd"), no_err()), -1);
	assert_string_equal(err_msg(&unit.e), "entry \"f\": it has more bytes than its size says");
	assert_int_equal(code_writer_data(w, SPAN("ab"), no_err()), 0);
	assert_int_equal(code_writer_entry(w, &entry, no_err()), -1);
	assert_int_equal(unit.e.http, 400);
	assert_int_equal(code_writer_end(w, &facts, no_err()), -1);
	assert_string_equal(err_msg(&unit.e), "entry \"f\": 1 bytes of it are missing");
}

#define PATCH(at, bytes) at, bytes, sizeof(bytes) - 1, false
#define PLAIN            0, NULL, 0, false
#define DIRECTORY(path)                                                                            \
	{                                                                                          \
		'5', path, NULL, PLAIN                                                             \
	}
#define FILE_OF(path)                                                                              \
	{                                                                                          \
		'0', path, "text", PLAIN                                                           \
	}
#define LINK(path, to)                                                                             \
	{                                                                                          \
		'2', path, to, PLAIN                                                               \
	}
#define LEAVES  "leaves the directory: a target is relative, with \"..\" only at its beginning"
#define PARTS   "a path is relative, without \".\", \"..\" and empty parts"
#define BYTE(n) "byte " #n " of its header is not as rest-lit writes it"
#define TYPE(type)                                                                                 \
	"its type is \"" type                                                                      \
	"\"; \"0\" (a file), \"5\" (a directory) and \"2\" (a symbolic link) of ustar are allowed"
static const struct {
	struct made made[3];
	const char *want;
} HOSTILE[] = {
	{ { FILE_OF("../a") }, "entry \"../a\": " PARTS },
	{ { DIRECTORY("a"), FILE_OF("a/..") }, "entry \"a/..\": " PARTS },
	{ { FILE_OF("./a") }, "entry \"./a\": " PARTS },
	{ { DIRECTORY("a/") }, "entry \"a/\": " PARTS },
	{ { FILE_OF("/etc/passwd") }, "entry \"/etc/passwd\": " PARTS },
	{ { FILE_OF("") }, "entry \"\": a path has 1 to 255 bytes, this one 0" },
	{ { FILE_OF("a\nb") }, "entry \"a\\nb\": a path is UTF-8 without control characters" },
	{ { FILE_OF("\xff") },
	  "entry \"\xef\xbf\xbd\": a path is UTF-8 without control characters" },
	{ { FILE_OF("\xc2\x85") },
	  "entry \"\\u0085\": a path is UTF-8 without control characters" },
	{ { FILE_OF("a"), FILE_OF("a") },
	  "entry \"a\": it is after \"a\": entries are sorted, each once" },
	{ { FILE_OF("b"), FILE_OF("a") },
	  "entry \"a\": it is after \"b\": entries are sorted, each once" },
	{ { FILE_OF("a-b"), DIRECTORY("a") },
	  "entry \"a\": it is after \"a-b\": entries are sorted, each once" },
	{ { DIRECTORY("a"), FILE_OF("a-b"), FILE_OF("a/b") },
	  "entry \"a/b\": it is after \"a-b\": entries are sorted, each once" },
	{ { FILE_OF("a"), FILE_OF("a/b") },
	  "entry \"a/b\": the entry before it is neither its directory nor in it" },
	{ { DIRECTORY("t"), LINK("a", "t") },
	  "entry \"a\": it is after \"t\": entries are sorted, each once" },
	{ { LINK("a", "."), FILE_OF("a/b") },
	  "entry \"a/b\": the entry before it is neither its directory nor in it" },
	{ { FILE_OF("a/b") },
	  "entry \"a/b\": the entry before it is neither its directory nor in it" },
	{ { DIRECTORY("a"), FILE_OF("a/b/c") },
	  "entry \"a/b/c\": the entry before it is neither its directory nor in it" },
	{ { DIRECTORY("a"), FILE_OF("ab/c") },
	  "entry \"ab/c\": the entry before it is neither its directory nor in it" },
	{ { DIRECTORY("ab"), FILE_OF("b"), FILE_OF("ba/c") },
	  "entry \"ba/c\": the entry before it is neither its directory nor in it" },
	{ { LINK("a", "/etc/passwd") }, "entry \"a\": the link to \"/etc/passwd\" " LEAVES },
	{ { LINK("a", "..") }, "entry \"a\": the link to \"..\" " LEAVES },
	{ { DIRECTORY("a"), LINK("a/b", "../../c") },
	  "entry \"a/b\": the link to \"../../c\" " LEAVES },
	{ { DIRECTORY("a"), LINK("a/b", "./.././/../c") },
	  "entry \"a/b\": the link to \"./.././/../c\" " LEAVES },
	/* `l` can be a link to the top. */
	{ { DIRECTORY("a"), LINK("a/b", "l/../../c") },
	  "entry \"a/b\": the link to \"l/../../c\" " LEAVES },
	{ { LINK("a", "x\ny") },
	  "entry \"a\": the link to \"x\\ny\": a target is UTF-8 without control "
	  "characters, of 1 to 100 bytes" },
	{ { LINK("a", "") },
	  "entry \"a\": the link to \"\": a target is UTF-8 without control characters, of "
	  "1 to 100 bytes" },
	{ { FILE_OF("a"), { '1', "b", "a", PLAIN } }, "entry \"b\": " TYPE("1") },
	{ { { '3', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("3") },
	{ { { '4', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("4") },
	{ { { '6', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("6") },
	{ { { 'x', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("x") },
	{ { { 'g', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("g") },
	{ { { 'L', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("L") },
	{ { { 'S', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("S") },
	{ { { '7', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("7") },
	{ { { '\0', "a", NULL, PLAIN } }, "entry \"a\": " TYPE("\\u0000") },
	{ { { '0', "a", "x", PATCH(257, "ustar  ") } }, "entry \"a\": " TYPE("0") },
	{ { { '0', "a", "x", PATCH(263, "01") } }, "entry \"a\": " BYTE(264) },
	{ { { '0', "a", "x", 0, NULL, 0, true } }, "entry \"a\": " BYTE(151) },
	{ { { '0', "a", "x", PATCH(100, "0000777") } }, "entry \"a\": " BYTE(105) },
	{ { { '0', "a", "x", PATCH(100, "0004755") } }, "entry \"a\": " BYTE(103) },
	{ { { '0', "a", "x", PATCH(108, "0001750") } }, "entry \"a\": " BYTE(111) },
	{ { { '0', "a", "x", PATCH(116, "0001750") } }, "entry \"a\": " BYTE(119) },
	{ { { '0', "a", "x", PATCH(136, "14700000000") } }, "entry \"a\": " BYTE(136) },
	{ { { '0', "a", "x", PATCH(124, "          1") } }, "entry \"a\": " BYTE(124) },
	{ { { '0', "a", "x", PATCH(124, "\x80\0\0\0\0\0\0\0\0\0\0\1") } },
	  "entry \"a\": " BYTE(124) },
	{ { { '5', "a", NULL, PATCH(124, "00000000001") } }, "entry \"a\": " BYTE(134) },
	{ { { '0', "a", "x", PATCH(2, "b") } }, "entry \"a\": " BYTE(2) },
	{ { { '0', "a", "x", PATCH(157, "b") } }, "entry \"a\": " BYTE(157) },
	{ { { '0', "a", "x", PATCH(265, "root") } }, "entry \"a\": " BYTE(265) },
	{ { { '0', "a", "x", PATCH(329, "0000001") } }, "entry \"a\": " BYTE(329) },
	{ { DIRECTORY("p"), { '0', "a", "x", PATCH(345, "p") } }, "entry \"p/a\": " BYTE(345) },
	{ { { '0', "a", "x", PATCH(511, "x") } }, "entry \"a\": " BYTE(511) },
};

TEST(test_code_reader_refuses_hostile_entries)
{
	for (size_t i = 0; i < ARRAY_SIZE(HOSTILE); i++) {
		STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
		for (size_t k = 0; k < 3 && HOSTILE[i].made[k].path; k++)
			put_made(&tar, &HOSTILE[i].made[k]);
		put_end(&tar);
		assert_refused(pack_tar(&tar, &unit.a), 400, HOSTILE[i].want, HOSTILE[i].want);
	}
}

TEST(test_code_reader_refuses_more_than_the_limits)
{
	char name[16];
	STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
	const struct made bomb = { '0', "z", NULL, PATCH(124, "00004000000") }; /* 1 MiB */
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "f%03d", i);
		put_made(&tar, &(struct made)FILE_OF(name));
	}
	put_end(&tar);
	STR_AUTO told = STR_INIT(ARCHIVE_MAX);
	struct code_facts facts;
	assert_int_equal(read_code(pack_tar(&tar, &unit.a), SIZE_MAX, &told, &facts, no_err()), 0);
	tar.n -= (size_t)2 * BLOCK;
	put_made(&tar, &(struct made)FILE_OF("g"));
	/* The end of the archive does not matter any more. */
	assert_refused(pack_tar(&tar, &unit.a), 413, "the archive has more than 100 entries",
	               "entries");
	tar.n = 0;
	put_made(&tar, &(struct made){ '0', "a", "x", PLAIN });
	put_made(&tar, &bomb);
	assert_refused(pack_tar(&tar, &unit.a), 413,
	               "the files of the archive have more than 1048576 bytes", "bytes");
}

TEST(test_code_reader_wants_one_whole_archive)
{
	STR_AUTO tar = STR_INIT(ARCHIVE_MAX);
	STR_AUTO packed = STR_INIT(ARCHIVE_MAX);
	static const char EARLY[] = "the archive ends too early";
	static const char AFTER[] = "the archive goes on after its end";
	static const char BYTES[] = "the archive has bytes after the end of its gzip member";
	put_made(&tar, &(struct made)FILE_OF("a"));
	size_t n = tar.n;
	put_end(&tar);
	str_span(&packed, pack_tar(&tar, &unit.a));
	for (size_t i = 0; i < packed.n; i++)
		assert_refused(span_to(str_view(&packed), i), 400, EARLY, "cut");
	str_char(&packed, '\0');
	assert_refused(str_view(&packed), 400, BYTES, "a byte more");
	packed.n--;
	str_span(&packed, pack_tar(&tar, &unit.a));
	assert_refused(str_view(&packed), 400, BYTES, "two members");
	str_char(&tar, '\0');
	assert_refused(pack_tar(&tar, &unit.a), 400, AFTER, "a third block");
	tar.n = n + BLOCK;
	assert_refused(pack_tar(&tar, &unit.a), 400, EARLY, "one block of zeros");
	put_made(&tar, &(struct made)FILE_OF("b"));
	put_end(&tar);
	assert_refused(pack_tar(&tar, &unit.a), 400, AFTER, "an entry between them");
	tar.n = n;
	put_end(&tar);
	tar.p[tar.n - 1] = 'x';
	assert_refused(pack_tar(&tar, &unit.a), 400, AFTER, "the last byte");
	tar.p[tar.n - 1] = '\0';
	tar.p[n - 1] = 'x';
	assert_refused(pack_tar(&tar, &unit.a), 400,
	               "entry \"a\": the padding after it is not of zeros", "padding");
	assert_refused(SPAN("PK\3\4 is not gzip"), 400,
	               "the archive is not a whole gzip file: incorrect header check", "zip");
	packed.n = 0;
	tar.p[n - 1] = '\0';
	str_span(&packed, pack_tar(&tar, &unit.a));
	packed.p[packed.n - 5] ^= 1; /* the CRC */
	assert_refused(str_view(&packed), 400,
	               "the archive is not a whole gzip file: incorrect data check", "crc");
}

/* ---- unpacking ------------------------------------------------------------------------------- */

static int unpack_code(int dir, bool writable, struct err *e)
{
	STR_AUTO packed = STR_INIT(ARCHIVE_MAX);
	struct code_facts facts;
	struct code_unpack u = { .dir = dir, .writable = writable };
	struct code_sink sink = code_unpack_sink(&u);
	struct code_reader *r = code_reader_new(&LIMITS, &sink);
	write_code(&packed, &facts);
	int rc = code_reader_feed(r, str_view(&packed), e);
	if (rc == 0)
		rc = code_reader_end(r, &facts, e);
	code_reader_free(r);
	return code_unpack_end(&u, e) < 0 ? -1 : rc;
}

static void assert_mode(int dir, const char *path, mode_t mode)
{
	struct stat st;
	assert_int_equal(fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, mode);
}

TEST(test_code_unpack_makes_the_entries)
{
	char text[100];
	mode_t before = umask(027);
	for (int writable = 0; writable < 2; writable++) {
		const char *path = writable ? "two" : "one";
		assert_int_equal(mkdir(unit_path(path), 0700), 0);
		FD_AUTO dir = open(unit_path(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(unpack_code(dir, writable, no_err()), 0);
		assert_int_equal(fd_read_at(dir, "a/b", text, sizeof(text)), 5);
		assert_string_equal(text, "hello");
		assert_int_equal(fd_read_at(dir, "a-b", text, sizeof(text)), 3);
		ssize_t n = readlinkat(dir, "a/up", text, sizeof(text));
		assert_int_equal(n, 6);
		assert_memory_equal(text, "../a-b", 6);
		assert_mode(dir, "a", S_IFDIR | (writable ? 0777 : 0750));
		assert_mode(dir, "a/b", S_IFREG | (writable ? 0777 : 0750));
		assert_mode(dir, "a-b", S_IFREG | (writable ? 0666 : 0640));
		assert_mode(dir, "empty", S_IFDIR | (writable ? 0777 : 0750));
		/* Nothing is replaced. */
		assert_int_equal(unpack_code(dir, writable, no_err()), -1);
		assert_string_equal(err_msg(&unit.e), "\".hidden\" cannot be written: File exists");
		assert_int_equal(unit.e.http, 500);
	}
	(void)umask(before);
}

TEST(test_code_unpack_follows_no_link)
{
	static const char *const LINKS[] = { ".hidden", "a", "a-b" };
	static const char *const WANT[] = {
		"\".hidden\" cannot be written: File exists",
		"\"a\" cannot be written: File exists",
		"\"a-b\" cannot be written: File exists",
	};
	for (size_t i = 0; i < ARRAY_SIZE(LINKS); i++) {
		FD_AUTO above = open(unit_path(""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(mkdirat(above, "dir", 0700) | mkdirat(above, "out", 0700), 0);
		FD_AUTO dir = openat(above, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(symlinkat("../out", dir, LINKS[i]), 0);
		assert_int_equal(unpack_code(dir, true, no_err()), -1);
		assert_string_equal(err_msg(&unit.e), WANT[i]);
		assert_mode(above, "out", S_IFDIR | 0700);
		assert_int_equal(unlinkat(above, "out", AT_REMOVEDIR), 0); /* it is empty */
		assert_int_equal(tree_remove(above, "dir", 1000), 0);
	}
}

/* The reader lets no such entries through; the sink does not rely on it. */
TEST(test_code_unpack_puts_nothing_behind_a_link)
{
	FD_AUTO dir = open(unit_path(""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct code_unpack u = { .dir = dir };
	struct code_sink sink = code_unpack_sink(&u);
	const struct code_entry link = { .kind = CODE_LINK, .path = "l", .target = "." };
	const struct code_entry file = { .kind = CODE_FILE, .path = "l/f" };
	assert_int_equal(sink.entry(sink.arg, &link, no_err()), 0);
	assert_int_equal(sink.entry(sink.arg, &file, no_err()), -1);
	assert_string_equal(err_msg(&unit.e), "\"l/f\" cannot be written: Not a directory");
	assert_int_equal(code_unpack_end(&u, no_err()), 0);
}

TEST(test_code_object_names_differ_by_user)
{
	char one[CODE_OBJECT + 1];
	char two[CODE_OBJECT + 1];
	STR_AUTO sha = STR_INIT(CODE_SHA);
	while (sha.n < CODE_SHA)
		str_char(&sha, 'a');
	code_object_name(one, "anna", str_view(&sha));
	code_object_name(two, "bob", str_view(&sha));
	assert_string_not_equal(one, two);
	assert_true(strncmp(one, "code-", 5) == 0 && strlen(one) == CODE_OBJECT);
	assert_true(code_sha_ok(str_view(&sha)));
	sha.p[3] = 'A';
	assert_false(code_sha_ok(str_view(&sha)));
	assert_false(code_sha_ok(SPAN("aa")));
}
