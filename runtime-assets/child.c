#include "runtime-assets/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int redirect(posix_spawn_file_actions_t *actions, int from, int to)
{
	if (from == STREAM_OURS)
		return 0;
	if (from == STREAM_NONE)
		return posix_spawn_file_actions_addopen(actions, to, "/dev/null", O_RDWR, 0);
	return posix_spawn_file_actions_adddup2(actions, from, to);
}

pid_t child_start(const struct child *c)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	sigset_t all;
	pid_t pid = -1;
	char **argv;
	char *const *env = c->env ? c->env : environ;
	memcpy(&argv, &c->argv, sizeof(argv)); /* posix_spawn only reads it, but lacks const */
	errno = posix_spawn_file_actions_init(&actions);
	if (errno == 0)
		errno = posix_spawnattr_init(&attr);
	if (errno)
		return -1;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	int rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (rc == 0)
		rc = redirect(&actions, c->out, STDOUT_FILENO);
	if (rc == 0)
		rc = redirect(&actions, c->err, STDERR_FILENO);
	if (rc == 0 && c->apart) {
		(void)posix_spawnattr_setpgroup(&attr, 0);
		(void)posix_spawnattr_setsigmask(&attr, &none);
		(void)posix_spawnattr_setsigdefault(&attr, &all);
		(void)posix_spawnattr_setflags(
		    &attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	}
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

int child_run(const struct child *c)
{
	pid_t pid = child_start(c);
	return pid < 0 ? -1 : child_wait(pid);
}

bool child_exists(const char *name)
{
	const char *path = getenv("PATH");
	if (!path)
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	while (*path) {
		char file[PATH_MAX];
		size_t n = strcspn(path, ":");
		int written = snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, name);
		if (written > 0 && (size_t)written < sizeof(file) && access(file, X_OK) == 0)
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}
