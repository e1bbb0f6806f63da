#include "runtime-assets/plugins/plugins_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime-assets/files.h"
#include "runtime-assets/say.h"

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
	pid_t pid = -1;
	char **argv;
	char *const *env = c->env ? c->env : environ;
	memcpy(&argv, &c->argv, sizeof(argv)); /* posix_spawn only reads it, but lacks const */
	errno = posix_spawn_file_actions_init(&actions);
	if (errno)
		return -1;
	int rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (rc == 0)
		rc = redirect(&actions, c->out, STDOUT_FILENO);
	if (rc == 0)
		rc = redirect(&actions, c->err, STDERR_FILENO);
	if (rc == 0)
		rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, env);
	(void)posix_spawn_file_actions_destroy(&actions); /* cannot fail */
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

enum { PACKAGE_TRIES = 3, APT_WORDS = 4 };

int package_install(const struct package *p, struct err *e)
{
	static const char *const UPDATE[] = { "apt-get", "update", NULL };
	const char *argv[APT_WORDS + PACKAGE_NAMES_MAX + 1] = { "apt-get", "install", "-y",
		                                                "--no-install-recommends" };
	for (size_t i = 0; p->names[i]; i++)
		argv[APT_WORDS + i] = p->names[i];
	if (!child_exists("apt-get"))
		return err_set(e, FAILED,
		               "%s is not in the image, and there is no apt-get to install it",
		               p->what);
	if (setenv("DEBIAN_FRONTEND", "noninteractive", 1) != 0)
		return err_set(e, FAILED, "out of memory");
	for (int try = 1; try <= PACKAGE_TRIES; try++) {
		say(SAY_INFO, "%s: %s is not in the image; apt-get, try %d of %d", p->plugin,
		    p->what, try, PACKAGE_TRIES);
		struct child update = { UPDATE, NULL, STREAM_OURS, STREAM_OURS };
		struct child install = { argv, NULL, STREAM_OURS, STREAM_OURS };
		if (child_run(&update) == 0 && child_run(&install) == 0 && p->complete(p->of))
			return 0;
		if (try < PACKAGE_TRIES)
			clock_sleep(p->pause_ms * try);
	}
	return err_set(e, FAILED, "%s is not in the image, and apt-get cannot install it", p->what);
}
