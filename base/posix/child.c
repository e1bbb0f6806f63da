/* Starts programs by posix_spawn, and keeps the end of their output in memory files. */
#include "base/posix/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/fd.h"

enum { LOG_MAX = 4096 };

static int child_redirect(posix_spawn_file_actions_t *actions, int from, int to)
{
	if (from == STREAM_OURS)
		return 0;
	if (from == STREAM_NONE)
		return posix_spawn_file_actions_addopen(actions, to, "/dev/null", O_RDWR, 0);
	return posix_spawn_file_actions_adddup2(actions, from, to);
}

static int child_files(posix_spawn_file_actions_t *actions, const struct child_command *c)
{
	int rc = child_redirect(actions, c->in ?: STREAM_NONE, STDIN_FILENO);
	if (rc == 0)
		rc = child_redirect(actions, c->out, STDOUT_FILENO);
	if (rc == 0)
		rc = child_redirect(actions, c->err, STDERR_FILENO);
	if (rc == 0 && c->pass)
		rc = posix_spawn_file_actions_adddup2(actions, c->pass, 3);
	/* Duplicates to the same number: this removes FD_CLOEXEC. */
	for (size_t i = 0; rc == 0 && i < c->n_keep; i++)
		rc = posix_spawn_file_actions_adddup2(actions, c->keep[i], c->keep[i]);
#ifdef __GLIBC__ /* musl does not have it */
	if (rc == 0 && c->group == CHILD_APART)
		rc = posix_spawn_file_actions_addclosefrom_np(actions, c->pass ? 4 : 3);
#endif
	if (rc == 0 && c->dir)
		rc = posix_spawn_file_actions_addchdir_np(actions, c->dir);
	return rc;
}

static void child_signals(posix_spawnattr_t *attr, const struct child_command *c)
{
	sigset_t none;
	sigset_t all;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawnattr_setpgroup(attr, 0);
	(void)posix_spawnattr_setsigmask(attr, c->blocked ? c->blocked : &none);
	(void)posix_spawnattr_setsigdefault(attr, &all);
	(void)posix_spawnattr_setflags(
	    attr, (short)((c->group == CHILD_SESSION ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP) |
	                  POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
}

pid_t child_spawn(const struct child_command *c)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	pid_t pid = -1;
	char **argv;
	char **env = environ;
	memcpy(&argv, &c->argv, sizeof(argv)); /* posix_spawn only reads them, but lacks const */
	if (c->env)
		memcpy(&env, &c->env, sizeof(env));
	errno = posix_spawn_file_actions_init(&actions);
	if (errno == 0)
		errno = posix_spawnattr_init(&attr);
	if (errno)
		return -1;
	if (c->group != CHILD_HERE)
		child_signals(&attr, c);
	int rc = child_files(&actions, c);
	if (rc == 0)
		rc = posix_spawnp(&pid, argv[0], &actions, &attr, argv, env);
	(void)posix_spawnattr_destroy(&attr); /* cannot fail */
	(void)posix_spawn_file_actions_destroy(&actions);
	errno = rc;
	return rc ? -1 : pid;
}

int child_wait(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_call(const struct child_command *c)
{
	pid_t pid = child_spawn(c);
	return pid < 0 ? -1 : child_wait(pid);
}

const char *program_find(const char *name, struct arena *a)
{
	const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): not changed */
	if (!path)
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	struct span rest = span_of(path);
	while (rest.n) {
		struct span dir = span_next(&rest, ':');
		const char *file = arena_printf(a, "%.*s/%s", (int)dir.n, dir.p, name);
		/* A relative directory would mean another program in another directory. */
		if (*file == '/' && dir.n && access(file, X_OK) == 0)
			return file;
	}
	return NULL;
}

const char *program_install(const char *packages, struct arena *a)
{
	static const char *const TOOLS[] = { "apt-get", "dnf", "zypper" };
	for (size_t i = 0; i < ARRAY_SIZE(TOOLS); i++)
		if (program_find(TOOLS[i], a) != NULL)
			return arena_printf(a, "%s install -y %s (as root)", TOOLS[i], packages);
	return arena_printf(a, "install the packages %s", packages);
}

/* ---- with its output in memory --------------------------------------------------------------- */

int child_start(struct child *c, const struct child_command *command, struct err *e)
{
	struct child_command own = *command;
	*c = CHILD_NONE;
	c->log = own.out = memfd_create("output", MFD_CLOEXEC);
	own.err = command->err ?: c->log;
	own.group = CHILD_APART;
	c->pid = c->log >= 0 ? child_spawn(&own) : -1;
	if (c->pid > 0)
		c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd >= 0)
		return 0;
	int saved = errno;
	if (c->pid > 0) {
		(void)kill(c->pid, SIGKILL);
		(void)child_wait(c->pid);
	}
	fd_cleanup(&c->log);
	*c = CHILD_NONE;
	return err_set(
	    e, UNKNOWN_ERROR, "%s cannot be started: %s", own.argv[0],
	    strerror(saved)); /* NOLINT(concurrency-mt-unsafe): it is, in glibc and musl */
}

/* Sends SIGKILL to the process group of the child. */
static void child_kill(const struct child *c)
{
	if (c->pidfd >= 0)
		(void)kill(-c->pid, SIGKILL);
}

int child_end(struct child *c, size_t max, struct span *log, struct arena *a)
{
	int status = child_wait(c->pid);
	struct stat st;
	size_t size = fstat(c->log, &st) == 0 ? (size_t)st.st_size : 0;
	size_t from = size > max ? size - max : 0;
	char *text = arena_alloc(a, size - from);
	ssize_t n = pread(c->log, text, size - from, (off_t)from);
	*log = (struct span){ text, n > 0 ? (size_t)n : 0 };
	(void)close(c->log);
	(void)close(c->pidfd);
	*c = CHILD_NONE;
	return status < 0 ? 255 : status;
}

void child_stop(struct child *c)
{
	ARENA_AUTO a = { 0 };
	struct span log;
	child_kill(c);
	(void)child_end(c, 0, &log, &a);
}

int child_run(const struct child_command *command, int ms, struct span *log, struct arena *a,
              struct err *e)
{
	struct child c;
	if (child_start(&c, command, e) != 0)
		return -1;
	int64_t until = clock_ms() + ms;
	struct pollfd ended = { .fd = c.pidfd, .events = POLLIN };
	int rc = 0;
	for (int64_t left = ms; left > 0 && rc <= 0; left = until - clock_ms()) {
		rc = poll(&ended, 1, (int)left);
		if (rc < 0 && errno != EINTR)
			break;
	}
	child_kill(&c);
	int status = child_end(&c, LOG_MAX, log, a);
	if (rc > 0)
		return status;
	return err_set(e, UNKNOWN_ERROR, "%s has not ended within %d ms", command->argv[0], ms);
}
