/* Directories of the engine: logs of ended tasks (DIR/logs/FRAMEWORK/ROLE-INDEX-ATTEMPT-RETRY),
 * pods that wait to be removed (DIR/trash). */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "base/posix/rmtree.h"
#include "machine/engine/engine_internal.h"

enum {
	RUNS_MAX = 100000,
	RUN_BYTES = 4096, /* of a directory */
	BUDGET = 2000,    /* entries that are removed before it is seen that the engine stops */
};

/* ---- trash ----------------------------------------------------------------------------------- */

void trash_take(struct engine *e, int dir, const char *name)
{
	char id[17];
	random_hex(id, 8);
	if (renameat(dir, name, e->trash_dir, id) == 0)
		(void)eventfd_write(e->trash, 1); /* cannot overflow */
	else if (errno != ENOENT)
		engine_notice(e, ENGINE_WARNING, "%s cannot be moved to %s/trash: %s", name,
		              e->set.dir, strerrordesc_np(errno));
}

bool trash_empty(const struct engine *e)
{
	DIR_AUTO *list = dir_list(e->trash_dir, ".");
	/* A failure (-1) is met again with the next removal. */
	for (const char *name = dir_next(list); name && !e->stop;) {
		if (tree_remove(e->trash_dir, name, BUDGET) != 1)
			name = dir_next(list);
	}
	return !e->stop;
}

void *trash_run(void *arg)
{
	const struct engine *e = arg;
	eventfd_t news;
	while (trash_empty(e))
		(void)eventfd_read(e->trash, &news); /* waits */
	return NULL;
}

/* ---- logs of ended tasks --------------------------------------------------------------------- */

/* That of init, then the parts of that of the app. */
static const char *const FILES[] = { "init.log", "log.1", "log" };

struct logs_run {
	char *path;
	int64_t ended_s, bytes;
};

/* Measures the files of a run. */
static struct logs_run logs_measure(char *path)
{
	struct logs_run r = { path, 0, RUN_BYTES };
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++) {
		FREE_AUTO char *file = xasprintf("%s/%s", path, FILES[i]);
		struct stat st;
		if (lstat(file, &st) < 0)
			continue;
		r.bytes += st.st_blocks * 512;
		r.ended_s = st.st_mtime > r.ended_s ? st.st_mtime : r.ended_s;
	}
	return r;
}

static int logs_older(const void *a, const void *b)
{
	const struct logs_run *x = a;
	const struct logs_run *y = b;
	return (x->ended_s > y->ended_s) - (x->ended_s < y->ended_s);
}

/* If there are too many bytes, removes the oldest until nine tenths are left. */
static void logs_bound(struct engine *e)
{
	struct logs_run *runs = NULL;
	size_t n = 0;
	DIR_AUTO *all = dir_list(e->logs_dir, ".");
	e->log_bytes = 0;
	for (const char *uid; (uid = dir_next(all)) != NULL;) {
		DIR_AUTO *names = dir_list(e->logs_dir, uid);
		for (const char *name; n < RUNS_MAX && (name = dir_next(names)) != NULL; n++) {
			if ((n & (n + 1)) == 0)
				runs = xrealloc(runs, (2 * n + 2) * sizeof(*runs));
			runs[n] = logs_measure(xasprintf("%s/logs/%s/%s", e->set.dir, uid, name));
			e->log_bytes += runs[n].bytes;
		}
	}
	int64_t most = e->set.keep_logs;
	if (e->log_bytes > most)
		most = most / 10 * 9;
	if (n > 0)
		qsort(runs, n, sizeof(*runs), logs_older);
	for (size_t i = 0; i < n; i++) {
		if (e->log_bytes > most) {
			trash_take(e, AT_FDCWD, runs[i].path);
			e->log_bytes -= runs[i].bytes;
		}
		free(runs[i].path);
	}
	free(runs);
}

/* Parts of a path: no slash, and not hidden. */
static bool logs_part_ok(struct span s)
{
	return s.n > 0 && s.n < 200 && s.p[0] != '.' && span_only_alnum_or(s, "-_.");
}

char *logs_path(const struct engine *e, const struct engine_task *t, struct arena *a)
{
	if (!logs_part_ok(t->framework_uid) || !logs_part_ok(t->role))
		return NULL;
	return arena_printf(a, "%s/logs/%.*s/%.*s-%lld-%lld-%lld", e->set.dir,
	                    (int)t->framework_uid.n, t->framework_uid.p, (int)t->role.n, t->role.p,
	                    (long long)t->index, (long long)t->attempt, (long long)t->retry);
}

void logs_keep(struct engine_pod *p)
{
	struct engine *e = p->e;
	ARENA_AUTO a = { 0 };
	const struct engine_task t = { span_of(p->job->uid), span_of(p->role), p->index,
		                       p->attempt,           p->retry,         false };
	char *path = p->job->gone ? NULL : logs_path(e, &t, &a);
	if (!path)
		return;
	(void)mkdirat(e->logs_dir, p->job->uid, 0700); /* may be there */
	(void)mkdir(path, 0700);                       /* likewise */
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++) /* as far as there are such */
		(void)rename(arena_printf(&a, "%s/%s", p->dir, FILES[i]),
		             arena_printf(&a, "%s/%s", path, FILES[i]));
	e->log_bytes += logs_measure(path).bytes;
	if (e->log_bytes > e->set.keep_logs)
		logs_bound(e);
}

void logs_remove_orphans(struct engine *e)
{
	DIR_AUTO *all = dir_list(e->logs_dir, ".");
	for (const char *uid; (uid = dir_next(all)) != NULL;) {
		(void)pthread_mutex_lock(&e->lock); /* cannot fail */
		const struct engine_job *job = engine_find(e, span_of(uid));
		bool known = job && job->name;
		(void)pthread_mutex_unlock(&e->lock);
		if (!known)
			trash_take(e, e->logs_dir, uid);
	}
	logs_bound(e);
}

/* ---- questions of other threads -------------------------------------------------------------- */

bool engine_log_find(struct engine *e, const struct engine_task *t, struct arena *a,
                     struct log_files *out)
{
	const char *kept = logs_path(e, t, a);
	const char *dir[] = { kept, kept };
	*out = (struct log_files){ .ended = true };
	if (!kept)
		return false;
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	const struct engine_job *job = engine_find(e, t->framework_uid);
	for (const struct engine_pod *p = job ? job->pods : NULL; p && out->ended; p = p->next) {
		out->ended = !span_is(t->role, p->role) || p->index != t->index ||
		             p->attempt != t->attempt || p->retry != t->retry;
		dir[0] = out->ended ? kept : arena_dup(a, span_of(p->dir));
	}
	(void)pthread_mutex_unlock(&e->lock);
	/* Each file moves from the first place to the second one. */
	for (size_t i = !t->init; i < (t->init ? 1 : ARRAY_SIZE(FILES)); i++)
		for (size_t k = 0; k < 2; k++) {
			const char *path = arena_printf(a, "%s/%s", dir[k], FILES[i]);
			if (access(path, F_OK) < 0)
				continue;
			out->path[out->n++] = path;
			break;
		}
	return out->n > 0;
}

/* ---- directories ----------------------------------------------------------------------------- */

int engine_make_directories(struct engine *e, struct err *err)
{
	const struct {
		const char *name;
		int *fd;
	} DIRS[] = { { "pods", &e->pods_dir },
		     { "logs", &e->logs_dir },
		     { "trash", &e->trash_dir } };
	for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++) {
		FREE_AUTO char *path = xasprintf("%s/%s", e->set.dir, DIRS[i].name);
		int fd = -1;
		int flags = 0;
		if (mkdir(path, 0700) == 0 || errno == EEXIST)
			fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return err_set(err, UNKNOWN_ERROR, "%s: %s", path, strerrordesc_np(errno));
		/* Subdirectories are spread over the disk (chattr +T), because ext4 without a
		 * journal looks at all inodes near by that were freed in the last minutes before it
		 * gives a new one.  Other file systems refuse, or need it not. */
		if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
			flags |= FS_TOPDIR_FL;
			(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
		}
		*DIRS[i].fd = fd;
	}
	return 0;
}
