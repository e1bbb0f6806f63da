/*
 * Mends at a start what a kill or a disk has left.
 *
 *	a damaged database: what can be read is copied into a new one, the old one is set aside
 *	a row that is no object: its text is set aside, and its job has failed
 */
#include "machine/store/local_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/time.h"
#include "jobs/store/paths.h"

enum {
	KEY_TEXT = 255,
	COPY_BYTES = 1 << 30,
};

/* ---- files set aside ------------------------------------------------------------------------- */

/* 0, or -1 and errno. */
static int damage_write(const struct database *d, const char *name, struct span text)
{
	FREE_AUTO char *to = aside_name(d->path, NO_OWNER, name);
	if (to == NULL)
		return -1;
	FD_AUTO fd =
	    openat(d->root, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && fd_write_all(fd, text) == 0 && syncfs(fd) == 0 ? 0 : -1;
}

/* Copies a file; the copy, which the caller closes, or -1 and errno. */
static int damage_copy_file(const struct database *d, const char *name, const char *copy)
{
	FD_AUTO from = openat(d->root, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	FD_AUTO to = openat(d->root, copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n = from < 0 || to < 0 ? -1 : 1;
	while (n > 0)
		n = copy_file_range(from, NULL, to, NULL, COPY_BYTES, 0);
	return n < 0 || fsync(to) < 0 ? -1 : fcntl(to, F_DUPFD_CLOEXEC, 0);
}

/* ---- the log ----------------------------------------------------------------------- */

/* A page that ends a commit, and has the salt of the log, is behind the n pages that are read; or
 * none is read, as the salt is damaged.  See "The Write-Ahead Log" in SQLite's file format: pages
 * of earlier logs have another salt, which begins with a number that is one less in each.  A killed
 * server can leave the begin of a log, or of a commit. */
static bool log_is_cut(int fd, int n)
{
	uint32_t head[8];
	uint32_t page[6]; /* the head of a page in the log */
	const off_t step = (off_t)sizeof(page) + PAGE;
	off_t at = (off_t)sizeof(head) + n * step;
	if (pread(fd, head, sizeof(head), 0) != sizeof(head) ||
	    pread(fd, page, sizeof(page), at) != sizeof(page))
		return false;
	bool cut = n == 0 && memcmp(&page[2], &head[4], 8) != 0 &&
	           be32toh(page[2]) + 1 != be32toh(head[4]);
	for (; !cut && pread(fd, page, sizeof(page), at) == sizeof(page); at += step)
		cut = memcmp(&page[2], &head[4], 8) == 0 && page[1] != 0;
	return cut;
}

int damage_log(struct database *d, int n)
{
	FD_AUTO from = openat(d->root, DB_FILE "-wal", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 || !log_is_cut(from, n))
		return 0;
	FREE_AUTO char *to = aside_name(d->path, NO_OWNER, DB_FILE "-wal");
	FD_AUTO copy = to ? damage_copy_file(d, DB_FILE "-wal", to) : -1;
	str_printf(&d->damaged,
	           DB_FILE "-wal was damaged behind its first %d pages, so the last changes are "
	                   "lost; %s is a copy of it\n",
	           n, to ?: "");
	return copy < 0 ? SQLITE_CANTOPEN : 0;
}

/* ---- the database ------------------------------------------------------------------ */

/* Reads no status, because its table may be damaged, too. */
#define DAMAGED                                                                                    \
	"SELECT id, version, kind, namespace, name, uid, owner, body, NULL, NULL FROM object NOT " \
	"INDEXED "
#define NAMES                                                                                      \
	"SELECT id, 0, kind, namespace, name, '', NULL, '', NULL, NULL FROM object INDEXED BY "    \
	"object_name ORDER BY "

/* Stores what was found, if it is no object, as a row that cannot be read back.  Does nothing if
 * the row is there.  0 or SQLITE_... */
static int damage_take(struct database *d, struct object_row *r, bool good)
{
	char uid[UUID_TEXT];
	random_uuid(uid);
	r->id = 0;
	r->uid = good ? r->uid : span_of(uid);
	r->owner = good ? r->owner : SPAN("");
	int code = row_store(d, r);
	return (code & 0xff) == SQLITE_CONSTRAINT ? 0 : code;
}

/* Opens a copy of the damaged database, with the head of a new one, whose size of the file is not
 * valid, so that the file's counts; or else with all of its page 1, which has the same tables.  0,
 * although perhaps nothing of it can be read; SQLITE_CANTOPEN: errno. */
static int damage_connect(struct database *old)
{
	static const size_t PARTS[] = { DB_HEAD, PAGE };
	unsigned char first[PAGE] NOT_ZEROED;
	FD_AUTO new = openat(old->root, DB_NEW, O_RDONLY | O_CLOEXEC);
	FD_AUTO to = damage_copy_file(old, DB_FILE, DB_OLD);
	bool linked =
	    linkat(old->root, DB_FILE "-wal", old->root, DB_OLD "-wal", 0) == 0 || errno == ENOENT;
	if (to < 0 || !linked || pread(new, first, PAGE, 0) != PAGE)
		return SQLITE_CANTOPEN;
	first[92] ^= 1;
	for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++) {
		db_disconnect(old);
		if (pwrite(to, first, PARTS[i], 0) != (ssize_t)PARTS[i])
			return SQLITE_CANTOPEN;
		if (db_connect(old, DB_OLD) == 0 && db_bind(old, DAMAGED "WHERE id = ?1", ""))
			break;
	}
	return 0;
}

/* Copies the rows of a statement to the first that cannot be read; where it has only names, the
 * row that is found by its id.  0, or SQLITE_... of the new database. */
static int damage_copy(struct database *old, struct database *new, const char *sql)
{
	int code = 0;
	struct object_row r;
	STMT_AUTO *s = db_bind(old, sql, "");
	while (code == 0 && row_find(s, &r) == 0) {
		STMT_AUTO *whole = db_bind(old, ROW "WHERE o.id = ?1", "i", r.id);
		STMT_AUTO *half = db_bind(old, DAMAGED "WHERE id = ?1", "i", r.id);
		if (row_find(whole, &r) != 0 && r.uid.n == 0)
			(void)row_find(half, &r); /* else it is lost */
		/* A Framework whose status is not there must not begin anew. */
		if (!span_eq(r.stated, r.uid))
			r.status = SPAN("lost");
		struct object_row read = r;
		bool good = scan_valid(r.body, OBJECT_DEPTH) && row_read(&read);
		code = damage_take(new, good ? &read : &r, good);
	}
	return code;
}

/* Makes DB_NEW of what can be read: so many objects.  0 or SQLITE_... */
static int damage_copy_all(struct database *d, int64_t *objects)
{
	/* The table from both ends, as there may be damage between them; then the names that the
	 * index has. */
	static const char *const SOURCES[] = {
		DAMAGED "ORDER BY id",
		DAMAGED "ORDER BY id DESC",
		NAMES "kind, namespace, name",
		NAMES "kind DESC, namespace DESC, name DESC",
	};
	struct database old = { .root = d->root, .path = d->path };
	struct database new = old;
	int code = db_make(&new) ?: damage_connect(&old);
	int cause = errno;
	if (code == 0)
		db_begin(&new);
	for (size_t i = 0; i < ARRAY_SIZE(SOURCES) && code == 0; i++)
		code = damage_copy(&old, &new, SOURCES[i]);
	code = code ?: attempts_rescue(&old, &new);
	code = code ?: db_commit(&new);
	code = code ?: db_ask(&new, "SELECT count(*) FROM object", objects);
	code = code ?: db_empty_log(&new);
	db_disconnect(&old);
	db_disconnect(&new);
	errno = cause;
	return code;
}

/* The new file takes the name of the old one, which goes to damaged/ with its log.  0 or
 * SQLITE_CANTOPEN and errno. */
static int damage_swap(const struct database *d)
{
	FREE_AUTO char *to = aside_name(d->path, NO_OWNER, DB_FILE);
	FREE_AUTO char *log = aside_name(d->path, NO_OWNER, DB_FILE "-wal");
	if (!to || !log || linkat(d->root, DB_FILE, d->root, to, 0) != 0 ||
	    (aside_log_size(d) > 0 && renameat(d->root, DB_FILE "-wal", d->root, log) != 0) ||
	    renameat(d->root, DB_NEW, d->root, DB_FILE) != 0 || fsync(d->root) != 0)
		return SQLITE_CANTOPEN;
	return 0;
}

int damage_rescue(struct database *d, struct err *e)
{
	int64_t objects = 0;
	int code = damage_copy_all(d, &objects);
	if (code == 0 && objects == 0)
		code = aside_refuse(d, "nothing in store.db can be read", e);
	code = code ?: damage_swap(d);
	int cause = errno;
	db_remove_parts(d);
	errno = cause;
	if (code == 0)
		str_span(&d->damaged,
		         SPAN(DB_FILE " was damaged and is now in damaged/; what could be read of "
		                      "it was copied\n"));
	return code;
}

/* ---- rows -------------------------------------------------------------------------- */

/* The text of a member in what is left of an object; "" if it is none of a name. */
static struct span damage_text(struct span text, const char *key)
{
	FREE_AUTO char *begin = xasprintf("\"%s\":", key);
	size_t at = span_find(text, 0, begin);
	struct span value = span_from(text, at == SIZE_MAX ? text.n : at + strlen(begin));
	value = span_from(value, span_skip_class(value, 0, " "));
	bool quoted = span_starts(value, "\"");
	(void)span_next(&value, '"');
	value = span_next(&value, '"');
	return quoted && value.n <= KEY_TEXT && span_only_alnum_or(value, "-._~") ? value
	                                                                          : SPAN("");
}

/* A Framework with the names of the damaged one, and without its tasks: its uid is another one, so
 * that what depends on it is removed.  NULL: the names cannot be read; the caller frees it. */
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
	return xasprintf(
	    "{\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\",\"kind\":\"Framework\","
	    "\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\",\"creationTimestamp\":\"%s\","
	    "\"labels\":{\"userName\":\"%.*s\",\"virtualCluster\":\"%.*s\"},"
	    "\"annotations\":{\"jobName\":\"%.*s\"}},\"spec\":{\"executionType\":\"Start\","
	    "\"retryPolicy\":{\"fancyRetryPolicy\":false,\"maxRetryCount\":0},\"taskRoles\":[]}}",
	    name, uid, now, (int)user.n, user.p, (int)cluster.n, cluster.p, (int)job.n, job.p);
}

/* Makes the status of a failed job; the caller frees it. */
static char *damage_status(const char *now, const char *why)
{
	return xasprintf(
	    "{\"startTime\":\"%s\",\"completionTime\":\"%s\",\"state\":\"Completed\","
	    "\"transitionTime\":\"%s\",\"retryPolicyStatus\":{\"totalRetriedCount\":0,"
	    "\"accountableRetriedCount\":0},\"attemptStatus\":{\"id\":0,\"startTime\":\"%s\","
	    "\"completionTime\":\"%s\",\"completionStatus\":{\"code\":-8000,\"phrase\":"
	    "\"ObjectDamaged\",\"type\":{\"name\":\"Failed\",\"attributes\":[]},\"diagnostics\":"
	    "\"%s; the tasks of this job were ended\"},\"taskRoleStatuses\":[]}}",
	    now, now, now, now, now, why);
}

/* "f001-s": a name for files; "row-ID" if that of the row is none.  The caller frees it. */
static char *damage_key(const struct object_row *r)
{
	FREE_AUTO char *key = xasprintf("%.*s%s%.*s", (int)r->namespace_name.n, r->namespace_name.p,
	                                r->namespace_name.n ? "~" : "", (int)r->name.n, r->name.p);
	bool named = span_only_alnum_or(span_of(key), "-.~") && strlen(key) <= 240;
	return named ? TAKE(key) : xasprintf("row-%lld", (long long)r->id);
}

/* Writes what there is of a row to damaged/, and what it owns, which goes with it.  0, or -1 and
 * errno. */
static int damage_keep(struct database *d, struct span uid)
{
	struct object_row r;
	STMT_AUTO *s = db_bind(d, ROW "WHERE o.uid = ?1 OR o.owner = ?1", "t", uid);
	while (row_find(s, &r) == 0) {
		WIPED_STR text = STR_SECRET(TEXT_MAX);
		FREE_AUTO char *key = damage_key(&r);
		FREE_AUTO char *file = xasprintf("%s-%s.json", resource_of(r.kind)->plural, key);
		str_span(&text, r.body);
		str_span(&text, r.status);
		if (r.body.n > 0 && damage_write(d, file, str_view(&text)) != 0)
			return -1;
	}
	return 0;
}

/* Sets aside the text of a row, removes it, and ends its job: that in whose name its own begins, or
 * if that is the row, one that is made from the text.  0, -1 and *e, or SQLITE_... */
static int damage_end(struct database *d, const struct object_row *lost, struct err *e)
{
	char now[RFC3339_MAX];
	struct object_row r = { .namespace_name = SPAN(""), .status = SPAN("") };
	bool made = lost->kind == KIND_FRAMEWORK;
	const char *plural = resource_of(lost->kind)->plural;
	FREE_AUTO char *known = damage_key(lost);
	FREE_AUTO char *why =
	    xasprintf(lost->body.n ? "%s/%s.json was damaged (it is not a valid object) and is "
	                             "now in damaged/"
	                           : "%s/%s.json was damaged, and nothing of it can be read",
	              plural, known);
	if (damage_keep(d, lost->uid) != 0)
		return err_set(e, UNKNOWN_ERROR, "%s: a damaged object cannot be set aside: %s",
		               d->path, strerrordesc_np(errno));
	int code = db_run(d, "DELETE FROM object WHERE id = ?1", "i", lost->id);
	(void)rfc3339_put(now, clock_wall_ms(), 0);
	known[strcspn(known, "-")] = '\0'; /* the job's */
	STMT_AUTO *s =
	    db_bind(d, ROW_BY_NAME, "itt", (int64_t)KIND_FRAMEWORK, SPAN(""), span_of(known));
	FREE_AUTO char *framework = made ? damage_framework(lost->body, known, now) : NULL;
	FREE_AUTO char *status = damage_status(now, why);
	r.body = span_of(framework ?: "");
	if (made ? !row_read(&r) : row_find(s, &r) != 0 || !row_ok(&r)) {
		str_printf(&d->damaged, "%s; the name of its job cannot be read\n", why);
		return code;
	}
	struct span job = damage_text(r.body, "jobName");
	struct span user = damage_text(r.body, "userName");
	str_printf(&d->damaged, "%s; it is of job %.*s~%.*s, which has failed\n", why, (int)user.n,
	           user.p, (int)job.n, job.p);
	if (code || span_is(scan_get(r.status, "state"), "\"Completed\""))
		return code;
	r.version = ++d->version;
	r.status = span_of(status);
	return made ? row_store(d, &r) : row_state(d, &r);
}

int damage_rows(struct database *d, struct err *e)
{
	int code = db_ask(d,
	                  "SELECT max(version) FROM (SELECT version FROM object UNION ALL "
	                  "SELECT version FROM status) WHERE version < 1 << 53",
	                  &d->version);
	db_begin(d);
	STMT_AUTO *s = db_bind(d, ROW "ORDER BY o.id", "");
	struct object_row r;
	while (code == 0 && (code = row_find(s, &r)) == 0)
		code = row_ok(&r) ? 0 : damage_end(d, &r, e);
	return code == ROW_ABSENT ? db_commit(d) : code;
}

int damage_files(struct database *d)
{
	static const char *const DIRS[] = { "logs", "pods" };
	int64_t ran = 0;
	int code = 0;
	for (size_t i = 0; i < ARRAY_SIZE(DIRS) && code == 0; i++) {
		if (faccessat(d->root, DIRS[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		code =
		    db_ask(d, "SELECT count(*) FROM status WHERE instr(text, '\"podUID\"')", &ran);
		if (ran > 0)
			str_printf(&d->damaged, "%s/%s was not there: the files of jobs are lost\n",
			           d->path, DIRS[i]);
	}
	return code;
}
