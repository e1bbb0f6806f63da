/* What the API server says, and what to tell people about it; see kube.h. */
#include "runtime-assets/net/kube.h"

#include <time.h>

#include "base/json/json.h"
#include "runtime-assets/net/token.h"

enum { ANSWER_MAX = 400 /* bytes of what the API server says that stand in a message */ };

/* ---- answers --------------------------------------------------------------------------------- */

/* The object in a body; false if it is none. */
static bool read_body(const struct http_reply *r, struct arena *a, struct doc *doc)
{
	static const struct budget SMALL = { 16, 1000, 65536, 1024 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO why = { 0 };
	bool syntax = false;
	return r->body.n > 0 && r->body.n <= SMALL.text &&
	       json_read(r->body, &SMALL, a, doc, &warnings, &syntax, &why) == 0;
}

static const char *status_name(int status)
{
	static const struct {
		int status;
		const char *name;
	} NAMES[] = { { 401, "Unauthorized" },   { 403, "Forbidden" },
		      { 404, "Not Found" },      { 429, "Too Many Requests" },
		      { 500, "Internal Error" }, { 502, "Bad Gateway" },
		      { 503, "Unavailable" },    { 504, "Gateway Timeout" } };
	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
		if (NAMES[i].status == status)
			return NAMES[i].name;
	}
	return "";
}

void kube_answer(const struct http_reply *r, struct str *out)
{
	ARENA_AUTO a = { 0 };
	struct doc doc = { 0 };
	struct span text = r->body;
	const char *name = status_name(r->status);
	str_printf(out, "%d%s%s", r->status, *name ? " " : "", name);
	if (read_body(r, &a, &doc)) {
		const struct node *message = node_get(&doc.root, "message");
		text = node_is(message, NODE_TEXT) ? node_span(message) : SPAN("");
	}
	text = span_trim(text);
	if (span_is(text, name)) /* 401, Unauthorized */
		text = SPAN("");
	size_t n = text.n < ANSWER_MAX ? text.n : ANSWER_MAX;
	if (n > 0)
		str_puts(out, ", ");
	for (size_t i = 0; i < n; i++)
		str_put(out, text.p[i] < ' ' || text.p[i] > '~' ? " " : &text.p[i], 1);
	if (n < text.n)
		str_puts(out, "...");
}

bool kube_says_missing(const struct http_reply *r, const char *name)
{
	ARENA_AUTO a = { 0 };
	struct doc doc = { 0 };
	if (r->status != 404 || !read_body(r, &a, &doc))
		return false;
	const struct node *kind = node_get(&doc.root, "kind");
	const struct node *named = node_get(node_get(&doc.root, "details"), "name");
	return node_is(kind, NODE_TEXT) && span_is(node_span(kind), "Status") &&
	       node_is(named, NODE_TEXT) && span_is(node_span(named), name);
}

/* ---- explaining -------------------------------------------------------------------------------
 */

/* Unix time: what tokens and files are dated by. */
static int64_t now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec;
}

/* Namespace in a path of the API; empty if there is none in it. */
static struct span namespace_of(const char *path)
{
	static const char WORD[] = "/namespaces/";
	const char *found = strstr(path, WORD);
	if (found == NULL)
		return SPAN("");
	found += sizeof(WORD) - 1;
	return (struct span){ found, strcspn(found, "/?") };
}

static void write_grant(const struct token_claims *c, const char *namespace_name,
                        const char *indent, struct str *out)
{
	const char *account = c->account ? c->account : "runtime-account";
	const char *home = c->account ? c->namespace_name : namespace_name;
	str_printf(out,
	           "%skubectl -n %s create role runtime-account --verb=get \\\n"
	           "%s  --resource=" FRAMEWORKS "\n",
	           indent, namespace_name, indent);
	str_printf(out,
	           "%skubectl -n %s create rolebinding runtime-account \\\n"
	           "%s  --role=runtime-account --serviceaccount=%s:%s\n",
	           indent, namespace_name, indent, home, account);
}

void kube_grant(const struct kube *k, const char *namespace_name, const char *indent,
                struct str *out)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO ignored = STR_INIT(4096);
	struct token_claims c = { 0 };
	const char *token = kube_token_file(k);
	if (token)
		token_describe(token, now_s(), &a, &c, &ignored);
	write_grant(&c, namespace_name, indent, out);
}

static void explain_right(const struct token_claims *c, struct span namespace_name, struct str *out)
{
	str_puts(out, "The service account ");
	if (c->account)
		str_printf(out, "%s/%s ", c->namespace_name, c->account);
	str_printf(out,
	           "lacks the right (RBAC) to `get` " FRAMEWORKS " in namespace %.*s; "
	           "runtime-assets/rbac.yaml gives it. ",
	           (int)namespace_name.n, namespace_name.p);
}

void kube_explain(const struct kube *k, int status, const char *path, struct str *out)
{
	const char *token = kube_token_file(k);
	if (token == NULL) {
		str_printf(out,
		           "The request to %s was anonymous: no token of a service account is "
		           "mounted (/var/run/secrets/kubernetes.io/serviceaccount/token).",
		           kube_address(k));
		return;
	}
	ARENA_AUTO a = { 0 };
	struct token_claims c = { 0 };
	STR_AUTO about = STR_INIT(4096);
	token_describe(token, now_s(), &a, &c, &about);
	if (status == 403)
		explain_right(&c, namespace_of(path), out);
	else if (status == 401)
		str_puts(out, "The API server does not take the token: it has expired, its service "
		              "account or pod is gone, or it is one of another cluster. ");
	str_printf(out, "Token: %s (%s). \"pai-runtime check-api\" in the pod says more.", token,
	           str_c(&about));
}
