#pragma once
/* An API server in memory for the janitor: objects as JSON, a clock, lists in pages, preconditions
 * of DELETE; it refuses or fails as the test sets. */
#include "tests/unit/jobs/kit.h"

#include <jansson.h>

#include "jobs/store/store_internal.h"

#define SUBMISSION "0123456789abcdef0123456789abcdef"

enum { YARD = 3000, NOW_S = 1700000000, AGE_MS = 300000, MADE_S = NOW_S - 200 };
#define LONG_AGO "2023-11-14T22:10:00Z" /* MADE_S: AGE_MS later it is old, and not yet twice so */

struct thing {
	enum object_kind kind;
	json_t *object; /* NULL: deleted */
};

struct yard {
	struct store s; /* first */
	struct thing things[YARD];
	size_t n_things, version;
	int64_t date_s;
	size_t verbs[STORE_READY + 1]; /* requests by verb */
	size_t requests;
	/* A request of this verb and kind comes to this; STORE_OUTCOME_MAX: none does. */
	struct {
		enum store_verb verb;
		enum object_kind kind;
		enum store_outcome outcome;
		int status;
	} fault;
	bool not_selected;    /* lists have all objects, with any query */
	bool not_whole_lists; /* a list of all at once is too large */
	const char *list;     /* what lists are answered with; NULL: with lists */
	void (*meanwhile)(struct yard *y, const struct store_request *q); /* before each request */
	char queries[4][8192]; /* the first ones since yard_forget */
	size_t n_queries;
	char *body, uid[256], resource_version[256]; /* of the answer */
	struct pending *p;
	struct store_reply reply;
};

/* ---- objects -------------------------------------------------------------------------- */

static inline json_t *meta_of(const json_t *object)
{
	return json_object_get(object, "metadata");
}

static inline const char *meta_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(meta_of(object), key));
	return text ? text : "";
}

static inline struct thing *yard_find(struct yard *y, enum object_kind kind, const char *name)
{
	for (size_t i = 0; i < y->n_things; i++) {
		struct thing *t = &y->things[i];
		if (t->object && t->kind == kind && strcmp(meta_text(t->object, "name"), name) == 0)
			return t;
	}
	return NULL;
}

static inline bool yard_has(struct yard *y, enum object_kind kind, const char *name)
{
	return yard_find(y, kind, name) != NULL;
}

static inline size_t yard_count(const struct yard *y, enum object_kind kind)
{
	size_t n = 0;
	for (size_t i = 0; i < y->n_things; i++)
		n += y->things[i].object && y->things[i].kind == kind;
	return n;
}

static inline void set_version(struct yard *y, json_t *object)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%zu", ++y->version);
	(void)json_object_set_new(meta_of(object), "resourceVersion", json_string(text));
}

/* Takes the object, and gives it a uid if it has none. */
static inline json_t *yard_add(struct yard *y, enum object_kind kind, json_t *object)
{
	char uid[32];
	assert_non_null(object);
	assert_true(y->n_things < YARD);
	(void)snprintf(uid, sizeof(uid), "uid-%zu", y->n_things);
	if (json_object_get(meta_of(object), "uid") == NULL)
		(void)json_object_set_new(meta_of(object), "uid", json_string(uid));
	set_version(y, object);
	y->things[y->n_things++] = (struct thing){ kind, object };
	return object;
}

/* Returns a Framework as a killed server leaves it; a new reference. */
static inline json_t *half_made(const char *name)
{
	return json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:s}, s:{s:s}}, s:{s:s}}", "kind", "Framework",
	                 "metadata", "name", name, "creationTimestamp", LONG_AGO, "labels",
	                 "rest-lit/instance", "here", "rest-lit/creating", "true", "annotations",
	                 "rest-lit/submission", SUBMISSION, "spec", "executionType", "Create");
}

static inline json_t *class_of(const char *framework)
{
	char name[80];
	(void)snprintf(name, sizeof(name), "%s-priority", framework);
	return json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:s}, s:{s:s}}}", "kind", "PriorityClass",
	                 "metadata", "name", name, "creationTimestamp", LONG_AGO, "labels",
	                 "rest-lit/instance", "here", "rest-lit/namespace", "jobs", "annotations",
	                 "rest-lit/submission", SUBMISSION);
}

/* The name of the i-th job: 32 hex digits, in order. */
static inline const char *job(size_t i)
{
	static char names[4][33];
	static size_t turn;
	char *name = names[turn++ % 4];
	(void)snprintf(name, 33, "%032zx", i);
	return name;
}

/* ---- requests ------------------------------------------------------------------------- */

static inline void answer(struct yard *y, struct store_reply *r, json_t *object)
{
	free(y->body);
	y->body = json_dumps(object, JSON_COMPACT);
	(void)snprintf(y->uid, sizeof(y->uid), "%s", meta_text(object, "uid"));
	(void)snprintf(y->resource_version, sizeof(y->resource_version), "%s",
	               meta_text(object, "resourceVersion"));
	r->outcome = STORE_OK;
	r->status = 200;
	r->body = span_of(y->body);
	r->uid = span_of(y->uid);
	r->resource_version = span_of(y->resource_version);
}

static inline json_t *part_of(const json_t *object, bool whole)
{
	json_t *copy = json_deep_copy(object);
	if (!whole) {
		(void)json_object_del(copy, "spec");
		(void)json_object_del(copy, "status");
	}
	return copy;
}

static inline void get(struct yard *y, const struct store_request *q, struct store_reply *r)
{
	const struct thing *t = yard_find(y, q->kind, q->name);
	r->outcome = STORE_NOT_FOUND;
	r->status = 404;
	if (t == NULL)
		return;
	json_auto_t *part = part_of(t->object, q->whole);
	answer(y, r, part);
}

static inline bool has_label(const json_t *object, const char *key, const char *value)
{
	const json_t *label = json_object_get(json_object_get(meta_of(object), "labels"), key);
	const char *is = json_string_value(label);
	return label && (value == NULL || (is && strcmp(is, value) == 0));
}

static inline bool is_selected(const struct store_request *q, const json_t *object)
{
	if (!has_label(object, "rest-lit/instance", "here"))
		return false;
	if (q->kind == KIND_FRAMEWORK)
		return has_label(object, "rest-lit/creating", NULL);
	return has_label(object, "rest-lit/namespace", "jobs");
}

static inline int by_name(const void *a, const void *b)
{
	const json_t *const *x = a;
	const json_t *const *y = b;
	return strcmp(meta_text(*x, "name"), meta_text(*y, "name"));
}

/* Number after KEY= in a query, or `otherwise`. */
static inline size_t parameter(const char *query, const char *key, size_t otherwise)
{
	const char *at = strstr(query, key);
	int64_t n = 0;
	if (at == NULL)
		return otherwise;
	at += strlen(key);
	assert_int_equal(parse_i64((struct span){ at, strcspn(at, "&") }, 0, 1000000, &n), 0);
	return (size_t)n;
}

static inline void list(struct yard *y, const struct store_request *q, struct store_reply *r)
{
	static json_t *sorted[YARD];
	size_t n = 0;
	assert_false(q->whole);
	assert_non_null(strstr(q->query, "labelSelector=rest-lit%2Finstance%3Dhere%2Crest-"));
	if (y->n_queries < 4)
		kept_copy(y->queries[y->n_queries++], sizeof(y->queries[0]), span_of(q->query));
	if (y->not_whole_lists && strstr(q->query, "limit=") == NULL) {
		r->outcome = STORE_REFUSED;
		r->status = 200;
		return;
	}
	for (size_t i = 0; i < y->n_things; i++) {
		if (y->things[i].object && y->things[i].kind == q->kind &&
		    (y->not_selected || is_selected(q, y->things[i].object)))
			sorted[n++] = y->things[i].object;
	}
	qsort(sorted, n, sizeof(*sorted), by_name);
	size_t from = parameter(q->query, "continue=", 0);
	size_t to = from + parameter(q->query, "limit=", YARD);
	json_t *items = json_array();
	for (size_t i = from; i < n && i < to; i++)
		(void)json_array_append_new(items, part_of(sorted[i], false));
	char next[24] = "";
	if (to < n)
		(void)snprintf(next, sizeof(next), "%zu", to);
	json_auto_t *all = json_pack("{s:o, s:{s:s, s:s}}", "items", items, "metadata",
	                             "resourceVersion", "1", "continue", next);
	answer(y, r, all);
	if (y->list)
		r->body = span_of(y->list);
}

static inline void delete (struct yard *y, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = yard_find(y, q->kind, q->name);
	assert_non_null(q->uid);
	assert_non_null(q->resource_version);
	r->outcome = STORE_NOT_FOUND;
	r->status = 404;
	if (t == NULL)
		return;
	r->outcome = STORE_CONFLICT;
	r->status = 409;
	if (strcmp(q->uid, meta_text(t->object, "uid")) != 0 ||
	    strcmp(q->resource_version, meta_text(t->object, "resourceVersion")) != 0)
		return;
	r->outcome = STORE_OK;
	r->status = 200;
	json_decref(t->object);
	t->object = NULL;
}

static inline void yard_begin(struct store *s, struct pending *p)
{
	static void (*const VERBS[])(struct yard *, const struct store_request *,
	                             struct store_reply *) = {
		[STORE_GET] = get,
		[STORE_LIST] = list,
		[STORE_DELETE] = delete,
	};
	struct yard *y = (struct yard *)s;
	struct store_reply *r = &y->reply;
	const struct store_request *q = &p->r;
	assert_null(y->p); /* one at a time */
	*r = (struct store_reply){ .body = SPAN(""), .uid = SPAN(""), .message = SPAN("fault") };
	r->resource_version = SPAN("");
	r->date_s = y->date_s;
	y->requests++;
	y->verbs[q->verb]++;
	if (y->meanwhile)
		y->meanwhile(y, q);
	bool fails = y->fault.outcome != STORE_OUTCOME_MAX && y->fault.verb == q->verb &&
	             y->fault.kind == q->kind;
	if (fails) {
		r->outcome = y->fault.outcome;
		r->status = y->fault.status;
	} else {
		VERBS[q->verb](y, q, r);
	}
	y->p = p;
}

static inline void yard_poll(struct store *s)
{
	struct yard *y = (struct yard *)s;
	if (y->p == NULL)
		return;
	struct pending *p = y->p;
	y->p = NULL;
	store_finish(s, p, &y->reply);
}

static inline int yard_nothing(const struct store *s)
{
	(void)s;
	return -1;
}

static inline int yard_at_once(const struct store *s)
{
	return ((const struct yard *)s)->p ? 0 : -1;
}

static inline void yard_free(struct store *s)
{
	struct yard *y = (struct yard *)s;
	for (size_t i = 0; i < y->n_things; i++)
		json_decref(y->things[i].object);
	free(y->body);
	store_done(s);
}

static inline void yard_init(struct yard *y)
{
	static const struct store_ops OPS = {
		.begin = yard_begin,
		.poll = yard_poll,
		.fd = yard_nothing,
		.timeout_ms = yard_at_once,
		.abort = yard_poll,
		.free = yard_free,
	};
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	*y = (struct yard){ .date_s = NOW_S, .fault = { .outcome = STORE_OUTCOME_MAX } };
	store_init(&y->s, &OPS, "jobs", &limits);
}

/* Resets the counts. */
static inline void yard_forget(struct yard *y)
{
	memset(y->verbs, 0, sizeof(y->verbs));
	y->n_queries = y->requests = 0;
}
