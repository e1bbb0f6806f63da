/* Requests, answered as an API server answers them; see local_internal.h. */
#include "machine/store/local_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "base/time.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"

/* A request under way, and its answer. */
struct work {
	struct requests *q;
	const char *namespace_name; /* of its objects */
	struct span key;            /* the same, as the database has it */
	const struct store_request *r;
	struct local_answer *out;
};

enum {
	BODY_MAX = 3145728, /* the API server's own limit */
	LIST_MAX = 64 << 20,
};

/* ---- answers -------------------------------------------------------------------------- */

/* The steps of a request return 0, or the HTTP status with which they have refused it. */
static enum store_outcome outcome_of(int status, enum store_verb verb)
{
	switch (status) {
	case 404:
		return STORE_NOT_FOUND;
	case 409:
		return verb == STORE_CREATE ? STORE_EXISTS : STORE_CONFLICT;
	case 503:
		return STORE_BUSY;
	case 504:
		return STORE_AMBIGUOUS;
	default:
		return STORE_REFUSED;
	}
}

static const char SYNC_FAILED[] =
    "the disk has failed to store the database: until this server is started again, nothing is "
    "stored, and what was being stored is not known";

void local_answer_done(struct local_answer *a)
{
	str_wipe(&a->body);
	free(a->message);
	*a = (struct local_answer){ 0 };
}

/* Answers with a sentence; returns the status. */
static int requests_refuse(struct work *w, int fault, const char *what)
{
	struct local_answer *out = w->out;
	STR_AUTO action = STR_INIT(1024);
	explain_action(&action, w->r);
	local_answer_done(out);
	out->status = fault;
	out->outcome = outcome_of(fault, w->r->verb);
	out->message =
	    xasprintf("%s \"%s\": %s", str_c(&action), w->r->name ? w->r->name : "", what);
	return fault;
}

/* What a code of SQLite means to the caller, and says. */
static int requests_fault(const struct database *d, int code, const char **why)
{
	int cause = (code & 0xff) == SQLITE_IOERR ? sqlite3_system_errno(d->db) : 0;
	bool full = (code & 0xff) == SQLITE_FULL || cause == ENOSPC || cause == EDQUOT;
	bool fixed = (code & 0xff) == SQLITE_READONLY || cause == EROFS;
	*why = full    ? strerrordesc_np(ENOSPC)
	       : fixed ? strerrordesc_np(EROFS)
	               : sqlite3_errstr(code);
	if (db_unsure(code))
		*why = SYNC_FAILED;
	return db_unsure(code) ? 503 : full || fixed ? 507 : 500;
}

static int refuse_code(struct work *w, int code)
{
	const char *why = "not found";
	bool absent = code == ROW_ABSENT;
	if (absent && !w->q->db->unsure)
		return requests_refuse(w, 404, why);
	/* It may be there after a restart. */
	int fault = requests_fault(w->q->db, absent ? SQLITE_IOERR_FSYNC : code, &why);
	return requests_refuse(w, fault, why);
}

/* Answers with an object, or with its metadata. */
static void answer_object(struct work *w, const struct row *r, int status)
{
	struct local_answer *out = w->out;
	out->status = status;
	out->outcome = STORE_OK;
	(void)snprintf(out->uid, sizeof(out->uid), "%.*s", (int)r->uid.n, r->uid.p);
	(void)snprintf(out->resource_version, sizeof(out->resource_version), "%lld",
	               (long long)r->version);
	row_text(&out->body, r, w->r->whole);
}

/* ---- the follower ------------------------------------------------------------------ */

/* Reports a Framework of the jobs, after the commit. */
static void requests_tell(struct requests *q, const struct row *r, bool gone)
{
	if (!q->follows || r->kind != KIND_FRAMEWORK || r->namespace_name.n > 0)
		return;
	struct told t = { .text = STR_INIT(TEXT_MAX), .gone = gone };
	row_text(&t.text, r, true);
	if (q->n_told % 64 == 0)
		q->told = xrealloc(q->told, (q->n_told + 64) * sizeof(*q->told));
	q->told[q->n_told++] = t;
}

/* Forgets what was to be told since then. */
static void requests_untell(struct requests *q, size_t n)
{
	while (q->n_told > n)
		str_done(&q->told[--q->n_told].text);
}

void told_done(struct requests *q)
{
	requests_untell(q, 0);
	free(q->told);
	q->told = NULL;
}

/* ---- create ------------------------------------------------------------------------ */

/* The body of a request, which is in up to three pieces: *room if it is in more than one. */
static int requests_body(struct work *w, struct str *room, struct span *body)
{
	const struct span *piece = w->r->body;
	*body = piece[0];
	if (piece[1].n + piece[2].n > 0) {
		(void)str_reserve(room, piece[0].n + piece[1].n + piece[2].n);
		for (size_t i = 0; i < 3; i++)
			str_span(room, piece[i]);
		*body = str_view(room);
	}
	if (room->full || body->n > BODY_MAX)
		return requests_refuse(w, 413, "the body is larger than 3145728 bytes");
	return 0;
}

static int check_new(struct work *w, const struct parts *p)
{
	const struct resource *res = resource_of(w->r->kind);
	struct row old;
	if (!span_is(p->kind, res->kind))
		return requests_refuse(w, 400, "the kind of the object does not match its path");
	if (!span_is(p->row.name, w->r->name))
		return requests_refuse(w, 422, "invalid metadata.name");
	if (res->namespaced && p->namespace_name.n > 0 &&
	    !span_is(p->namespace_name, w->namespace_name))
		return requests_refuse(w, 400, "metadata.namespace is another namespace");
	sqlite3_stmt *s =
	    db_bind(w->q->db, ROW_BY_NAME, "itt", (int64_t)w->r->kind, w->key, p->row.name);
	int code = row_find(s, &old);
	(void)sqlite3_reset(s);
	if (code == 0)
		return requests_refuse(w, 409, "already exists");
	return code == ROW_ABSENT ? 0 : refuse_code(w, code);
}

static void stamp(struct work *w, struct parts *p, char uid[static UUID_TEXT])
{
	char when[RFC3339_MAX];
	random_uuid(uid);
	parts_add(p, "uid", uid);
	parts_add(p, "creationTimestamp", rfc3339_put(when, clock_wall_ms(), 0));
	if (resource_of(w->r->kind)->namespaced)
		parts_add(p, "namespace", w->namespace_name);
	p->row.uid = span_of(uid);
	p->row.kind = w->r->kind;
	p->row.namespace_name = w->key;
	p->row.version = ++w->q->db->version;
}

/* 0: stored; ROW_ABSENT: its owner does not exist, so that it is not; SQLITE_... */
static int create_store(struct work *w, struct row *r)
{
	int code = 0;
	if (r->owner.n > 0) {
		sqlite3_stmt *s = db_bind(w->q->db, DB_UID, "t", r->owner);
		code = s ? sqlite3_step(s) : SQLITE_ERROR;
		code = code == SQLITE_ROW ? 0 : code == SQLITE_DONE ? ROW_ABSENT : code;
		(void)sqlite3_reset(s);
	}
	return code ? code : row_insert(w->q->db, r);
}

static int create_one(struct work *w)
{
	static const char *const GIVEN[] = { "uid", "creationTimestamp", "namespace", NULL };
	char uid[UUID_TEXT];
	WIPED_STR room = STR_SECRET(BODY_MAX);
	PARTS_AUTO p = { 0 };
	struct span body;
	int fault = requests_body(w, &room, &body);
	if (fault)
		return fault;
	if (!scan_valid(body, OBJECT_DEPTH) || parts_read(&p, body, GIVEN) != 0)
		return requests_refuse(w, 400, "the body is not valid JSON of the expected type");
	fault = check_new(w, &p);
	if (fault)
		return fault;
	stamp(w, &p, uid);
	if (!parts_end(&p))
		return requests_refuse(w, 413, "the object is too large");
	int code = w->r->dry_run ? 0 : create_store(w, &p.row);
	if (code && code != ROW_ABSENT)
		return refuse_code(w, code);
	if (!w->r->dry_run && code == 0)
		requests_tell(w->q, &p.row, false);
	answer_object(w, &p.row, 201);
	return 0;
}

/* An object that is created with the one of w, which owns it. */
static int create_dependent(struct work *w, const struct object *o)
{
	struct local_answer answer = { .body = STR_SECRET(OBJECT_MAX) };
	struct store_request r = *w->r;
	r.kind = o->kind;
	r.name = o->name;
	r.whole = false;
	r.body[0] = span_to(o->body, o->uid_at);
	r.body[1] = o->uid_at ? span_of(w->out->uid) : SPAN("");
	r.body[2] = span_from(o->body, o->uid_at);
	struct work part = { w->q, w->namespace_name, w->key, &r, &answer };
	int fault = o->kind < KIND_MADE && segment_ok(o->name)
	                ? create_one(&part)
	                : requests_refuse(&part, 422, "invalid name");
	if (fault) { /* nothing of the request is stored */
		local_answer_done(w->out);
		*w->out = answer;
	} else {
		local_answer_done(&answer);
	}
	return fault;
}

static int do_create(struct work *w)
{
	int fault = create_one(w);
	for (size_t i = 0; i < w->r->n_with && !fault; i++)
		fault = create_dependent(w, &w->r->with[i]);
	return fault;
}

/* ---- get, patch, delete ------------------------------------------------------------ */

/* The object of a request; borrowed from *s, which is to be reset. */
static int requests_find(struct work *w, sqlite3_stmt **s, struct row *r)
{
	*s = db_bind(w->q->db, ROW_BY_NAME, "its", (int64_t)w->r->kind, w->key, w->r->name);
	return row_find(*s, r);
}

static int do_get(struct work *w)
{
	struct row r;
	sqlite3_stmt *s;
	int code = requests_find(w, &s, &r);
	if (code)
		return refuse_code(w, code);
	answer_object(w, &r, 200);
	(void)sqlite3_reset(s);
	return 0;
}

/* RFC 7396. */
static void requests_merge(json_t *object, json_t *patch)
{
	const char *key;
	json_t *value;
	json_object_foreach (patch, key, value) {
		if (json_is_null(value)) {
			(void)json_object_del(object, key); /* may be absent */
		} else if (!json_is_object(value)) {
			(void)json_object_set(object, key, value);
		} else {
			if (!json_is_object(json_object_get(object, key)))
				(void)json_object_set_new(object, key, json_object());
			requests_merge(json_object_get(object, key), value);
		}
	}
}

static int requests_apply(struct work *w, json_t *object, json_t *patch)
{
	if (!w->r->json_patch) {
		requests_merge(object, patch);
		return 0;
	}
	switch (json_patch_apply(object, patch)) {
	case PATCH_DONE:
		return 0;
	case PATCH_TEST_FAILED:
		return requests_refuse(w, 422, "a test of the patch fails");
	case PATCH_MALFORMED:
		break;
	}
	return requests_refuse(w, 400, "the patch is malformed");
}

/* Refuse changes of immutable members. */
static int check_patched(struct work *w, const json_t *before, const json_t *after)
{
	if (strcmp(reply_text(before, "uid"), reply_text(after, "uid")) != 0)
		return requests_refuse(w, 422, "metadata.uid: field is immutable");
	if (strcmp(reply_text(before, "resourceVersion"), reply_text(after, "resourceVersion")) !=
	    0)
		return requests_refuse(w, 409, "the object has been modified");
	if (strcmp(reply_text(before, "name"), reply_text(after, "name")) != 0 ||
	    strcmp(reply_text(before, "namespace"), reply_text(after, "namespace")) != 0)
		return requests_refuse(w, 400, "name and namespace cannot be changed");
	return 0;
}

/* Stores an object that was changed, as *r from now on; its texts are in *text and *p. */
static int patch_store(struct work *w, const json_t *object, struct row *r, struct str *text,
                       struct parts *p)
{
	static const char *const NONE[] = { NULL };
	char *dumped = json_dumps(object, JSON_COMPACT);
	assert(dumped != NULL); /* valid JSON; allocation aborts */
	str_puts(text, dumped);
	free_wiped(dumped);
	if (text->full || parts_read(p, str_view(text), NONE) != 0 || !parts_end(p) ||
	    p->row.uid.n != UID_LEN)
		return requests_refuse(w, 422, "the object cannot be stored");
	p->row.id = r->id;
	p->row.kind = r->kind;
	p->row.namespace_name = w->key;
	p->row.stated = r->stated;
	p->row.version = w->r->dry_run ? r->version : ++w->q->db->version;
	*r = p->row;
	int code = w->r->dry_run ? 0 : row_update(w->q->db, r);
	if (code)
		return refuse_code(w, code);
	if (!w->r->dry_run)
		requests_tell(w->q, r, false);
	return 0;
}

/* The request is read, and so is the object. */
static int patch_object(struct work *w, json_t *patch, struct row *r, const json_t *before)
{
	PARTS_AUTO p = { 0 };
	WIPED_STR text = STR_SECRET(TEXT_MAX);
	JSON_AUTO *after = json_deep_copy(before);
	int fault = requests_apply(w, after, patch);
	if (fault)
		return fault;
	const json_t *old_meta = json_object_get(before, "metadata");
	json_t *meta = json_object_get(after, "metadata");
	fault = check_patched(w, old_meta, meta);
	if (fault)
		return fault;
	int bad = json_object_set(meta, "creationTimestamp",
	                          json_object_get(old_meta, "creationTimestamp"));
	(void)bad; /* an object without it keeps none */
	if (!json_equal(before, after))
		fault = patch_store(w, after, r, &text, &p);
	if (fault)
		return fault;
	answer_object(w, r, 200);
	return 0;
}

static int do_patch(struct work *w)
{
	WIPED_STR room = STR_SECRET(BODY_MAX);
	WIPED_STR text = STR_SECRET(TEXT_MAX);
	struct row r;
	sqlite3_stmt *s;
	struct span body;
	int fault = requests_body(w, &room, &body);
	if (fault)
		return fault;
	JSON_AUTO *patch = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	if (w->r->json_patch ? !json_is_array(patch) : !json_is_object(patch))
		return requests_refuse(w, 400, "the body is not valid JSON of the expected type");
	int code = requests_find(w, &s, &r);
	if (code)
		return refuse_code(w, code);
	row_text(&text, &r, true);
	JSON_AUTO *before = json_loadb(str_c(&text), text.n, JSON_ALLOW_NUL, NULL);
	fault = before ? patch_object(w, patch, &r, before)
	               : requests_refuse(w, 500, "the object cannot be read");
	(void)sqlite3_reset(s);
	return fault;
}

/* Tells of all Frameworks that go with this one, itself included. */
static int delete_tell(struct requests *q, int64_t id)
{
	sqlite3_stmt *s = db_bind(q->db, ROW_DEPENDENTS, "i", id);
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	for (; code == SQLITE_ROW; code = sqlite3_step(s)) {
		struct row r = row_of(s);
		r.version = ++q->db->version; /* of the removal */
		requests_tell(q, &r, true);
	}
	(void)sqlite3_reset(s);
	return code == SQLITE_DONE ? 0 : code;
}

static int do_delete(struct work *w)
{
	struct row r;
	sqlite3_stmt *s;
	int code = requests_find(w, &s, &r);
	if (code)
		return refuse_code(w, code);
	int64_t id = r.id;
	answer_object(w, &r, 200);
	(void)sqlite3_reset(s);
	if ((w->r->uid && strcmp(w->r->uid, w->out->uid) != 0) ||
	    (w->r->resource_version &&
	     strcmp(w->r->resource_version, w->out->resource_version) != 0))
		return requests_refuse(w, 409, "the precondition of the deletion does not hold");
	if (w->r->dry_run)
		return 0;
	code = delete_tell(w->q, id);
	code = code ? code : db_run(w->q->db, DB_DELETE, "i", id);
	return code ? refuse_code(w, code) : 0;
}

static int do_ready(struct work *w)
{
	int code = db_run(w->q->db, DB_PROBE, "");
	if (code)
		return refuse_code(w, code);
	w->out->outcome = STORE_OK;
	w->out->status = 200;
	return 0;
}

/* ---- list ------------------------------------------------------------------------------ */

/* "frameworkcontroller.microsoft.com/v1", "v1". */
static const char *api_version(const struct resource *r)
{
	return r->api + (r->group[0] ? strlen("/apis/") : strlen("/api/"));
}

static int do_list(struct work *w)
{
	const struct resource *res = resource_of(w->r->kind);
	struct local_answer *out = w->out;
	struct selector wanted;
	bool first = true;
	if (selector_read(&wanted, w->r->query) != 0)
		return requests_refuse(w, 400, "a directory does not support this query");
	out->body.max = LIST_MAX;
	(void)snprintf(out->resource_version, sizeof(out->resource_version), "%lld",
	               (long long)w->q->db->version);
	str_printf(
	    &out->body,
	    "{\"kind\":\"%sList\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":\"%s\"},"
	    "\"items\":[",
	    w->r->whole ? res->kind : "PartialObjectMetadata",
	    w->r->whole ? api_version(res) : "meta.k8s.io/v1", out->resource_version);
	sqlite3_stmt *s = db_bind(w->q->db, ROW_LIST, "it", (int64_t)w->r->kind, w->key);
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	for (; code == SQLITE_ROW; code = sqlite3_step(s)) {
		struct row r = row_of(s);
		if (wanted.n > 0 && !selector_fits(&wanted, scan_get(r.meta, "labels")))
			continue;
		if (!first)
			str_char(&out->body, ',');
		first = false;
		row_text(&out->body, &r, w->r->whole);
	}
	(void)sqlite3_reset(s);
	str_puts(&out->body, "]}");
	if (code != SQLITE_DONE)
		return refuse_code(w, code);
	if (out->body.full)
		return requests_refuse(w, 413, "the list is larger than 64 MiB");
	out->status = 200;
	out->outcome = STORE_OK;
	return 0;
}

/* ---- one request of a transaction ------------------------------------------------------ */

/* Ends what began with DB_SAVE.  If SQLite has given up the transaction, the commit tells all of
 * its requests. */
static void requests_end(struct requests *q, bool good, size_t told)
{
	struct database *d = q->db;
	if (!good)
		requests_untell(q, told);
	if (sqlite3_get_autocommit(d->db)) {
		int code = sqlite3_extended_errcode(d->db);
		d->fault = code ? code : SQLITE_IOERR;
		return;
	}
	if (!good)
		(void)db_run(d, DB_UNDO, "");
	(void)db_run(d, DB_RELEASE, "");
}

static int requests_begin(struct requests *q)
{
	int code = db_begin(q->db);
	return code ? code : db_run(q->db, DB_SAVE, "");
}

void request_do(struct requests *q, const char *namespace_name, const struct store_request *r,
                int failed, struct local_answer *out)
{
	static int (*const VERBS[])(struct work *) = {
		[STORE_CREATE] = do_create, [STORE_GET] = do_get,       [STORE_LIST] = do_list,
		[STORE_PATCH] = do_patch,   [STORE_DELETE] = do_delete, [STORE_READY] = do_ready,
	};
	bool elsewhere = r->namespace_name != NULL && resource_of(r->kind)->namespaced &&
	                 strcmp(r->namespace_name, namespace_name) != 0;
	struct work w = { q, elsewhere ? r->namespace_name : namespace_name,
		          span_of(elsewhere ? r->namespace_name : ""), r, out };
	bool named = r->verb != STORE_LIST && r->verb != STORE_READY;
	bool stored = r->kind < KIND_MADE || !named;
	bool writes = !r->dry_run && r->verb != STORE_GET && r->verb != STORE_LIST;
	size_t told = q->n_told;
	local_answer_done(out);
	out->body = STR_SECRET(TEXT_MAX);
	if (named && stored &&
	    (!segment_ok(r->name ? r->name : "") ||
	     (elsewhere && !segment_ok(r->namespace_name)))) {
		(void)requests_refuse(&w, 422, "invalid name");
	} else if (!stored && r->verb == STORE_CREATE) {
		(void)requests_refuse(&w, 405, "a directory does not store this kind");
	} else if (!stored) {
		(void)requests_refuse(&w, 404, "not found");
	} else if (!writes) {
		(void)VERBS[r->verb](&w);
	} else if (failed) {
		const char *why;
		int fault = requests_fault(q->db, failed, &why);
		(void)requests_refuse(&w, fault == 503 ? 504 : fault, why);
	} else {
		int code = requests_begin(q);
		if (code)
			(void)refuse_code(&w, code);
		else
			requests_end(q, VERBS[r->verb](&w) == 0, told);
	}
}

/* ---- statuses of the engine ------------------------------------------------------------ */

/* Metadata with the annotation, or NULL; the caller frees it. */
static char *launched_meta(struct span meta, struct span launched)
{
	JSON_AUTO *object = json_loadb(meta.p, meta.n, JSON_ALLOW_NUL, NULL);
	json_t *annotations = json_object_get(object, "annotations");
	if (object && !json_is_object(annotations)) {
		annotations = json_object();
		(void)json_object_set_new(object, "annotations", annotations);
	}
	(void)json_object_set_new(annotations, "rest-lit/launched",
	                          json_stringn(launched.p, launched.n));
	return object ? json_dumps(object, JSON_COMPACT) : NULL;
}

/* 0, ROW_ABSENT or SQLITE_... */
static int status_write(struct requests *q, struct local_status *one)
{
	struct row r;
	sqlite3_stmt *s = db_bind(q->db, ROW_BY_UID, "s", one->uid);
	int code = row_find(s, &r);
	if (code)
		return code;
	FREE_AUTO char *meta = one->launched.n ? launched_meta(r.meta, one->launched) : NULL;
	FREE_AUTO char *rest = meta ? xstrndup(r.rest.p, r.rest.n) : NULL;
	one->before = r.version;
	one->version = r.version = ++q->db->version;
	r.status = one->status;
	r.meta = meta ? span_of(meta) : r.meta;
	r.uid = span_of(one->uid);
	if (!scan_valid(one->status, OBJECT_DEPTH) || one->status.n > OBJECT_MAX)
		code = SQLITE_TOOBIG;
	else if (!span_is(r.name, one->name) || r.kind != KIND_FRAMEWORK)
		code = ROW_ABSENT;
	else
		requests_tell(q, &r, false);
	(void)sqlite3_reset(s); /* what is written from here on is not borrowed from it */
	if (code == 0 && meta) {
		r.owner = SPAN("");
		r.rest = span_of(rest);
		code = row_update(q->db, &r);
	} else if (code == 0) {
		code = row_state(q->db, &r);
	}
	return code;
}

void request_statuses(struct requests *q, struct local_status *s, size_t n, int failed)
{
	for (size_t i = 0; i < n; i++) {
		size_t told = q->n_told;
		const char *why = "not found";
		int code = failed ? failed : requests_begin(q);
		if (code == 0) {
			code = status_write(q, &s[i]);
			requests_end(q, code == 0, told);
		}
		int fault = code == 0            ? 0
		            : code == ROW_ABSENT ? 404
		                                 : requests_fault(q->db, code, &why);
		if (failed && fault == 503)
			fault = 504;
		free(s[i].message);
		s[i].outcome = fault ? outcome_of(fault, STORE_PATCH) : STORE_OK;
		s[i].message = fault ? xstrdup(why) : NULL;
	}
}
