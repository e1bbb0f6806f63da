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
	struct engine *e = arg;
	eventfd_t changes;
	while (trash_empty(e)) {
		results_measure_ended(e);
		(void)eventfd_read(e->trash, &changes); /* waits */
	}
	return NULL;
}

/* ---- whose files these are ------------------------------------------------------------------- */

enum { OWNER_MAX = 512 };

void owner_write(const struct engine_job *job, const char *dir)
{
	FREE_AUTO char *path = xasprintf("%s/job", dir);
	FREE_AUTO char *text = xasprintf("%s %s\n", job->uid, job->label ?: "");
	FD_AUTO fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0) /* else it is there; without it, the job is called `unknown` */
		(void)fd_write_all(fd, span_of(text));
}

const char *owner_read(const char *dir, struct arena *a, struct span *uid)
{
	char *text = arena_alloc(a, OWNER_MAX);
	FREE_AUTO char *path = xasprintf("%s/job", dir);
	(void)fd_read_at(AT_FDCWD, path, text, OWNER_MAX); /* it is empty then */
	struct span rest = span_of(text);
	struct span label = span_next(&rest, '\n');
	*uid = span_next(&label, ' ');
	return label.n > 0 ? arena_dup(a, label) : NULL;
}

/* ---- losses ---------------------------------------------------------------------------------- */

void engine_set_aside(struct engine *e, const char *path, const char *label, const char *what)
{
	const char *from = path + strlen(e->set.dir) + 1;
	FREE_AUTO char *to = aside_move(e->set.dir, from, span_of(label ?: ""));
	if (!to) {
		engine_notice(e, ENGINE_WARNING, "%s cannot be moved to %s/damaged: %m", from,
		              e->set.dir);
		return;
	}
	FREE_AUTO char *text = xasprintf("the database lacks %sthe job %s: its files are now in %s",
	                                 what, label ?: "unknown", to);
	const char *told = aside_note(e->set.dir, text);
	if (told)
		engine_notice(e, ENGINE_WARNING, "%s", told);
}

/* ---- logs of ended tasks --------------------------------------------------------------------- */

/* That of init, then the parts of that of the app. */
static const char *const FILES[] = { "init.log", "log.1", "log" };

/* Measures the files of a run. */
static struct kept_files logs_measure(const char *user, const char *path)
{
	struct kept_files r = { user, path, 0, RUN_BYTES, 0 };
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++) {
		FREE_AUTO char *file = xasprintf("%s/%s", path, FILES[i]);
		struct stat st;
		if (lstat(file, &st) < 0)
			continue;
		r.bytes += st.st_blocks * 512;
		int64_t ms = st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
		r.ended_ms = ms > r.ended_ms ? ms : r.ended_ms;
	}
	return r;
}

/* The highest rank first; before there are ranks, by user, the latest first. */
static int kept_compare(const void *a, const void *b)
{
	const struct kept_files *x = a;
	const struct kept_files *y = b;
	return (x->rank < y->rank) - (x->rank > y->rank)
	           ?: strcmp(x->user, y->user)
	           ?: (x->ended_ms < y->ended_ms) - (x->ended_ms > y->ended_ms);
}

/* Sorts by rank: the oldest one of the user who has most has the highest of all that are left.
 * Returns all bytes. */
static int64_t kept_rank(struct kept_files *v, size_t n)
{
	int64_t bytes = 0;
	qsort(v, n, sizeof(*v), kept_compare);
	for (size_t i = 0; i < n; i++) {
		bool same = i > 0 && strcmp(v[i].user, v[i - 1].user) == 0;
		v[i].rank = v[i].bytes + (same ? v[i - 1].rank : 0);
		bytes += v[i].bytes;
	}
	qsort(v, n, sizeof(*v), kept_compare);
	return bytes;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int64_t kept_bound(struct kept_files *v, size_t n, int64_t most, int64_t until,
                   void (*drop)(struct engine *, const struct kept_files *), struct engine *e)
{
	int64_t bytes = v ? kept_rank(v, n) : 0;
	if (bytes <= most)
		return bytes;
	for (size_t i = 0; i < n && bytes > until; i++) {
		drop(e, &v[i]);
		bytes -= v[i].bytes;
	}
	return bytes;
}

/* Removes a log, of which the mark `deleted` is kept. */
static void logs_delete(struct engine *e, const struct kept_files *r)
{
	FREE_AUTO char *mark =
	    xasprintf("%.*sdeleted", (int)(strrchr(r->path, '/') + 1 - r->path), r->path);
	FD_AUTO fd = open(mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	(void)fd; /* without it the log counts as lost */
	trash_take(e, AT_FDCWD, r->path);
}

/* Nine tenths are left if there are too many. */
static void logs_bound(struct engine *e)
{
	ARENA_AUTO a = { 0 };
	size_t n = 0;
	FREE_AUTO struct kept_files *run = NULL;
	DIR_AUTO *list = dir_list(e->logs_dir, ".");
	for (const char *uid; (uid = dir_next(list)) != NULL;) {
		(void)pthread_mutex_lock(&e->lock); /* cannot fail */
		const struct engine_job *job = engine_find(e, span_of(uid));
		struct span label = span_of(job && job->label ? job->label : "");
		const char *user = arena_dup(&a, span_next(&label, '~'));
		(void)pthread_mutex_unlock(&e->lock);
		DIR_AUTO *names = dir_list(e->logs_dir, uid);
		for (const char *name; n < RUNS_MAX && (name = dir_next(names)) != NULL;) {
			if (!strchr(name, '-')) /* `job` or `deleted` */
				continue;
			if ((n & (n + 1)) == 0)
				run = xrealloc(run, (2 * n + 2) * sizeof(*run));
			run[n++] = logs_measure(
			    user, arena_printf(&a, "%s/logs/%s/%s", e->set.dir, uid, name));
		}
	}
	int64_t most = e->set.keep_logs;
	e->log_bytes = kept_bound(run, n, most, most / 10 * 9, logs_delete, e);
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
	const char *from[ARRAY_SIZE(FILES)];
	const char *to[ARRAY_SIZE(FILES)];
	bool twice = false;
	const struct engine_task t = { span_of(p->job->uid), span_of(p->role), p->index,
		                       p->attempt,           p->retry,         false };
	char *path = p->job->life >= LIFE_GONE ? NULL : logs_path(e, &t, &a);
	if (!path)
		return;
	if (mkdirat(e->logs_dir, p->job->uid, 0700) == 0) /* else it is there */
		owner_write(p->job, arena_printf(&a, "%s/logs/%s", e->set.dir, p->job->uid));
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++) {
		from[i] = arena_printf(&a, "%s/%s", p->dir, FILES[i]);
		to[i] = arena_printf(&a, "%s/%s", path, FILES[i]);
		twice = twice || (access(from[i], F_OK) == 0 && access(to[i], F_OK) == 0);
	}
	if (twice) /* the log of an earlier end stays */
		engine_set_aside(e, path, p->job->label, "an end of a task of ");
	(void)mkdir(path, 0700);                       /* may be there */
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++) /* as far as there are such */
		(void)rename(from[i], to[i]);
	e->log_bytes += logs_measure("", path).bytes;
	if (e->log_bytes > e->set.keep_logs)
		logs_bound(e);
}

void logs_set_orphans_aside(struct engine *e)
{
	DIR_AUTO *all = dir_list(e->logs_dir, ".");
	for (const char *uid; (uid = dir_next(all)) != NULL;) {
		(void)pthread_mutex_lock(&e->lock); /* cannot fail */
		const struct engine_job *job = engine_find(e, span_of(uid));
		bool known = job && (job->name || job->life >= LIFE_GONE);
		(void)pthread_mutex_unlock(&e->lock);
		ARENA_AUTO a = { 0 };
		struct span of;
		const char *path = arena_printf(&a, "%s/logs/%s", e->set.dir, uid);
		if (!known)
			engine_set_aside(e, path, owner_read(path, &a, &of), "");
		else if (job->label)
			owner_write(job, path); /* after a kill, or without space */
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

const char *engine_log_absence(const struct engine *e, struct span framework_uid, struct span job,
                               struct arena *a)
{
	const char *mark = arena_printf(a, "%s/logs/%.*s/deleted", e->set.dir, (int)framework_uid.n,
	                                framework_uid.p);
	if (logs_part_ok(framework_uid) && access(mark, F_OK) == 0)
		return "the log of this task was deleted: the newest logs are kept, see "
		       "--keep-logs";
	return arena_printf(a,
	                    "the log of this task is lost: this server has not deleted it, and it "
	                    "is not there; files of this job that an administrator can look at, "
	                    "if there are such, are in the server's directory, in damaged/%.*s",
	                    (int)job.n, job.p);
}

/* ---- directories ----------------------------------------------------------------------------- */

int engine_make_directories(struct engine *e, struct err *err)
{
	const struct {
		const char *name;
		int *fd;
	} DIRS[] = { { "pods", &e->pods_dir },
		     { "logs", &e->logs_dir },
		     { "results", &e->results_dir },
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
