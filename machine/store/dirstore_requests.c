/* Requests to a directory, answered as an API server answers them.  Objects are in files only;
 * memory has the index. */
#include "machine/store/dirstore_internal.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/time.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"

struct dirstore {
	struct files files;
	struct dirstore_index *index;
	int64_t resource_version;
	json_t *damaged;                       /* [kind, key, why] of each file */
	const struct local_follower *follower; /* or NULL */
	void *follower_arg;
};

/* The result of a step of a request. */
enum fault {
	FINE,
	BAD_REQUEST,
	NOT_FOUND,
	NOT_KEPT,
	ALREADY_EXISTS,
	CONFLICT,
	INVALID,
	OVERSIZE,
	UNWRITABLE,
	INTERNAL
};

/* A request under way, and its answer. */
struct work {
	struct dirstore *store;
	const char *namespace_name;
	const char *key; /* its file */
	const struct store_request *r;
	struct local_answer *out;
};

#define WIPED_STR __attribute__((cleanup(str_wipe))) struct str

enum {
	BODY_MAX = 3145728 /* the API server's own limit */,
	UID_LEN = 36,
	KEY_TEXT = 255,
	DAMAGED_CODE = -8000
};

static void dirstore_set_text(json_t *object, const char *key, const char *value)
{
	int bad = json_object_set_new(object, key, json_string(value));
	assert(bad == 0); /* keys and values here are UTF-8 */
}

/* ---- answers -------------------------------------------------------------------------- */

/* clang-format off */
static const struct {
	const char *reason;
	int status;
	enum store_outcome outcome;
} FAULTS[] = {
	[BAD_REQUEST]    = { "BadRequest",            400, STORE_REFUSED },
	[NOT_FOUND]      = { "NotFound",              404, STORE_NOT_FOUND },
	[NOT_KEPT]       = { "MethodNotAllowed",      405, STORE_REFUSED },
	[ALREADY_EXISTS] = { "AlreadyExists",         409, STORE_EXISTS },
	[CONFLICT]       = { "Conflict",              409, STORE_CONFLICT },
	[INVALID]        = { "Invalid",               422, STORE_REFUSED },
	[OVERSIZE]       = { "RequestEntityTooLarge", 413, STORE_REFUSED },
	[UNWRITABLE]     = { "InsufficientStorage",   507, STORE_REFUSED },
	[INTERNAL]       = { "InternalError",         500, STORE_REFUSED },
};
/* clang-format on */

void local_answer_done(struct local_answer *a)
{
	str_wipe(&a->body);
	free(a->message);
	*a = (struct local_answer){ 0 };
}

static void put_json(struct str *out, const json_t *j, size_t flags)
{
	char *text = json_dumps(j, flags);
	assert(text != NULL); /* valid JSON; allocation aborts */
	size_t n = strlen(text);
	str_put(out, text, n);
	wipe(text, n);
	free(text);
}

static const char *dirstore_name_of(const struct store_request *r)
{
	return r->name ? r->name : "";
}

/* Answer with a Status; returns the fault. */
static enum fault dirstore_refuse(struct work *w, enum fault fault, const char *what)
{
	const struct resource *res = resource_of(w->r->kind);
	struct local_answer *out = w->out;
	out->status = FAULTS[fault].status;
	out->outcome = FAULTS[fault].outcome;
	free(out->message);
	const char *name = dirstore_name_of(w->r);
	STR_AUTO action = STR_INIT(1024);
	explain_action(&action, w->r);
	out->message = xasprintf("%s \"%s\": %s", str_c(&action), name, what);
	JSON_AUTO *status =
	    json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:i}", "kind", "Status",
	              "apiVersion", "v1", "metadata", "status", "Failure", "message", out->message,
	              "reason", FAULTS[fault].reason, "details", "name", name, "group", res->group,
	              "kind", res->plural, "code", out->status);
	str_wipe(&out->body);
	out->body = STR_SECRET(FILE_SIZE_MAX);
	put_json(&out->body, status, JSON_COMPACT);
	return fault;
}

static enum fault refuse_errno(struct work *w, int negative)
{
	if (negative == -ENOENT)
		return dirstore_refuse(w, NOT_FOUND, "not found");
	if (negative == -EINVAL || negative == -ENAMETOOLONG)
		return dirstore_refuse(w, INVALID, "invalid name");
	bool full = negative == -ENOSPC || negative == -EDQUOT || negative == -EROFS;
	return dirstore_refuse(w, full ? UNWRITABLE : INTERNAL, strerrordesc_np(-negative));
}

static json_t *metadata_of(const json_t *object)
{
	return json_pack("{s:s, s:s, s:O}", "kind", "PartialObjectMetadata", "apiVersion",
	                 "meta.k8s.io/v1", "metadata", json_object_get(object, "metadata"));
}

/* Answer with an object, or with its metadata. */
static void answer_object(struct work *w, const json_t *object, int status)
{
	const json_t *meta = json_object_get(object, "metadata");
	JSON_AUTO *part = w->r->whole ? NULL : metadata_of(object);
	struct local_answer *out = w->out;
	out->status = status;
	out->outcome = STORE_OK;
	(void)snprintf(out->uid, sizeof(out->uid), "%s", reply_text(meta, "uid"));
	(void)snprintf(out->resource_version, sizeof(out->resource_version), "%s",
	               reply_text(meta, "resourceVersion"));
	put_json(&out->body, part ? part : object, JSON_COMPACT);
}

/* ---- objects -------------------------------------------------------------------------- */

/* Reads an object and compares its name with the file's.  0 or a negative errno; new reference. */
static int dirstore_load(struct dirstore *s, enum object_kind kind, const char *key,
                         json_t **object)
{
	WIPED_STR text = STR_SECRET(FILE_SIZE_MAX);
	int bad = files_read(&s->files, kind, key, &text);
	if (bad == 0) {
		*object = json_loadb(str_c(&text), text.n, JSON_REJECT_DUPLICATES, NULL);
		const json_t *meta = json_object_get(*object, "metadata");
		struct span ns = key_namespace(key);
		if (strcmp(reply_text(meta, "name"), key_name(key)) != 0 ||
		    (ns.n > 0 && !span_is(ns, reply_text(meta, "namespace"))) ||
		    strlen(reply_text(meta, "uid")) != UID_LEN)
			bad = -EBADMSG;
	}
	return bad;
}

/* Report a Framework to the follower. */
static void dirstore_tell(const struct dirstore *s, enum object_kind kind, const char *key,
                          const json_t *object, bool gone)
{
	const struct local_follower *f = s->follower;
	if (!f || kind != KIND_FRAMEWORK || key_namespace(key).n > 0)
		return;
	STR_AUTO text = STR_INIT(FILE_SIZE_MAX);
	put_json(&text, object, JSON_COMPACT);
	if (!text.full)
		(gone ? f->remove : f->put)(s->follower_arg, str_view(&text));
}

static void set_version(struct dirstore *s, json_t *meta)
{
	char digits[24];
	(void)snprintf(digits, sizeof(digits), "%lld", (long long)++s->resource_version);
	dirstore_set_text(meta, "resourceVersion", digits);
}

static void tell_gone(struct dirstore *s, enum object_kind kind, const char *key, json_t *object)
{
	set_version(s, json_object_get(object, "metadata")); /* of the removal */
	dirstore_tell(s, kind, key, object, true);
}

/* index_collect repeats failed removals the next time. */
static bool remove_file(void *arg, enum object_kind kind, const char *key)
{
	struct dirstore *s = arg;
	JSON_AUTO *object = NULL;
	if (s->follower && kind == KIND_FRAMEWORK)
		(void)dirstore_load(s, kind, key,
		                    &object); /* an unreadable object is not reported */
	int bad = files_remove(&s->files, kind, key);
	if (bad != 0 && bad != -ENOENT)
		return false;
	if (object)
		tell_gone(s, kind, key, object);
	return true;
}

static void collect(struct dirstore *s)
{
	index_collect(s->index, remove_file, s);
}

static int save(const struct work *w, const json_t *object)
{
	WIPED_STR text = STR_SECRET(FILE_SIZE_MAX);
	put_json(&text, object, JSON_INDENT(2));
	str_char(&text, '\n');
	if (text.full)
		return -EFBIG;
	return files_write(&w->store->files, w->r->kind, w->key, str_view(&text));
}

/* The body of a request: one JSON object, or a list of operations, from up to three pieces. */
static enum fault dirstore_read_body(struct work *w, json_t **object)
{
	WIPED_STR text = STR_SECRET(BODY_MAX);
	for (size_t i = 0; i < 3; i++)
		str_span(&text, w->r->body[i]);
	if (text.full)
		return dirstore_refuse(w, OVERSIZE, "the body is larger than 3145728 bytes");
	*object = json_loadb(str_c(&text), text.n, JSON_REJECT_DUPLICATES, NULL);
	if (w->r->json_patch ? !json_is_array(*object) : !json_is_object(*object))
		return dirstore_refuse(w, BAD_REQUEST,
		                       "the body is not valid JSON of the expected type");
	return FINE;
}

/* ---- create ------------------------------------------------------------------------ */

static void stamp(struct work *w, json_t *meta)
{
	char uid[UUID_TEXT];
	char when[RFC3339_MAX];
	random_uuid(uid);
	dirstore_set_text(meta, "uid", uid);
	dirstore_set_text(meta, "creationTimestamp", rfc3339_put(when, clock_wall_ms(), 0));
	if (resource_of(w->r->kind)->namespaced)
		dirstore_set_text(meta, "namespace", w->namespace_name);
}

static enum fault check_new(struct work *w, const json_t *object, const json_t *meta)
{
	const struct resource *res = resource_of(w->r->kind);
	const char *ns = reply_text(meta, "namespace");
	if (strcmp(reply_text(object, "kind"), res->kind) != 0)
		return dirstore_refuse(w, BAD_REQUEST,
		                       "the kind of the object does not match its path");
	if (strcmp(reply_text(meta, "name"), dirstore_name_of(w->r)) != 0 ||
	    !segment_ok(dirstore_name_of(w->r)))
		return dirstore_refuse(w, INVALID, "invalid metadata.name");
	if (res->namespaced && ns[0] != '\0' && strcmp(ns, w->namespace_name) != 0)
		return dirstore_refuse(w, BAD_REQUEST, "metadata.namespace is another namespace");
	JSON_AUTO *old = NULL;
	int bad = dirstore_load(w->store, w->r->kind, w->key, &old);
	if (bad == -ENOENT)
		return FINE;
	if (bad == 0)
		return dirstore_refuse(w, ALREADY_EXISTS, "already exists");
	return refuse_errno(w, bad);
}

static enum fault do_create(struct work *w)
{
	JSON_AUTO *object = NULL;
	enum fault fault = dirstore_read_body(w, &object);
	if (fault)
		return fault;
	json_t *meta = json_object_get(object, "metadata");
	fault = check_new(w, object, meta);
	if (fault)
		return fault;
	stamp(w, meta);
	set_version(w->store, meta);
	if (!w->r->dry_run) {
		int bad = save(w, object);
		if (bad) { /* the file can exist although syncing its directory failed */
			(void)files_remove(&w->store->files, w->r->kind, w->key);
			return refuse_errno(w, bad);
		}
		index_put(w->store->index, w->r->kind, w->key, meta);
		dirstore_tell(w->store, w->r->kind, w->key, object, false);
		collect(w->store); /* the owner may be gone */
	}
	answer_object(w, object, 201);
	return FINE;
}

/* ---- get, patch, delete ------------------------------------------------------------ */

static enum fault do_get(struct work *w)
{
	JSON_AUTO *object = NULL;
	int bad = dirstore_load(w->store, w->r->kind, w->key, &object);
	if (bad)
		return refuse_errno(w, bad);
	answer_object(w, object, 200);
	return FINE;
}

/* RFC 7396. */
static void dirstore_merge(json_t *object, json_t *patch)
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
			dirstore_merge(json_object_get(object, key), value);
		}
	}
}

static enum fault dirstore_apply(struct work *w, json_t *object, json_t *patch)
{
	if (!w->r->json_patch) {
		dirstore_merge(object, patch);
		return FINE;
	}
	switch (json_patch_apply(object, patch)) {
	case PATCH_DONE:
		return FINE;
	case PATCH_TEST_FAILED:
		return dirstore_refuse(w, INVALID, "a test of the patch fails");
	case PATCH_MALFORMED:
		break;
	}
	return dirstore_refuse(w, BAD_REQUEST, "the patch is malformed");
}

/* Refuse changes of immutable members. */
static enum fault check_patched(struct work *w, const json_t *before, const json_t *after)
{
	if (strcmp(reply_text(before, "uid"), reply_text(after, "uid")) != 0)
		return dirstore_refuse(w, INVALID, "metadata.uid: field is immutable");
	if (strcmp(reply_text(before, "resourceVersion"), reply_text(after, "resourceVersion")) !=
	    0)
		return dirstore_refuse(w, CONFLICT, "the object has been modified");
	if (strcmp(reply_text(before, "name"), reply_text(after, "name")) != 0 ||
	    strcmp(reply_text(before, "namespace"), reply_text(after, "namespace")) != 0)
		return dirstore_refuse(w, BAD_REQUEST, "name and namespace cannot be changed");
	return FINE;
}

static enum fault do_patch(struct work *w)
{
	JSON_AUTO *patch = NULL;
	JSON_AUTO *before = NULL;
	enum fault fault = dirstore_read_body(w, &patch);
	if (fault)
		return fault;
	int bad = dirstore_load(w->store, w->r->kind, w->key, &before);
	if (bad)
		return refuse_errno(w, bad);
	JSON_AUTO *after = json_deep_copy(before);
	fault = dirstore_apply(w, after, patch);
	if (fault)
		return fault;
	const json_t *old_meta = json_object_get(before, "metadata");
	json_t *meta = json_object_get(after, "metadata");
	fault = check_patched(w, old_meta, meta);
	if (fault)
		return fault;
	dirstore_set_text(meta, "creationTimestamp", reply_text(old_meta, "creationTimestamp"));
	if (!json_equal(before, after) && !w->r->dry_run) {
		set_version(w->store, meta);
		bad = save(w, after);
		if (bad)
			return refuse_errno(w, bad);
		index_put(w->store->index, w->r->kind, w->key, meta);
		dirstore_tell(w->store, w->r->kind, w->key, after, false);
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
	JSON_AUTO *object = NULL;
	int bad = dirstore_load(w->store, w->r->kind, w->key, &object);
	if (bad)
		return refuse_errno(w, bad);
	const json_t *meta = json_object_get(object, "metadata");
	if (differs(w->r->uid, reply_text(meta, "uid")) ||
	    differs(w->r->resource_version, reply_text(meta, "resourceVersion")))
		return dirstore_refuse(w, CONFLICT,
		                       "the precondition of the deletion does not hold");
	answer_object(w, object, 200);
	if (w->r->dry_run)
		return FINE;
	bad = files_remove(&w->store->files, w->r->kind, w->key);
	if (bad)
		return refuse_errno(w, bad);
	index_remove(w->store->index, reply_text(meta, "uid"));
	tell_gone(w->store, w->r->kind, w->key, object);
	collect(w->store);
	return FINE;
}

static enum fault do_ready(struct work *w)
{
	int bad = files_probe(&w->store->files);
	if (bad)
		return refuse_errno(w, bad);
	w->out->outcome = STORE_OK;
	w->out->status = 200;
	return FINE;
}

/* ---- list ------------------------------------------------------------------------------ */

enum { LIST_MAX = 64 << 20 };

struct listing {
	struct work *w;
	json_t *items;
	struct span namespace_name; /* key_namespace */
	int bad;
};

static void list_one(void *arg, const char *key)
{
	struct listing *l = arg;
	const struct work *w = l->w;
	JSON_AUTO *object = NULL;
	if (l->bad || !span_eq(key_namespace(key), l->namespace_name))
		return;
	l->bad = dirstore_load(w->store, w->r->kind, key, &object);
	if (l->bad == 0)
		(void)json_array_append_new(l->items, w->r->whole ? json_incref(object)
		                                                  : metadata_of(object));
}

/* "frameworkcontroller.microsoft.com/v1", "v1". */
static const char *api_version(const struct resource *r)
{
	return r->api + (r->group[0] ? strlen("/apis/") : strlen("/api/"));
}

static enum fault answer_list(struct work *w, json_t *items)
{
	const struct resource *res = resource_of(w->r->kind);
	struct local_answer *out = w->out;
	(void)snprintf(out->resource_version, sizeof(out->resource_version), "%lld",
	               (long long)w->store->resource_version);
	JSON_AUTO *list = json_pack(
	    "{s:s+, s:s, s:{s:s}, s:O}", "kind", w->r->whole ? res->kind : "PartialObjectMetadata",
	    "List", "apiVersion", w->r->whole ? api_version(res) : "meta.k8s.io/v1", "metadata",
	    "resourceVersion", out->resource_version, "items", items);
	out->body.max = LIST_MAX;
	put_json(&out->body, list, JSON_COMPACT);
	if (out->body.full)
		return dirstore_refuse(w, OVERSIZE, "the list is larger than 64 MiB");
	out->status = 200;
	out->outcome = STORE_OK;
	return FINE;
}

static enum fault dirstore_list(struct work *w)
{
	struct selector wanted;
	JSON_AUTO *items = json_array();
	struct listing l = { w, items, key_namespace(w->key), 0 };
	if (selector_read(&wanted, w->r->query) != 0)
		return dirstore_refuse(w, BAD_REQUEST, "a directory does not support this query");
	if (w->r->kind < KIND_MADE)
		index_each(w->store->index, w->r->kind, &wanted, list_one, &l);
	if (l.bad)
		return refuse_errno(w, l.bad);
	return answer_list(w, items);
}

void dirstore_do(struct dirstore *s, const char *namespace_name, const struct store_request *r,
                 struct local_answer *out)
{
	static enum fault (*const VERBS[])(struct work *) = {
		[STORE_CREATE] = do_create,   [STORE_GET] = do_get,
		[STORE_LIST] = dirstore_list, [STORE_PATCH] = do_patch,
		[STORE_DELETE] = do_delete,   [STORE_READY] = do_ready,
	};
	bool elsewhere = r->namespace_name != NULL && resource_of(r->kind)->namespaced &&
	                 strcmp(r->namespace_name, namespace_name) != 0;
	FREE_AUTO char *key = elsewhere ? xasprintf("%s~%s", r->namespace_name, dirstore_name_of(r))
	                                : xstrdup(dirstore_name_of(r));
	struct work w = { s, elsewhere ? r->namespace_name : namespace_name, key, r, out };
	*out = (struct local_answer){ .body = STR_SECRET(FILE_SIZE_MAX) };
	bool named = r->verb != STORE_LIST && r->verb != STORE_READY;
	if (named && r->kind < KIND_MADE && !segment_ok(dirstore_name_of(r)))
		(void)dirstore_refuse(&w, INVALID,
		                      "invalid name"); /* a key with ~ names another namespace */
	else if (r->kind < KIND_MADE || !named)
		(void)VERBS[r->verb](&w);
	else if (r->kind == KIND_PODTEMPLATE && r->dry_run)
		out->status = 201; /* the engine checks pods when they start */
	else if (r->verb == STORE_CREATE)
		(void)dirstore_refuse(&w, NOT_KEPT, "a directory does not store this kind");
	else
		(void)dirstore_refuse(&w, NOT_FOUND, "not found");
}

/* ---- statuses -------------------------------------------------------------------------- */

/* 0 or a negative errno. */
static int put_status(struct work *w, struct local_status *one)
{
	JSON_AUTO *object = NULL;
	int bad = dirstore_load(w->store, w->r->kind, w->key, &object);
	if (bad)
		return bad;
	json_t *meta = json_object_get(object, "metadata");
	json_t *status = json_loadb(one->status.p, one->status.n, JSON_DECODE_ANY, NULL);
	if (strcmp(one->uid, reply_text(meta, "uid")) != 0) {
		json_decref(status);
		return -ENOENT;
	}
	(void)parse_i64(span_of(reply_text(meta, "resourceVersion")), 0, INT64_MAX, &one->before);
	(void)json_object_set_new(object, "status", status); /* memory only */
	if (one->launched.n)
		(void)json_object_set_new(json_object_get(meta, "annotations"), "rest-lit/launched",
		                          json_stringn(one->launched.p, one->launched.n));
	set_version(w->store, meta);
	one->version = w->store->resource_version;
	bad = save(w, object);
	if (!bad)
		dirstore_tell(w->store, w->r->kind, w->key, object, false);
	return bad;
}

void dirstore_put_status(struct dirstore *s, const char *namespace_name, struct local_status *one)
{
	const struct store_request r = { .verb = STORE_PATCH,
		                         .kind = KIND_FRAMEWORK,
		                         .name = one->name };
	struct local_answer answer = { .body = STR_SECRET(FILE_SIZE_MAX) };
	struct work w = { s, namespace_name, one->name, &r, &answer };
	int bad = put_status(&w, one);
	if (bad)
		(void)refuse_errno(&w, bad);
	one->outcome = bad ? answer.outcome : STORE_OK;
	one->message = TAKE(answer.message);
	local_answer_done(&answer);
}

/* ---- opening ----------------------------------------------------------------------- */

/* The text of a member in what is left of an object; "" if it is none of a name. */
static struct span damaged_text(struct span text, const char *key)
{
	FREE_AUTO char *begin = xasprintf("\"%s\": \"", key);
	size_t at = span_find(text, 0, begin);
	if (at == SIZE_MAX)
		return SPAN("");
	struct span value = span_from(text, at + strlen(begin));
	value = span_to(value, span_chr(value, '"'));
	return value.n <= KEY_TEXT && span_only(value, "-._~") ? value : SPAN("");
}

/* A Framework with the names of the damaged one, and without its tasks: its uid is another one, so
 * that what depends on it is removed.  NULL if the names cannot be read. */
static json_t *damaged_framework(struct span text, const char *key, const char *now)
{
	char uid[UUID_TEXT];
	struct span job = damaged_text(text, "jobName");
	struct span user = damaged_text(text, "userName");
	struct span cluster = damaged_text(text, "virtualCluster");
	random_uuid(uid);
	cluster = cluster.n ? cluster : SPAN("default");
	if (job.n == 0 || user.n == 0)
		return NULL;
	return json_pack(
	    "{s:s, s:s, s:{s:s, s:s, s:s, s:{s:s%, s:s%}, s:{s:s%}}, s:{s:s, s:{s:b, s:i}, s:[]}}",
	    "apiVersion", api_version(resource_of(KIND_FRAMEWORK)), "kind", "Framework", "metadata",
	    "name", key, "uid", uid, "creationTimestamp", now, "labels", "userName", user.p, user.n,
	    "virtualCluster", cluster.p, cluster.n, "annotations", "jobName", job.p, job.n, "spec",
	    "executionType", "Start", "retryPolicy", "fancyRetryPolicy", 0, "maxRetryCount", 0,
	    "taskRoles");
}

/* The job has failed, whatever its state was. */
static void damaged_fail(json_t *framework, const char *now, const char *why)
{
	json_t *status = json_pack(
	    "{s:s, s:s, s:s, s:s, s:{s:i, s:i}, s:{s:i, s:s, s:s, s:{s:i, s:s, s:{s:s, s:[]}, "
	    "s:s}, s:[]}}",
	    "startTime", now, "completionTime", now, "state", "Completed", "transitionTime", now,
	    "retryPolicyStatus", "totalRetriedCount", 0, "accountableRetriedCount", 0,
	    "attemptStatus", "id", 0, "startTime", now, "completionTime", now, "completionStatus",
	    "code", DAMAGED_CODE, "phrase", "ObjectDamaged", "type", "name", "Failed", "attributes",
	    "diagnostics", why, "taskRoleStatuses");
	(void)json_object_set_new(framework, "status", status); /* memory only */
}

/* It is still being created, as ownership_is_unstarted says. */
static bool damaged_is_unstarted(const json_t *framework)
{
	const json_t *labels = json_object_get(json_object_get(framework, "metadata"), "labels");
	const char *type = reply_text(json_object_get(framework, "spec"), "executionType");
	return json_object_get(labels, "rest-lit/creating") || strcmp(type, "Create") == 0;
}

/* The job of a damaged object is the one in whose name it begins. */
static int damaged_end(struct dirstore *s, json_t *one)
{
	enum object_kind kind = (enum object_kind)json_integer_value(json_array_get(one, 0));
	const char *key = json_string_value(json_array_get(one, 1));
	FREE_AUTO char *job = xstrndup(key, strcspn(key, "-"));
	WIPED_STR text = STR_SECRET(FILE_SIZE_MAX);
	JSON_AUTO *framework = NULL;
	char now[RFC3339_MAX];
	(void)rfc3339_put(now, clock_wall_ms(), 0);
	bool lost = kind == KIND_FRAMEWORK;
	int bad = lost ? files_read(&s->files, kind, key, &text)
	               : dirstore_load(s, KIND_FRAMEWORK, job, &framework);
	/* One that is too large is read in part; a job can be gone, or its file damaged, too. */
	if (bad && bad != -EFBIG && bad != -ENOENT && bad != -EBADMSG && bad != -EINVAL)
		return bad;
	bad = files_set_aside(&s->files, kind, key);
	if (bad)
		return bad;
	FREE_AUTO char *why =
	    xasprintf("%s/%s.json was damaged (%s) and is now in damaged/",
	              resource_of(kind)->plural, key, json_string_value(json_array_get(one, 2)));
	if (lost)
		framework = damaged_framework(str_view(&text), job, now);
	json_t *meta = json_object_get(framework, "metadata");
	const char *state = reply_text(json_object_get(framework, "status"), "state");
	bool unstarted = damaged_is_unstarted(framework);
	if (unstarted) { /* so that a repetition of the submission creates it */
		bad = files_remove(&s->files, KIND_FRAMEWORK, job);
		if (bad)
			return bad;
		index_remove(s->index, reply_text(meta, "uid"));
	} else if (framework && strcmp(state, "Completed") != 0) {
		STR_AUTO json = STR_INIT(FILE_SIZE_MAX);
		FREE_AUTO char *ended = xasprintf("%s; the tasks of this job were ended", why);
		damaged_fail(framework, now, ended);
		set_version(s, meta);
		put_json(&json, framework, JSON_INDENT(2));
		bad = files_write(&s->files, KIND_FRAMEWORK, job, str_view(&json));
		if (bad)
			return bad;
		index_put(s->index, KIND_FRAMEWORK, job, meta);
	}
	const char *name = reply_text(json_object_get(meta, "annotations"), "jobName");
	const char *user = reply_text(json_object_get(meta, "labels"), "userName");
	FREE_AUTO char *sentence =
	    framework
		? xasprintf("%s; it is of job %s~%s, which %s", why, user, name,
	                    unstarted ? "was still being created and is removed" : "has failed")
		: xasprintf("%s; the name of its job cannot be read", why);
	return json_array_set_new(one, 2, json_string(sentence));
}

struct opening {
	struct dirstore *store;
	struct err *e;
	bool failed;
};

static void take_in(void *arg, enum object_kind kind, const char *key)
{
	struct opening *o = arg;
	JSON_AUTO *object = NULL;
	if (o->failed)
		return;
	int bad = dirstore_load(o->store, kind, key, &object);
	/* Not the content: the next start may be able to read it. */
	if (bad && bad != -EBADMSG && bad != -EFBIG) {
		o->failed = err_set(o->e, UNKNOWN_ERROR, "%s/%s.json cannot be read: %s",
		                    resource_of(kind)->plural, key, strerrordesc_np(-bad)) != 0;
		return;
	}
	if (bad) {
		const char *why = bad == -EBADMSG ? "it is not a valid object" : "it is too large";
		(void)json_array_append_new(o->store->damaged,
		                            json_pack("[i, s, s]", (int)kind, key, why));
		return;
	}
	const json_t *meta = json_object_get(object, "metadata");
	int64_t version = 0;
	(void)parse_i64(span_of(reply_text(meta, "resourceVersion")), 0, INT64_MAX - 1, &version);
	if (version > o->store->resource_version)
		o->store->resource_version = version;
	index_put(o->store->index, kind, key, meta);
}

struct dirstore *dirstore_open(const char *dir, struct err *e)
{
	struct dirstore *s = xcalloc(1, sizeof(*s));
	s->files = FILES_CLOSED;
	s->index = index_new();
	s->damaged = json_array();
	struct opening o = { s, e, files_open(&s->files, dir, e) != 0 };
	for (enum object_kind k = 0; k < KIND_MADE && !o.failed; k++) {
		if (files_each(&s->files, k, take_in, &o) != 0)
			o.failed = err_set(e, UNKNOWN_ERROR, "%s cannot be read", dir) != 0;
	}
	size_t i;
	json_t *one;
	json_array_foreach (s->damaged, i, one) {
		int bad = o.failed ? 0 : damaged_end(s, one);
		if (bad)
			o.failed =
			    err_set(e, UNKNOWN_ERROR, "%s: a damaged file cannot be set aside: %s",
			            dir, strerrordesc_np(-bad)) != 0;
	}
	if (o.failed) {
		dirstore_close(s);
		return NULL;
	}
	collect(s);
	return s;
}

void dirstore_transient(struct dirstore *s)
{
	s->files.transient = true;
}

void dirstore_close(struct dirstore *s)
{
	if (s == NULL)
		return;
	files_close(&s->files);
	index_free(s->index);
	json_decref(s->damaged);
	free(s);
}

static void tell_of(void *arg, const char *key)
{
	struct dirstore *s = arg;
	JSON_AUTO *object = NULL;
	if (dirstore_load(s, KIND_FRAMEWORK, key, &object) == 0)
		dirstore_tell(s, KIND_FRAMEWORK, key, object, false);
}

void dirstore_follow(struct dirstore *s, const struct local_follower *f, void *arg)
{
	struct selector all;
	s->follower = f;
	s->follower_arg = arg;
	size_t i;
	json_t *one;
	json_array_foreach (s->damaged, i, one)
		if (f->damaged)
			f->damaged(arg, json_string_value(json_array_get(one, 2)));
	if (selector_read(&all, NULL) == 0) /* always */
		index_each(s->index, KIND_FRAMEWORK, &all, tell_of, s);
}
