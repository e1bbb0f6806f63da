/* Refusals of the API server as sentences; see explain.h. */
#include "k8s/transport/explain.h"

#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"

enum { ETCD_LIMIT = 1 << 20 }; /* etcd takes about 1.5 MB after the API server's own form */

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

static const char *kind_of(const struct store_request *r)
{
	return resource_of(r->kind)->kind;
}

/* What a role has to name: "secrets in namespace x". */
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

/* An answer, as what says why is handed it. */
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

/* The authorizer looks at the path alone: a POST that it refuses has no name yet.  What admission
 * refuses, a quota say, has one. */
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

/* 404 to a POST, or to something that is not there for another reason than its name. */
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

static void too_large(struct err *e, const struct store_request *r, const char *limit)
{
	err_set(
	    e, TOO_LARGE,
	    "the job is too large for the cluster: its %s has %zu bytes, more than %s; use fewer "
	    "task roles or shorter commands",
	    kind_of(r), body_size(r), limit);
}

static void body_too_large(struct err *e, const struct refusal *x)
{
	too_large(e, x->r, "the API server takes in one request (3145728)");
}

/* Of what etcd does not take the API server says 500. */
static void etcd_too_large(struct err *e, const struct refusal *x)
{
	too_large(e, x->r,
	          "etcd takes of one object (its --max-request-bytes, 1572864 if it is not set)");
}

static void invalid(struct err *e, const struct refusal *x)
{
	if (reply_has_cause(x->status, "FieldValueTooLong"))
		too_large(e, x->r,
		          "Kubernetes allows (1048576 in a Secret or ConfigMap, 262144 in "
		          "annotations)");
	else
		err_set(e, INVALID_PROTOCOL, "the API server refuses the job's %s: %.*s",
		        kind_of(x->r), (int)x->why.n, x->why.p);
}

static void other(struct err *e, const struct refusal *x)
{
	err_set(e, UNKNOWN_ERROR, "failed to make the job's %s: %.*s", kind_of(x->r), (int)x->why.n,
	        x->why.p);
}

/* Of a directory; API servers do not say that. */
static void unwritable(struct err *e, const struct refusal *x)
{
	err_set(e, UNAVAILABLE,
	        "the directory in which this server keeps jobs takes no more (%.*s): the disk is "
	        "full, or read-only",
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
	for (size_t i = 0; i < sizeof(BY_STATUS) / sizeof(BY_STATUS[0]); i++) {
		if (BY_STATUS[i].status == status)
			return BY_STATUS[i].explain;
	}
	if (status == 500 && (reply_is_too_large(x->status) || body_size(x->r) > ETCD_LIMIT))
		return etcd_too_large;
	return other;
}

void explain(struct err *e, const struct store_request *r, const struct store_reply *reply)
{
	JSON_AUTO *status = reply_parse(reply->body);
	struct refusal x = { r, status, reply->message };
	explainer_of(&x, reply->status)(e, &x);
}
