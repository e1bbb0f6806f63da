/* The reader of nvidia-smi with a false one: a script below a root, and a clock that stands still
 * until a test moves it. */
#include "tests/unit/base/cmocka.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "machine/usage/smi.h"
#include "tests/unit/machine/machine_tree.h"

enum { AWAIT_MS = 60000 };

static struct smi *s;
static int64_t now_ms;
static struct smi_sample sample;
static const char *const UUIDS[] = { "GPU-a", "GPU-b", NULL };

/* For round(): prints it again and again. */
#define ROUNDS(text) "while :; do " text "; sleep 0.02; done"
#define ROW_A        "echo 'GPU-a, 73, 12000, 40960, 250.40, Disabled'"
#define ROW_B        "echo 'GPU-b, 0, 3, 40960, 20.60, [N/A]'"
#define EMPTY        ROUNDS(":")

static void put_program(const char *path, const char *figures, const char *list)
{
	STR_AUTO text = STR_INIT(100000);
	str_printf(
	    &text,
	    "#!/bin/sh\ncd %s\ncase $1 in --query-gpu*) name=figures ;; *) name=list ;; esac\n"
	    "echo $$ >>$name.pids\necho \"$*\" >$name.arguments\n"
	    "if [ $name = figures ]; then %s\nelse %s\nfi\n",
	    tree_root, figures, list);
	tree_put(path, str_c(&text));
	assert_int_equal(chmod(AT(path), 0755), 0);
}

static void begin(const char *figures, const char *list)
{
	if (figures)
		put_program("usr/bin/nvidia-smi", figures, list);
	s = smi_new(
	    &(struct smi_settings){ .root = tree_root, .uuid = UUIDS, .n = ARRAY_SIZE(UUIDS) });
	smi_want(s, true, now_ms);
}

FIXTURE(smi_setup)
{
	now_ms = 1000000;
	s = NULL;
	return tree_setup(state);
}

/* A child may take longer than smi_free waits for it, but it got SIGKILL. */
static void no_child_is_left(void)
{
	int status;
	while (waitpid(-1, &status, 0) > 0)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

FIXTURE(smi_teardown)
{
	if (s)
		smi_free(s);
	no_child_is_left();
	return tree_teardown(state);
}

#define SMI_TEST(name) TEST_WITH(name, smi_setup, smi_teardown)

static size_t step(void)
{
	struct pollfd fds[2];
	int64_t due_ms;
	size_t n = smi_poll(s, fds, &due_ms);
	(void)poll(fds, n, 100);
	smi_run(s, now_ms);
	return smi_poll(s, fds, &due_ms);
}

/* Runs until it is true. */
#define AWAIT(condition)                                                                           \
	do {                                                                                       \
		int64_t until_ms_ = clock_ms() + AWAIT_MS;                                         \
		while (!(condition)) {                                                             \
			if (clock_ms() > until_ms_)                                                \
				fail_msg("%s: not within a minute", #condition);                   \
			(void)step();                                                              \
		}                                                                                  \
	} while (0)

static const struct smi_sample *take(size_t gpu)
{
	smi_take(s, gpu, now_ms, &sample);
	return &sample;
}

static bool is_unknown(const struct smi_sample *is)
{
	return !is->known && is->busy < 0 && is->memory < 0 && is->total < 0 && is->watts < 0;
}

static size_t processes(void)
{
	size_t n;
	(void)smi_processes(s, &n);
	return n;
}

/* Lines of a file below the root; the number in the last one. */
static size_t lines_of(const char *name, pid_t *last)
{
	char text[4096];
	size_t n = 0;
	int fd = open(AT(name), O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[size > 0 ? size : 0] = '\0';
	(void)close(fd);
	for (char *p = text, *next; (next = strchr(p, '\n')) != NULL; p = next + 1) {
		n++;
		if (last)
			*last = (pid_t)strtol(p, NULL, 10);
	}
	return n;
}

static int64_t due(size_t *n)
{
	struct pollfd fds[2];
	int64_t due_ms;
	*n = smi_poll(s, fds, &due_ms);
	return due_ms;
}

/* Both children have spoken long enough. */
static void await_known(size_t gpu)
{
	AWAIT(take(gpu)->memory >= 0);
	now_ms += SMI_GONE_MS;
	AWAIT(take(gpu)->known);
}

/* ---- lines ----------------------------------------------------------------------------------- */

SMI_TEST(test_smi_gives_means_and_processes)
{
	begin(
	    ROUNDS("printf 'GPU-a, 40, 100, 40960, 10.40, Disabled\nGPU-a, 60, 100, 40960, 10.60, "
	           "Disabled\nGPU-z, 9, 9, 9, 9, Disabled\n'; " ROW_B),
	    ROUNDS(
		"printf 'GPU-b, 12, 900\nGPU-a, 4711, 30\nGPU-z, 4712, 30\nGPU-a, 44, [N/A]\n'"));
	assert_true(is_unknown(take(0)));
	assert_null(smi_problem(s));
	await_known(0);
	assert_float_equal(sample.busy, 50, 0.001);
	assert_float_equal(sample.watts, 10.5, 0.001);
	assert_int_equal(sample.memory, 100 << 20);
	assert_int_equal(sample.total, INT64_C(40960) << 20);
	assert_false(sample.mig);
	AWAIT(take(1)->known);
	assert_float_equal(sample.busy, 0, 0.001);
	assert_float_equal(sample.watts, 21, 0.001);
	AWAIT(processes() == 3);
	size_t n;
	const struct smi_process *p = smi_processes(s, &n);
	assert_true(p[0].gpu == 0 && p[0].pid == 44 && p[0].memory == -1);
	assert_true(p[1].gpu == 0 && p[1].pid == 4711 && p[1].memory == 30 << 20);
	assert_true(p[2].gpu == 1 && p[2].pid == 12 && p[2].memory == 900 << 20);
	assert_true(is_unknown(take(2))); /* without a UUID */
	assert_null(smi_problem(s));
}

/* One GPU for each text, as utilization, memory and power. */
/* NOLINTNEXTLINE(readability-function-size): macros */
SMI_TEST(test_smi_numbers_out_of_range_are_unknown)
{
	static const struct {
		const char *text;
		double busy, mib, watts;
	} ROWS[] = {
		{ "0", 0, 0, 0 },
		{ "100", 100, 100, 100 },
		{ "101", -1, 101, 101 },
		{ "10000", -1, 10000, 10000 },
		{ "10001", -1, 10001, -1 },
		{ "16777216", -1, 16777216, -1 },
		{ "16777217", -1, -1, -1 },
		{ "99.49", 99, 99, 99 },
		{ "99.5", 100, 100, 100 },
		{ "99999999999999999999", -1, -1, -1 },
		{ "-5", -1, -1, -1 },
		{ "1e2", -1, -1, -1 },
		{ "1.x", -1, -1, -1 },
		{ "nan", -1, -1, -1 },
		{ "0x10", -1, -1, -1 },
		{ "", -1, -1, -1 },
		{ "7 %", -1, -1, -1 },
		{ "[N/A]", -1, -1, -1 },
		{ "[Unknown Error]", -1, -1, -1 },
	};
	const char *uuids[ARRAY_SIZE(ROWS)];
	STR_AUTO text = STR_INIT(100000);
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		uuids[i] = arena_printf(&unit.a, "GPU-%zu", i);
		str_printf(&text, "%s, %s, %s, 9, %s, Disabled\n", uuids[i], ROWS[i].text,
		           ROWS[i].text, ROWS[i].text);
	}
	tree_put("rows", str_c(&text));
	put_program("usr/bin/nvidia-smi", "cat rows; exec sleep 1000", EMPTY);
	s = smi_new(
	    &(struct smi_settings){ .root = tree_root, .uuid = uuids, .n = ARRAY_SIZE(ROWS) });
	smi_want(s, true, now_ms);
	AWAIT(take(0)->memory >= 0);
	for (size_t i = 1; i < ARRAY_SIZE(ROWS); i++) {
		unit_row = ROWS[i].text;
		AWAIT(take(i)->total >= 0);
		assert_float_equal(sample.busy, ROWS[i].busy, 0.001);
		assert_float_equal(sample.watts, ROWS[i].watts, 0.001);
		assert_int_equal(sample.memory, ROWS[i].mib < 0 ? -1 : (int64_t)ROWS[i].mib << 20);
	}
}

SMI_TEST(test_smi_of_a_divided_gpu_has_no_busy)
{
	begin(ROUNDS("echo 'GPU-a, 50, 12000, 40960, [N/A], Enabled'"), EMPTY);
	await_known(0);
	assert_true(sample.mig);
	assert_float_equal(sample.busy, -1, 0.001);
	assert_int_equal(sample.memory, INT64_C(12000) << 20);
	assert_float_equal(sample.watts, -1, 0.001);
}

SMI_TEST(test_smi_ignores_messages_and_garbage)
{
	begin(
	    ROUNDS(
		"echo '[Sat Nov 28 22:00:01 2026] GPU 0000:01:00.0: Detected Critical Xid Error'; "
		"echo; echo 'GPU-a, 7, 7'; echo ',,,,,,,,,,,'; head -c 3000 /dev/urandom; "
		"echo; " ROW_A),
	    EMPTY);
	await_known(0);
	assert_float_equal(sample.busy, 73, 0.001);
	assert_int_equal(sample.memory, INT64_C(12000) << 20);
}

/* A process without a number is one, too. */
/* NOLINTNEXTLINE(readability-function-size): macros */
SMI_TEST(test_smi_list_with_another_line_is_not_complete)
{
	begin(ROUNDS(ROW_A),
	      ROUNDS("[ -e rest ] || echo 'GPU-a, [Insufficient Permissions], 5'; [ -e "
	             "good ] && echo 'GPU-a, 3, 5'; echo >>round"));
	AWAIT(take(0)->memory >= 0 && lines_of("round", NULL) >= 2);
	for (size_t i = 0; i < 20; i++) {
		size_t seen = lines_of("round", NULL);
		now_ms += SMI_GONE_MS / 3;
		AWAIT(lines_of("round", NULL) >= seen + 2);
		(void)step();
		AWAIT(take(0)->memory >= 0);
		assert_false(sample.known);
	}
	tree_put("rest", "");
	tree_put("good", "");
	AWAIT(processes() == 1);
	now_ms += SMI_GONE_MS;
	AWAIT(take(0)->known);
}

static int64_t resident(void)
{
	struct span text = unit_read("/proc/self/statm");
	const char *pages = strchr(text.p, ' ');
	assert_non_null(pages);
	return strtoll(pages, NULL, 10) * sysconf(_SC_PAGESIZE);
}

/* Of a line of 100 MB; ASan keeps blocks that were freed. */
#ifdef __SANITIZE_ADDRESS__
enum { GROWTH_MOST = 32 << 20 };
#else
enum { GROWTH_MOST = 1 << 20 };
#endif

SMI_TEST(test_smi_long_line_needs_no_memory)
{
	begin("head -c 100000000 /dev/zero | tr '\\0' ,; echo; " ROUNDS(ROW_A), EMPTY);
	(void)unit_read("/proc/self/statm");
	int64_t before = resident();
	AWAIT(take(0)->memory >= 0);
	assert_true(resident() - before < GROWTH_MOST);
	assert_float_equal(sample.busy, 73, 0.001);
}

SMI_TEST(test_smi_with_too_many_processes_knows_nothing)
{
	begin(ROUNDS(ROW_A), "while [ ! -e few ]; do i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); "
	                     "echo \"GPU-a, $i, 1\"; done; echo >>round; sleep 0.1; done; " ROUNDS(
				 "echo 'GPU-a, 1, 1'"));
	AWAIT(processes() == SMI_PROCESSES && take(0)->memory >= 0);
	now_ms += SMI_GONE_MS;
	size_t seen = lines_of("round", NULL);
	AWAIT(lines_of("round", NULL) >= seen + 2);
	AWAIT(processes() == SMI_PROCESSES && take(0)->memory >= 0);
	assert_false(sample.known);
	size_t n;
	const struct smi_process *p = smi_processes(s, &n);
	assert_true(n == SMI_PROCESSES && p[0].pid >= 1 && p[n - 1].pid <= 5000);
	tree_put("few", "");
	AWAIT((now_ms += SMI_GONE_MS / 2, processes() == 1));
	now_ms += SMI_GONE_MS;
	AWAIT(take(0)->known);
}

/* ---- processes ------------------------------------------------------------------------------- */

SMI_TEST(test_smi_process_is_gone_after_other_lines)
{
	begin(ROUNDS("[ -e pause ] || " ROW_A "; [ -e pause ] && echo >paused"),
	      ROUNDS("[ -e gone ] || echo 'GPU-a, 3, 5'; [ -e gone ] && echo >ceased"));
	AWAIT(processes() == 1);
	size_t n;
	int64_t first_ms = smi_processes(s, &n)->first_ms;
	assert_int_equal(first_ms, now_ms);
	now_ms += SMI_GONE_MS - 1;
	AWAIT(take(0)->memory >= 0);
	assert_int_equal(processes(), 1);
	AWAIT(smi_processes(s, &n)->last_ms == now_ms);
	assert_int_equal(smi_processes(s, &n)->first_ms, first_ms);
	/* Nobody speaks: nothing is known, and the process is not gone. */
	tree_put("pause", "");
	tree_put("gone", "");
	AWAIT(lines_of("paused", NULL) && lines_of("ceased", NULL));
	(void)step();
	(void)take(0);
	now_ms += SMI_GONE_MS + 1;
	(void)step();
	assert_int_equal(processes(), 1);
	assert_true(is_unknown(take(0)));
	assert_int_equal(unlink(AT("pause")), 0);
	AWAIT(processes() == 0);
	AWAIT(take(0)->known);
	assert_int_equal(unlink(AT("gone")), 0);
	AWAIT(processes() == 1);
	assert_int_equal(smi_processes(s, &n)->first_ms, now_ms);
}

/* NOLINTNEXTLINE(readability-function-size): macros */
SMI_TEST(test_smi_gpu_vanishes_and_comes_back)
{
	begin(ROUNDS(ROW_B
	             "; [ -e lost ] && echo 'GPU-a, [GPU is lost], [Unknown Error], [GPU is "
	             "lost], [N/A], [N/A]' && echo >>said; [ -e lost ] || [ -e none ] || " ROW_A),
	      EMPTY);
	await_known(0);
	static const char *const KINDS[] = { "lost", "none" };
	for (size_t i = 0; i < 2; i++) {
		tree_put(KINDS[i], "");
		AWAIT(take(1)->known && is_unknown(take(0)));
		AWAIT(take(1)->known && is_unknown(take(0)));
		if (i == 0)
			AWAIT(lines_of("said", NULL) > 2);
		(void)step();
		assert_false(take(0)->known);
		assert_int_equal(unlink(AT(KINDS[i])), 0);
		AWAIT(take(0)->known);
		assert_float_equal(sample.busy, 73, 0.001);
	}
}

/* ---- children -------------------------------------------------------------------------------- */

SMI_TEST(test_smi_child_has_an_environment_of_its_own)
{
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	/* A shell that waits for a program blocks signals, so it reads them itself. */
	begin("tr '\\0' '\\n' </proc/$$/environ >environ; readlink /proc/$$/fd/2 >error; "
	      "while read -r k v; do case $k$v in SigBlk:*0000000|SigIgn:*0000000) echo $k; esac; "
	      "done </proc/$$/status >signals; " ROUNDS(ROW_A),
	      EMPTY);
	AWAIT(take(0)->memory >= 0);
	AWAIT(lines_of("list.arguments", NULL));
	(void)signal(SIGPIPE, before);
	tree_holds("environ", "LC_ALL=C\n");
	tree_holds("error", "/dev/null\n");
	tree_holds("signals", "SigBlk:\nSigIgn:\n"); /* the first 28 */
	tree_holds("figures.arguments",
	           "--query-gpu=uuid,utilization.gpu,memory.used,memory.total,power.draw,"
	           "mig.mode.current --format=csv,noheader,nounits -l 1\n");
	tree_holds("list.arguments", "--query-compute-apps=gpu_uuid,pid,used_memory "
	                             "--format=csv,noheader,nounits -l 1\n");
}

SMI_TEST(test_smi_that_says_nothing_is_unknown_and_replaced)
{
	begin("while [ ! -e hang ]; do " ROW_A "; sleep 0.1; done; echo >hangs; exec sleep 1000",
	      EMPTY);
	await_known(0);
	tree_put("hang", "");
	AWAIT(lines_of("hangs", NULL));
	(void)step();
	(void)take(0);
	assert_true(is_unknown(take(0)));
	size_t n;
	assert_int_equal(due(&n), now_ms + SMI_SILENT_MS);
	assert_int_equal(n, 2);
	now_ms += SMI_SILENT_MS;
	AWAIT(step() < 2);
	assert_string_equal(smi_problem(s), "no figures of GPUs: nvidia-smi says nothing");
	AWAIT(due(&n) >= now_ms + 5000); /* it was reaped */
	assert_int_equal(lines_of("figures.pids", NULL), 1);
	assert_int_equal(unlink(AT("hang")), 0);
	now_ms += 5000;
	AWAIT(lines_of("figures.pids", NULL) == 2);
	AWAIT(take(0)->memory >= 0);
	assert_null(smi_problem(s));
}

/* NOLINTNEXTLINE(readability-function-size): macros */
SMI_TEST(test_smi_that_dies_is_started_again_later_and_later)
{
	begin("echo 'No devices \"were\" found'; exit 9", "exit 9");
	int64_t begin_ms = now_ms;
	for (int64_t pause_ms = 5000, i = 1; i < 10; i++) {
		size_t n = 1;
		AWAIT(step() == 0 && due(&n) > now_ms);
		AWAIT(lines_of("figures.pids", NULL) == (size_t)i);
		AWAIT(due(&n) == begin_ms + pause_ms);
		assert_string_equal(smi_problem(s), "no figures of GPUs: nvidia-smi has ended with "
		                                    "status 9: No devices \"were\" found");
		now_ms = begin_ms + pause_ms - 1;
		(void)step();
		assert_int_equal(lines_of("figures.pids", NULL), i);
		begin_ms = ++now_ms;
		(void)step();
		pause_ms = 2 * pause_ms < 300000 ? 2 * pause_ms : 300000;
	}
}

SMI_TEST(test_smi_that_is_absent_is_looked_for_each_five_minutes)
{
	begin(NULL, NULL);
	size_t n;
	assert_int_equal(due(&n), now_ms + 300000);
	assert_int_equal(n, 0);
	assert_string_equal(smi_problem(s), "no figures of GPUs: there is no nvidia-smi");
	assert_true(is_unknown(take(0)));
	tree_put("usr/bin/nvidia-smi", ""); /* not executable */
	put_program("usr/lib/wsl/lib/nvidia-smi", ROUNDS(ROW_A), EMPTY);
	smi_want(s, false, now_ms);
	assert_null(smi_problem(s));
	assert_int_equal(due(&n), INT64_MAX);
	now_ms += 299999;
	smi_want(s, true, now_ms);
	assert_int_equal(step(), 0);
	now_ms++;
	await_known(0);
	assert_null(smi_problem(s));
}

/* NOLINTNEXTLINE(readability-function-size): macros */
SMI_TEST(test_smi_children_run_while_they_are_wanted)
{
	begin(ROUNDS(ROW_A), ROUNDS("echo 'GPU-a, 3, 5'"));
	for (size_t i = 1; i < 4; i++) {
		AWAIT(processes() == 1 && take(0)->memory >= 0);
		smi_want(s, true, now_ms);
		assert_int_equal(lines_of("figures.pids", NULL), i);
		smi_want(s, false, now_ms);
		assert_int_equal(processes(), 0);
		size_t n;
		AWAIT(due(&n) == INT64_MAX);
		no_child_is_left();
		(void)take(0);
		assert_true(is_unknown(take(0)));
		now_ms += 1000;
		smi_want(s, true, now_ms);
	}
}

TEST_WITH(test_smi_without_a_uuid_has_no_child, smi_setup, smi_teardown)
{
	static const char *const NONE[] = { NULL, NULL };
	size_t n;
	s = smi_new(&(struct smi_settings){ .root = tree_root, .uuid = NONE, .n = 2 });
	smi_want(s, true, now_ms);
	assert_int_equal(due(&n), INT64_MAX);
	assert_null(smi_problem(s));
}

/* It ignores SIGTERM; the other is stopped. */
SMI_TEST(test_smi_free_leaves_no_child)
{
	pid_t pid;
	begin("trap '' TERM INT HUP; " ROUNDS(ROW_A), EMPTY);
	AWAIT(take(0)->memory >= 0 && lines_of("list.pids", &pid));
	assert_int_equal(kill(pid, SIGSTOP), 0);
	smi_free(s);
	s = NULL;
	no_child_is_left();
}

SMI_TEST(test_smi_list_that_hangs_is_unknown_not_empty)
{
	pid_t pid = 0;
	begin(ROUNDS(ROW_A), EMPTY);
	await_known(0);
	assert_int_equal(lines_of("list.pids", &pid), 1);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	(void)step();
	now_ms += SMI_GONE_MS;
	AWAIT(take(0)->memory >= 0);
	assert_false(sample.known);
	now_ms += SMI_SILENT_MS - SMI_GONE_MS;
	AWAIT(take(0)->memory >= 0 && step() == 1);
	assert_non_null(strstr(smi_problem(s), "nvidia-smi says nothing"));
	now_ms += 5000;
	AWAIT(lines_of("list.pids", NULL) == 2);
}

/* A tracer keeps the end of a process from its parent, as a driver does that hangs. */
SMI_TEST(test_smi_is_not_started_beside_one_that_does_not_end)
{
	pid_t pid = 0;
	int tell[2];
	char byte;
	begin(ROW_A "; exec sleep 1000", EMPTY);
	AWAIT(take(0)->memory >= 0 && lines_of("figures.pids", &pid));
	assert_int_equal(pipe(tell), 0);
	pid_t tracer = fork();
	if (tracer == 0) {
		(void)!write(tell[1], ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 ? "y" : "n", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(tell[0], &byte, 1), 1);
	(void)close(tell[0]);
	(void)close(tell[1]);
	now_ms += SMI_SILENT_MS;
	for (size_t i = 0; i < 5 && byte == 'y'; i++) {
		size_t n;
		smi_run(s, now_ms);
		assert_true(due(&n) <= now_ms + 1000 && due(&n) > now_ms);
		now_ms += 10000;
	}
	if (byte == 'y') {
		assert_int_equal(lines_of("figures.pids", NULL), 1);
		assert_string_equal(smi_problem(s),
		                    "no figures of GPUs: SIGKILL does not end nvidia-smi");
	}
	(void)kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
	if (byte != 'y')
		skip(); /* this user may not trace */
	AWAIT((now_ms += 1000, lines_of("figures.pids", NULL) == 2));
}

/* One of them never writes, so that SIGPIPE does not end it. */
SMI_TEST(test_smi_children_end_with_a_killed_process)
{
	pid_t pid[2] = { 0, 0 };
	put_program("usr/bin/nvidia-smi", ROUNDS(ROW_A), "exec sleep 1000");
	pid_t server = fork();
	if (server == 0) {
		begin(NULL, NULL);
		for (;;)
			(void)step();
	}
	int64_t until_ms = clock_ms() + AWAIT_MS;
	while ((!lines_of("figures.pids", &pid[0]) || !lines_of("list.pids", &pid[1])) &&
	       clock_ms() < until_ms)
		clock_sleep(10);
	assert_true(pid[0] > 0 && pid[1] > 0);
	struct pollfd ended[2];
	for (size_t i = 0; i < 2; i++)
		ended[i] = (struct pollfd){ .fd = (int)syscall(SYS_pidfd_open, pid[i], 0),
			                    .events = POLLIN };
	assert_true(ended[0].fd >= 0 && ended[1].fd >= 0);
	assert_int_equal(kill(server, SIGKILL), 0);
	assert_int_equal(waitpid(server, NULL, 0), server);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(poll(&ended[i], 1, AWAIT_MS), 1);
		(void)close(ended[i].fd);
	}
}
