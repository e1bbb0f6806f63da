/*
 * The directory of a `run`: $XDG_STATE_HOME/rest-lit/run/XXXXXX, locked, with its socket and, in
 * jobs/, that of its server.  One without lock is left over from a run that was killed; the next
 * run removes it, as soon as the shims of its tasks have ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "machine/task/task.h"
#include "machine/task/tree.h"
#include "server/cli/run_internal.h"

enum { REMOVE_BUDGET = 10000 };

static int dir_failed(const char *path, struct err *e)
{
	return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
}

/* The directory of all runs of this user; NULL and *e. */
static const char *dir_base(struct arena *a, struct err *e)
{
	const char *state = getenv("XDG_STATE_HOME"); /* NOLINT(concurrency-mt-unsafe): at start */
	const char *home = getenv("HOME");            /* NOLINT(concurrency-mt-unsafe): the same */
	if (state && state[0] == '/')
		return arena_printf(a, "%s/rest-lit/run", state);
	if (!home || home[0] != '/') {
		const struct passwd *entry = getpwuid(getuid()); /* NOLINT: the same */
		home = entry ? entry->pw_dir : NULL;
	}
	if (home && home[0] == '/')
		return arena_printf(a, "%s/.local/state/rest-lit/run", home);
	(void)err_set(
	    e, 400, NULL,
	    "there is no home directory for the files of the job: set XDG_STATE_HOME to a "
	    "directory of your own");
	return NULL;
}

/* mkdir -p, 0700. */
static int dir_make(const char *path, struct err *e)
{
	FREE_AUTO char *part = xstrdup(path);
	for (char *p = part + 1;; p++) {
		char end = *p;
		if (end != '/' && end != '\0')
			continue;
		*p = '\0';
		if (mkdir(part, 0700) < 0 && errno != EEXIST)
			return dir_failed(part, e);
		if (end == '\0')
			return 0;
		*p = end;
	}
}

static void dir_remove(const char *path)
{
	while (tree_remove(AT_FDCWD, path, REMOVE_BUDGET) == 1)
		;
}

/* A task of a killed run may still be in its grace period. */
static bool dir_has_shims(const char *path)
{
	FREE_AUTO char *pods = xasprintf("%s/jobs/pods", path);
	DIR_AUTO *list = dir_list(AT_FDCWD, pods);
	bool alive = false;
	for (const char *uid; !alive && (uid = dir_next(list));) {
		FD_AUTO pidfd = -1;
		FREE_AUTO char *task = xasprintf("%s/%s", pods, uid);
		alive = uid[0] != '.' && task_find(task, &pidfd) == TASK_ALIVE;
	}
	return alive;
}

/* The descriptor of a directory, locked; -1: it is another run's. */
static int dir_lock(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

/* The directory above is locked from before a new one is made until that is locked, too. */
int run_dir_open(struct run_dir *d, struct err *e)
{
	const char *base = dir_base(&d->arena, e);
	if (!base || dir_make(base, e) < 0)
		return -1;
	FD_AUTO lock = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *path = arena_printf(&d->arena, "%s/XXXXXX", base);
	if (lock < 0 || flock(lock, LOCK_EX) < 0 || !mkdtemp(path))
		return dir_failed(base, e);
	d->base = base;
	d->path = path;
	d->fd = dir_lock(path);
	if (d->fd < 0)
		return dir_failed(path, e);
	DIR_AUTO *all = dir_list(lock, ".");
	for (const char *name; (name = dir_next(all));) {
		FREE_AUTO char *old = xasprintf("%s/%s", base, name);
		FD_AUTO fd = name[0] == '.' ? -1 : dir_lock(old);
		if (fd >= 0 && !dir_has_shims(old))
			dir_remove(old);
	}
	return 0;
}

void run_dir_close(struct run_dir *d)
{
	if (d->path)
		dir_remove(d->path);
	fd_cleanup(&d->fd);
	arena_done(&d->arena);
}
