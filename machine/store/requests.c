/* Requests, answered as an API server answers them; see local_internal.h. */
#include "machine/store/local_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/store/paths.h"
#include "jobs/store/reply.h"

/* A request under way, and its answer. */
struct request_work {
	struct database *d;
	const char *namespace_name; /* of its objects */
	struct span key;            /* the same, as the database has it */
	const struct store_request *r;
	const struct local_state *state; /* r stores it; or NULL */
	bool failed;                     /* with its commit */
	struct local_answer *out;
	int (*verb)(struct request_work *w); /* if it writes */
};

enum {
	BODY_MAX = 3145728, /* the API server's own limit */
	LIST_MAX = 64 << 20,
	READY_BYTES = 1 << 20, /* of free space: with less, jobs cannot be created for long */
};

static const char NO_OBJECT[] = "the body is not valid JSON of the expected type";

/* ---- answers -------------------------------------------------------------------------- */

void local_answer_done(struct local_answer *a)
{
	str_wipe(&a->body);
	str_wipe(&a->told);
	free(a->message);
	*a = (struct local_answer){ 0 };
}

/* The steps of a request return 0, or the HTTP status with which they have refused it. */
static int requests_refuse(struct request_work *w, int status, const char *what)
{
	struct local_answer *out = w->out;
	STR_AUTO action = STR_INIT(1024);
	explain_action(&action, w->r);
	local_answer_done(out);
	out->status = status;
	out->outcome = status == 404 ? STORE_NOT_FOUND
	               : status == 409
	                   ? (w->r->verb == STORE_CREATE ? STORE_EXISTS : STORE_CONFLICT)
	               : status == 503 ? STORE_BUSY
	               : status == 504 ? STORE_AMBIGUOUS
	                               : STORE_REFUSED;
	out->message =
	    xasprintf("%s \"%s\": %s", str_c(&action), w->r->name ? w->r->name : "", what);
	return status;
}

/* Answers with the error for a code of SQLite, or for ROW_ABSENT; 0 for 0. */
static int requests_fail(struct request_work *w, int code)
{
	int cause = (code & 0xff) == SQLITE_IOERR ? sqlite3_system_errno(w->d->db) : 0;
	bool full = (code & 0xff) == SQLITE_FULL || cause == ENOSPC || cause == EDQUOT;
	if (code == 0)
		return 0;
	if (w->d->unsure) /* also what is absent may be there after a restart */
		return requests_refuse(
		    w, w->failed ? 504 : 503,
		    "the disk has failed to store the database: until this server is started "
		    "again, nothing is stored, and what was being stored is not known");
	if (code == ROW_ABSENT)
		return requests_refuse(w, 404, "not found");
	if (full || (code & 0xff) == SQLITE_READONLY || cause == EROFS)
		return requests_refuse(w, 507, strerrordesc_np(full ? ENOSPC : EROFS));
	return requests_refuse(w, 500, sqlite3_errstr(code));
}

/* Answers with an object, or with its metadata; if it has changed, the follower is told after the
 * commit.  0. */
static int answer_object(struct request_work *w, const struct object_row *r, bool changed)
{
	struct local_answer *out = w->out;
	out->version = r->version;
	(void)snprintf(out->uid, sizeof(out->uid), "%.*s", (int)r->uid.n, r->uid.p);
	row_text(&out->body, r, w->r->whole);
	out->told = (struct str)STR_INIT(TEXT_MAX);
	if (changed && r->kind == KIND_FRAMEWORK)
		row_text(&out->told, r, true);
	return 0;
}

/* ---- create ------------------------------------------------------------------------ */

/* Stores the body of a request, with what an API server adds to metadata, as a row that borrows
 * from *text. */
static int create_one(struct request_work *w, struct str *text, struct object_row *r)
{
	char uid[UUID_TEXT];
	char when[RFC3339_MAX];
	const struct span *piece = w->r->body;
	/* The metadata begin in the first piece. */
	struct span meta = scan_inside(piece[0], "metadata");
	size_t at = meta.n > 0 ? (size_t)(meta.p - piece[0].p) + 1 : 0;
	bool namespaced = resource_of(w->r->kind)->namespaced;
	random_uuid(uid);
	*text = STR_SECRET(OBJECT_MAX);
	(void)str_reserve(text, piece[0].n + piece[1].n + piece[2].n + 512);
	str_span(text, span_to(piece[0], at));
	str_printf(text, "\"uid\":\"%s\",\"creationTimestamp\":\"%s\",", uid,
	           rfc3339_put(when, clock_wall_ms(), 0));
	if (namespaced && scan_get(meta, "namespace").n == 0)
		str_printf(text, "\"namespace\":\"%s\",", w->namespace_name);
	str_span(text, span_from(piece[0], at));
	str_span(text, piece[1]);
	str_span(text, piece[2]);
	*r = (struct object_row){ .body = str_view(text),
		                  .namespace_name = span_of(w->namespace_name) };
	if (text->full || !scan_valid(r->body, OBJECT_DEPTH) || !row_read(r) ||
	    r->kind != w->r->kind)
		return requests_refuse(w, 400, NO_OBJECT);
	if (namespaced && !span_is(r->namespace_name, w->namespace_name))
		return requests_refuse(w, 400, "metadata.namespace is another namespace");
	if (!span_is(r->name, w->r->name) || !segment_ok(w->r->name))
		return requests_refuse(w, 422, "invalid metadata.name");
	r->namespace_name = w->key;
	r->version = ++w->d->version;
	int code = row_store(w->d, r);
	if (code == SQLITE_CONSTRAINT_UNIQUE)
		return requests_refuse(w, 409, "already exists");
	/* An object without its owner is not kept. */
	return code == SQLITE_CONSTRAINT_FOREIGNKEY ? 0 : requests_fail(w, code);
}

static int request_create(struct request_work *w)
{
	WIPED_STR text = { 0 };
	struct object_row row;
	int fault = create_one(w, &text, &row);
	if (fault)
		return fault;
	(void)answer_object(w, &row, true);
	for (size_t i = 0; i < w->r->n_with && !fault; i++) {
		const struct object *o = &w->r->with[i];
		WIPED_STR part_text = { 0 };
		struct store_request r = *w->r;
		struct request_work part = { w->d, w->namespace_name, w->key, &r,
			                     NULL, w->failed,         w->out, NULL };
		r.kind = o->kind;
		r.name = o->name;
		size_t at = o->uid_at ?: o->body.n;
		r.body[0] = span_to(o->body, at);
		r.body[1] = span_of(o->uid_at ? w->out->uid : "");
		r.body[2] = span_from(o->body, at);
		fault = create_one(&part, &part_text, &row);
	}
	return fault;
}

/* ---- get, patch, delete ------------------------------------------------------------ */

/* The object of a request; borrowed from *s. */
static int requests_find(struct request_work *w, sqlite3_stmt **s, struct object_row *r)
{
	*s = db_bind(w->d, ROW_BY_NAME, "itt", (int64_t)w->r->kind, w->key, span_of(w->r->name));
	return requests_fail(w, row_find(*s, r));
}

static int request_get(struct request_work *w)
{
	struct object_row r;
	STMT_AUTO *s = NULL;
	return requests_find(w, &s, &r) ?: answer_object(w, &r, false);
}

/* The text becomes what a statement makes of it, a patch (RFC 7396), or a path and the value and
 * name of an operation (RFC 6902). */
static int patch_ask(struct request_work *w, const char *sql, struct str *text,
                     const struct span by[3])
{
	STMT_AUTO *s = db_bind(w->d, sql, "tttt", str_view(text), by[0], by[1], by[2]);
	if (!s || sqlite3_step(s) != SQLITE_ROW)
		return requests_refuse(w, 400, "the patch is malformed");
	if (sqlite3_column_type(s, 0) == SQLITE_NULL)
		return requests_refuse(w, 422, "a test of the patch fails");
	text->n = 0;
	str_span(text, db_text(s, 0));
	return 0;
}

/* Applies `test` and `replace` of RFC 6902, with keys without `~`. */
static int patch_operations(struct request_work *w, struct span patch, struct str *text)
{
	static const char OPERATION[] =
	    "SELECT CASE ?4 WHEN 'test' THEN iif(?1 -> ?2 = json(?3), ?1, NULL) WHEN 'replace' "
	    "THEN iif(?1 -> ?2 IS NULL, NULL, json_replace(?1, ?2, json(?3))) END";
	int fault = 0;
	STMT_AUTO *all = db_bind(w->d,
	                         "SELECT value ->> 'path', value -> 'value', value ->> 'op' "
	                         "FROM json_each(?1)",
	                         "t", patch);
	while (!fault && all && sqlite3_step(all) == SQLITE_ROW) {
		STR_AUTO path = STR_INIT(1024);
		struct span pointer = db_text(all, 0);
		str_char(&path, '$');
		(void)span_next(&pointer, '/'); /* it begins with one */
		while (pointer.n > 0) {
			struct span key = span_next(&pointer, '/');
			str_printf(&path, span_digits(key) ? "[%.*s]" : ".\"%.*s\"", (int)key.n,
			           key.p);
		}
		const struct span by[] = { str_view(&path), db_text(all, 1), db_text(all, 2) };
		fault = patch_ask(w, OPERATION, text, by);
	}
	return fault;
}

static int request_patch(struct request_work *w)
{
	const struct span patch = w->r->body[0];
	WIPED_STR text = STR_SECRET(TEXT_MAX);
	struct object_row r;
	STMT_AUTO *s = NULL;
	STMT_AUTO *split = NULL;
	if (!scan_valid(patch, OBJECT_DEPTH) ||
	    scan_type(patch) != (w->r->json_patch ? SCAN_ARRAY : SCAN_OBJECT))
		return requests_refuse(w, 400, NO_OBJECT);
	int fault = requests_find(w, &s, &r);
	if (fault)
		return fault;
	row_text(&text, &r, true);
	fault = w->r->json_patch ? patch_operations(w, patch, &text)
	                         : patch_ask(w, "SELECT json_patch(?1, ?2)", &text, w->r->body);
	if (fault)
		return fault;
	struct object_row new = r;
	if (!row_split(w->d, str_view(&text), &new, &split) || new.kind != r.kind ||
	    new.body.n + new.status.n > OBJECT_MAX)
		return requests_refuse(w, 422, "the object cannot be stored");
	if (!span_eq(new.uid, r.uid))
		return requests_refuse(w, 422, "metadata.uid: field is immutable");
	if (new.version != r.version)
		return requests_refuse(w, 409, "the object has been modified");
	if (!span_eq(new.name, r.name) ||
	    !span_eq(scan_get(new.meta, "namespace"), scan_path(r.body, "metadata", "namespace")))
		return requests_refuse(w, 400, "name and namespace cannot be changed");
	bool changed = !span_eq(new.body, r.body) || !span_eq(new.status, r.status);
	new.version = changed ? ++w->d->version : r.version;
	(void)answer_object(w, &new, changed);
	return changed ? requests_fail(w, row_store(w->d, &new)) : 0;
}

/* See local_request_states. */
static int request_state(struct request_work *w)
{
	struct object_row r;
	STMT_AUTO *s = NULL;
	const char *idle = w->state->gpu_idle;
	int code = 0;
	if (w->state->launched[0])
		code = db_run(w->d,
		              "UPDATE object SET body = json_set(body, "
		              "'$.metadata.annotations.\"rest-lit/launched\"', ?2) WHERE uid = ?1",
		              "tt", span_of(w->r->uid), span_of(w->state->launched));
	if (idle && code == 0)
		code = db_run(w->d,
		              "UPDATE object SET body = iif(?2 = '', json_remove(body, ?3), "
		              "json_set(body, ?3, ?2)) WHERE uid = ?1",
		              "ttt", span_of(w->r->uid), span_of(idle),
		              SPAN("$.metadata.annotations.\"rest-lit/gpu-idle\""));
	int fault = requests_fail(w, code) ?: requests_find(w, &s, &r);
	if (fault)
		return fault;
	if (!span_is(r.uid, w->r->uid) || r.kind != KIND_FRAMEWORK)
		return requests_fail(w, ROW_ABSENT);
	w->out->before = r.version;
	r.status = w->state->status;
	if (r.status.n > OBJECT_MAX)
		return requests_fail(w, SQLITE_TOOBIG);
	r.version = w->out->version = ++w->d->version;
	return requests_fail(w, row_state(w->d, &r));
}

static int request_delete(struct request_work *w)
{
	struct object_row r;
	STMT_AUTO *s = NULL;
	int64_t version = -1;
	int fault = requests_find(w, &s, &r);
	if (fault)
		return fault;
	if (w->r->resource_version) /* else it is none that there is */
		(void)parse_i64(span_of(w->r->resource_version), 0, VERSION_MAX, &version);
	if ((w->r->uid && !span_is(r.uid, w->r->uid)) ||
	    (w->r->resource_version && version != r.version))
		return requests_refuse(w, 409, "the precondition of the deletion does not hold");
	r.version = ++w->d->version; /* of the removal */
	(void)answer_object(w, &r, true);
	/* The database deletes its dependents, too.  The version stays, so that it is not given
	 * again after a restart, and the uid, so that its files go. */
	const struct object_row last = { .id = -1 - r.version % REMOVALS,
		                         .version = r.version,
		                         .uid = r.uid,
		                         .status = SPAN("") };
	int code = db_run(w->d, "DELETE FROM object WHERE id = ?1", "i", r.id);
	return requests_fail(w, code ?: row_state(w->d, &last));
}

/* Writes something.  The disk must have room for it, although it fits into the free room of the
 * log. */
static int request_ready(struct request_work *w)
{
	struct statvfs disk;
	bool full = fstatvfs(w->d->root, &disk) == 0 && disk.f_blocks > 0 &&
	            disk.f_bavail < READY_BYTES / disk.f_frsize;
	return requests_fail(w, full ? SQLITE_FULL : db_run(w->d, DB_SET_NUMBER, ""));
}

/* ---- list ------------------------------------------------------------------------------ */

static int request_list(struct request_work *w)
{
	struct str *out = &w->out->body;
	/* The query would be answered with all objects. */
	if (w->r->query && strstr(w->r->query, "Selector="))
		return requests_refuse(w, 400, "a server with --local does not support this query");
	out->max = LIST_MAX;
	str_printf(out, "{\"metadata\":{\"resourceVersion\":\"%lld\"},\"items\":[",
	           (long long)w->d->version);
	STMT_AUTO *s = db_bind(w->d, ROW_LIST, "it", (int64_t)w->r->kind, w->key);
	struct object_row r;
	int code;
	while ((code = row_find(s, &r)) == 0) {
		if (out->p[out->n - 1] == '}')
			str_char(out, ',');
		row_text(out, &r, w->r->whole);
	}
	str_puts(out, "]}");
	w->out->version = w->d->version;
	if (out->full)
		return requests_refuse(w, 413, "the list is larger than 64 MiB");
	return code == ROW_ABSENT ? 0 : requests_fail(w, code);
}

/* ---- one request of a transaction ------------------------------------------------------ */

enum { REQUEST_DROPPED = -1 }; /* no SQLITE_... */

static int requests_try(struct database *d, void *arg)
{
	struct request_work *w = arg;
	(void)d;
	return w->verb(w) != 0 || w->r->dry_run ? REQUEST_DROPPED : 0;
}

void request_do(struct database *d, struct local_task *t, int failed)
{
	static int (*const VERBS[])(struct request_work *) = {
		[STORE_CREATE] = request_create, [STORE_GET] = request_get,
		[STORE_LIST] = request_list,     [STORE_PATCH] = request_patch,
		[STORE_DELETE] = request_delete, [STORE_READY] = request_ready,
	};
	const struct store_request *r = t->r;
	struct local_answer *out = &t->answer;
	bool elsewhere = r->namespace_name && resource_of(r->kind)->namespaced &&
	                 strcmp(r->namespace_name, d->jobs) != 0;
	const char *in = elsewhere ? r->namespace_name : d->jobs;
	struct span key = span_of(elsewhere ? in : "");
	struct request_work w = { d, in, key, r, t->state, failed != 0, out, VERBS[r->verb] };
	bool named = r->verb != STORE_LIST && r->verb != STORE_READY;
	local_answer_done(out);
	out->body = STR_SECRET(TEXT_MAX);
	out->status = r->verb == STORE_CREATE ? 201 : 200;
	if (r->verb == STORE_CREATE && r->kind >= KIND_MADE)
		(void)requests_refuse(&w, 405, "a server with --local does not store this kind");
	else if (named && (!r->name || !segment_ok(r->name) || !segment_ok(in)))
		(void)requests_refuse(&w, 422, "invalid name");
	else if (r->body[0].n + r->body[1].n + r->body[2].n > BODY_MAX)
		(void)requests_refuse(&w, 413, "the body is larger than 3145728 bytes");
	else if (r->verb == STORE_GET || r->verb == STORE_LIST)
		(void)VERBS[r->verb](&w);
	else if (failed)
		(void)requests_fail(&w, failed);
	else {
		w.verb = t->state ? request_state : w.verb;
		int code = db_write(d, requests_try, &w);
		if (code == REQUEST_DROPPED)
			str_wipe(&out->told);
		else
			(void)requests_fail(&w, code);
	}
}
