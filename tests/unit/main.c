/*
 * unit [WORD...] - runs the tests of a folder, file by file: each file in a process of its own,
 * which shares nothing with the others.  With WORDs, the files whose names have one of them, as in
 * base/doc/test_yaml.c, and of other files the tests whose names do.  The working directory is the
 * top folder of the sources.
 *
 * Its own findings are lines `FAIL FILE: TEXT`: a file without tests, a process that ends before
 * its tests do.  The last line is `N passed, M failed`; the exit status is 0 if M is 0.
 */
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "tests/unit/base/cmocka.h"

enum { TESTS_MAX = 512 };

static struct unit_test tests[TESTS_MAX]; /* and groups, without a name */
static size_t n_tests;

#define IN_GROUP "a function of the group"

/* What the process of a file tells the first one. */
static struct progress {
	char test[128]; /* what runs */
	int passed, failed;
	bool ended; /* all tests did */
} * progress;

/* The tests of a file that run, and its group. */
static const struct unit_test *chosen[TESTS_MAX];
static struct unit_test group;
/* In its process: how many began; whether the latest returned, and the end of the group. */
static size_t n_begun;
static bool test_returned, group_returned;

/* ---- what each test has ---------------------------------------------------------------------- */

struct unit unit;
const char *unit_row;

/* "": not made.  What the group has made stays until its end. */
static char directory[32];
static bool is_of_group, group_begins = true;

struct err *no_err(void)
{
	err_done(&unit.e);
	return &unit.e;
}

const char *unit_path(const char *name)
{
	static char text[16][512];
	static size_t turn;
	char *path = text[turn++ % ARRAY_SIZE(text)];
	if (!*directory) {
		(void)snprintf(directory, sizeof(directory), "/tmp/rest-lit-unit-XXXXXX");
		assert_non_null(mkdtemp(directory));
		is_of_group = group_begins;
	}
	(void)snprintf(path, sizeof(text[0]), "%s%s%s", directory, *name ? "/" : "", name);
	return path;
}

const char *unit_file(const char *name, struct span text)
{
	const char *path = unit_path(name);
	FD_AUTO fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	assert_true(fd >= 0 && fd_write_all(fd, text) == 0);
	return path;
}

struct span unit_read(const char *path)
{
	STR_AUTO text = STR_INIT(64 << 20);
	if (fd_read_str(AT_FDCWD, path, &text) < 0)
		fail_msg("%s cannot be read (tests run in the top directory)", path);
	return (struct span){ arena_dup(&unit.a, str_view(&text)), text.n };
}

/* At the end of a test, or of the group. */
static void unit_end(bool of_group)
{
	arena_done(&unit.a);
	err_done(&unit.e);
	if (!*directory || (is_of_group && !of_group))
		return;
	(void)tree_remove(AT_FDCWD, directory, SIZE_MAX);
	*directory = '\0';
}

/* ---------------------------------------------------------------------------------------------- */

void unit_add(struct unit_test test)
{
	if (n_tests == TESTS_MAX)
		abort();
	tests[n_tests++] = test;
}

/* ---- the process of a file ------------------------------------------------------------------- */

static int test_begin(void **state)
{
	const struct unit_test *t = chosen[n_begun++];
	group_begins = false;
	unit_row = NULL;
	(void)snprintf(progress->test, sizeof(progress->test), "%s", t->name);
	test_returned = false;
	return t->begin ? t->begin(state) : 0;
}

/* Does not return if the test fails or is skipped. */
static void test_run(void **state)
{
	chosen[n_begun - 1]->run(state);
	test_returned = true;
}

static int test_end(void **state)
{
	const struct unit_test *t = chosen[n_begun - 1];
	if (!test_returned && unit_row)
		print_error("%s: in the row %s\n", t->name, unit_row);
	int result = t->end ? t->end(state) : 0;
	unit_end(false);
	progress->passed += test_returned && result == 0;
	return result;
}

/* cmocka prints the failure of this function, but does not count it. */
static int group_end(void **state)
{
	(void)snprintf(progress->test, sizeof(progress->test), "%s", IN_GROUP);
	int result = group.end ? group.end(state) : 0;
	unit_end(true);
	group_returned = result == 0;
	return result;
}

static _Noreturn void file_run(const char *file, size_t n)
{
	static struct CMUnitTest all[TESTS_MAX];
	for (size_t i = 0; i < n; i++)
		all[i] =
		    (struct CMUnitTest){ chosen[i]->name, test_run, test_begin, test_end, NULL };
	int failed = _cmocka_run_group_tests(file, all, n, group.begin, group_end);
	progress->failed = failed < 0 ? 1 : failed;
	progress->failed += !group_returned;
	progress->ended = true;
	exit(0); /* NOLINT(concurrency-mt-unsafe): the leak check */
}

/* ---- the first process ----------------------------------------------------------------------- */

static bool has_word(const char *name, char **words)
{
	bool any = !*words;
	for (; *words; words++)
		any = any || strstr(name, *words);
	return any;
}

/* Fills in `chosen` and `group`.  The number of tests that run; -1: the file has none. */
static int file_choose(const char *file, char **words)
{
	int n = 0;
	bool empty = true, whole = has_word(file + strlen("tests/unit/"), words);
	group = (struct unit_test){ 0 };
	for (size_t i = 0; i < n_tests; i++) {
		const struct unit_test *t = &tests[i];
		if (strcmp(t->file, file) != 0)
			continue;
		if (!t->name)
			group = *t;
		else if (whole || has_word(t->name, words))
			chosen[n++] = t;
		empty = empty && !t->name;
	}
	return empty && whole ? -1 : n;
}

static void file_fail(const char *file, const char *text)
{
	(void)printf("FAIL %s: %s\n", file, text);
	progress->failed++;
}

static void file_await(const char *file, pid_t pid)
{
	int status = -1;
	if (waitpid(pid, &status, 0) == pid && progress->ended && status == 0)
		return;
	char text[256];
	(void)snprintf(text, sizeof(text), "its process ended with %s %d, %s %s",
	               WIFSIGNALED(status) ? "signal" : "status",
	               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
	               progress->ended ? "after" : "in",
	               progress->ended ? "its tests" : progress->test);
	file_fail(file, text);
}

/* The counts are in `progress` then. */
static void file_test(const char *file, char **words)
{
	*progress = (struct progress){ .test = IN_GROUP };
	int n = file_choose(file, words);
	if (n < 0)
		file_fail(file, "has no test");
	if (n <= 0)
		return;
	(void)printf("== %s\n", file);
	pid_t pid = fork();
	if (pid == 0)
		file_run(file, (size_t)n);
	if (pid < 0)
		file_fail(file, "fork failed");
	else
		file_await(file, pid);
}

/* All files of the folder that should have tests; false: there are none. */
static bool folder_find(glob_t *files)
{
	char pattern[256];
	const char *file = n_tests ? tests[0].file : "";
	const char *slash = strrchr(file, '/');
	(void)snprintf(pattern, sizeof(pattern), "%.*s/test_*.c", slash ? (int)(slash - file) : 0,
	               file);
	return glob(pattern, 0, NULL, files) == 0; /* NOLINT(concurrency-mt-unsafe): one thread */
}

int main(int argc, char **argv)
{
	glob_t files;
	int passed = 0;
	int failed = 0;
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	                -1, 0);
	if (argc < 1 || progress == MAP_FAILED || !folder_find(&files)) {
		(void)puts("FAIL: no tests, or not the top folder of the sources");
		return 1;
	}
	for (size_t i = 0; i < files.gl_pathc; i++) {
		file_test(files.gl_pathv[i], argv + 1);
		passed += progress->passed;
		failed += progress->failed;
	}
	globfree(&files);
	(void)printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
