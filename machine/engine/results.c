/* Results of jobs, DIR/results/UID: made when the first task starts, measured when the job has
 * ended, and removed with the job, or because there are too many (--keep-results).  UID.size has
 * the bytes of an ended job; without UID it tells that its results were removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pod/results.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "machine/engine/engine_internal.h"

enum {
	ENTRIES_MAX = 200000, /* that are measured of a job */
	DEPTH_MAX = 64,
	RESULT_JOBS_MAX = 1 << 20,
	SIZE_TEXT = 32
};

static const char LOST[] = "unknown-";

struct results_ended {
	struct results_ended *next;
	char uid[UID_TEXT];
};

const char *results_path(const struct engine *e, const char *uid, struct arena *a)
{
	return e->set.results ?: arena_printf(a, "%s/results/%s", e->set.dir, uid);
}

bool results_wanted(const struct pod *spec)
{
	for (size_t i = 0; i < spec->n_volumes; i++)
		if (spec->volume[i].storage && strcmp(spec->volume[i].storage, RESULTS_CLAIM) == 0)
			return true;
	return false;
}

int results_make(const struct engine_pod *p, struct err *err)
{
	ARENA_AUTO a = { 0 };
	const char *path = results_path(p->e, p->job->uid, &a);
	if (!results_wanted(p->spec) || mkdir(path, 0700) == 0 || errno == EEXIST)
		return 0;
	return err_set(err, UNAVAILABLE, "the directory of the results, %s: %m", path);
}

static const char *results_size_name(const char *uid, struct arena *a)
{
	return arena_printf(a, "%s.size", uid);
}

void results_remove(struct engine *e, const char *uid)
{
	ARENA_AUTO a = { 0 };
	trash_take(e, e->results_dir, uid);
	(void)unlinkat(e->results_dir, results_size_name(uid, &a), 0); /* there may be none */
}

enum results_state engine_results(const struct engine *e, struct span framework_uid,
                                  struct arena *a, const char **dir)
{
	const char *uid = arena_dup(a, framework_uid);
	*dir = results_path(e, uid, a);
	if (framework_uid.n == 0 || !span_only_alnum_or(framework_uid, "-"))
		return RESULTS_NONE;
	if (access(*dir, F_OK) == 0)
		return RESULTS_KEPT;
	bool deleted = faccessat(e->results_dir, results_size_name(uid, a), F_OK, 0) == 0;
	return deleted ? RESULTS_DELETED : RESULTS_NONE;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The bytes on the disk below a directory, as far as ENTRIES_MAX and DEPTH_MAX reach. */
static int64_t results_measure(const struct engine *e, const char *uid)
{
	DIR *at[DEPTH_MAX];
	int64_t bytes = 0;
	size_t depth = (at[0] = dir_list(e->results_dir, uid)) != NULL;
	for (size_t n = 0; depth > 0 && n < ENTRIES_MAX && !e->stop; n++) {
		DIR *dir = at[depth - 1];
		const char *name = dir_next(dir);
		struct stat st;
		if (!name) {
			dir_cleanup(&at[--depth]);
			continue;
		}
		if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		bytes += st.st_blocks * 512;
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			depth += (at[depth] = dir_list(dirfd(dir), name)) != NULL;
	}
	while (depth > 0)
		dir_cleanup(&at[--depth]);
	return bytes;
}

/* The size of the results of an ended job, which is measured once; *ended_s: when it was.  -1: it
 * has none. */
static int64_t results_size(const struct engine *e, const char *uid, int64_t *ended_s)
{
	ARENA_AUTO a = { 0 };
	char text[SIZE_TEXT];
	struct stat st;
	int64_t bytes;
	const char *file = results_size_name(uid, &a);
	if (fstatat(e->results_dir, uid, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return -1;
	*ended_s = st.st_mtime;
	ssize_t n = fd_read_at(e->results_dir, file, text, sizeof(text));
	if (n > 0 && parse_i64((struct span){ text, (size_t)n - 1 }, 0, INT64_MAX, &bytes) == 0) {
		if (fstatat(e->results_dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0)
			*ended_s = st.st_mtime;
		return bytes;
	}
	bytes = results_measure(e, uid);
	(void)snprintf(text, sizeof(text), "%lld\n", (long long)bytes);
	FD_AUTO fd = e->stop ? -1
	                     : openat(e->results_dir, file,
	                              O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)fd_write_all(fd, span_of(text)); /* else it is measured again */
	return bytes;
}

/* ---- the bound ------------------------------------------------------------------------------- */

static void results_drop(struct engine *e, const struct kept_files *r)
{
	trash_take(e, e->results_dir, r->path);
	engine_notice(e, ENGINE_NOTE,
	              "the results of job %s (Framework %s, %lld MiB) are deleted: --keep-results",
	              r->user, r->path, (long long)(r->bytes >> 20));
}

/* The oldest ended job of the user who has most loses its results, until there is room. */
static void results_bound(struct engine *e)
{
	ARENA_AUTO a = { 0 };
	size_t n = 0;
	FREE_AUTO struct kept_files *v = NULL;
	DIR_AUTO *all = dir_list(e->results_dir, ".");
	for (const char *uid; n < RESULT_JOBS_MAX && (uid = dir_next(all)) != NULL;) {
		(void)pthread_mutex_lock(&e->lock); /* cannot fail */
		const struct engine_job *job = engine_find(e, span_of(uid));
		bool ended = job && job->name && job->label && !job->queued;
		struct span label = span_of(ended ? job->label : "");
		const char *user = arena_dup(&a, span_next(&label, '~'));
		(void)pthread_mutex_unlock(&e->lock);
		struct kept_files r = { .user = user };
		r.bytes = ended ? results_size(e, uid, &r.ended_s) : -1;
		if (r.bytes < 0)
			continue;
		if ((n & (n + 1)) == 0)
			v = xrealloc(v, (2 * n + 2) * sizeof(*v));
		r.path = arena_dup(&a, span_of(uid));
		v[n++] = r;
	}
	int64_t most = e->set.keep_results;
	if (!e->stop)
		e->result_bytes = kept_bound(v, n, most, most, results_drop, e);
}

void results_end(const struct engine_job *job)
{
	struct engine *e = job->e;
	if (faccessat(e->results_dir, job->uid, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	struct results_ended *ended = xcalloc(1, sizeof(*ended));
	(void)snprintf(ended->uid, sizeof(ended->uid), "%s", job->uid);
	ended->next = e->results_ended;
	e->results_ended = ended;
	(void)eventfd_write(e->trash, 1); /* cannot overflow */
}

void results_measure_ended(struct engine *e)
{
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	struct results_ended *ended = TAKE(e->results_ended);
	(void)pthread_mutex_unlock(&e->lock);
	for (struct results_ended *next; ended; ended = next) {
		int64_t at;
		int64_t bytes = e->stop ? -1 : results_size(e, ended->uid, &at);
		e->result_bytes += bytes > 0 ? bytes : 0;
		next = ended->next;
		free(ended);
	}
	if (e->result_bytes > e->set.keep_results && !e->stop)
		results_bound(e);
}

/* ---- jobs that the store does not have ------------------------------------------------------- */

void results_set_orphans_aside(struct engine *e)
{
	DIR_AUTO *all = dir_list(e->results_dir, ".");
	for (const char *name; (name = dir_next(all)) != NULL;) {
		ARENA_AUTO a = { 0 };
		struct span of;
		bool lost = span_starts(span_of(name), LOST);
		const char *uid = arena_dup(&a, span_of(lost ? name + strlen(LOST) : name));
		(void)pthread_mutex_lock(&e->lock); /* cannot fail */
		const struct engine_job *job = engine_find(e, span_of(uid));
		bool known = job && (job->name || job->life >= LIFE_GONE);
		(void)pthread_mutex_unlock(&e->lock);
		if (strchr(uid, '.') || known == !lost)
			continue;
		const char *from = arena_dup(&a, span_of(name));
		const char *to = known ? uid : arena_printf(&a, "%s%s", LOST, uid);
		bool moved =
		    renameat2(e->results_dir, from, e->results_dir, to, RENAME_NOREPLACE) == 0;
		const char *logs = arena_printf(&a, "%s/logs/%s", e->set.dir, uid);
		const char *label = known ? job->label : owner_read(logs, &a, &of);
		const char *sentence =
		    arena_printf(&a, "the database %s the job %s: its results are %s results/%s%s",
		                 known ? "has again" : "lacks", label ?: "unknown",
		                 moved ? "now in" : "still in", moved ? to : from,
		                 moved ? "" : ", because the name that they should have is used");
		(void)aside_note(e->set.dir, sentence); /* each one is in the server's log */
		engine_notice(e, ENGINE_WARNING, "%s", sentence);
	}
}
