/* Objects in a directory; see shelf.h.  The files are the truth; in memory there is
 * only who owns whom. */
#include "k8s/shelf.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/enc.h"
#include "k8s/files.h"
#include "k8s/paths.h"

enum { BODY_MAX = 3145728, UID_LEN = 36 }; /* the API server's own limit */

struct shelf {
	struct files files;
	json_t *index; /* uid -> [kind, name, uid of each owner] */
	int64_t resource_version;
};

/* What a step of a request came to; FINE, or the words of the API server for it. */
enum fault { FINE, BAD_REQUEST, NOT_FOUND, ALREADY_EXISTS, CONFLICT, INVALID, OVERSIZE, INTERNAL };

/* clang-format off */
static const struct {
	const char *reason;
	int status;
	enum store_outcome outcome;
} FAULTS[] = {
	[BAD_REQUEST]    = { "BadRequest",            400, STORE_REFUSED },
	[NOT_FOUND]      = { "NotFound",              404, STORE_NOT_FOUND },
	[ALREADY_EXISTS] = { "AlreadyExists",         409, STORE_EXISTS },
	[CONFLICT]       = { "Conflict",              409, STORE_CONFLICT },
	[INVALID]        = { "Invalid",               422, STORE_REFUSED },
	[OVERSIZE]       = { "RequestEntityTooLarge", 413, STORE_REFUSED },
	[INTERNAL]       = { "InternalError",         500, STORE_REFUSED },
};
/* clang-format on */

/* A request on its way, and its answer. */
struct work {
	struct shelf *shelf;
	const char *namespace_name;
	const struct store_request *r;
	struct answer *out;
};

static void free_json(json_t **j)
{
	json_decref(*j);
}
#define JSON_OWN  __attribute__((cleanup(free_json))) json_t
#define WIPED_STR __attribute__((cleanup(str_wipe))) struct str

/* ---- answers ----------------------------------------------------------------------- */

void answer_done(struct answer *a)
{
	str_wipe(&a->body);
	free(a->message);
	*a = (struct answer){ 0 };
}

static void put_json(struct str *out, const json_t *j, size_t flags)
{
	char *text = json_dumps(j, flags);
	assert(text != NULL); /* made from text that was read; memory does not run out */
	size_t n = strlen(text);
	str_put(out, text, n);
	wipe(text, n);
	free(text);
}

static enum fault refuse(struct work *w, enum fault fault, const char *what)
{
	const struct resource *res = resource_of(w->r->kind);
	struct answer *out = w->out;
	out->status = FAULTS[fault].status;
	out->outcome = FAULTS[fault].outcome;
	free(out->message);
	out->message = xasprintf("%s \"%s\": %s", res->plural, w->r->name, what);
	JSON_OWN *status =
	    json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:i}", "kind", "Status",
	              "apiVersion", "v1", "metadata", "status", "Failure", "message", out->message,
	              "reason", FAULTS[fault].reason, "details", "name", w->r->name, "group",
	              res->group, "kind", res->plural, "code", out->status);
	put_json(&out->body, status, JSON_COMPACT);
	return fault;
}

static enum fault refuse_errno(struct work *w, int negative)
{
	if (negative == -ENOENT)
		return refuse(w, NOT_FOUND, "not found");
	if (negative == -EINVAL || negative == -ENAMETOOLONG)
		return refuse(w, INVALID, "invalid name");
	return refuse(w, INTERNAL, strerrordesc_np(-negative));
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

static void set_text(json_t *object, const char *key, const char *value)
{
	int bad = json_object_set_new(object, key, json_string(value));
	assert(bad == 0); /* keys and values here are UTF-8 */
}

static void answer_object(struct work *w, const json_t *object, int status)
{
	const json_t *meta = json_object_get(object, "metadata");
	struct answer *out = w->out;
	out->status = status;
	out->outcome = STORE_OK;
	(void)snprintf(out->uid, sizeof(out->uid), "%s", text_of(meta, "uid"));
	(void)snprintf(out->resource_version, sizeof(out->resource_version), "%s",
	               text_of(meta, "resourceVersion"));
	put_json(&out->body, object, JSON_COMPACT);
}

/* ---- the index: who owns whom ------------------------------------------------------ */

static void index_add(struct shelf *s, enum object_kind kind, const json_t *meta)
{
	json_t *entry = json_pack("[i, s]", (int)kind, text_of(meta, "name"));
	size_t i;
	json_t *owner;
	json_array_foreach (json_object_get(meta, "ownerReferences"), i, owner) {
		(void)json_array_append(entry, json_object_get(owner, "uid")); /* or none */
	}
	int bad = json_object_set_new(s->index, text_of(meta, "uid"), entry);
	assert(bad == 0);
}

/* It has owners, and none of them exists. */
static bool is_orphan(const struct shelf *s, const json_t *entry)
{
	for (size_t i = 2; i < json_array_size(entry); i++) {
		const char *owner = json_string_value(json_array_get(entry, i));
		if (owner == NULL || json_object_get(s->index, owner) != NULL)
			return false;
	}
	return json_array_size(entry) > 2;
}

/* As the garbage collector does: remove what has lost its owner, and what that owned.
 * What cannot be removed now is tried again the next time. */
static void collect(struct shelf *s)
{
	bool removed = true;
	while (removed) {
		removed = false;
		const char *uid;
		void *next;
		json_t *entry;
		json_object_foreach_safe(s->index, next, uid, entry)
		{
			if (!is_orphan(s, entry))
				continue;
			enum object_kind kind =
			    (enum object_kind)json_integer_value(json_array_get(entry, 0));
			const char *name = json_string_value(json_array_get(entry, 1));
			int bad = files_remove(&s->files, kind, name);
			if (bad && bad != -ENOENT)
				continue;
			(void)json_object_del(s->index, uid);
			removed = true;
		}
	}
}

/* ---- reading and writing ----------------------------------------------------------- */

/* Read an object.  Its name is checked again: it is what the file name was made from. */
static int load(struct shelf *s, enum object_kind kind, const char *name, json_t **object)
{
	WIPED_STR text = STR_INIT(FILE_SIZE_MAX);
	int bad = files_read(&s->files, kind, name, &text);
	if (bad == 0) {
		*object = json_loadb(str_c(&text), text.n, JSON_REJECT_DUPLICATES, NULL);
		const json_t *meta = json_object_get(*object, "metadata");
		if (strcmp(text_of(meta, "name"), name) != 0 ||
		    strlen(text_of(meta, "uid")) != UID_LEN)
			bad = -EBADMSG;
	}
	return bad;
}

static int save(struct shelf *s, const struct store_request *r, const json_t *object)
{
	WIPED_STR text = STR_INIT(FILE_SIZE_MAX);
	put_json(&text, object, JSON_INDENT(2));
	str_char(&text, '\n');
	int bad = text.full ? -EFBIG : files_write(&s->files, r->kind, r->name, str_view(&text));
	return bad;
}

static void set_version(struct shelf *s, json_t *meta)
{
	char digits[24];
	(void)snprintf(digits, sizeof(digits), "%lld", (long long)++s->resource_version);
	set_text(meta, "resourceVersion", digits);
}

/* The body of a request: one JSON object, from up to three pieces. */
static enum fault read_body(struct work *w, json_t **object)
{
	WIPED_STR text = STR_INIT(BODY_MAX);
	for (size_t i = 0; i < 3; i++)
		str_span(&text, w->r->body[i]);
	if (text.full)
		return refuse(w, OVERSIZE, "the body is larger than 3145728 bytes");
	*object = json_loadb(str_c(&text), text.n, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(*object))
		return refuse(w, BAD_REQUEST, "the body is no JSON object");
	return FINE;
}

/* ---- create ------------------------------------------------------------------------ */

static void make_uid(char out[static 40])
{
	char x[33];
	random_hex(x, 16);
	x[12] = '4';               /* version 4, */
	x[16] = "89ab"[x[16] & 3]; /* variant 1 */
	(void)snprintf(out, 40, "%.8s-%.4s-%.4s-%.4s-%.12s", x, x + 8, x + 12, x + 16, x + 20);
}

static void stamp(struct work *w, json_t *meta)
{
	char uid[40];
	char when[32];
	struct tm tm;
	time_t now = time(NULL);
	make_uid(uid);
	(void)gmtime_r(&now, &tm);
	(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	set_text(meta, "uid", uid);
	set_text(meta, "creationTimestamp", when);
	if (resource_of(w->r->kind)->namespaced)
		set_text(meta, "namespace", w->namespace_name);
}

static enum fault check_new(struct work *w, const json_t *object, const json_t *meta)
{
	const struct resource *res = resource_of(w->r->kind);
	const char *ns = text_of(meta, "namespace");
	if (strcmp(text_of(object, "kind"), res->kind) != 0)
		return refuse(w, BAD_REQUEST, "the kind of the object does not fit its path");
	if (strcmp(text_of(meta, "name"), w->r->name) != 0 || !segment_ok(w->r->name))
		return refuse(w, INVALID, "invalid metadata.name");
	if (res->namespaced && ns[0] != '\0' && strcmp(ns, w->namespace_name) != 0)
		return refuse(w, BAD_REQUEST, "metadata.namespace is another namespace");
	JSON_OWN *old = NULL;
	int bad = load(w->shelf, w->r->kind, w->r->name, &old);
	if (bad == -ENOENT)
		return FINE;
	if (bad == 0)
		return refuse(w, ALREADY_EXISTS, "already exists");
	return refuse_errno(w, bad);
}

static enum fault do_create(struct work *w)
{
	JSON_OWN *object = NULL;
	enum fault fault = read_body(w, &object);
	if (fault)
		return fault;
	json_t *meta = json_object_get(object, "metadata");
	fault = check_new(w, object, meta);
	if (fault)
		return fault;
	stamp(w, meta);
	set_version(w->shelf, meta);
	if (!w->r->dry_run) {
		int bad = save(w->shelf, w->r, object);
		if (bad) { /* it may be there, and only its directory not be synced */
			(void)files_remove(&w->shelf->files, w->r->kind, w->r->name);
			return refuse_errno(w, bad);
		}
		index_add(w->shelf, w->r->kind, meta);
		collect(w->shelf); /* its owner may be gone already */
	}
	answer_object(w, object, 201);
	return FINE;
}

/* ---- get, patch, delete ------------------------------------------------------------ */

static enum fault do_get(struct work *w)
{
	JSON_OWN *object = NULL;
	int bad = load(w->shelf, w->r->kind, w->r->name, &object);
	if (bad)
		return refuse_errno(w, bad);
	answer_object(w, object, 200);
	return FINE;
}

/* RFC 7396. */
static void merge(json_t *object, json_t *patch)
{
	const char *key;
	json_t *value;
	json_object_foreach (patch, key, value) {
		if (json_is_null(value)) {
			(void)json_object_del(object, key); /* may not be there */
		} else if (!json_is_object(value)) {
			(void)json_object_set(object, key, value);
		} else {
			if (!json_is_object(json_object_get(object, key)))
				(void)json_object_set_new(object, key, json_object());
			merge(json_object_get(object, key), value);
		}
	}
}

/* What the patch may not change has been changed? */
static enum fault check_patched(struct work *w, const json_t *before, const json_t *after)
{
	if (strcmp(text_of(before, "uid"), text_of(after, "uid")) != 0)
		return refuse(w, INVALID, "metadata.uid: field is immutable");
	if (strcmp(text_of(before, "resourceVersion"), text_of(after, "resourceVersion")) != 0)
		return refuse(w, CONFLICT, "the object has been modified");
	if (strcmp(text_of(before, "name"), text_of(after, "name")) != 0 ||
	    strcmp(text_of(before, "namespace"), text_of(after, "namespace")) != 0)
		return refuse(w, BAD_REQUEST, "name and namespace cannot be changed");
	return FINE;
}

static enum fault do_patch(struct work *w)
{
	JSON_OWN *patch = NULL;
	JSON_OWN *before = NULL;
	enum fault fault = read_body(w, &patch);
	if (fault)
		return fault;
	int bad = load(w->shelf, w->r->kind, w->r->name, &before);
	if (bad)
		return refuse_errno(w, bad);
	JSON_OWN *after = json_deep_copy(before);
	merge(after, patch);
	const json_t *old_meta = json_object_get(before, "metadata");
	json_t *meta = json_object_get(after, "metadata");
	fault = check_patched(w, old_meta, meta);
	if (fault)
		return fault;
	set_text(meta, "creationTimestamp", text_of(old_meta, "creationTimestamp"));
	if (!json_equal(before, after) && !w->r->dry_run) {
		set_version(w->shelf, meta);
		bad = save(w->shelf, w->r, after);
		if (bad)
			return refuse_errno(w, bad);
		index_add(w->shelf, w->r->kind, meta);
	}
	answer_object(w, after, 200);
	return FINE;
}

static bool differs(const char *wanted, const char *is)
{
	return wanted != NULL && strcmp(wanted, is) != 0;
}

static enum fault do_delete(struct work *w)
{
	JSON_OWN *object = NULL;
	int bad = load(w->shelf, w->r->kind, w->r->name, &object);
	if (bad)
		return refuse_errno(w, bad);
	const json_t *meta = json_object_get(object, "metadata");
	if (differs(w->r->uid, text_of(meta, "uid")) ||
	    differs(w->r->resource_version, text_of(meta, "resourceVersion")))
		return refuse(w, CONFLICT, "the precondition of the deletion does not hold");
	answer_object(w, object, 200);
	if (w->r->dry_run)
		return FINE;
	bad = files_remove(&w->shelf->files, w->r->kind, w->r->name);
	if (bad) {
		str_wipe(&w->out->body);
		w->out->body = STR_INIT(FILE_SIZE_MAX);
		return refuse_errno(w, bad);
	}
	(void)json_object_del(w->shelf->index, text_of(meta, "uid"));
	collect(w->shelf);
	return FINE;
}

static enum fault do_ready(struct work *w)
{
	w->out->outcome = STORE_OK;
	w->out->status = 200;
	return FINE;
}

void shelf_do(struct shelf *s, const char *namespace_name, const struct store_request *r,
              struct answer *out)
{
	static enum fault (*const VERBS[])(struct work *) = {
		[STORE_CREATE] = do_create, [STORE_GET] = do_get,     [STORE_PATCH] = do_patch,
		[STORE_DELETE] = do_delete, [STORE_READY] = do_ready,
	};
	assert(r->verb == STORE_READY || r->kind < KIND_MADE);
	struct work w = { s, namespace_name, r, out };
	*out = (struct answer){ .body = STR_INIT(FILE_SIZE_MAX) };
	(void)VERBS[r->verb](&w); /* what went wrong stands in *out */
}

/* ---- opening ----------------------------------------------------------------------- */

struct opening {
	struct shelf *shelf;
	struct err *e;
	bool failed;
};

static void take_in(void *arg, enum object_kind kind, const char *name)
{
	struct opening *o = arg;
	JSON_OWN *object = NULL;
	int bad = load(o->shelf, kind, name, &object);
	if (bad) {
		o->failed = true;
		err_set(o->e, UNKNOWN_ERROR, "%s/%s.json is not as this program wrote it: %s",
		        resource_of(kind)->plural, name, strerrordesc_np(-bad));
		return;
	}
	const json_t *meta = json_object_get(object, "metadata");
	int64_t version = 0;
	(void)parse_i64(span_of(text_of(meta, "resourceVersion")), 0, INT64_MAX - 1, &version);
	if (version > o->shelf->resource_version)
		o->shelf->resource_version = version;
	index_add(o->shelf, kind, meta);
}

struct shelf *shelf_open(const char *dir, struct err *e)
{
	struct shelf *s = xcalloc(1, sizeof(*s));
	s->files = FILES_CLOSED;
	s->index = json_object();
	struct opening o = { s, e, files_open(&s->files, dir, e) != 0 };
	for (enum object_kind k = 0; k < KIND_MADE && !o.failed; k++) {
		if (files_each(&s->files, k, take_in, &o) != 0)
			o.failed = err_set(e, UNKNOWN_ERROR, "%s cannot be read", dir) != 0;
	}
	if (o.failed) {
		shelf_close(s);
		return NULL;
	}
	collect(s);
	return s;
}

void shelf_close(struct shelf *s)
{
	if (s == NULL)
		return;
	files_close(&s->files);
	json_decref(s->index);
	free(s);
}
