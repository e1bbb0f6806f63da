/*
 * The directory of a `run`: $XDG_STATE_HOME/rest-lit/run/XXXXXX.  local_open locks it, so a
 * directory without lock is left over from a run that was killed; it is removed by the next run, as
 * soon as the shims of its tasks have ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rmtree.h"
#include "machine/task/task.h"
#include "server/cli/run_internal.h"

enum { REMOVE_BUDGET = 10000, PATH_LIMIT = 4096 };

static int dir_failed(const char *path, struct err *e)
{
	char why[128];
	return err_set(e, UNKNOWN_ERROR, "%s: %s", path, strerror_r(errno, why, sizeof(why)));
}

/* The directory of all runs of this user; NULL and *e. */
static char *dir_base(struct err *e)
{
	const char *state = getenv("XDG_STATE_HOME"); /* NOLINT(concurrency-mt-unsafe): at start */
	const char *home = getenv("HOME");            /* NOLINT(concurrency-mt-unsafe): the same */
	struct passwd entry;
	struct passwd *found = NULL;
	char text[PATH_LIMIT];
	if (state && state[0] == '/')
		return xasprintf("%s/rest-lit/run", state);
	if ((!home || home[0] != '/') &&
	    getpwuid_r(getuid(), &entry, text, sizeof(text), &found) == 0 && found)
		home = found->pw_dir;
	if (home && home[0] == '/')
		return xasprintf("%s/.local/state/rest-lit/run", home);
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
static bool dir_has_shims(int fd, const char *path)
{
	DIR_AUTO *pods = dir_list(fd, "pods");
	bool alive = false;
	for (const char *uid; !alive && (uid = dir_next(pods));) {
		FD_AUTO pidfd = -1;
		FREE_AUTO char *task = xasprintf("%s/pods/%s", path, uid);
		alive = uid[0] != '.' && task_find(task, &pidfd) == TASK_ALIVE;
	}
	return alive;
}

/* Removes the directory if it is left over. */
static void dir_clean(const char *base, const char *path)
{
	/* Until a new directory is locked, the one above is. */
	int lock = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FD_AUTO fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool left = lock >= 0 && flock(lock, LOCK_EX) == 0 && fd >= 0 &&
	            flock(fd, LOCK_EX | LOCK_NB) == 0 && !dir_has_shims(fd, path);
	fd_cleanup(&lock);
	if (left)
		dir_remove(path);
}

int run_dir_open(struct run_dir *d, struct err *e)
{
	*d = (struct run_dir){ .lock = -1, .base = dir_base(e) };
	if (!d->base || dir_make(d->base, e) < 0)
		return -1;
	d->lock = open(d->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->lock < 0 || flock(d->lock, LOCK_EX) < 0)
		return dir_failed(d->base, e);
	d->path = xasprintf("%s/XXXXXX", d->base);
	if (mkdtemp(d->path))
		return 0;
	free(TAKE(d->path));
	return dir_failed(d->base, e);
}

void run_dir_opened(struct run_dir *d)
{
	FREE_AUTO char *followed = xasprintf("%s/.", d->base); /* it may be a link */
	DIR_AUTO *all = dir_list(AT_FDCWD, followed);
	fd_cleanup(&d->lock); /* releases it */
	d->lock = -1;
	for (const char *name; (name = dir_next(all));) {
		FREE_AUTO char *path = xasprintf("%s/%s", d->base, name);
		if (name[0] != '.' && strcmp(path, d->path) != 0)
			dir_clean(d->base, path);
	}
}

void run_dir_close(struct run_dir *d)
{
	fd_cleanup(&d->lock);
	if (d->path)
		dir_remove(d->path);
	free(d->path);
	free(d->base);
}
