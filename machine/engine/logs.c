/* Directories of the engine: logs of ended tasks (DIR/logs/FRAMEWORK/ROLE-INDEX-ATTEMPT-RETRY),
 * pods that wait to be removed (DIR/trash). */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/fd.h"
#include "base/json/scan.h"
#include "machine/engine/engine_internal.h"
#include "machine/task/tree.h"

enum { RUNS_MAX = 100000 };

/* ---- directories -------------------------------------------------------------------------- */

static int logs_dir_open(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Calls `visit` with the names in a directory. */
static void logs_each(int dir, void (*visit)(void *arg, int dir, const char *name), void *arg)
{
	DIR_AUTO *list = dir_list(dir, ".");
	for (const char *name; (name = dir_next(list)) != NULL;) {
		if (name[0] != '.')
			visit(arg, dir, name);
	}
}

/* ---- trash ----------------------------------------------------------------------------------- */

static void trash_take(struct engine *e, int dir, const char *name)
{
	char id[17];
	random_hex(id, 8);
	if (renameat(dir, name, e->trash_dir, id) == 0)
		e->trash = true;
	else if (errno != ENOENT)
		engine_notice(e, ENGINE_WARNING, "%s cannot be moved to %s/trash: %s", name,
		              e->set.dir, strerrordesc_np(errno));
}

void trash_pod(struct engine *e, const char *uid)
{
	trash_take(e, e->pods_dir, uid);
}

struct trash {
	size_t budget;
	bool more;
};

static void trash_one(void *arg, int dir, const char *name)
{
	struct trash *t = arg;
	if (t->more)
		return;
	int r = tree_remove(dir, name, t->budget);
	t->more = r == 1; /* -1: again with the next removal */
}

void trash_step(struct engine *e, size_t budget)
{
	struct trash t = { budget, false };
	if (!e->trash)
		return;
	logs_each(e->trash_dir, trash_one, &t);
	e->trash = t.more;
}

/* ---- logs of ended tasks --------------------------------------------------------------------- */

/* A run: name of its directory, below that of its Framework. */
struct logs_run {
	char *framework, *name;
	int64_t ended_s, bytes;
};

struct logs_runs {
	struct logs_run *v;
	size_t n;
	int64_t bytes;
	const char *framework;
};

static void logs_add_file(void *arg, int dir, const char *name)
{
	struct logs_run *r = arg;
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	r->bytes += st.st_blocks * 512;
	if (st.st_mtime > r->ended_s)
		r->ended_s = st.st_mtime;
}

static void logs_add_run(void *arg, int dir, const char *name)
{
	struct logs_runs *runs = arg;
	if (runs->n == RUNS_MAX)
		return;
	FD_AUTO fd = logs_dir_open(dir, name);
	struct logs_run r = { NULL, NULL, 0, 4096 };
	if (fd < 0)
		return;
	logs_each(fd, logs_add_file, &r);
	r.framework = xstrdup(runs->framework);
	r.name = xstrdup(name);
	if ((runs->n & (runs->n + 1)) == 0)
		runs->v = xrealloc(runs->v, (2 * runs->n + 2) * sizeof(*runs->v));
	runs->v[runs->n++] = r;
	runs->bytes += r.bytes;
}

static void logs_add_framework(void *arg, int dir, const char *name)
{
	struct logs_runs *runs = arg;
	FD_AUTO fd = logs_dir_open(dir, name);
	runs->framework = name;
	if (fd >= 0)
		logs_each(fd, logs_add_run, runs);
}

static int logs_older(const void *a, const void *b)
{
	const struct logs_run *x = a;
	const struct logs_run *y = b;
	return (x->ended_s > y->ended_s) - (x->ended_s < y->ended_s);
}

/* Removes the oldest until nine tenths are left. */
static void logs_bound(struct engine *e)
{
	struct logs_runs runs = { 0 };
	logs_each(e->logs_dir, logs_add_framework, &runs);
	bool more = runs.n > 0 && runs.bytes > e->set.keep_logs;
	if (more)
		qsort(runs.v, runs.n, sizeof(*runs.v), logs_older);
	for (size_t i = 0; i < runs.n; i++) {
		more = more && runs.bytes > e->set.keep_logs / 10 * 9;
		FD_AUTO fd = more ? logs_dir_open(e->logs_dir, runs.v[i].framework) : -1;
		if (fd >= 0) {
			trash_take(e, fd, runs.v[i].name);
			runs.bytes -= runs.v[i].bytes;
		}
		free(runs.v[i].framework);
		free(runs.v[i].name);
	}
	free(runs.v);
	e->log_bytes = runs.bytes;
}

static char *logs_name(struct arena *a, const struct engine_task *t)
{
	return arena_printf(a, "%.*s-%lld-%lld-%lld", (int)t->role.n, t->role.p,
	                    (long long)t->index, (long long)t->attempt, (long long)t->retry);
}

/* Parts of a path: no slash, and not hidden. */
static bool logs_part_ok(struct span s)
{
	return s.n > 0 && s.n < 200 && s.p[0] != '.' && span_only(s, "-_.");
}

const char *logs_path(const struct engine *e, const struct engine_task *t, struct arena *a)
{
	if (!logs_part_ok(t->framework_uid) || !logs_part_ok(t->role))
		return NULL;
	return arena_printf(a, "%s/logs/%.*s/%s", e->set.dir, (int)t->framework_uid.n,
	                    t->framework_uid.p, logs_name(a, t));
}

void logs_keep(struct engine_pod *p)
{
	static const char *const FILES[] = { "init.log", "log.1", "log" };
	struct engine *e = p->e;
	ARENA_AUTO a = { 0 };
	const struct engine_task t = { span_of(p->job->uid), span_of(p->role), p->index,
		                       p->attempt,           p->retry,         false };
	if (p->job->gone || !logs_part_ok(t.framework_uid) || !logs_part_ok(t.role))
		return;
	const char *name = logs_name(&a, &t);
	(void)mkdirat(e->logs_dir, p->job->uid, 0700); /* may be there */
	FD_AUTO framework = logs_dir_open(e->logs_dir, p->job->uid);
	if (framework >= 0)
		(void)mkdirat(framework, name, 0700); /* likewise */
	FD_AUTO to = framework >= 0 ? logs_dir_open(framework, name) : -1;
	FD_AUTO from = logs_dir_open(e->pods_dir, p->uid);
	if (to < 0 || from < 0)
		return;
	struct logs_run r = { NULL, NULL, 0, 4096 };
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++) {
		if (renameat(from, FILES[i], to, FILES[i]) == 0)
			logs_add_file(&r, to, FILES[i]);
	}
	e->log_bytes += r.bytes;
	if (e->log_bytes > e->set.keep_logs)
		logs_bound(e);
}

void logs_forget(struct engine *e, const char *framework_uid)
{
	trash_take(e, e->logs_dir, framework_uid);
}

static void logs_check_framework(void *arg, int dir, const char *name)
{
	struct engine *e = arg;
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	const struct engine_job *job = engine_find(e, span_of(name));
	(void)pthread_mutex_unlock(&e->lock);
	if (!job || !job->name)
		trash_take(e, dir, name);
}

void logs_forget_strangers(struct engine *e)
{
	logs_each(e->logs_dir, logs_check_framework, e);
	logs_bound(e);
}

static int logs_make(const struct engine *e, const char *name, int *out, struct err *err)
{
	FREE_AUTO char *path = xasprintf("%s/%s", e->set.dir, name);
	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		*out = logs_dir_open(AT_FDCWD, path);
	if (*out < 0)
		return err_set(err, UNKNOWN_ERROR, "%s: %s", path, strerrordesc_np(errno));
	/* What is below is spread over the disk (chattr +T), because ext4 without a journal looks
	 * at all inodes near by that were freed in the last minutes before it gives a new one.
	 * Other file systems refuse, or need it not. */
	int flags = 0;
	bool known = ioctl(*out, FS_IOC_GETFLAGS, &flags) == 0;
	flags |= FS_TOPDIR_FL;
	if (known)
		(void)ioctl(*out, FS_IOC_SETFLAGS, &flags);
	return 0;
}

int engine_make_directories(struct engine *e, struct err *err)
{
	e->trash = true;
	return logs_make(e, "pods", &e->pods_dir, err) < 0 ||
	               logs_make(e, "logs", &e->logs_dir, err) < 0 ||
	               logs_make(e, "trash", &e->trash_dir, err) < 0
	           ? -1
	           : 0;
}
