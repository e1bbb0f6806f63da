/* Small files, lists of directories, and the identity of processes. */

#include "tests/unit/base/cmocka.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "base/posix/process.h"
#include "base/posix/rmtree.h"

static int dir = -1;

FIXTURE(setup)
{
	(void)unit_file("file", SPAN("four"));
	dir = open(unit_path(""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 || symlinkat("file", dir, "link") || mkfifoat(dir, "fifo", 0600) ? -1 : 0;
}

FIXTURE(teardown)
{
	fd_cleanup(&dir);
	return 0;
}

TEST(test_fd_read_at_refuses_links_and_special_files)
{
	static const char *const BAD[] = { "link", "fifo", ".", "none" };
	char text[8];
	STR_AUTO all = STR_INIT(100);
	STR_AUTO small = STR_INIT(3);
	assert_int_equal(fd_read_at(dir, "file", text, sizeof(text)), 4);
	assert_string_equal(text, "four");
	assert_int_equal(fd_read_at(dir, "file", text, 4), 3);
	assert_string_equal(text, "fou");
	assert_int_equal(fd_read_str(dir, "file", &all), 0);
	assert_string_equal(str_c(&all), "four");
	assert_int_equal(fd_read_str(dir, "file", &small), -1);
	assert_int_equal(errno, EFBIG);
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		assert_int_equal(fd_read_at(dir, BAD[i], text, sizeof(text)), -1);
		assert_string_equal(text, "");
		assert_int_equal(fd_read_str(dir, BAD[i], &all), -1);
	}
}

TEST(test_fd_open_above_opens_no_path_with_a_link)
{
	static const struct {
		const char *path, *name;
		int error;
	} PATHS[] = {
		{ "file", "file", 0 },
		{ "d/e/file", "file", 0 },
		{ "d/e/", "", 0 },
		{ "none/file", NULL, ENOENT },
		{ "d/none/f", NULL, ENOENT },
		{ "file/f", NULL, ENOTDIR },
		{ "up/file", NULL, ENOTDIR },
		{ "d/up/file", NULL, ENOTDIR },
		{ "d//file", NULL, ENOENT },
	};
	char text[8];
	char path[2 * PATH_MAX];
	struct stat st;
	struct stat wanted;
	assert_return_code(mkdirat(dir, "d", 0700) | mkdirat(dir, "d/e", 0700), errno);
	assert_return_code(symlinkat(".", dir, "up") | symlinkat("..", dir, "d/up"), errno);
	assert_return_code(linkat(dir, "file", dir, "d/e/file", 0), errno);
	int lowest = dup(dir);
	(void)close(lowest);
	for (size_t i = 0; i < ARRAY_SIZE(PATHS); i++) {
		const char *name;
		FD_AUTO above = fd_open_above(dir, PATHS[i].path, &name);
		assert_int_equal(above < 0 ? errno : 0, PATHS[i].error);
		if (above >= 0) {
			assert_string_equal(name, PATHS[i].name);
			assert_return_code(fstatat(dir, i ? "d/e" : ".", &wanted, 0), errno);
			assert_return_code(fstat(above, &st), errno);
			assert_int_equal(st.st_ino, wanted.st_ino);
			assert_int_equal(fcntl(above, F_GETFD), FD_CLOEXEC);
		}
		assert_int_equal(fd_read_at(dir, PATHS[i].path, text, sizeof(text)),
		                 above >= 0 && *name ? 4 : -1);
	}
	for (size_t n = NAME_MAX; n < sizeof(path) - 2; n += PATH_MAX - 1) {
		const char *name;
		memset(path, 'x', n);
		memcpy(path + n, "/f", 3);
		assert_int_equal(fd_open_above(dir, path, &name), -1);
		assert_int_equal(errno, n == NAME_MAX ? ENOENT : ENAMETOOLONG);
	}
	FD_AUTO again = dup(dir);
	assert_int_equal(again, lowest); /* all are closed */
	assert_int_equal(tree_remove(dir, "d", 10) | unlinkat(dir, "up", 0), 0);
}

TEST(test_dir_list_gives_names_and_refuses_links)
{
	DIR_AUTO *d = dir_list(dir, ".");
	unsigned n = 0;
	for (const char *name; (name = dir_next(d)) != NULL; n++)
		assert_int_not_equal(name[0], '.');
	assert_int_equal(errno, 0);
	assert_int_equal(n, 3);
	assert_null(dir_next(NULL));
	assert_null(dir_list(dir, "link"));
	assert_null(dir_list(dir, "none"));
}

TEST(test_dir_make_all_makes_all_folders_of_a_path)
{
	char path[] = "made/it/there";
	char file[] = "made/file/there";
	struct stat st;
	assert_int_equal(fchdir(dir), 0);
	assert_int_equal(dir_make_all(path, 0700), 0);
	assert_int_equal(dir_make_all(path, 0700), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	(void)close(open("made/file", O_WRONLY | O_CREAT, 0600));
	assert_int_equal(dir_make_all(file, 0700), -1);
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(
	    unlink("made/file") | rmdir("made/it/there") | rmdir("made/it") | rmdir("made"), 0);
}

TEST(test_process_identity_differs_between_processes)
{
	char one[PROCESS_IDENTITY_MAX];
	char two[PROCESS_IDENTITY_MAX];
	process_identity(getpid(), one);
	process_identity(getpid(), two);
	assert_string_equal(one, two);
	assert_int_equal(process_field(getpid(), STAT_PARENT), getppid());
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	process_identity(child, two); /* not reaped */
	assert_string_equal(two, "");
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(process_field(child, STAT_PARENT), -1);
}

TEST_GROUP(setup, teardown)
