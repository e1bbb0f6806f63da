/* CPU time and memory of tasks, and whose a process is: of real processes, and of recorded files.
 */
#include "tests/unit/base/cmocka.h"

#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "machine/usage/procs.h"
#include "tests/unit/machine/machine_tree.h"

/* ---- real processes ------------------------------------------------------------------ */

enum { BURN_MS = 250, TOUCHED = 32 << 20 };

/* What a shim and its processes write; all of them have it. */
static struct procs_scene {
	pid_t live, daemon, session, zombie;
	int64_t used_ms; /* by getrusage, of all of them, when all have ended */
} * scene;
static int ready[2], go[2];

static void procs_burn(int64_t ms)
{
	struct timespec t;
	do
		(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}

/* Says that it is ready, and lives until the test closes its end of the pipe. */
static void procs_stay(void)
{
	char c = 'r';
	(void)!write(ready[1], &c, 1);
	(void)close(go[1]);
	(void)!read(go[0], &c, 1);
	_exit(0);
}

/* Burns, has a child that burns, ends and is waited for, and stays with touched memory. */
static void procs_run_live(void)
{
	pid_t child = fork();
	if (child == 0) {
		procs_burn(BURN_MS);
		_exit(0);
	}
	procs_burn(BURN_MS);
	(void)waitpid(child, NULL, 0);
	memset(xmalloc(TOUCHED), 1, TOUCHED);
	procs_stay();
}

static void procs_run_session(pid_t *pid)
{
	(void)setsid();
	*pid = getpid();
	procs_burn(BURN_MS);
	procs_stay();
}

static int64_t procs_rusage_ms(int whose)
{
	struct rusage u;
	(void)getrusage(whose, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

/* A subreaper, as a shim is. */
static void procs_run_shim(void)
{
	siginfo_t info;
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t ended = fork();
	if (ended == 0) {
		procs_burn(BURN_MS);
		_exit(0);
	}
	(void)waitpid(ended, NULL, 0);
	pid_t live = fork();
	if (live == 0)
		procs_run_live();
	if (fork() == 0)
		procs_run_session(&scene->session);
	pid_t middle = fork();
	if (middle == 0) {
		if (fork() == 0)
			procs_run_session(&scene->daemon);
		_exit(0);
	}
	(void)waitpid(middle, NULL, 0);
	pid_t zombie = fork();
	if (zombie == 0) {
		procs_burn(BURN_MS);
		_exit(0);
	}
	(void)waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT);
	scene->live = live;
	scene->zombie = zombie;
	char c = 'r';
	(void)!write(ready[1], &c, 1);
	(void)close(go[1]);
	(void)!read(go[0], &c, 1);
	while (wait(NULL) > 0)
		;
	scene->used_ms = procs_rusage_ms(RUSAGE_SELF) + procs_rusage_ms(RUSAGE_CHILDREN);
	_exit(0);
}

TEST(test_procs_of_a_shim_have_its_cpu_time_and_owner)
{
	enum { PROCESSES = 6, SPEAKERS = 4, TICK_MS = 10 };
	scene =
	    mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(scene != MAP_FAILED && pipe(ready) == 0 && pipe(go) == 0);
	pid_t shim = fork();
	if (shim == 0)
		procs_run_shim();
	pid_t foreign = fork();
	if (foreign == 0)
		procs_stay();
	char c;
	for (int i = 0; i < SPEAKERS + 1; i++)
		assert_int_equal(read(ready[0], &c, 1), 1);

	struct procs_task v[3] = { { .shim = shim, .start = procs_start("", shim) },
		                   { .shim = shim, .start = procs_start("", shim) + 1 },
		                   { .shim = foreign, .start = procs_start("", foreign) } };
	procs_look("", v, 3);
	int64_t look_ms = v[0].cpu_ms;
	assert_true(v[0].memory >= TOUCHED && v[0].memory_most == -1);
	/* A pid that was used again is no shim. */
	assert_true(v[1].cpu_ms == -1 && v[1].memory == -1);
	assert_true(v[2].cpu_ms >= 0 && v[2].cpu_ms < BURN_MS && v[2].memory > 0);
	assert_int_equal(procs_owner("", shim, v, 3), 0);
	assert_int_equal(procs_owner("", scene->live, v, 3), 0);
	assert_int_equal(procs_owner("", scene->session, v, 3), 0);
	assert_int_equal(procs_owner("", scene->daemon, v, 3), 0);
	assert_int_equal(procs_owner("", scene->zombie, v, 3), PROCS_GONE);
	assert_int_equal(procs_owner("", foreign, v, 3), 2);
	assert_int_equal(procs_owner("", foreign, v, 2), PROCS_OUTSIDE);
	assert_int_equal(procs_owner("", scene->live, v + 1, 2), PROCS_OUTSIDE);
	assert_int_equal(procs_owner("", getpid(), v, 3), PROCS_OUTSIDE);

	(void)close(go[1]);
	assert_int_equal(waitpid(shim, NULL, 0), shim);
	assert_int_equal(waitpid(foreign, NULL, 0), foreign);
	/* 2 %, and a tick for user and system time of each process, which the kernel cuts off. */
	assert_true(scene->used_ms >= (int64_t)PROCESSES * BURN_MS);
	int64_t error = scene->used_ms / 50 + PROCESSES * 2LL * TICK_MS;
	if (look_ms > scene->used_ms || look_ms < scene->used_ms - error)
		fail_msg("%lld ms, but getrusage says %lld", (long long)look_ms,
		         (long long)scene->used_ms);
	assert_int_equal(procs_owner("", shim, v, 3), PROCS_GONE);
	assert_int_equal(procs_start("", shim), 0);
	procs_look("", v, 3);
	assert_true(v[0].cpu_ms == -1 && v[0].memory == -1);
	(void)close(go[0]);
	(void)close(ready[0]);
	(void)close(ready[1]);
	(void)munmap(scene, sizeof(*scene));
}

enum { STARTS = 1000, LIFE_US = 2000 };

/* Starts processes, each of which writes its pid: in a session of its own, with a parent that ends
 * at once, one that ends itself. */
static void procs_start_many(int out)
{
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)signal(SIGCHLD, SIG_IGN); /* they are reaped at once */
	for (int i = 0; i < STARTS; i++) {
		if (fork() != 0)
			continue;
		if (i % 3 == 0)
			(void)setsid();
		if (i % 3 == 1 && fork() > 0)
			_exit(0);
		pid_t pid = getpid();
		(void)!write(out, &pid, sizeof(pid));
		if (i % 3 != 2)
			(void)usleep(LIFE_US);
		_exit(0);
	}
	(void)close(out);
	(void)pause();
}

/* An end or another parent while it is looked at makes none of them foreign. */
TEST(test_procs_of_a_task_are_its_own_in_1000_starts)
{
	int told[2];
	int found[3] = { 0, 0, 0 }; /* gone, outside, of the task */
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	pid_t shim = fork();
	if (shim == 0)
		procs_start_many(told[1]);
	(void)close(told[1]);
	struct procs_task t = { .shim = shim, .start = procs_start("", shim) };
	pid_t pid;
	while (read(told[0], &pid, sizeof(pid)) == sizeof(pid))
		found[procs_owner("", pid, &t, 1) - PROCS_GONE]++;
	(void)kill(shim, SIGKILL);
	assert_int_equal(waitpid(shim, NULL, 0), shim);
	(void)close(told[0]);
	assert_true(found[0] + found[2] == STARTS && found[2] > 0);
}

/* ---- recorded /proc -------------------------------------------------------------------- */

/* It used 10 + 20 ms, and its ended children 30 + 40 ms; 3 pages. */
static void put_stat(int pid, const char *name, char state, int parent, int start)
{
	FREE_AUTO char *path = xasprintf("proc/%d/stat", pid);
	FREE_AUTO char *text = xasprintf("%d (%s) %c %d 9 9 34816 -1 4194560 9 9 9 9 1 2 3 4 20 0 "
	                                 "1 0 %d 9437184 3 18446744073709551615 1 1 0\n",
	                                 pid, name, state, parent, start);
	tree_put(path, text);
}

TEST_WITH(test_procs_with_hostile_names_are_counted, tree_setup, tree_teardown)
{
	static const char *const NAMES[] = {
		"a b", ")", "((((", "))", ") Z 1 1 1 (", "x\n7 (y) S 8 8", "\n\n", "", "\x1b[2J\xff"
	};
	int n = (int)ARRAY_SIZE(NAMES);
	put_stat(1, "init", 'S', 0, 0);
	put_stat(50, "shim", 'S', 1, 700);
	for (int i = 0; i < n; i++)
		put_stat(100 + i, NAMES[i], 'R', i == 0 ? 50 : 99 + i, 701); /* a chain */
	tree_put("proc/self", "");
	tree_put("proc/0/stat", "");
	tree_put("proc/12x/stat", "");
	tree_put("proc/99999999999/stat", "");
	struct procs_task t = { .shim = 50, .start = 700 };
	procs_look(tree_root, &t, 1);
	assert_int_equal(t.cpu_ms, (n + 1) * 100);
	assert_int_equal(t.memory, (n + 1) * 3L * sysconf(_SC_PAGESIZE));
	for (int i = 0; i < n; i++)
		assert_int_equal(procs_owner(tree_root, 100 + i, &t, 1), 0);
	assert_int_equal(procs_start(tree_root, 100), 701);
}

TEST_WITH(test_procs_are_added_to_the_task_above_them, tree_setup, tree_teardown)
{
	put_stat(1, "init", 'S', 0, 0);
	put_stat(50, "shim", 'S', 1, 700);
	put_stat(60, "shim", 'S', 1, 800);
	put_stat(70, "later", 'S', 1, 900); /* in the place of a shim that has ended */
	put_stat(40, "child", 'S', 50, 9);  /* a lower pid than its parent */
	put_stat(41, "child", 'Z', 40, 9);
	put_stat(61, "child", 'S', 60, 9);
	put_stat(71, "child", 'S', 70, 9);
	put_stat(80, "circle", 'S', 81, 9);
	put_stat(81, "circle", 'S', 80, 9);
	put_stat(82, "self", 'S', 82, 9);
	put_stat(83, "orphan", 'S', 4000, 9); /* its parent has ended meanwhile */
	tree_put("proc/90/stat", "");
	tree_put("proc/91/stat", "91 (cut) S 50 1 1");
	tree_put("proc/92/stat", "92 no name");
	tree_put("proc/93/stat", "93 (short)");
	tree_put("proc/94", "");
	struct procs_task v[] = { { .shim = 50, .start = 700 },
		                  { .shim = 60, .start = 800 },
		                  { .shim = 70, .start = 899 },
		                  { .shim = 4000, .start = 1 },
		                  { .shim = 90, .start = 0 } };
	procs_look(tree_root, v, ARRAY_SIZE(v));
	assert_int_equal(v[0].cpu_ms, 300);
	assert_int_equal(v[1].cpu_ms, 200);
	for (size_t i = 2; i < ARRAY_SIZE(v); i++)
		assert_true(v[i].cpu_ms == -1 && v[i].memory == -1 && v[i].memory_most == -1);
	static const int OWNERS[][2] = {
		{ 40, 0 },
		{ 61, 1 },
		{ 60, 1 },
		{ 41, PROCS_GONE },
		{ 71, PROCS_OUTSIDE },
		{ 80, PROCS_OUTSIDE },
		{ 82, PROCS_OUTSIDE },
		{ 83, PROCS_OUTSIDE },
		{ 1, PROCS_OUTSIDE },
		{ 90, PROCS_GONE },
		{ 91, PROCS_GONE },
		{ 5000, PROCS_GONE },
		{ 0, PROCS_GONE },
		{ -1, PROCS_GONE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(OWNERS); i++)
		assert_int_equal(procs_owner(tree_root, OWNERS[i][0], v, ARRAY_SIZE(v)),
		                 OWNERS[i][1]);
	assert_int_equal(procs_owner(tree_root, 40, NULL, 0), PROCS_OUTSIDE);
	procs_look(AT("nothing"), v, ARRAY_SIZE(v));
	assert_true(v[0].cpu_ms == -1 && v[0].memory == -1);
	procs_look(tree_root, NULL, 0);
}

TEST_WITH(test_procs_look_at_a_bound_of_parents, tree_setup, tree_teardown)
{
	put_stat(50, "shim", 'S', 1, 700);
	for (int i = 0; i < PROCS_DEPTH; i++)
		put_stat(1000 + i, "chain", 'S', i == 0 ? 50 : 999 + i, 701);
	struct procs_task t = { .shim = 50, .start = 700 };
	assert_int_equal(procs_owner(tree_root, 1000 + PROCS_DEPTH - 2, &t, 1), 0);
	assert_int_equal(procs_owner(tree_root, 1000 + PROCS_DEPTH - 1, &t, 1), PROCS_OUTSIDE);
	/* The sum has no such bound. */
	procs_look(tree_root, &t, 1);
	assert_int_equal(t.cpu_ms, (PROCS_DEPTH + 1) * 100);
}

TEST_WITH(test_procs_are_unknown_when_they_are_too_many, tree_setup, tree_teardown)
{
	struct procs_task v[] = { { .shim = 50, .start = 700 }, { .shim = 51, .start = 1 } };
	put_stat(50, "shim", 'S', 1, 700);
	for (int i = 1; i < PROCS_MAX; i++) {
		FREE_AUTO char *path = xasprintf("%s/proc/%d", tree_root, 100 + i);
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		assert_true(fd >= 0 && close(fd) == 0);
	}
	procs_look(tree_root, v, 2);
	assert_int_equal(v[0].cpu_ms, 100);
	tree_put("proc/99", "");
	procs_look(tree_root, v, 2);
	assert_true(v[0].cpu_ms == -1 && v[0].memory == -1);
}

/* ---- recorded cgroups -------------------------------------------------------------------- */

static const char CPU_STAT[] = "usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n"
			       "nice_usec 0\ncore_sched.force_idle_usec 0\nnr_periods 10\n"
			       "nr_throttled 2\nthrottled_usec 99\n";
static const char MEMORY_STAT[] = "anon 500000\nfile 300000\nkernel 4096\ninactive_anon 12\n"
				  "active_anon 13\ninactive_file 200000\nactive_file 100000\n"
				  "workingset_refault_file 7\n";

static void put_group(const char *name, const char *const texts[4])
{
	static const char *const FILES[] = { "cpu.stat", "memory.current", "memory.stat",
		                             "memory.peak" };
	for (size_t i = 0; i < 4; i++) {
		FREE_AUTO char *path = xasprintf("group/%s/%s", name, FILES[i]);
		if (texts[i])
			tree_put(path, texts[i]);
	}
}

TEST_WITH(test_procs_of_a_cgroup_have_what_the_kernel_says, tree_setup, tree_teardown)
{
	static const struct {
		const char *name, *texts[4];
		int64_t cpu_ms, memory, most;
	} ROWS[] = {
		{ "whole",
		  { CPU_STAT, "900000\n", MEMORY_STAT, "950000\n" },
		  1234,
		  700000,
		  950000 },
		{ "no-peak", { CPU_STAT, "900000\n", MEMORY_STAT, NULL }, 1234, 700000, -1 },
		{ "no-memory", { CPU_STAT, NULL, NULL, NULL }, 1234, -1, -1 },
		{ "no-stat", { CPU_STAT, "900000\n", NULL, "950000\n" }, 1234, -1, 950000 },
		{ "less", { CPU_STAT, "100000\n", MEMORY_STAT, "950000\n" }, 1234, 0, 950000 },
		{ "empty", { "", "", "", "" }, -1, -1, -1 },
		{ "foreign",
		  { "user_usec 5\nxusage_usec 6\n", "9x\n", "total_inactive_file 1\n", "max\n" },
		  -1,
		  -1,
		  -1 },
		{ "negative", { "usage_usec -5\n", "-1\n", MEMORY_STAT, "-1\n" }, -1, -1, -1 },
		{ "gone", { NULL }, -1, -1, -1 },
	};
	struct procs_task v[ARRAY_SIZE(ROWS) + 1] = { 0 };
	char path[ARRAY_SIZE(ROWS)][300];
	put_stat(50, "shim", 'S', 1, 700);
	put_stat(60, "shim", 'S', 1, 800);
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		put_group(ROWS[i].name, ROWS[i].texts);
		FREE_AUTO char *name = xasprintf("group/%s", ROWS[i].name);
		/* Its processes are there, but do not count. */
		v[i] = (struct procs_task){ .shim = 50,
			                    .start = 700,
			                    .cgroup = tree_path(path[i], name) };
	}
	v[ARRAY_SIZE(ROWS)] = (struct procs_task){ .shim = 60, .start = 800 };
	procs_look(tree_root, v, ARRAY_SIZE(v));
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		unit_row = ROWS[i].name;
		assert_int_equal(v[i].cpu_ms, ROWS[i].cpu_ms);
		assert_int_equal(v[i].memory, ROWS[i].memory);
		assert_int_equal(v[i].memory_most, ROWS[i].most);
	}
	unit_row = NULL;
	assert_int_equal(v[ARRAY_SIZE(ROWS)].cpu_ms, 100); /* one without a group, beside them */
	assert_int_equal(procs_owner(tree_root, 50, v, 1), 0);
}

/* ---- names ------------------------------------------------------------------------------- */

TEST_WITH(test_procs_have_a_name_that_can_be_printed, tree_setup, tree_teardown)
{
	static const struct {
		const char *status, *program, *user;
	} ROWS[] = {
		{ "Name:\tpython3\nUmask:\t0022\nUid:\t0\t5\t5\t5\nGid:\t7\t7\t7\t7\n", "python3",
		  "root" },
		{ "Name:\ta b\\nUid:\t5\nUid:\t3999999999\t0\t0\t0\n", "a b\\nUid:?5",
		  "3999999999" },
		{ "Name:\t\x1b[2J\xff\xc3\xbc\x7f\"<\nUid:\t0\t0\n", "?[2J????\"<", "root" },
		{ "Name:\t0123456789012345678901234567890123456789abc\nUid:\t0\t0\n",
		  "0123456789012345678901234567890123456789", "root" },
		{ "Name:\t\nUid:\t99999999999\n", "", "99999999999" },
		{ "Name:\tx", "x", "" },
		{ "", "", "" },
		{ NULL, "", "" },
	};
	char program[PROCS_NAME];
	char user[PROCS_USER];
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		FREE_AUTO char *path = xasprintf("proc/%zu/status", 10 + i);
		if (ROWS[i].status)
			tree_put(path, ROWS[i].status);
		procs_name(tree_root, (pid_t)(10 + i), program, user);
		assert_string_equal(program, ROWS[i].program);
		assert_string_equal(user, ROWS[i].user);
	}
	(void)prctl(PR_SET_NAME, "of the test");
	procs_name("", getpid(), program, user);
	const struct passwd *p = getpwuid(getuid()); /* NOLINT(concurrency-mt-unsafe) */
	assert_string_equal(program, "of the test");
	if (p)
		assert_string_equal(user, p->pw_name);
}
