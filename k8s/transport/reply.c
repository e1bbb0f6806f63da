#include "k8s/transport/reply.h"

#include <stdio.h>

#include "base/str.h"
#include "k8s/transport/paths.h"

enum { DEPTH_MAX = 64, WORD_MAX = 200, FIELDS_MAX = 5 };

/* jansson allows 2048 levels; objects of Kubernetes need at most 64. */
static bool too_deep(struct span text)
{
	size_t depth = 0;
	bool in_text = false;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (in_text) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_text = false;
		} else if (c == '"') {
			in_text = true;
		} else if (c == '{' || c == '[') {
			if (++depth > DEPTH_MAX)
				return true;
		} else if ((c == '}' || c == ']') && depth > 0) {
			depth--;
		}
	}
	return false;
}

json_t *reply_parse(struct span body)
{
	if (too_deep(body))
		return NULL;
	json_t *j = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

const char *reply_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* Consists of characters of words and field paths only. */
static bool reply_is_harmless(const char *text)
{
	size_t n = strlen(text);
	return n > 0 && n <= WORD_MAX &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                    "._-/[]") == n;
}

void reply_digest(struct str *out, const json_t *status)
{
	if (strcmp(reply_text(status, "kind"), "Status") != 0)
		return;
	const char *reason = reply_text(status, "reason");
	str_puts(out, reply_is_harmless(reason) ? reason : "no reason given");
	json_t *causes = json_object_get(json_object_get(status, "details"), "causes");
	size_t named = 0;
	size_t i;
	json_t *cause;
	json_array_foreach (causes, i, cause) {
		const char *field = reply_text(cause, "field");
		if (named == FIELDS_MAX || !reply_is_harmless(field))
			continue;
		str_printf(out, "%s%s", named++ ? ", " : ": ", field);
		reason = reply_text(cause, "reason");
		if (reply_is_harmless(reason))
			str_printf(out, " (%s)", reason);
	}
}

static bool reply_has_cause(const json_t *status, const char *reason)
{
	size_t i;
	json_t *cause;
	json_array_foreach (json_object_get(json_object_get(status, "details"), "causes"), i,
	                    cause) {
		if (strcmp(reply_text(cause, "reason"), reason) == 0)
			return true;
	}
	return false;
}

/* etcd rejected the size of an object; nothing was stored.  The Status has no reason for it, so
 * this compares the two known messages. */
static bool reply_is_too_large(const json_t *status)
{
	static const char *const SENTENCES[] = {
		"etcdserver: request is too large",
		"rpc error: code = ResourceExhausted desc = trying to send message larger than "
		"max ",
	};
	struct span message = span_of(reply_text(status, "message"));
	if (strcmp(reply_text(status, "kind"), "Status") != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(SENTENCES); i++) {
		if (span_starts(message, SENTENCES[i]))
			return true;
	}
	return false;
}

/* A Status about the object of this name, not about its namespace or its resource; not the 404 of a
 * proxy. */
static bool reply_is_not_found(const json_t *status, const char *name)
{
	const json_t *details = json_object_get(status, "details");
	return strcmp(reply_text(status, "kind"), "Status") == 0 &&
	       strcmp(reply_text(status, "reason"), "NotFound") == 0 &&
	       strcmp(reply_text(details, "name"), name) == 0;
}

const char *reply_mark(const json_t *object, const char *mark)
{
	const json_t *meta = json_object_get(object, "metadata");
	char key[64];
	(void)snprintf(key, sizeof(key), "rest-lit/%s", mark);
	const char *text = reply_text(json_object_get(meta, "annotations"), key);
	return text[0] != '\0' ? text : reply_text(json_object_get(meta, "labels"), key);
}

bool reply_is_ours(struct span body, const char *submission_id)
{
	JSON_AUTO *object = reply_parse(body);
	return strcmp(reply_mark(object, "submission"), submission_id) == 0;
}

/*
 * ---- classification ----
 *
 *	no answer, no connection          not executed: again
 *	no answer on a connection         may have been executed; also 500, 502, 504
 *	429, 503                          not executed: again
 *	500, object too large for etcd    not executed
 *	403, or 404 without a Status,     the API server has just started: again
 *	  soon after connecting
 *	404 with a Status of this name    the object does not exist
 *
 * A request that may have been executed is repeated only if it is idempotent.
 */

/* A repetition is harmless: reading, a patch with absolute values, deleting by uid. */
static bool is_idempotent(const struct store_request *r)
{
	switch (r->verb) {
	case STORE_GET:
	case STORE_LIST:
	case STORE_READY:
	case STORE_PATCH:
		return true;
	case STORE_DELETE:
		return r->uid != NULL;
	case STORE_CREATE:
		return false;
	}
	return false;
}

static bool is_reading(const struct store_request *r)
{
	return r->verb == STORE_GET || r->verb == STORE_LIST || r->verb == STORE_READY;
}

static struct reply_class no_answer(const struct store_request *r, const struct exchange *x)
{
	if (x->too_large && is_reading(r))
		return (struct reply_class){ STORE_REFUSED, false };
	if (!x->begun || is_reading(r))
		return (struct reply_class){ STORE_BUSY, !x->permanent };
	return (struct reply_class){ STORE_AMBIGUOUS, is_idempotent(r) };
}

static struct reply_class not_found(const struct store_request *r, const struct exchange *x)
{
	bool of_one = r->verb != STORE_CREATE && r->verb != STORE_LIST;
	if (of_one && reply_is_not_found(x->answer, r->name))
		return (struct reply_class){ STORE_NOT_FOUND, false };
	/* A Status is about the namespace; without one the resource is not served yet. */
	return (struct reply_class){ STORE_REFUSED, x->answer == NULL && x->just_connected };
}

static struct reply_class reply_refused(const struct store_request *r, const struct exchange *x)
{
	switch (x->status) {
	case 403:
		return (struct reply_class){ STORE_REFUSED, x->just_connected && !r->look };
	case 404:
		return not_found(r, x);
	case 409:
		return (struct reply_class){ r->verb == STORE_CREATE ? STORE_EXISTS
			                                             : STORE_CONFLICT,
			                     false };
	case 429:
		return (struct reply_class){ STORE_BUSY, true };
	default:
		return (struct reply_class){ STORE_REFUSED, false };
	}
}

static struct reply_class reply_failed(const struct store_request *r, const struct exchange *x)
{
	if (x->status == 503)
		return (struct reply_class){ STORE_BUSY, true };
	if (x->status == 500 && reply_is_too_large(x->answer))
		return (struct reply_class){ STORE_REFUSED, false };
	return (struct reply_class){ STORE_AMBIGUOUS, is_idempotent(r) };
}

/* The caller parses lists item by item, because an invalid item must not hide the others. */
static bool is_parsed(const struct store_request *r)
{
	return r->verb != STORE_DELETE && r->verb != STORE_LIST;
}

struct reply_class reply_classify(const struct store_request *r, const struct exchange *x)
{
	struct reply_class v = { STORE_OK, false };
	if (!x->complete)
		v = no_answer(r, x);
	else if (x->status >= 500)
		v = reply_failed(r, x);
	else if (x->status < 200 || x->status >= 300)
		v = reply_refused(r, x);
	else if (x->answer == NULL && is_parsed(r))
		v = (struct reply_class){ STORE_AMBIGUOUS,
			                  is_idempotent(r) }; /* not an API server */
	if (r->verb == STORE_READY) {                         /* the caller polls */
		v.again = false;
		if (v.outcome == STORE_NOT_FOUND)
			v.outcome = STORE_OK;
	}
	return v;
}

/* ---- lists, item by item ---- */

struct cutter {
	const char *p, *end;
};

static bool is_at(struct cutter *s, char c)
{
	while (s->p < s->end && strchr(" \t\r\n", *s->p) != NULL && *s->p != '\0')
		s->p++;
	return s->p < s->end && *s->p == c;
}

static bool reply_take(struct cutter *s, char c)
{
	bool there = is_at(s, c);
	s->p += there;
	return there;
}

/* The position after the string that begins at p; `end` if it does not end. */
static const char *skip_text(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++) {
		if (*p == '\\' && p + 1 < end)
			p++;
	}
	return p < end ? p + 1 : end;
}

/* The position after the map or list that begins at p.  The parser checks that brackets match. */
static const char *skip_nested(const char *p, const char *end)
{
	size_t depth = 0;
	while (p < end) {
		if (*p == '"') {
			p = skip_text(p, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if ((*p == '}' || *p == ']') && --depth == 0)
			return p + 1;
		p++;
	}
	return end;
}

/* One value of any type; empty if there is none. */
static struct span take_value(struct cutter *s)
{
	bool nested = is_at(s, '{') || is_at(s, '[');
	bool text = is_at(s, '"');
	const char *from = s->p;
	if (nested)
		s->p = skip_nested(from, s->end);
	else if (text)
		s->p = skip_text(from, s->end);
	else
		while (s->p < s->end && strchr(",]} \t\r\n", *s->p) == NULL)
			s->p++;
	return (struct span){ from, (size_t)(s->p - from) };
}

static int reply_cut(struct span list, item_callback *each, void *arg)
{
	struct cutter s = { list.p, list.p + list.n };
	if (!reply_take(&s, '['))
		return -1;
	if (reply_take(&s, ']'))
		return 0;
	do {
		struct span text = take_value(&s);
		if (text.n == 0)
			return -1;
		JSON_AUTO *item = reply_parse(text);
		if (item != NULL)
			each(arg, item);
	} while (reply_take(&s, ','));
	return reply_take(&s, ']') ? 0 : -1;
}

static void put_continue(struct span metadata, struct str *more)
{
	JSON_AUTO *meta = reply_parse(metadata);
	const char *token = reply_text(meta, "continue");
	if (strlen(token) <= CONTINUE_MAX)
		str_puts(more, token);
}

int items_each(struct span list, item_callback *each, void *arg, struct str *more)
{
	struct cutter s = { list.p, list.p + list.n };
	bool is_list = false;
	if (!reply_take(&s, '{'))
		return -1;
	do {
		struct span key = take_value(&s);
		if (!reply_take(&s, ':'))
			return -1;
		struct span value = take_value(&s);
		if (value.n == 0)
			return -1;
		if (span_is(key, "\"items\"")) {
			is_list = true;
			/* Go writes an empty list as null. */
			if (!span_is(value, "null") && reply_cut(value, each, arg) < 0)
				return -1;
		} else if (span_is(key, "\"metadata\"")) {
			put_continue(value, more);
		}
	} while (reply_take(&s, ','));
	return is_list && reply_take(&s, '}') ? 0 : -1;
}

/* ---- messages ---- */

enum { ETCD_LIMIT = 1 << 20 }; /* etcd accepts about 1.5 MB in the encoding of the API server */

static const char *const VERBS[] = {
	[STORE_CREATE] = "create", [STORE_GET] = "get",       [STORE_LIST] = "list",
	[STORE_PATCH] = "patch",   [STORE_DELETE] = "delete", [STORE_READY] = "get",
};

void explain_action(struct str *out, const struct store_request *r)
{
	str_printf(out, "%s ", VERBS[r->verb]);
	resource_name(out, r->kind);
	if (r->namespace_name != NULL && resource_of(r->kind)->namespaced)
		str_printf(out, " in namespace %s", r->namespace_name);
}

static size_t body_size(const struct store_request *r)
{
	return r->body[0].n + r->body[1].n + r->body[2].n;
}

static const char *reply_kind_of(const struct store_request *r)
{
	return resource_of(r->kind)->kind;
}

/* The resource as a role names it: "secrets in namespace x". */
static void put_resource(struct str *out, const struct store_request *r)
{
	resource_name(out, r->kind);
	if (!resource_of(r->kind)->namespaced)
		str_puts(out, ", in a ClusterRole");
	else if (r->namespace_name != NULL)
		str_printf(out, " in namespace %s", r->namespace_name);
	else
		str_puts(out, " in the namespace of the jobs");
}

/* ---- one sentence for each status -------------------------------------------------- */

/* A refused request. */
struct refusal {
	const struct store_request *r;
	const json_t *status; /* NULL if the answer is no JSON object */
	struct span why;
};

typedef void explainer(struct err *e, const struct refusal *x);

static void unauthorized(struct err *e, const struct refusal *x)
{
	(void)x;
	err_set(e, UNKNOWN_ERROR,
	        "the API server answered 401 Unauthorized: it does not accept this server's "
	        "token or certificate");
}

/* The authorizer sees the path only: its answer to a POST has no name.  Admission (a quota) answers
 * with the name. */
static void forbidden(struct err *e, const struct refusal *x)
{
	const json_t *details = json_object_get(x->status, "details");
	STR_AUTO resource = STR_INIT(512);
	put_resource(&resource, x->r);
	if (x->r->verb == STORE_CREATE && reply_text(details, "name")[0] != '\0')
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 403 Forbidden: a quota or an admission rule of "
		        "the cluster refuses to %s %s",
		        VERBS[x->r->verb], str_c(&resource));
	else
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 403 Forbidden: this server's account needs the "
		        "RBAC verb \"%s\" on %s",
		        VERBS[x->r->verb], str_c(&resource));
}

/* 404 to a POST, or because the namespace or the resource does not exist. */
static void not_served(struct err *e, const struct refusal *x)
{
	const json_t *details = json_object_get(x->status, "details");
	const char *name = reply_text(details, "name");
	STR_AUTO resource = STR_INIT(256);
	resource_name(&resource, x->r->kind);
	if (strcmp(reply_text(details, "kind"), "namespaces") == 0)
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 404 Not Found: the namespace %s does not exist",
		        segment_ok(name) ? name : "of the jobs");
	else
		err_set(e, UNKNOWN_ERROR, "the API server answered 404 Not Found: it has no %s%s",
		        str_c(&resource),
		        x->r->kind == KIND_FRAMEWORK
		            ? "; the CRD of FrameworkController is not installed"
		            : "");
}

static void reply_too_large(struct err *e, const struct store_request *r, const char *limit)
{
	err_set(
	    e, TOO_LARGE,
	    "the job is too large for the cluster: its %s has %zu bytes, more than %s; use fewer "
	    "task roles or shorter commands",
	    reply_kind_of(r), body_size(r), limit);
}

static void body_too_large(struct err *e, const struct refusal *x)
{
	reply_too_large(e, x->r, "the API server accepts in one request (3145728)");
}

/* The API server answers 500 if etcd rejects the size. */
static void etcd_too_large(struct err *e, const struct refusal *x)
{
	reply_too_large(e, x->r,
	                "etcd accepts in one object (its --max-request-bytes, 1572864 by default)");
}

static void invalid(struct err *e, const struct refusal *x)
{
	if (reply_has_cause(x->status, "FieldValueTooLong"))
		reply_too_large(e, x->r,
		                "Kubernetes allows (1048576 in a Secret or ConfigMap, 262144 in "
		                "annotations)");
	else
		err_set(e, INVALID_PROTOCOL, "the API server refuses the job's %s: %.*s",
		        reply_kind_of(x->r), (int)x->why.n, x->why.p);
}

static void other(struct err *e, const struct refusal *x)
{
	err_set(e, UNKNOWN_ERROR, "failed to create the job's %s: %.*s", reply_kind_of(x->r),
	        (int)x->why.n, x->why.p);
}

/* Only a directory answers so. */
static void unwritable(struct err *e, const struct refusal *x)
{
	err_set(e, UNAVAILABLE,
	        "the directory in which this server keeps jobs cannot be written (%.*s): the disk "
	        "is full or read-only",
	        (int)x->why.n, x->why.p);
}

static const struct {
	int status;
	explainer *explain;
} BY_STATUS[] = {
	{ 400, invalid },        { 401, unauthorized }, { 403, forbidden },  { 404, not_served },
	{ 413, body_too_large }, { 422, invalid },      { 507, unwritable },
};

static explainer *explainer_of(const struct refusal *x, int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(BY_STATUS); i++) {
		if (BY_STATUS[i].status == status)
			return BY_STATUS[i].explain;
	}
	if (status == 500 && (reply_is_too_large(x->status) || body_size(x->r) > ETCD_LIMIT))
		return etcd_too_large;
	return other;
}

void explain_refusal(struct err *e, const struct store_request *r, const struct store_reply *reply)
{
	JSON_AUTO *status = reply_parse(reply->body);
	struct refusal x = { r, status, reply->message };
	explainer_of(&x, reply->status)(e, &x);
}
