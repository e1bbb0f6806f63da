/*
 * Recovery at a start; see local_internal.h.
 *
 *	a damaged database: what can be read is copied into a new one, the old one is set aside
 *	files of earlier versions: they are taken over
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
#include "base/posix/rmtree.h"
#include "base/time.h"
#include "k8s/transport/paths.h"

enum { ASIDE_MAX = 100, KEY_TEXT = 255, PAGE = 4096 };

#define NEW_FILE DB_FILE ".new"

/* ---- files set aside ------------------------------------------------------------------------- */

/* A name in damaged/ that is not used; NULL and errno.  The caller frees it.  Only this process
 * makes them, because it has the lock. */
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
	return fd >= 0 && fd_write_all(fd, text) == 0 && syncfs(fd) == 0 ? 0 : -1;
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

/* A page 1 of the schema that all databases have, if it cannot be read. */
static int damage_schema(const struct database *d)
{
	unsigned char page[PAGE] NOT_ZEROED;
	FD_AUTO from = openat(d->root, NEW_FILE, O_RDONLY | O_CLOEXEC);
	FD_AUTO to = openat(d->root, DB_FILE, O_RDWR | O_CLOEXEC);
	if (pread(from, page, PAGE, 0) != PAGE)
		return -1;
	page[92] ^= 1; /* the size that this page has is not valid; the file's counts */
	return pwrite(to, page, PAGE, 0) == PAGE ? 0 : -1;
}

/* Opens the damaged database; true if it can be read at all. */
static bool damage_connect(struct database *old)
{
	db_disconnect(old);
	return db_connect(old, DB_FILE) == 0 && db_bind(old, DAMAGED "WHERE id = ?1", "");
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

/* The new file takes the name of the old one; 0, or -1 and errno. */
static int damage_swap(const struct database *d)
{
	FREE_AUTO char *to = damage_name(d, DB_FILE);
	FREE_AUTO char *log = damage_name(d, DB_FILE "-wal");
	if (!to || !log || linkat(d->root, DB_FILE, d->root, to, 0) != 0 ||
	    (renameat(d->root, DB_FILE "-wal", d->root, log) != 0 && errno != ENOENT))
		return -1;
	return renameat(d->root, NEW_FILE, d->root, DB_FILE) == 0 ? fsync(d->root) : -1;
}

int damage_rescue(struct database *d)
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
	(void)unlinkat(d->root, NEW_FILE, 0); /* of a start that was interrupted */
	(void)unlinkat(d->root, NEW_FILE "-wal", 0);
	int code = db_load(&new, NEW_FILE);
	bool readable =
	    code == 0 && (damage_connect(&old) || (damage_schema(d) == 0 && damage_connect(&old)));
	if (code == 0)
		db_begin(&new);
	for (size_t i = 0; i < ARRAY_SIZE(SOURCES) && readable && code == 0; i++)
		code = damage_copy(&old, &new, SOURCES[i]);
	code = code ?: db_commit(&new);
	code = code ?: db_empty_log(&new);
	db_disconnect(&old);
	db_disconnect(&new);
	if (code || damage_swap(d) != 0)
		return code ?: SQLITE_CANTOPEN;
	str_span(&d->damaged,
	         SPAN(DB_FILE " was damaged and is now in damaged/; what could be read of it was "
	                      "copied\n"));
	return 0;
}

/*
 * ---- objects of earlier versions ----
 *
 * One file each: DIR/<resource>/<key>.json, where a key is NAME, or NAMESPACE~NAME outside of the
 * jobs' namespace.  They are taken over in one transaction, and are kept in DIR/imported-*,
 * without the Secrets, until the next start.  Jobs that were still being created, and
 * PriorityClasses, which nothing uses, are not taken over.
 */

static int import_file(struct database *d, int dir, enum object_kind kind, const char *file,
                       struct err *e)
{
	size_t n = strlen(file);
	if (n < strlen(".json") || strcmp(file + n - strlen(".json"), ".json") != 0)
		return 0;
	FREE_AUTO char *in = xstrndup(file, n - strlen(".json"));
	char *name = strchr(in, '~');
	if (name)
		*name++ = '\0';
	if (!segment_ok(in) || (name && !segment_ok(name)))
		return 0;
	WIPED_STR text = STR_SECRET(OBJECT_MAX);
	STMT_AUTO *s = NULL;
	if (fd_read_str(dir, file, &text) < 0 && errno != EFBIG)
		return err_set(e, UNKNOWN_ERROR, "%s/%s cannot be read: %s",
		               resource_of(kind)->plural, file, strerrordesc_np(errno));
	struct object_row key = { .kind = kind,
		                  .namespace_name = span_of(name ? in : ""),
		                  .name = span_of(name ?: in),
		                  .body = str_view(&text) };
	struct object_row r = key;
	bool good = scan_valid(key.body, OBJECT_DEPTH) && row_split(d, key.body, &r, &s) &&
	            span_eq(r.name, key.name);
	/* A Framework that was still being created is dropped with its dependents. */
	if (good && r.kind == KIND_FRAMEWORK &&
	    (scan_path(r.meta, "labels", "rest-lit/creating").n > 0 ||
	     span_is(scan_path(r.body, "spec", "executionType"), "\"Create\"")))
		return 0;
	return damage_take(d, good ? &r : &key, good);
}

int import_files(struct database *d, struct err *e)
{
	int code = 0;
	db_begin(d);
	for (enum object_kind k = 0; k < KIND_PRIORITYCLASS && code == 0; k++) {
		const char *from = resource_of(k)->plural;
		DIR_AUTO *list = dir_list(d->root, from);
		for (const char *file; list && code == 0 && (file = dir_next(list)) != NULL;)
			code = import_file(d, dirfd(list), k, file, e);
		if (code == 0 && errno != 0 && (list != NULL || errno != ENOENT))
			return err_set(e, UNKNOWN_ERROR, "%s/%s: %s", d->path, from,
			               strerrordesc_np(errno));
	}
	code = code ?: db_commit(d);
	for (enum object_kind k = 0; k < KIND_MADE && code == 0; k++) {
		const char *from = resource_of(k)->plural;
		FREE_AUTO char *to = xasprintf("imported-%s", from);
		/* Remaining files do no harm. */
		(void)tree_remove(d->root, to, SIZE_MAX); /* of an earlier start */
		if (renameat(d->root, from, d->root, to) != 0 && errno != ENOENT)
			code = err_set(e, UNKNOWN_ERROR, "%s/%s: %s", d->path, to,
			               strerrordesc_np(errno));
	}
	(void)tree_remove(d->root, "imported-secrets", SIZE_MAX);
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

/* Sets aside the text of a row, removes it, and ends its job: that in whose name its own begins, or
 * if that is the row, one that is made from the text.  0, -1 and *e, or SQLITE_... */
static int damage_end(struct database *d, const struct object_row *lost, struct err *e)
{
	WIPED_STR text = STR_SECRET(TEXT_MAX);
	char now[RFC3339_MAX];
	struct object_row r = { .namespace_name = SPAN(""), .status = SPAN("") };
	bool made = lost->kind == KIND_FRAMEWORK;
	const char *plural = resource_of(lost->kind)->plural;
	FREE_AUTO char *key =
	    xasprintf("%.*s%s%.*s", (int)lost->namespace_name.n, lost->namespace_name.p,
	              lost->namespace_name.n ? "~" : "", (int)lost->name.n, lost->name.p);
	bool named = span_only_alnum_or(span_of(key), "-.~") && strlen(key) <= 240;
	FREE_AUTO char *known = named ? xstrdup(key) : xasprintf("row-%lld", (long long)lost->id);
	FREE_AUTO char *file = xasprintf("%s-%s.json", plural, known);
	FREE_AUTO char *why = xasprintf("%s/%s.json was damaged (it is not a valid object) and is "
	                                "now in damaged/",
	                                plural, known);
	str_span(&text, lost->body);
	str_span(&text, lost->status);
	if (damage_write(d, file, str_view(&text)) != 0)
		return err_set(e, UNKNOWN_ERROR, "%s: a damaged object cannot be set aside: %s",
		               d->path, strerrordesc_np(errno));
	int code = db_run(d, "DELETE FROM object WHERE id = ?1", "i", lost->id);
	(void)rfc3339_put(now, clock_wall_ms(), 0);
	known[strcspn(known, "-")] = '\0'; /* the job's */
	STMT_AUTO *s =
	    db_bind(d, ROW_BY_NAME, "itt", (int64_t)KIND_FRAMEWORK, SPAN(""), span_of(known));
	FREE_AUTO char *framework = made ? damage_framework(str_view(&text), known, now) : NULL;
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
