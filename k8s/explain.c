/* Refusals of the API server as sentences; see explain.h. */
#include "k8s/explain.h"

#include "k8s/paths.h"
#include "k8s/reply.h"

enum { ETCD_LIMIT = 1 << 20 }; /* etcd takes about 1.5 MB after the API server's own form */

static const char *const VERBS[] = {
	[STORE_CREATE] = "create", [STORE_GET] = "get",   [STORE_PATCH] = "patch",
	[STORE_DELETE] = "delete", [STORE_READY] = "get",
};

static size_t body_size(const struct store_request *r)
{
	return r->body[0].n + r->body[1].n + r->body[2].n;
}

static void too_large(struct err *e, const struct store_request *r)
{
	err_set(e, TOO_LARGE,
	        "the job is too large for the cluster: its %s has %zu bytes, and etcd takes "
	        "about 1.5 MB; use fewer task roles or shorter commands",
	        resource_of(r->kind)->kind, body_size(r));
}

static void forbidden(struct err *e, const struct store_request *r)
{
	STR_AUTO name = STR_INIT(256);
	resource_name(&name, r->kind);
	err_set(e, UNKNOWN_ERROR,
	        "the API server answered 403 Forbidden: this server's account needs the RBAC verb "
	        "\"%s\" on %s (or a quota or an admission rule refuses it)",
	        VERBS[r->verb], str_c(&name));
}

/* 404 to a POST, or to something that is not there for another reason than its name. */
static void not_served(struct err *e, const struct store_request *r, struct span body)
{
	STR_AUTO name = STR_INIT(256);
	JSON_AUTO *status = reply_parse(body);
	const char *what = reply_text(json_object_get(status, "details"), "kind");
	resource_name(&name, r->kind);
	if (strcmp(what, "namespaces") == 0)
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 404 Not Found: the namespace of the jobs does not "
		        "exist");
	else
		err_set(e, UNKNOWN_ERROR,
		        "the API server answered 404 Not Found: it has no %s (for frameworks: "
		        "the CRD of FrameworkController is not installed)",
		        str_c(&name));
}

void explain(struct err *e, const struct store_request *r, const struct store_reply *reply)
{
	const char *verb = VERBS[r->verb];
	const char *kind = resource_of(r->kind)->kind;
	struct span why = reply->message;
	switch (reply->status) {
	case 401:
		err_set(
		    e, UNKNOWN_ERROR,
		    "the API server answered 401 Unauthorized: it does not accept this server's "
		    "token or certificate");
		break;
	case 403:
		forbidden(e, r);
		break;
	case 404:
		not_served(e, r, reply->body);
		break;
	case 413:
		too_large(e, r);
		break;
	case 422:
		err_set(e, INVALID_PROTOCOL, "the API server refuses to %s the job's %s: %.*s",
		        verb, kind, (int)why.n, why.p);
		break;
	default:
		if (reply->status == 500 && body_size(r) > ETCD_LIMIT)
			too_large(e, r);
		else
			err_set(e, UNKNOWN_ERROR, "failed to %s the job's %s: %.*s", verb, kind,
			        (int)why.n, why.p);
	}
}
