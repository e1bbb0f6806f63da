#include "machine/task/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

/* In the child: only functions that are safe after fork() in a program with threads. */
static _Noreturn void child_exec(const struct child *c, const struct child_command *command,
                                 pid_t parent)
{
	sigset_t none;
	(void)sigemptyset(&none);
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL); /* NOLINT(concurrency-mt-unsafe): one thread */
	(void)pthread_sigmask(SIG_SETMASK, &none, NULL);
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (command->pass == 3)
		(void)fcntl(3, F_SETFD, 0);
	else if (command->pass > 3)
		(void)dup2(command->pass, 3);
	if (getppid() == parent && null >= 0 && dup2(null, 0) == 0 && dup2(c->log, 1) == 1 &&
	    dup2(c->log, 2) == 2 &&
	    close_range(command->pass == 0 ? 3 : 4, ~0U, CLOSE_RANGE_CLOEXEC) == 0 &&
	    (command->dir == NULL || chdir(command->dir) == 0)) {
		/* execve changes neither the texts nor the lists. */
		char *const *argv;
		char *const *env;
		memcpy(&argv, &command->argv, sizeof(argv));
		memcpy(&env, &command->env, sizeof(env));
		(void)execve(argv[0], argv, env);
	}
	_exit(127);
}

int child_start(struct child *c, const struct child_command *command, struct err *e)
{
	*c = CHILD_NONE;
	c->log = memfd_create("output", MFD_CLOEXEC);
	pid_t parent = getpid();
	pid_t pid = c->log >= 0 ? fork() : -1;
	if (pid == 0)
		child_exec(c, command, parent);
	int saved = errno;
	c->pid = pid;
	if (pid > 0) {
		(void)setpgid(pid, pid);
		c->pidfd = pidfd_open(pid, 0);
		saved = errno;
	}
	if (c->pidfd >= 0)
		return 0;
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	fd_cleanup(&c->log);
	*c = CHILD_NONE;
	return err_set(e, UNKNOWN_ERROR, "%s cannot be started: %s", command->argv[0],
	               strerrordesc_np(saved));
}

void child_kill(const struct child *c)
{
	if (c->pidfd < 0)
		return;
	(void)kill(-c->pid, SIGKILL);
	(void)kill(c->pid, SIGKILL);
}

int child_end(struct child *c, size_t max, struct span *log, struct arena *a)
{
	int status = 0;
	pid_t pid;
	do
		pid = waitpid(c->pid, &status, 0);
	while (pid < 0 && errno == EINTR);
	struct stat st;
	size_t size = fstat(c->log, &st) == 0 ? (size_t)st.st_size : 0;
	size_t from = size > max ? size - max : 0;
	char *text = arena_alloc(a, size - from);
	ssize_t n = pread(c->log, text, size - from, (off_t)from);
	*log = (struct span){ text, n > 0 ? (size_t)n : 0 };
	(void)close(c->log);
	(void)close(c->pidfd);
	*c = CHILD_NONE;
	if (pid < 0)
		return 255;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
	int status = child_end(&c, 4096, log, a);
	if (rc > 0)
		return status;
	return err_set(e, UNKNOWN_ERROR, "%s has not ended within %d ms", command->argv[0], ms);
}
