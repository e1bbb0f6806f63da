/* Logs that are rotated, continued, and protected against replaced files. */
#include "runtime-assets/run/run_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/base/cmocka.h"

static struct stdio_writer echo;
static struct logs logs;

static void open_logs(void)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	stdio_writer_open(&echo, fd);
	logs_open(&logs, unit_path(""), &echo);
	for (int i = 0; i < LOG_MAX; i++)
		logs.user[i].limit = 4000; /* the soft limit is 2000 */
}

static void close_file(struct capped_log *f)
{
	int fd[] = { f->dir, f->fd, f->old };
	for (int i = 0; i < 3; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
	}
}

static void close_logs(void)
{
	for (int i = 0; i < LOG_MAX; i++)
		close_file(&logs.user[i]);
	close_file(&logs.runtime);
	close(logs.dir);
	notes_done(&logs.notes);
	stdio_writer_done(&echo);
}

FIXTURE(setup)
{
	open_logs();
	return 0;
}

FIXTURE(teardown)
{
	close_logs();
	return 0;
}

static void write_bytes(char c, size_t n, bool newline)
{
	FREE_AUTO char *text = xmalloc(n);
	memset(text, c, n);
	if (newline)
		text[n - 1] = '\n';
	logs_write(&logs, LOG_ALL, (struct span){ text, n });
}

static int files_in_user_all(void)
{
	DIR *dir = opendir(unit_path("user-all"));
	assert_non_null(dir);
	int n = 0;
	for (struct dirent *d; (d = readdir(dir));) /* NOLINT(concurrency-mt-unsafe) */
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

static off_t size_of(int fd)
{
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

TEST_WITH(test_logs_write_rotates_at_newline, setup, teardown)
{
	write_bytes('a', 1999, true); /* below */
	assert_int_equal(logs.user[LOG_ALL].old, -1);
	write_bytes('b', 11, false); /* above, but in a line */
	assert_int_equal(logs.user[LOG_ALL].old, -1);
	write_bytes('c', 5, true);
	assert_int_equal(size_of(logs.user[LOG_ALL].old), 2015);
	assert_int_equal(size_of(logs.user[LOG_ALL].fd), 0);
	struct stat st;
	assert_int_equal(fstat(logs.user[LOG_ALL].old, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0744);
}

TEST_WITH(test_logs_write_rotates_in_a_long_line, setup, teardown)
{
	write_bytes('a', 9000, false);
	assert_int_equal(size_of(logs.user[LOG_ALL].old), 4000);
	assert_int_equal(size_of(logs.user[LOG_ALL].fd), 1000);
	assert_int_equal(files_in_user_all(), 2); /* the first 4000 are gone */
	assert_int_equal(logs.user[LOG_ALL].lost, 0);
}

TEST_WITH(test_logs_write_rotates_at_a_newline_at_the_limit, setup, teardown)
{
	write_bytes('a', 2000, true); /* its newline is byte 2000 */
	assert_int_equal(size_of(logs.user[LOG_ALL].old), 2000);
}

TEST_WITH(test_logs_open_continues_existing_files, setup, teardown)
{
	write_bytes('a', 2500, true);
	write_bytes('b', 10, false);
	char old[32];
	memcpy(old, logs.user[LOG_ALL].old_name, sizeof(old));
	close_logs();
	open_logs();
	assert_string_equal(logs.user[LOG_ALL].old_name, old);
	assert_int_equal(size_of(logs.user[LOG_ALL].old), 2500);
	assert_int_equal(size_of(logs.user[LOG_ALL].fd), 11); /* a newline was added */
	write_bytes('c', 3000, true);
	assert_int_equal(files_in_user_all(), 2);
}

TEST_WITH(test_logs_write_ignores_a_replaced_file, setup, teardown)
{
	write_bytes('a', 100, true);
	const char *current = unit_path("user-all/current");
	const char *victim = unit_path("victim");
	assert_int_equal(close(open(victim, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
	assert_int_equal(unlink(current), 0);
	assert_int_equal(symlink(victim, current), 0);
	write_bytes('b', 3000, true);
	write_bytes('c', 5, true);
	struct stat st;
	assert_int_equal(lstat(current, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_size, 5);
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(logs.notes.n, 1);
}

TEST_WITH(test_logs_runtime_prefixes_each_line, setup, teardown)
{
	logs_runtime(&logs, SPAN("a\n  b"));
	logs_runtime(&logs, SPAN("c\n\n"));
	logs_runtime(&logs, SPAN("open"));
	logs_message(&logs, "said %d", 1);
	char text[512];
	ssize_t n = pread(logs.runtime.fd, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	static const char *const LINES[] = { "a", "  bc", "", "open", "said 1" };
	char *line = text;
	for (size_t i = 0; i < sizeof(LINES) / sizeof(*LINES); i++) {
		char *end = strchr(line, '\n');
		assert_non_null(end);
		*end = '\0';
		const char *behind = strstr(line, "] [openpai-runtime] ");
		assert_non_null(behind);
		assert_string_equal(behind + strlen("] [openpai-runtime] "), LINES[i]);
		line = end + 1;
	}
	assert_string_equal(line, "");
}

TEST_WITH(test_logs_runtime_stops_at_its_limit, setup, teardown)
{
	logs.runtime.limit = 200;
	for (int i = 0; i < 20; i++)
		logs_runtime(&logs, SPAN("line\n"));
	assert_true(size_of(logs.runtime.fd) <= 200);
	assert_int_not_equal(logs.runtime.lost, 0);
	assert_int_equal(logs.notes.n, 1); /* once */
}
