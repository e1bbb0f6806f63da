/* Decides by status and body of an answer if the request was executed, and explains refusals
 * without quoting them. */
#include "jobs/store/reply.h"

#include "base/json/fields.h"
#include "jobs/store/paths.h"

enum { DEPTH_MAX = 64, WORD_MAX = 200, FIELDS_MAX = 5 };

bool reply_valid(struct span body)
{
	return scan_type(body) == SCAN_OBJECT && scan_valid(body, DEPTH_MAX);
}

json_t *reply_parse(struct span body)
{
	return reply_valid(body) ? json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

const char *reply_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* ---- a Status of the API server ---- */

struct reply_status {
	struct span kind, reason, message, object_kind, object_name;
	struct span causes; /* JSON */
};

#define AT(member) offsetof(struct reply_status, member)
static const struct scan_field DETAILS[] = {
	{ "kind", SCAN_TO_TEXT, AT(object_kind), NULL },
	{ "name", SCAN_TO_TEXT, AT(object_name), NULL },
	{ "causes", SCAN_TO_RAW, AT(causes), NULL },
	{ 0 },
};
static const struct scan_field STATUS[] = {
	{ "kind", SCAN_TO_TEXT, AT(kind), NULL },
	{ "reason", SCAN_TO_TEXT, AT(reason), NULL },
	{ "message", SCAN_TO_TEXT, AT(message), NULL },
	{ "details", SCAN_TO_MEMBERS, 0, DETAILS },
	{ 0 },
};

struct status_cause {
	struct span reason, field;
};
static const struct scan_field CAUSE[] = {
	{ "reason", SCAN_TO_TEXT, offsetof(struct status_cause, reason), NULL },
	{ "field", SCAN_TO_TEXT, offsetof(struct status_cause, field), NULL },
	{ 0 },
};

/* All are empty if the body is no Status. */
static struct reply_status status_of(struct span body, struct arena *a)
{
	struct reply_status s = { 0 };
	if (reply_valid(body))
		(void)scan_fields(body, STATUS, &s, a); /* malformed members count as absent */
	return span_is(s.kind, "Status") ? s : (struct reply_status){ 0 };
}

static bool status_next_cause(struct scan *causes, struct arena *a, struct status_cause *out)
{
	struct span item;
	if (!scan_item(causes, &item))
		return false;
	(void)scan_fields(item, CAUSE, out, a); /* as above */
	return true;
}

/* etcd rejected the size of an object; nothing was stored.  The Status has no reason for it, so
 * this compares the two known messages. */
static bool status_is_too_large(const struct reply_status *s)
{
	return span_starts(s->message, "etcdserver: request is too large") ||
	       span_starts(s->message, "rpc error: code = ResourceExhausted desc = trying to send "
	                               "message larger than max ");
}

/* Consists of characters of words and field paths only. */
static bool reply_is_harmless(struct span text)
{
	return text.n > 0 && text.n <= WORD_MAX && span_only_alnum_or(text, "._-/[]");
}

void reply_digest(struct str *out, struct span body)
{
	ARENA_AUTO a = { 0 };
	struct reply_status s = status_of(body, &a);
	struct scan causes = scan_begin(s.causes);
	struct status_cause cause;
	if (!s.kind.n)
		return;
	str_span(out, reply_is_harmless(s.reason) ? s.reason : SPAN("no reason given"));
	for (size_t named = 0; named < FIELDS_MAX && status_next_cause(&causes, &a, &cause);) {
		if (!reply_is_harmless(cause.field))
			continue;
		str_puts(out, named++ ? ", " : ": ");
		str_span(out, cause.field);
		if (reply_is_harmless(cause.reason))
			str_printf(out, " (%.*s)", (int)cause.reason.n, cause.reason.p);
	}
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
 *	2xx without an object             not an API server: may have been executed
 *
 * A request that may have been executed is repeated only if it is idempotent.
 */

static bool is_reading(const struct store_request *r)
{
	return r->verb == STORE_GET || r->verb == STORE_LIST || r->verb == STORE_READY;
}

/* A repetition is harmless: reading, a patch with absolute values, deleting by uid. */
static bool is_idempotent(const struct store_request *r)
{
	return is_reading(r) || r->verb == STORE_PATCH || (r->verb == STORE_DELETE && r->uid);
}

/* Classifies an answer with another status than 2xx. */
static struct reply_class reply_refused(const struct store_request *r, const struct api_exchange *x)
{
	ARENA_AUTO a = { 0 };
	struct reply_status s = status_of(x->answer, &a);
	switch (x->status) {
	case 403:
		return (struct reply_class){ STORE_REFUSED, x->just_connected && !r->look };
	case 404:
		/* A Status about the object, not about its namespace or its resource; not the 404
		 * of a proxy. */
		if (r->verb != STORE_CREATE && r->verb != STORE_LIST &&
		    span_is(s.reason, "NotFound") && span_is(s.object_name, r->name))
			return (struct reply_class){ STORE_NOT_FOUND, false };
		/* A resource without a JSON answer is not served yet. */
		return (struct reply_class){ STORE_REFUSED, !x->answer.p && x->just_connected };
	case 409:
		return (struct reply_class){ r->verb == STORE_CREATE ? STORE_EXISTS
			                                             : STORE_CONFLICT,
			                     false };
	case 429:
	case 503:
		return (struct reply_class){ STORE_BUSY, true };
	default:
		if (x->status < 500 || (x->status == 500 && status_is_too_large(&s)))
			return (struct reply_class){ STORE_REFUSED, false };
		return (struct reply_class){ STORE_AMBIGUOUS, is_idempotent(r) };
	}
}

struct reply_class reply_classify(const struct store_request *r, const struct api_exchange *x)
{
	/* One item of a list that is nested too deep must not hide the others. */
	bool parsed = r->verb != STORE_DELETE && r->verb != STORE_LIST;
	bool object = x->answer.p && !span_is(scan_get(x->answer, "kind"), "\"Status\"");
	struct reply_class v = { STORE_OK, false };
	if (x->complete && (x->status < 200 || x->status >= 300))
		v = reply_refused(r, x);
	else if (!x->complete && x->too_large && is_reading(r))
		v = (struct reply_class){ STORE_REFUSED, false };
	else if (!x->complete && (!x->begun || is_reading(r)))
		v = (struct reply_class){ STORE_BUSY, !x->permanent };
	else if (!x->complete || (!object && parsed))
		v = (struct reply_class){ STORE_AMBIGUOUS, is_idempotent(r) };
	if (r->verb == STORE_READY) { /* the caller polls */
		v.again = false;
		if (v.outcome == STORE_NOT_FOUND)
			v.outcome = STORE_OK;
	}
	return v;
}

/* ---- lists ---- */

struct span reply_items(struct span list, struct str *more)
{
	enum { ITEMS, METADATA, N };
	static const char *const KEYS[N] = { "items", "metadata" };
	ARENA_AUTO a = { 0 };
	struct span v[N];
	scan_members(scan_valid(list, SCAN_DEPTH_MAX) ? list : SPAN(""), KEYS, v, N);
	/* Go writes an empty list as null. */
	if (scan_type(v[ITEMS]) != SCAN_ARRAY && scan_type(v[ITEMS]) != SCAN_NULL)
		return (struct span){ NULL, 0 };
	struct span token = scan_text(scan_get(v[METADATA], "continue"), &a);
	if (token.n <= CONTINUE_MAX)
		str_span(more, token);
	return v[ITEMS];
}

/* ---- messages: one sentence for each status ---- */

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

/* The authorizer sees the path only: its answer to a POST has no name.  Admission (a quota) answers
 * with the name. */
static void explain_forbidden(struct err *e, const struct store_request *r,
                              const struct reply_status *s)
{
	STR_AUTO resource = STR_INIT(512); /* as a role names it: "secrets in namespace x" */
	resource_name(&resource, r->kind);
	if (!resource_of(r->kind)->namespaced)
		str_puts(&resource, ", in a ClusterRole");
	else if (r->namespace_name != NULL)
		str_printf(&resource, " in namespace %s", r->namespace_name);
	else
		str_puts(&resource, " in the namespace of the jobs");
	if (r->verb == STORE_CREATE && s->object_name.n > 0)
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 403 Forbidden: a quota or an admission rule of "
		        "the cluster refuses to %s %s",
		        VERBS[r->verb], str_c(&resource));
	else
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 403 Forbidden: this server's account needs the "
		        "RBAC verb \"%s\" on %s",
		        VERBS[r->verb], str_c(&resource));
}

/* 404 to a POST, or because the namespace or the resource does not exist. */
static void explain_not_served(struct err *e, const struct store_request *r,
                               const struct reply_status *s)
{
	ARENA_AUTO a = { 0 };
	const char *name = arena_dup(&a, s->object_name);
	STR_AUTO resource = STR_INIT(256);
	resource_name(&resource, r->kind);
	if (span_is(s->object_kind, "namespaces"))
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 404 Not Found: the namespace %s does not exist",
		        segment_ok(name) ? name : "of the jobs");
	else
		err_set(e, UNKNOWN_ERROR, "the API server answered 404 Not Found: it has no %s%s",
		        str_c(&resource),
		        r->kind == KIND_FRAMEWORK ? "; their CRD is not installed" : "");
}

static void reply_too_large(struct err *e, const struct store_request *r, const char *limit)
{
	err_set(
	    e, TOO_LARGE,
	    "the job is too large for the cluster: its %s has %zu bytes, more than %s; use fewer "
	    "task roles or shorter commands",
	    resource_of(r->kind)->kind, body_size(r), limit);
}

void explain_refusal(struct err *e, const struct store_request *r, const struct store_reply *reply)
{
	ARENA_AUTO a = { 0 };
	struct reply_status s = status_of(reply->body, &a);
	const char *kind = resource_of(r->kind)->kind;
	struct span why = reply->message;
	struct scan causes = scan_begin(s.causes);
	struct status_cause cause;
	bool too_long = false;
	switch (reply->status) {
	case 400:
	case 422:
		while (!too_long && status_next_cause(&causes, &a, &cause))
			too_long = span_is(cause.reason, "FieldValueTooLong");
		if (too_long)
			reply_too_large(e, r,
			                "Kubernetes allows (1048576 in a Secret or ConfigMap, "
			                "262144 in annotations)");
		else
			err_set(e, INVALID_PROTOCOL, "the API server refuses the job's %s: %.*s",
			        kind, (int)why.n, why.p);
		return;
	case 401:
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 401 Unauthorized: it does not accept this "
		        "server's token or certificate");
		return;
	case 403:
		explain_forbidden(e, r, &s);
		return;
	case 404:
		explain_not_served(e, r, &s);
		return;
	case 413:
		reply_too_large(e, r, "the API server accepts in one request (3145728)");
		return;
	case 507: /* only the database of one machine answers so */
		err_set(e, UNAVAILABLE,
		        "the directory in which this server keeps jobs cannot be written (%.*s): "
		        "the disk is full or read-only",
		        (int)why.n, why.p);
		return;
	default:
		break;
	}
	/* The API server answers 500 if etcd rejects the size. */
	if (reply->status == 500 && (status_is_too_large(&s) || body_size(r) > ETCD_LIMIT))
		reply_too_large(e, r,
		                "etcd accepts in one object (its --max-request-bytes, 1572864 by "
		                "default)");
	else
		err_set(e, UNKNOWN_ERROR, "failed to create the job's %s: %.*s", kind, (int)why.n,
		        why.p);
}
