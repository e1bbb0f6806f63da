/* Reading of results: what is opened, pages of lists, slots for answers. */

#include "tests/unit/base/cmocka.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "server/results/results_internal.h"

enum { ANSWER_MAX = 4 << 20, NAMES_MAX = 500 };

static char top[64];

static int tree_begin(void)
{
	(void)snprintf(top, sizeof(top), "/tmp/rest-lit-results.XXXXXX");
	assert_non_null(mkdtemp(top));
	return open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void tree_end(int dir)
{
	(void)close(dir);
	assert_int_equal(tree_remove(AT_FDCWD, top, SIZE_MAX), 0);
}

static void tree_write(int dir, const char *path, const char *text)
{
	char part[TAR_PATH + 1];
	for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		assert_true(mkdirat(dir, part, 0700) == 0 || errno == EEXIST);
	}
	FD_AUTO fd = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(fd_write_all(fd, span_of(text)), 0);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

TEST(test_results_are_opened_below_their_directory_only)
{
	static const char *const BAD[] = { "..",
		                           "../x",
		                           "/etc/passwd",
		                           "out",
		                           "out/inside",
		                           "self",
		                           "self/etc/passwd",
		                           "d/../d/file",
		                           "file/x",
		                           "none",
		                           "" };
	int dir = tree_begin();
	struct stat st;
	tree_write(dir, "d/file", "x");
	tree_write(dir, "file", "x");
	assert_return_code(symlinkat("/etc", dir, "out"), errno);
	assert_return_code(symlinkat("/proc/self/root", dir, "self"), errno);
	assert_return_code(symlinkat("d/file", dir, "inner"), errno);
	assert_return_code(mkfifoat(dir, "fifo", 0600), errno);
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		if (strcmp(BAD[i], "d/../d/file") != 0 && results_open_file(dir, BAD[i], &st) >= 0)
			fail_msg("%s is opened", BAD[i]);
	assert_true(results_open(dir, "inner", O_RDONLY) < 0);
	assert_true(results_open_file(dir, "inner", &st) < 0);
	assert_true(results_open_file(dir, "d", &st) < 0);
	assert_true(results_open_file(dir, "fifo", &st) < 0); /* does not wait for a writer */
	assert_int_equal(errno, EINVAL);
	FD_AUTO good = results_open_file(dir, "d/file", &st);
	assert_return_code(good, errno);
	assert_int_equal(st.st_size, 1);
	/* Another file system. */
	FD_AUTO root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(results_open(root, "proc/version", O_RDONLY) < 0);
	assert_int_equal(errno, EXDEV);
	tree_end(dir);
}

TEST(test_a_fifo_is_not_opened)
{
	char path[128];
	char event[4096];
	struct stat st;
	int dir = tree_begin();
	assert_return_code(mkfifoat(dir, "fifo", 0600), errno);
	FD_AUTO watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	(void)snprintf(path, sizeof(path), "%s/fifo", top);
	assert_return_code(inotify_add_watch(watch, path, IN_OPEN), errno);
	assert_true(results_open_file(dir, "fifo", &st) < 0);
	assert_true(read(watch, event, sizeof(event)) < 0); /* a writer would have been woken */
	assert_int_equal(errno, EAGAIN);
	tree_end(dir);
}

static atomic_bool swap_over;

/* Until swap_over: "name" is a file, a link out, and a fifo, in turn; "place" a directory or a
 * link. */
static void *swap_run(void *arg)
{
	int dir = *(const int *)arg;
	static const char *const OTHERS[] = { "link", "fifo" };
	for (size_t i = 0; !atomic_load(&swap_over); i++)
		for (int there = 0; there < 2; there++) { /* and back */
			(void)renameat2(dir, "name", dir, OTHERS[i % 2], RENAME_EXCHANGE);
			(void)renameat2(dir, "place", dir, "etc", RENAME_EXCHANGE);
		}
	return NULL;
}

static void swap_begin(int *dir, pthread_t *swaps)
{
	tree_write(*dir, "name", "x");
	tree_write(*dir, "place/in", "x");
	assert_return_code(symlinkat("/etc/passwd", *dir, "link"), errno);
	assert_return_code(symlinkat("/etc", *dir, "etc"), errno);
	assert_return_code(mkfifoat(*dir, "fifo", 0600), errno);
	atomic_store(&swap_over, false);
	assert_int_equal(pthread_create(swaps, NULL, swap_run, dir), 0);
}

static void swap_end(pthread_t swaps)
{
	atomic_store(&swap_over, true);
	assert_int_equal(pthread_join(swaps, NULL), 0);
}

TEST(test_what_is_swapped_while_it_is_opened_is_a_file_inside_or_not_opened)
{
	enum { TRIES = 20000 };
	int dir = tree_begin();
	int opened = 0;
	pthread_t swaps;
	swap_begin(&dir, &swaps);
	for (int i = 0; i < TRIES; i++) {
		struct stat st;
		FD_AUTO fd = results_open_file(dir, "name", &st);
		if (fd < 0)
			continue;
		opened++;
		assert_true(S_ISREG(st.st_mode) && st.st_size == 1);
	}
	swap_end(swaps);
	assert_true(opened > 0);
	tree_end(dir);
}

/* ---- walks ------------------------------------------------------------------------------------
 */

struct seen {
	char name[NAMES_MAX][32];
	size_t n;
};

static bool see(void *arg, const struct results_found *x)
{
	struct seen *s = arg;
	(void)snprintf(s->name[s->n++], sizeof(s->name[0]), "%s%s", x->path,
	               S_ISDIR(x->st->st_mode) ? "/"
	               : x->fd < 0             ? "?"
	                                       : "");
	return true;
}

static bool seen_has(const struct seen *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->name[i], name) == 0)
			return true;
	return false;
}

TEST(test_walks_give_files_and_directories_and_count_the_others)
{
	static const atomic_bool GO;
	struct seen s = { .n = 0 };
	int dir = tree_begin();
	tree_write(dir, "d/e/file", "x");
	tree_write(dir, "caf\xe9\n", "x");
	tree_write(dir, TAR_PART, "x");
	assert_return_code(mkdirat(dir, "empty", 0700), errno);
	assert_return_code(symlinkat("/etc", dir, "d/link"), errno);
	assert_return_code(symlinkat("nowhere", dir, "broken"), errno);
	assert_return_code(mkfifoat(dir, "d/e/fifo", 0600), errno);
	struct results_walk w = { .found = see, .arg = &s, .opens = true, .stop = &GO };
	results_walk_all(&w, dir, "");
	assert_int_equal(s.n, 5);
	assert_int_equal(w.left_out, 4);
	static const char *const NAMES[] = { "d/", "d/e/", "d/e/file", "caf\xe9\n", "empty/" };
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
		assert_true(seen_has(&s, NAMES[i]));
	/* One path, with the directories above it. */
	struct seen one = { .n = 0 };
	struct results_walk part = { .found = see, .arg = &one, .opens = true, .stop = &GO };
	results_walk_all(&part, dir, "d/e/file");
	assert_int_equal(one.n, 3);
	assert_string_equal(one.name[2], "d/e/file");
	results_walk_all(&part, dir, "d/link/passwd");
	results_walk_all(&part, dir, "none");
	assert_false(seen_has(&one, "d/link/passwd"));
	tree_end(dir);
}

/* Files are the one inside, whatever their names have become since they were read. */
static bool see_inside(void *arg, const struct results_found *x)
{
	assert_true(!S_ISREG(x->st->st_mode) || x->st->st_size == 1);
	*(int *)arg += S_ISREG(x->st->st_mode);
	return true;
}

TEST(test_walks_find_nothing_outside_while_names_are_swapped)
{
	enum { WALKS = 5000 };
	static const atomic_bool GO;
	int dir = tree_begin();
	int found = 0;
	pthread_t swaps;
	swap_begin(&dir, &swaps);
	for (int i = 0; i < WALKS; i++) {
		struct results_walk w = {
			.found = see_inside, .arg = &found, .opens = i % 2, .stop = &GO
		};
		results_walk_all(&w, dir, "");
	}
	swap_end(swaps);
	assert_true(found > 0);
	tree_end(dir);
}

TEST(test_walks_end_at_the_depth_of_an_archive)
{
	static const atomic_bool GO;
	enum { DEPTH = 3 * TAR_DEPTH };
	struct seen s = { .n = 0 };
	int dir = tree_begin();
	int at = openat(dir, ".", O_PATH | O_CLOEXEC);
	for (int i = 0; i < DEPTH; i++) {
		assert_return_code(mkdirat(at, "d", 0700), errno);
		int below = openat(at, "d", O_PATH | O_CLOEXEC);
		(void)close(at);
		at = below;
	}
	(void)close(at);
	struct results_walk w = { .found = see, .arg = &s, .stop = &GO };
	results_walk_all(&w, dir, "");
	assert_int_equal(s.n, TAR_DEPTH);
	assert_int_equal(w.left_out, 1);
	tree_end(dir);
}

TEST(test_walks_end_at_the_longest_path)
{
	static const atomic_bool GO;
	enum { NAME = 255, FIT = (TAR_PATH + 1) / (NAME + 1) };
	struct seen s = { .n = 0 };
	struct {
		struct results_walk w;
		char behind[2 * NAME];
	} x = { .w = { .found = see, .arg = &s, .stop = &GO } };
	char name[NAME + 1] = "";
	int dir = tree_begin();
	int at = openat(dir, ".", O_PATH | O_CLOEXEC);
	memset(name, 'd', NAME);
	for (int i = 0; i < FIT + 2; i++) {
		assert_return_code(mkdirat(at, name, 0700), errno);
		int below = openat(at, name, O_PATH | O_CLOEXEC);
		(void)close(at);
		at = below;
	}
	(void)close(at);
	results_walk_all(&x.w, dir, "");
	assert_int_equal(s.n, FIT);
	assert_int_equal(x.w.left_out, 1);
	assert_int_equal(strlen(x.w.path), TAR_PATH);
	for (size_t i = 0; i < sizeof(x.behind); i++)
		assert_int_equal(x.behind[i], 0);
	tree_end(dir);
}

TEST(test_walks_end_when_they_are_told_or_have_seen_enough)
{
	static const atomic_bool GO;
	static const atomic_bool STOP = true;
	enum { FILES = 10, ROOM = 3 };
	struct seen s = { .n = 0 };
	int dir = tree_begin();
	for (int i = 0; i < FILES; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "%d", i);
		tree_write(dir, name, "x");
	}
	struct results_walk stopped = { .found = see, .arg = &s, .stop = &STOP };
	results_walk_all(&stopped, dir, "");
	assert_int_equal(s.n, 0);
	struct results_walk w = {
		.found = see, .arg = &s, .stop = &GO, .entries = TAR_ENTRIES - ROOM
	};
	results_walk_all(&w, dir, "");
	assert_int_equal(s.n, ROOM);
	assert_true(w.full);
	tree_end(dir);
}

/* ---- lists ------------------------------------------------------------------------------------
 */

/* The whole answer of a slot, which is left; in *out. */
static void slot_answer(struct results_slots *all, struct results_slot *p, struct str *out)
{
	char bytes[4096];
	assert_int_equal(results_send(all, p), 0);
	assert_true(fcntl(p->in, F_GETFL) & O_NONBLOCK); /* the reader is a loop */
	for (ssize_t n = 1; n;) {
		struct pollfd fd = { .fd = p->in, .events = POLLIN };
		assert_int_equal(poll(&fd, 1, -1), 1);
		n = read(p->in, bytes, sizeof(bytes));
		assert_true(n >= 0);
		str_put(out, bytes, (size_t)n);
	}
	results_leave(all, p);
}

/* Pages through a list; the paths with LF in *out. */
static void list_pages(struct results_slots *all, int dir, int64_t limit, struct str *out)
{
	char after[TAR_PATH + 1] = "";
	for (bool more = true; more;) {
		ARENA_AUTO a = { 0 };
		STR_AUTO text = STR_INIT(ANSWER_MAX);
		struct results_slot *p = results_take(all, "alice", RESULTS_ROWS);
		assert_non_null(p);
		p->dir = dup(dir);
		p->limit = limit;
		memcpy(p->after, after, sizeof(after));
		slot_answer(all, p, &text);
		assert_true(scan_valid(str_view(&text), SCAN_DEPTH_MAX));
		struct scan walk = scan_begin(scan_get(str_view(&text), "results"));
		int64_t n = 0;
		for (struct span row; scan_item(&walk, &row); n++) {
			struct span path = scan_text(scan_get(row, "path"), &a);
			(void)snprintf(after, sizeof(after), "%.*s", (int)path.n, path.p);
			str_printf(out, "%s\n", after);
		}
		more = span_is(scan_get(str_view(&text), "more"), "true");
		assert_true(n <= limit && (n == limit || !more));
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

TEST(test_pages_are_those_of_the_sorted_list)
{
	static const char *const PARTS[] = { "a", "b", "a.b", "a-", "a0", "aa", "\x01", "z" };
	const size_t N = ARRAY_SIZE(PARTS);
	static const atomic_bool GO;
	static struct seen s;
	struct results_slots *all = results_slots_new();
	STR_AUTO wanted = STR_INIT(ANSWER_MAX);
	int dir = tree_begin();
	for (size_t i = 0; i < N * N; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "%s%s%s%s", PARTS[i % N], i % 3 ? "/" : "x",
		               PARTS[i / N], i % 5 ? "" : "/deep");
		if (faccessat(dir, path, F_OK, 0) < 0 && errno == ENOENT)
			tree_write(dir, path, "x");
	}
	assert_return_code(mkdirat(dir, "a/empty", 0700), errno);
	struct results_walk w = { .found = see, .arg = &s, .stop = &GO };
	results_walk_all(&w, dir, "");
	for (size_t i = 0; i < s.n; i++)
		s.name[i][strlen(s.name[i]) - 1] = '\0'; /* / or ? */
	qsort(s.name, s.n, sizeof(s.name[0]), compare_names);
	for (size_t i = 0; i < s.n; i++)
		str_printf(&wanted, "%s\n", s.name[i]);
	assert_true(s.n > 60);
	static const int64_t LIMITS[] = { 1, 2, 3, 7, 50, RESULTS_PAGE };
	for (size_t i = 0; i < ARRAY_SIZE(LIMITS); i++) {
		STR_AUTO got = STR_INIT(ANSWER_MAX);
		list_pages(all, dir, LIMITS[i], &got);
		assert_string_equal(str_c(&got), str_c(&wanted));
	}
	results_slots_free(all);
	tree_end(dir);
}

TEST(test_pages_of_long_paths_stay_small)
{
	struct results_slots *all = results_slots_new();
	STR_AUTO text = STR_INIT(ANSWER_MAX);
	char path[600];
	int dir = tree_begin();
	for (int i = 0; i < RESULTS_PAGE; i++) {
		(void)snprintf(path, sizeof(path), "%0200d/%0200d/%0190d", 1, 1, i);
		tree_write(dir, path, "");
	}
	struct results_slot *p = results_take(all, "alice", RESULTS_ROWS);
	p->dir = dup(dir);
	p->limit = RESULTS_PAGE;
	slot_answer(all, p, &text);
	assert_true(span_is(scan_get(str_view(&text), "more"), "true"));
	size_t n = scan_count(scan_get(str_view(&text), "results"));
	assert_true(n > 500 && n < RESULTS_PAGE);
	results_slots_free(all);
	tree_end(dir);
}

TEST(test_times_that_no_archive_has_are_none)
{
	static const int64_t SECONDS[] = { -1, INT64_C(1) << 33, 5 };
	struct results_slots *all = results_slots_new();
	STR_AUTO text = STR_INIT(ANSWER_MAX);
	int dir = tree_begin();
	for (size_t i = 0; i < ARRAY_SIZE(SECONDS); i++) {
		char name[16];
		const struct timespec times[] = { { 0, 0 }, { SECONDS[i], 7 } };
		(void)snprintf(name, sizeof(name), "%zu", i);
		tree_write(dir, name, "x");
		assert_return_code(utimensat(dir, name, times, 0), errno);
	}
	struct results_slot *p = results_take(all, "alice", RESULTS_TAR);
	p->dir = dup(dir);
	slot_answer(all, p, &text);
	assert_true(span_find(str_view(&text), 0, "mtime=5.000000007\n") < text.n);
	size_t first = span_find(str_view(&text), 0, "mtime=0.000000000\n");
	assert_true(first < text.n);
	assert_true(span_find(str_view(&text), first + 1, "mtime=0.000000000\n") < text.n);
	results_slots_free(all);
	tree_end(dir);
}

/* ---- slots ------------------------------------------------------------------------------------
 */

TEST(test_slots_are_two_of_a_user_and_eight_of_all)
{
	static const char *const USERS[] = { "a", "a", "b", "b", "c", "c" };
	struct results_slots *all = results_slots_new();
	struct results_slot *p[8];
	for (size_t i = 0; i < ARRAY_SIZE(USERS); i++)
		assert_non_null(p[i] = results_take(all, USERS[i], RESULTS_TAR));
	assert_null(results_take(all, "a", RESULTS_BYTES));
	assert_non_null(p[6] = results_take(all, "a", RESULTS_ROWS));
	assert_non_null(p[7] = results_take(all, NULL, RESULTS_BYTES));
	assert_null(results_take(all, "d", RESULTS_ROWS));
	results_leave(all, p[1]);
	assert_non_null(p[1] = results_take(all, "a", RESULTS_BYTES));
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		results_leave(all, p[i]);
	results_slots_free(all);
}

static size_t descriptors(void)
{
	DIR_AUTO *all = dir_list(AT_FDCWD, "/proc/self/fd");
	size_t n = 0;
	while (dir_next(all))
		n++;
	return n;
}

TEST(test_slots_whose_readers_leave_are_free_again)
{
	(void)signal(SIGPIPE, SIG_IGN); /* as in the server */
	int dir = tree_begin();
	tree_write(dir, "file", "");
	FD_AUTO large = openat(dir, "file", O_RDWR | O_CLOEXEC);
	assert_return_code(ftruncate(large, 1 << 30), errno);
	size_t before = descriptors();
	struct results_slots *all = results_slots_new();
	for (int i = 0; i < 40; i++) {
		static const enum results_kind KINDS[] = { RESULTS_TAR, RESULTS_BYTES,
			                                   RESULTS_ROWS };
		enum results_kind kind = KINDS[i % ARRAY_SIZE(KINDS)];
		struct results_slot *p;
		while (!(p = results_take(all, "alice", kind))) /* its threads end */
			(void)usleep(1000);
		p->dir = dup(dir);
		p->limit = RESULTS_PAGE;
		if (kind == RESULTS_BYTES) {
			p->file = dup(large);
			p->bytes = 1 << 30;
		}
		assert_int_equal(results_send(all, p), 0);
		results_leave(all, p);
		assert_true(atomic_load(&p->stop)); /* a walk ends soon */
	}
	results_slots_free(all);
	assert_int_equal(descriptors(), before);
	tree_end(dir);
}
