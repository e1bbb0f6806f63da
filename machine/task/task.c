/* Starts the shim of a task, finds it again after a restart, reads its state, and ends what it has
 * left. */
#include "machine/task/task.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/child.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/process.h"
#include "jobs/store/reply.h"

enum { STATE_MAX = 128 << 10, LEFTOVER_ROUNDS = 10 };

/* ---- starting -------------------------------------------------------------------------------- */

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int task_start(const char *dir, const char *runtime, bool tied, int input, const int *keep,
               size_t n_keep, struct err *e)
{
	static const char *const ENV[] = { "PATH=/usr/local/bin:/usr/bin:/bin", NULL };
	ARENA_AUTO a = { 0 };
	const char *const argv[] = { runtime,
		                     "shim",
		                     dir,
		                     tied ? "--parent" : NULL,
		                     arena_printf(&a, "%d", (int)getpid()),
		                     NULL };
	FD_AUTO error = open(arena_printf(&a, "%s/shim.error", dir),
	                     O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	sigset_t blocked; /* they wait until the shim takes them */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGUSR1);
	const struct child_command shim = { .argv = argv,
		                            .env = ENV,
		                            .in = input,
		                            .out = STREAM_NONE,
		                            .err = error,
		                            .group = CHILD_SESSION,
		                            .blocked = &blocked,
		                            .keep = keep,
		                            .n_keep = n_keep };
	pid_t pid = error >= 0 ? child_spawn(&shim) : -1;
	int pidfd = pid >= 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1; /* it is not reaped yet */
	if (pidfd < 0)
		(void)err_set(e, UNKNOWN_ERROR, "cannot start %s: %s", runtime,
		              strerrordesc_np(errno));
	return pidfd;
}

/* ---- finding --------------------------------------------------------------------------------- */

enum task_found task_find(const char *path, int *pidfd)
{
	char identity[PROCESS_IDENTITY_MAX];
	char now[PROCESS_IDENTITY_MAX];
	int64_t pid = 0;
	FREE_AUTO char *file = xasprintf("%s/shim", path);
	*pidfd = -1;
	if (fd_read_at(AT_FDCWD, file, identity, sizeof(identity)) < 0)
		return TASK_NOT_STARTED;
	(void)parse_i64(span_to(span_of(identity), strcspn(identity, " ")), 2, INT32_MAX, &pid);
	/* First, so that it is that of the process that is looked at. */
	*pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0); /* 0 is none */
	process_identity((pid_t)pid, now);
	if (*pidfd >= 0 && strcmp(now, identity) == 0)
		return TASK_ALIVE;
	fd_cleanup(pidfd);
	*pidfd = -1;
	return TASK_GONE;
}

/* ---- state ----------------------------------------------------------------------------------- */

static int64_t state_number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static struct framework_container state_container(const json_t *c, const char *name,
                                                  struct arena *a)
{
	int64_t code = state_number(c, "code");
	bool ended = json_is_true(json_object_get(c, "ended"));
	bool started = json_is_true(json_object_get(c, "started"));
	const char *reason = ended ? reply_text(c, "reason") : started ? "" : "PodInitializing";
	const char *message = ended ? reply_text(c, "message") : "";
	return (struct framework_container){ .name = name,
		                             .terminated = ended,
		                             .code = code >= 0 && code <= 255 ? (int)code : 255,
		                             .finished_s = state_number(c, "endedMs") / 1000,
		                             .reason = arena_dup(a, span_of(reason)),
		                             .message = arena_dup(a, span_of(message)) };
}

const struct task_state TASK_NEW = {
	.container = { { .name = "init", .reason = "PodInitializing", .message = "" },
	               { .name = "app", .reason = "PodInitializing", .message = "" } }
};

bool task_read_state(const char *path, struct arena *a, struct task_state *out)
{
	FREE_AUTO char *file = xasprintf("%s/state", path);
	STR_AUTO text = STR_INIT(STATE_MAX);
	*out = TASK_NEW;
	if (fd_read_str(AT_FDCWD, file, &text) < 0)
		return false;
	JSON_AUTO *root = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	const char *phase = reply_text(root, "phase");
	if (strcmp(phase, "run") == 0)
		out->phase = TASK_RUN;
	else if (strcmp(phase, "ended") == 0)
		out->phase = TASK_ENDED;
	else
		return false;
	out->stopped = json_is_true(json_object_get(root, "stopped"));
	const json_t *app = json_object_get(root, "app");
	out->started = out->phase == TASK_RUN || json_is_true(json_object_get(app, "started"));
	out->ran_ms = state_number(app, "endedMs") - state_number(app, "startedMs");
	out->container[0] = state_container(json_object_get(root, "init"), "init", a);
	out->container[1] = state_container(app, "app", a);
	return true;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void task_stop(int pidfd, int64_t grace_s)
{
	siginfo_t info = { .si_signo = SIGTERM, .si_code = SI_QUEUE };
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = (int)(grace_s < INT32_MAX ? grace_s : INT32_MAX);
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, grace_s < 0 ? NULL : &info, 0);
}

void task_kill(int pidfd)
{
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, NULL, 0);
}

static bool leftover_has_variable(pid_t pid, void *variable)
{
	return process_has_variable(pid, variable);
}

int task_kill_leftovers(const char *uid)
{
	FREE_AUTO char *variable = xasprintf("FC_POD_UID=%s", uid);
	int found = 1;
	int total = 0;
	/* Several rounds, because they could have started others meanwhile. */
	for (int i = 0; i < LEFTOVER_ROUNDS && found; i++)
		total += found = process_kill_all(leftover_has_variable, variable);
	return total;
}
