/* Tasks as real processes: prepared, started, found again, stopped and removed. */

#include "tests/unit/base/cmocka.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/child.h"
#include "base/posix/clock.h"
#include "machine/task/task.h"

/* The name has the id of this process: the test can run in several build folders at a time. */
static char UID[] = "11111111-2222-3333-4444-555555555555";
static const char FRAMEWORK[] =
    "{\"kind\":\"Framework\",\"metadata\":{\"name\":\"f\",\"namespace\":\"default\","
    "\"annotations\":{\"config\":"
    "\"taskRoles: {w: {commands: [x]}}\"}},\"spec\":{\"taskRoles\":[{\"name\":\"w\","
    "\"taskNumber\":1,\"task\":{\"pod\":{\"metadata\":{\"annotations\":{}},\"spec\":{}}}}]},"
    "\"status\":{\"attemptStatus\":{\"taskRoleStatuses\":[{\"name\":\"w\",\"taskStatuses\":[{"
    "\"index\":0,\"attemptStatus\":{\"podUID\":\"%s\","
    "\"podIP\":\"10.9.8.7\",\"podHostIP\":\"10.9.8.7\"}}]}]}}}";

/* A pod as the template `plain` makes it; %s: UID, and the command of the job, as JSON text. */
static const char POD[] =
    "{\"metadata\":{\"name\":\"f-w-0\",\"namespace\":\"default\",\"uid\":"
    "\"%s\",\"annotations\":{\"FC_TASK_INDEX\":\"0\"}},"
    "\"spec\":{\"terminationGracePeriodSeconds\":20,\"initContainers\":[{\"name\":\"init\","
    "\"image\":\"r\",\"env\":[{\"name\":\"FC_TASKROLE_NAME\",\"value\":\"w\"},"
    "{\"name\":\"FC_TASK_INDEX\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":"
    "\"metadata.annotations['FC_TASK_INDEX']\"}}},"
    "{\"name\":\"USER_CMD\",\"value\":\"%s\"}],\"volumeMounts\":["
    "{\"name\":\"pai-vol\",\"mountPath\":\"/usr/local/pai\"},"
    "{\"name\":\"logs\",\"mountPath\":\"/usr/local/pai/logs\"},"
    "{\"name\":\"keys\",\"mountPath\":\"/usr/local/pai/secrets\"}]}],"
    "\"containers\":[{\"name\":\"app\",\"image\":\"i\",\"command\":[\"/usr/local/pai/runtime\"],"
    "\"env\":[{\"name\":\"A\",\"value\":\"1$(NO)\"}],"
    "\"terminationMessagePath\":\"/tmp/pai-termination-log\",\"volumeMounts\":["
    "{\"name\":\"pai-vol\",\"mountPath\":\"/usr/local/pai\"},"
    "{\"name\":\"logs\",\"mountPath\":\"/usr/local/pai/logs\"},"
    "{\"name\":\"keys\",\"mountPath\":\"/usr/local/pai/secrets\"},"
    "{\"name\":\"shm\",\"mountPath\":\"/dev/shm\"}]}],\"volumes\":["
    "{\"name\":\"pai-vol\",\"emptyDir\":{}},{\"name\":\"logs\",\"emptyDir\":{}},"
    "{\"name\":\"shm\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"64Mi\"}},"
    "{\"name\":\"keys\",\"secret\":{\"secretName\":\"s\"}}]}}";

/* pai-runtime without an exit specification reports all failures so. */
enum { UNKNOWN = 255 };

struct world {
	struct arena a;
	char *dir, *runtime;
	const char *framework; /* NULL: FRAMEWORK */
	bool sandbox;
	struct err e;
};

static int world_get(void *arg, const struct pod_source *s, struct arena *a, struct pod_data *out,
                     struct err *e)
{
	(void)arg;
	(void)e;
	if (!s->secret || strcmp(s->name, "s") != 0)
		return 1;
	out->v = ARENA_NEW(a, struct pod_pair, 1);
	out->v[0] = (struct pod_pair){ SPAN("secrets.yaml"), SPAN("key: swordfish\n") };
	out->n = 1;
	return 0;
}

static const struct pod_objects OBJECTS = { world_get, NULL };

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	const char *runtime = getenv("PAI_RUNTIME"); /* NOLINT(concurrency-mt-unsafe) */
	(void)snprintf(UID + 24, sizeof(UID) - 24, "%012d", (int)getpid());
	w->dir = arena_dup(&w->a, span_of(unit_path(UID)));
	w->runtime = realpath(runtime ? runtime : "build/pai-runtime", NULL);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	free(w->runtime);
	arena_done(&w->a);
	err_done(&w->e);
	free(w);
	return 0;
}

static void world_prepare(struct world *w, const char *command)
{
	const struct pod_settings at = { .node_name = "here", .ip = "10.9.8.7", .uid = UID };
	const char *const hide[] = { unit_path("") };
	const char *framework = w->framework ?: arena_printf(&w->a, FRAMEWORK, UID);
	const struct task_settings s = {
		.dir = w->dir,
		.sandbox = w->sandbox,
		.box = { .runtime = w->runtime, .hide = hide, .hide_n = 1 },
		.objects = &OBJECTS,
		.framework = span_of(framework)
	};
	if (!w->runtime)
		skip();
	const char *pod = arena_printf(&w->a, POD, UID, command);
	struct pod *p =
	    pod_read(doc_quiet(span_of(pod), &BUDGET_DEFAULT, &w->a), &at, &w->a, &w->e);
	if (!p || task_prepare(p, &s, &w->e))
		fail_msg("%s", err_msg(&w->e));
}

static int world_start(struct world *w, const char *command)
{
	world_prepare(w, command);
	int pidfd = task_start(w->dir, w->runtime, false, 0, NULL, 0, &w->e);
	if (pidfd < 0)
		fail_msg("%s", err_msg(&w->e));
	return pidfd;
}

static void world_reap(int pidfd)
{
	(void)waitid(P_PIDFD, (id_t)pidfd, NULL, WEXITED); /* it may be no child */
	(void)close(pidfd);
}

static struct task_state world_end(struct world *w, int pidfd)
{
	struct pollfd ended = { pidfd, POLLIN, 0 };
	struct task_state state;
	assert_int_equal(poll(&ended, 1, 60000), 1);
	world_reap(pidfd);
	assert_true(task_read_state(w->dir, &w->a, &state));
	return state;
}

static const char *world_text(struct world *w, const char *name)
{
	char *text = arena_zero(&w->a, 1, 64 << 10);
	int fd = open(arena_printf(&w->a, "%s/%s", w->dir, name), O_RDONLY);
	if (fd < 0 || read(fd, text, (64 << 10) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}

static void world_wait(struct world *w, const char *name, const char *text)
{
	const char *state = "";
	for (int i = 0;
	     i < 6000 && !strstr(state, "ended\",\"stopped") && !strstr(world_text(w, name), text);
	     i++) {
		clock_sleep(10);
		state = world_text(w, "state");
	}
	if (!strstr(world_text(w, name), text))
		fail_msg("%s%s%s", state, world_text(w, "init.log"), world_text(w, "log"));
}

TEST_WITH(test_task_runs_and_reports_its_exit_code, setup, teardown)
{
	struct world *w = *state;
	int pidfd = world_start(w, "echo A=$A IP=$PAI_HOST_IP_w_0 HOME=$HOME; cat "
	                           "$(dirname $0)/../secrets/secrets.yaml; exit 7");
	struct task_state s = world_end(w, pidfd);
	if (s.phase != TASK_ENDED || s.container[0].code != 0 || s.container[1].code != UNKNOWN)
		fail_msg("%s%s", world_text(w, "init.log"), world_text(w, "log"));
	assert_true(s.started && s.container[1].terminated && !s.stopped);
	assert_non_null(strstr(s.container[1].message, "originUserExitCode: 7"));
	assert_non_null(strstr(world_text(w, "log"), "IP=10.9.8.7"));
	assert_non_null(strstr(world_text(w, "log"), "swordfish"));
	assert_int_equal(task_find(w->dir, &pidfd), TASK_GONE);
}

/* The command does not start, and the state of the container init has its error. */
TEST_WITH(test_task_does_not_start_when_init_fails, setup, teardown)
{
	struct world *w = *state;
	w->framework = "{\"kind\":\"Pod\"}";
	struct task_state s = world_end(w, world_start(w, "echo ran"));
	assert_true(s.container[0].terminated && !s.started);
	assert_int_equal(s.container[0].code, 1);
	assert_non_null(strstr(s.container[0].message, "step setup (exit code 1): the Framework"));
	assert_non_null(strstr(world_text(w, "init.log"), "no object of kind Framework"));
	assert_string_equal(world_text(w, "log"), "");
}

/* Variables of the job do not reach bubblewrap, and other files of the task's directory are not
 * visible. */
TEST_WITH(test_sandboxed_task_sees_only_its_own_files, setup, teardown)
{
	struct world *w = *state;
	w->sandbox = true;
	if (sandbox_probe(NULL, NULL, &w->e))
		skip();
	const char *command = arena_printf(
	    &w->a,
	    "echo A=$A IP=$PAI_HOST_IP_w_0 core=$(ulimit -H -c); cat "
	    "/usr/local/pai/secrets/secrets.yaml; /usr/local/pai/runtime version; rm "
	    "/usr/local/pai/runtime || true; df /dev/shm | tail -1; ls -a %s || echo hidden; "
	    "trap 'echo asked; exit 9' TERM; echo ready; sleep 60 & wait",
	    unit_path(""));
	int pidfd = world_start(w, command);
	world_wait(w, "log", "ready");
	world_wait(w, "state", "\"app\":{\"started\":true");
	task_stop(pidfd, -1);
	struct task_state s = world_end(w, pidfd);
	assert_true(s.started && s.container[1].terminated && s.stopped);
	assert_non_null(strstr(s.container[1].message, "originUserExitCode: 9"));
	assert_non_null(strstr(world_text(w, "log"), "IP=10.9.8.7"));
	assert_non_null(strstr(world_text(w, "log"), "swordfish"));
	assert_non_null(strstr(world_text(w, "log"), "65536"));
	assert_non_null(strstr(world_text(w, "log"), "put there by init"));
	assert_non_null(strstr(world_text(w, "log"), "rm: cannot remove"));
	assert_null(strstr(world_text(w, "log"), "core=1"));
	assert_non_null(strstr(world_text(w, "init.log"), "init is done"));
	assert_null(strstr(world_text(w, "log"), "init is done"));
	assert_non_null(strstr(world_text(w, "log"), "hidden"));
}

TEST_WITH(test_task_stop_asks_the_command_to_end, setup, teardown)
{
	struct world *w = *state;
	int pidfd = world_start(w, "trap 'echo asked; exit 9' TERM; echo ready; sleep 60 & wait");
	int again;
	world_wait(w, "log", "ready");
	assert_int_equal(task_find(w->dir, &again), TASK_ALIVE);
	task_stop(again, -1);
	close(again);
	struct task_state s = world_end(w, pidfd);
	assert_true(s.stopped);
	assert_int_equal(s.container[1].code, UNKNOWN);
	assert_non_null(strstr(s.container[1].message, "originUserExitCode: 9"));
}

TEST_WITH(test_task_kill_ends_all_processes, setup, teardown)
{
	struct world *w = *state;
	int pidfd = world_start(w, "trap '' TERM; echo ready; sleep 600; sleep 600");
	world_wait(w, "log", "ready");
	task_kill(pidfd);
	struct task_state s = world_end(w, pidfd);
	assert_int_equal(s.container[1].code, 128 + SIGKILL);
	assert_int_equal(task_kill_leftovers(UID), 0);
}

/* The grace of the caller is shorter than that of the pod. */
TEST_WITH(test_task_stop_uses_the_shorter_grace, setup, teardown)
{
	struct world *w = *state;
	int pidfd = world_start(w, "trap '' TERM; echo ready; sleep 600; sleep 600");
	world_wait(w, "log", "ready");
	task_stop(pidfd, 1);
	struct task_state s = world_end(w, pidfd);
	assert_true(s.stopped);
	assert_int_equal(s.container[1].code, 128 + SIGKILL);
}

TEST_WITH(test_tied_task_ends_with_its_parent, setup, teardown)
{
	struct world *w = *state;
	int pidfd = -1;
	int lock = dup2(STDIN_FILENO, 100); /* inherited, as that of `run` */
	world_prepare(w, "trap 'exit 5' TERM; echo ready; sleep 60 & wait");
	pid_t parent = fork();
	if (parent == 0) {
		(void)task_start(w->dir, w->runtime, true, 0, NULL, 0, &w->e);
		(void)pause();
	}
	world_wait(w, "log", "ready");
	assert_int_equal(task_find(w->dir, &pidfd), TASK_ALIVE);
	FREE_AUTO char *held =
	    xasprintf("/proc/%ld/fd/%d", strtol(world_text(w, "shim"), NULL, 10), lock);
	int absent = access(held, F_OK);
	(void)close(lock);
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(child_wait(parent), 128 + SIGKILL);
	struct task_state s = world_end(w, pidfd);
	assert_int_equal(absent, 0);
	assert_true(s.stopped);
	assert_int_equal(s.container[1].code, UNKNOWN);
	assert_non_null(strstr(s.container[1].message, "originUserExitCode: 5"));
}

/* SIGKILL of the shim ends the runtime, too; processes left over are found by their environment. */
TEST_WITH(test_killed_shim_takes_the_runtime_along, setup, teardown)
{
	struct world *w = *state;
	struct task_state s;
	int again;
	int pidfd = world_start(w, "trap '' TERM; echo ready; while sleep 1; do :; done");
	world_wait(w, "log", "ready");
	struct span line = span_of(world_text(w, "shim"));
	int64_t pid;
	assert_int_equal(parse_i64(span_to(line, span_chr(line, ' ')), 2, INT32_MAX, &pid), 0);
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	struct pollfd ended = { pidfd, POLLIN, 0 };
	assert_int_equal(poll(&ended, 1, 60000), 1);
	world_reap(pidfd);
	assert_int_equal(task_find(w->dir, &again), TASK_GONE);
	size_t used = w->a.used;
	assert_true(task_read_state(w->dir, &w->a, &s));
	assert_int_equal(s.phase, TASK_RUN);
	assert_true(w->a.used - used < 100); /* the arena gets the texts only */
	/* Killed processes can be seen until they have run once more. */
	for (int i = 0; task_kill_leftovers(UID) > 0; i++) {
		assert_true(i < 6000);
		(void)usleep(10000);
	}
	/* A second start does not run the command again. */
	pidfd = task_start(w->dir, w->runtime, false, 0, NULL, 0, &w->e);
	ended.fd = pidfd;
	assert_int_equal(poll(&ended, 1, 60000), 1);
	world_reap(pidfd);
	assert_non_null(strstr(world_text(w, "shim.error"), "before"));
}

/* The shim holds a lock for its lifetime; the task does not. */
TEST_WITH(test_locks_are_held_by_the_shim_alone, setup, teardown)
{
	struct world *w = *state;
	world_prepare(w, "echo ready; ls -l /proc/self/fd >&2; sleep 600");
	const char *gpu = unit_path("gpu");
	int lock = open(gpu, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
	int pidfd = task_start(w->dir, w->runtime, false, 0, &lock, 1, &w->e);
	close(lock);
	world_wait(w, "log", "ready");
	lock = open(gpu, O_RDWR | O_CLOEXEC);
	assert_int_not_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
	task_kill(pidfd);
	(void)world_end(w, pidfd);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
	close(lock);
	assert_null(strstr(world_text(w, "log"), "/gpu"));
}

TEST_WITH(test_task_without_a_shim_is_not_started, setup, teardown)
{
	struct world *w = *state;
	struct task_state s;
	int pidfd;
	world_prepare(w, "true");
	world_prepare(w, "true"); /* again */
	assert_int_equal(task_find(w->dir, &pidfd), TASK_NOT_STARTED);
	assert_false(task_read_state(w->dir, &w->a, &s));
	assert_int_equal(s.phase, TASK_STARTING);
	struct stat st;
	const char *key = arena_printf(&w->a, "%s/root/usr/local/pai/secrets/secrets.yaml", w->dir);
	assert_int_equal(stat(key, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(arena_printf(&w->a, "%s/spec", w->dir), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}
