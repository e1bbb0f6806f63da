/*
 * Damage that a start finds; see local_internal.h.
 *
 *	of the database: what can be read is copied into a new one, the old one is set aside
 *	of a row: its text is set aside, and its job has failed
 */
#include "machine/store/local_internal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/fd.h"
#include "base/json/scan.h"
#include "base/time.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"

enum { ASIDE_MAX = 100, KEY_TEXT = 255, DAMAGED_CODE = -8000, PAGE = 4096 };

#define NEW_FILE DB_FILE ".new"

static void damage_note(struct database *d, const char *sentence)
{
	(void)json_array_append_new(d->damaged, json_string(sentence)); /* memory only */
}

/* ---- files ------------------------------------------------------------------------- */

/* A name in damaged/ that is not used; NULL and errno.  The caller frees it.  Nobody else makes
 * one: this process has the lock. */
static char *damage_name(const struct database *d, const char *name)
{
	if (mkdirat(d->root, "damaged", 0700) != 0 && errno != EEXIST)
		return NULL;
	for (int i = 0; i < ASIDE_MAX; i++) {
		char *to = i ? xasprintf("damaged/%s.%d", name, i) : xasprintf("damaged/%s", name);
		if (faccessat(d->root, to, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
			return to;
		free(to);
	}
	errno = EEXIST;
	return NULL;
}

/* 0, or -1 and errno. */
static int damage_write(const struct database *d, const char *name, struct span text)
{
	FREE_AUTO char *to = damage_name(d, name);
	if (to == NULL)
		return -1;
	FD_AUTO fd =
	    openat(d->root, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && fd_write_all(fd, text) == 0 && fsync(fd) == 0 ? 0 : -1;
}

/* ---- the database ------------------------------------------------------------------ */

struct rescue {
	struct database old, new;
	size_t copied, lost;
	int code; /* why the new one cannot be written; 0 */
};

/* A page 1 of the schema that all databases have, if it cannot be read. */
static int damage_schema(const struct database *d)
{
	unsigned char page[PAGE] NOT_ZEROED;
	struct stat st;
	FD_AUTO from = openat(d->root, NEW_FILE, O_RDONLY | O_CLOEXEC);
	FD_AUTO to = openat(d->root, DB_FILE, O_RDWR | O_CLOEXEC);
	if (from < 0 || to < 0 || fstat(to, &st) != 0 || pread(from, page, PAGE, 0) != PAGE)
		return -1;
	uint32_t pages = htobe32((uint32_t)(st.st_size / PAGE));
	memcpy(page + 28, &pages, 4);
	memset(page + 32, 0, 8); /* no free pages: nothing is written into it */
	return pwrite(to, page, PAGE, 0) == PAGE ? 0 : -1;
}

/* Whether the old one can be read at all. */
static bool damage_connect(struct rescue *x, const char *path)
{
	return db_connect(path, DB_FILE, &x->old.db) == 0 &&
	       db_bind(&x->old, DAMAGE_ROW, "i", (int64_t)0) &&
	       db_bind(&x->old, DAMAGE_STATUS, "i", (int64_t)0);
}

/* Unless that was done; then its names are there. */
static bool damage_insert(struct rescue *x, struct row *r)
{
	int code = row_insert(&x->new, r);
	if (code && (code & 0xff) != SQLITE_CONSTRAINT)
		x->code = code;
	return code == 0;
}

/* Copies a row.  A Framework whose status is not there must not begin anew. */
static void damage_copy(struct rescue *x, struct row r)
{
	sqlite3_stmt *s = db_bind(&x->old, DAMAGE_STATUS, "i", r.id);
	int code = sqlite3_step(s);
	if (code == SQLITE_ROW) {
		int64_t version = sqlite3_column_int64(s, 0);
		r.version = version > r.version ? version : r.version;
		r.status = span_eq(db_text(s, 2), r.uid) ? db_text(s, 1) : SPAN("lost");
	} else if (code != SQLITE_DONE || r.kind == KIND_FRAMEWORK) {
		r.status = SPAN("lost");
	}
	x->copied += damage_insert(x, &r);
	(void)sqlite3_reset(s);
}

/* The rows that the index of names has: copies those that can be found by their ids, or, when the
 * others have been searched for, adds those that are lost, by their names. */
static void damage_index(struct rescue *x, bool last)
{
	char uid[UUID_TEXT];
	struct row r;
	sqlite3_stmt *s = db_bind(&x->old, DAMAGE_NAMES, "");
	while (s && sqlite3_step(s) == SQLITE_ROW) {
		struct row names = row_of(s);
		sqlite3_stmt *one = db_bind(&x->old, DAMAGE_ROW, "i", names.id);
		bool found = row_find(one, &r) == 0;
		if (found && !last) {
			/* Two places of three are right. */
			if (span_eq(row_member(&r, "name"), names.name))
				r.name = names.name;
			damage_copy(x, r);
		} else if (!found && last) { /* unless it was there, with another id */
			random_uuid(uid);
			names.uid = span_of(uid);
			x->lost += damage_insert(x, &names);
		}
		(void)sqlite3_reset(one);
	}
	(void)sqlite3_reset(s);
}

/* The rows that the table has, to the first that cannot be read: the index may be damaged. */
static void damage_table(struct rescue *x)
{
	sqlite3_stmt *s = db_bind(&x->old, DAMAGE_ROWS, "");
	while (s && sqlite3_step(s) == SQLITE_ROW)
		damage_copy(x, row_of(s));
	(void)sqlite3_reset(s);
}

/* Makes the new file; 0 or SQLITE_... */
static int damage_begin(struct rescue *x, const struct database *d)
{
	(void)unlinkat(d->root, NEW_FILE, 0); /* of a start that was interrupted */
	(void)unlinkat(d->root, NEW_FILE "-wal", 0);
	FD_AUTO fd = openat(d->root, NEW_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return SQLITE_CANTOPEN;
	int code = db_connect(d->path, NEW_FILE, &x->new.db);
	code = code ? code : db_make(x->new.db);
	return code ? code : db_empty_log(&x->new);
}

/* The new file takes the name of the old one; 0, or -1 and errno. */
static int damage_swap(const struct database *d)
{
	FREE_AUTO char *to = damage_name(d, DB_FILE);
	FREE_AUTO char *log = damage_name(d, DB_FILE "-wal");
	if (!to || !log || linkat(d->root, DB_FILE, d->root, to, 0) != 0)
		return -1;
	if (renameat(d->root, DB_FILE "-wal", d->root, log) != 0 && errno != ENOENT)
		return -1;
	return renameat(d->root, NEW_FILE, d->root, DB_FILE) == 0 ? fsync(d->root) : -1;
}

int damage_rescue(struct database *d, struct err *e)
{
	struct rescue x = { DATABASE_CLOSED, DATABASE_CLOSED, 0, 0, 0 };
	int code = damage_begin(&x, d);
	bool readable = code == 0 && damage_connect(&x, d->path);
	if (code == 0 && !readable) {
		db_disconnect(&x.old);
		readable = damage_schema(d) == 0 && damage_connect(&x, d->path);
	}
	code = code ? code : db_begin(&x.new);
	if (code == 0 && readable) {
		damage_index(&x, false);
		damage_table(&x);
		damage_index(&x, true);
		code = x.code;
	}
	code = code ? code : db_commit(&x.new);
	code = code ? code : db_empty_log(&x.new);
	db_disconnect(&x.old);
	db_disconnect(&x.new);
	if (code)
		return err_set(e, UNKNOWN_ERROR, "%s/%s is damaged, and cannot be copied: %s",
		               d->path, DB_FILE, sqlite3_errstr(code));
	if (damage_swap(d) != 0)
		return err_set(e, UNKNOWN_ERROR, "%s/%s is damaged, and cannot be set aside: %s",
		               d->path, DB_FILE, strerrordesc_np(errno));
	FREE_AUTO char *sentence =
	    xasprintf("%s was damaged and is now in damaged/; %zu objects could be read from it, "
	              "%zu could not",
	              DB_FILE, x.copied, x.lost);
	damage_note(d, sentence);
	return 0;
}

/* ---- rows -------------------------------------------------------------------------- */

/* The text of a member in what is left of an object; "" if it is none of a name. */
static struct span damage_text(struct span text, const char *key)
{
	FREE_AUTO char *begin = xasprintf("\"%s\":", key);
	size_t at = span_find(text, 0, begin);
	if (at == SIZE_MAX)
		return SPAN("");
	struct span value = span_from(text, at + strlen(begin));
	value = span_from(value, span_past(value, 0, " "));
	if (!span_starts(value, "\""))
		return SPAN("");
	value = span_from(value, 1);
	value = span_to(value, span_chr(value, '"'));
	return value.n <= KEY_TEXT && span_only(value, "-._~") ? value : SPAN("");
}

/* A Framework with the names of the damaged one, and without its tasks: its uid is another one, so
 * that what depends on it is removed.  NULL if the names cannot be read; the caller frees it. */
static char *damage_framework(struct span text, const char *name, const char *now)
{
	char uid[UUID_TEXT];
	struct span job = damage_text(text, "jobName");
	struct span user = damage_text(text, "userName");
	struct span cluster = damage_text(text, "virtualCluster");
	random_uuid(uid);
	cluster = cluster.n ? cluster : SPAN("default");
	if (job.n == 0 || user.n == 0)
		return NULL;
	JSON_AUTO *framework = json_pack(
	    "{s:s+, s:s, s:{s:s, s:s, s:s, s:{s:s%, s:s%}, s:{s:s%}}, s:{s:s, s:{s:b, s:i}, s:[]}}",
	    "apiVersion", resource_of(KIND_FRAMEWORK)->group, "/v1", "kind", "Framework",
	    "metadata", "name", name, "uid", uid, "creationTimestamp", now, "labels", "userName",
	    user.p, user.n, "virtualCluster", cluster.p, cluster.n, "annotations", "jobName", job.p,
	    job.n, "spec", "executionType", "Start", "retryPolicy", "fancyRetryPolicy", 0,
	    "maxRetryCount", 0, "taskRoles");
	return json_dumps(framework, JSON_COMPACT);
}

/* The job has failed, whatever its state was; the caller frees it. */
static char *damage_status(const char *now, const char *why)
{
	FREE_AUTO char *ended = xasprintf("%s; the tasks of this job were ended", why);
	JSON_AUTO *status = json_pack(
	    "{s:s, s:s, s:s, s:s, s:{s:i, s:i}, s:{s:i, s:s, s:s, s:{s:i, s:s, s:{s:s, s:[]}, "
	    "s:s}, s:[]}}",
	    "startTime", now, "completionTime", now, "state", "Completed", "transitionTime", now,
	    "retryPolicyStatus", "totalRetriedCount", 0, "accountableRetriedCount", 0,
	    "attemptStatus", "id", 0, "startTime", now, "completionTime", now, "completionStatus",
	    "code", DAMAGED_CODE, "phrase", "ObjectDamaged", "type", "name", "Failed", "attributes",
	    "diagnostics", ended, "taskRoleStatuses");
	return json_dumps(status, JSON_COMPACT);
}

/* Adds the sentence about what was damaged, with the job of this metadata, if any. */
static void damage_tell(struct database *d, const char *why, struct span meta)
{
	ARENA_AUTO a = { 0 };
	const char *name = arena_dup(&a, scan_text(scan_path(meta, "annotations", "jobName"), &a));
	const char *user = arena_dup(&a, scan_text(scan_path(meta, "labels", "userName"), &a));
	FREE_AUTO char *sentence =
	    meta.n > 0 ? xasprintf("%s; it is of job %s~%s, which has failed", why, user, name)
		       : xasprintf("%s; the name of its job cannot be read", why);
	damage_note(d, sentence);
}

/* Replaces a Framework by one that has failed; 0 or SQLITE_... */
static int damage_lost(struct database *d, const char *name, struct span text, const char *why)
{
	static const char *const NONE[] = { NULL };
	char now[RFC3339_MAX];
	PARTS_AUTO p = { 0 };
	(void)rfc3339_put(now, clock_wall_ms(), 0);
	FREE_AUTO char *framework = damage_framework(text, name, now);
	FREE_AUTO char *status = damage_status(now, why);
	int code = 0;
	if (framework && parts_read(&p, span_of(framework), NONE) == 0 && parts_end(&p)) {
		p.row.namespace_name = SPAN("");
		p.row.version = ++d->version;
		p.row.status = span_of(status);
		code = row_insert(d, &p.row);
	}
	damage_tell(d, why, p.row.meta);
	return code;
}

/* The same to the one of which an object was damaged, unless it has ended. */
static int damage_job(struct database *d, const char *name, const char *why)
{
	char now[RFC3339_MAX];
	struct row r;
	sqlite3_stmt *s = db_bind(d, ROW_BY_NAME, "iss", (int64_t)KIND_FRAMEWORK, "", name);
	int code = row_find(s, &r);
	if (code || !row_ok(&r)) {
		(void)sqlite3_reset(s);
		damage_tell(d, why, SPAN(""));
		return code == ROW_ABSENT ? 0 : code;
	}
	bool ended = span_is(scan_get(r.status, "state"), "\"Completed\"");
	(void)rfc3339_put(now, clock_wall_ms(), 0);
	FREE_AUTO char *uid = xstrndup(r.uid.p, r.uid.n);
	FREE_AUTO char *status = damage_status(now, why);
	damage_tell(d, why, r.meta);
	(void)sqlite3_reset(s);
	r.uid = span_of(uid);
	r.version = ++d->version;
	r.status = span_of(status);
	return ended ? 0 : row_state(d, &r);
}

/* The job of a damaged object is the one in whose name it begins. */
static int damage_end(struct database *d, int64_t id, struct err *e)
{
	struct row r;
	WIPED_STR text = STR_SECRET(TEXT_MAX);
	sqlite3_stmt *s = db_bind(d, ROW_BY_ID, "i", id);
	int code = row_find(s, &r);
	if (code) /* it was removed with its job */
		return code == ROW_ABSENT
		           ? 0
		           : err_set(e, UNKNOWN_ERROR, "%s: %s", DB_FILE, sqlite3_errstr(code));
	str_span(&text, r.meta);
	str_span(&text, r.rest);
	str_span(&text, r.status);
	FREE_AUTO char *key = xasprintf("%.*s%s%.*s", (int)r.namespace_name.n, r.namespace_name.p,
	                                r.namespace_name.n ? "~" : "", (int)r.name.n, r.name.p);
	bool named = span_only(span_of(key), "-.~") && strlen(key) <= 240;
	FREE_AUTO char *known = named ? xstrdup(key) : xasprintf("row-%lld", (long long)id);
	FREE_AUTO char *job = xstrndup(known, strcspn(known, "-"));
	const char *plural = resource_of(r.kind)->plural;
	(void)sqlite3_reset(s);
	FREE_AUTO char *file = xasprintf("%s-%s.json", plural, known);
	if (damage_write(d, file, str_view(&text)) != 0)
		return err_set(e, UNKNOWN_ERROR, "%s: a damaged object cannot be set aside: %s",
		               d->path, strerrordesc_np(errno));
	FREE_AUTO char *why = xasprintf("%s/%s.json was damaged (it is not a valid object) and is "
	                                "now in damaged/",
	                                plural, known);
	code = db_run(d, DB_DELETE, "i", id);
	if (code == 0)
		code = r.kind == KIND_FRAMEWORK ? damage_lost(d, job, str_view(&text), why)
		                                : damage_job(d, job, why);
	return code ? err_set(e, UNKNOWN_ERROR, "%s: %s", DB_FILE, sqlite3_errstr(code)) : 0;
}

int damage_rows(struct database *d, struct err *e)
{
	int64_t *damaged = NULL;
	size_t n = 0;
	sqlite3_stmt *s = db_bind(d, ROW_ALL, "");
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	for (; code == SQLITE_ROW; code = sqlite3_step(s)) {
		struct row r = row_of(s);
		if (row_ok(&r)) {
			d->version = r.version > d->version ? r.version : d->version;
			continue;
		}
		if (n % 64 == 0)
			damaged = xrealloc(damaged, (n + 64) * sizeof(*damaged));
		damaged[n++] = r.id;
	}
	(void)sqlite3_reset(s);
	code = code == SQLITE_DONE ? 0 : code;
	code = code || n == 0 ? code : db_begin(d);
	int bad = code ? err_set(e, UNKNOWN_ERROR, "%s: %s", DB_FILE, sqlite3_errstr(code)) : 0;
	for (size_t i = 0; i < n && bad == 0; i++)
		bad = damage_end(d, damaged[i], e);
	free(damaged);
	code = bad ? 0 : db_commit(d);
	return code ? err_set(e, UNKNOWN_ERROR, "%s: %s", DB_FILE, sqlite3_errstr(code)) : bad;
}
