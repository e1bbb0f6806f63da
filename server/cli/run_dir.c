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
#include "base/rmtree.h"
#include "machine/task/task.h"
#include "server/cli/run_internal.h"

/* The directory of all runs of this user; NULL and *e. */
static char *dir_base(struct arena *a, struct err *e)
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
	(void)err_set(e, 400, NULL,
	              "there is no home directory for the files of the job: set XDG_STATE_HOME to "
	              "a directory of your own");
	return NULL;
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

/* The directory above is locked while a new one is made and locked, and while an old one is tried.
 */
int run_dir_open(struct run_dir *d, struct err *e)
{
	char *base = dir_base(&d->arena, e);
	if (!base)
		return -1;
	if (dir_make_all(base, 0700) < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", base);
	FD_AUTO lock = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *path = arena_printf(&d->arena, "%s/XXXXXX", base);
	if (lock < 0 || flock(lock, LOCK_EX) < 0 || !mkdtemp(path))
		return err_set(e, UNKNOWN_ERROR, "%s: %m", base);
	d->base = base;
	d->path = path;
	d->fd = dir_lock(path);
	if (d->fd < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	DIR_AUTO *all = dir_list(lock, ".");
	for (const char *name; (name = dir_next(all));) {
		FREE_AUTO char *old = xasprintf("%s/%s", base, name);
		(void)flock(lock, LOCK_EX);
		FD_AUTO fd = name[0] == '.' ? -1 : dir_lock(old);
		(void)flock(lock, LOCK_UN);
		if (fd >= 0 && !dir_has_shims(old))
			(void)tree_remove(AT_FDCWD, old, SIZE_MAX); /* else the next run does */
	}
	return 0;
}

void run_dir_close(struct run_dir *d)
{
	if (d->path)
		(void)tree_remove(AT_FDCWD, d->path, SIZE_MAX); /* as above */
	arena_done(&d->arena);
}
