/* Finds the API server by service account or variables, gets objects from it, and explains its
 * refusals. */
#include "runtime-assets/net/kube.h"

#include <errno.h>
#include <sys/stat.h>

#include "runtime-assets/common/cmdline.h"

enum { HEADERS_MAX = 64 * 1024 };

#define HTTPS          "https://"
#define IN_CERTIFICATE "kubernetes.default.svc"
#define NAMESPACES     "/namespaces/"
#define API            "/apis/frameworkcontroller.microsoft.com/v1" NAMESPACES

/* ---- opening --------------------------------------------------------------------------------- */

/* The address that the kubelet gives to every container. */
static int kube_use_service(struct kube *k, struct err *e)
{
	const char *host = env_get("KUBERNETES_SERVICE_HOST");
	const char *port = env_get("KUBERNETES_SERVICE_PORT");
	k->to.tls = true;
	if (host == NULL)
		return err_set(e, FAILED,
		               "a service account is mounted (%s), but KUBERNETES_SERVICE_HOST is "
		               "not set: the kubelet sets it in every container",
		               k->token);
	if (http_address_set(&k->to, span_of(host), span_of(port ? port : "443"), k->a) != 0)
		return err_set(
		    e, FAILED,
		    "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are no address");
	/* The name in its certificate: the host of KUBE_APISERVER_ADDRESS, if that is
	 * https://NAME... */
	const char *address = env_get("KUBE_APISERVER_ADDRESS");
	if (address == NULL || !span_starts(span_of(address), HTTPS))
		return 0;
	address += strlen(HTTPS);
	const char *name = arena_dup(k->a, (struct span){ address, strcspn(address, ":/?#") });
	if (is_host_name(span_of(name)) && !address_is_ip(name))
		k->server_name = name;
	return 0;
}

static int kube_use_address(struct kube *k, const struct layout *at, struct err *e)
{
	const char *url = env_get("KUBE_APISERVER_ADDRESS");
	if (url == NULL)
		return err_set(
		    e, FAILED,
		    "there is no way to the API server: no service account is mounted in "
		    "%s, and KUBE_APISERVER_ADDRESS is not set",
		    at->account);
	struct span text = span_of(url);
	if (!span_starts(text, HTTPS) && !span_starts(text, "http://"))
		return err_set(e, FAILED,
		               "KUBE_APISERVER_ADDRESS must start with http:// or https://");
	if (http_address_read(&k->to, text, k->a) != 0)
		return err_set(
		    e, FAILED,
		    "KUBE_APISERVER_ADDRESS must be http://HOST:PORT or https://HOST:PORT");
	if (k->to.tls && !address_is_ip(k->to.host))
		k->server_name = k->to.host;
	return 0;
}

static int kube_open_all(struct kube *k, const struct layout *at, struct err *e)
{
	struct stat st;
	k->token = path_join(k->a, at->account, "token");
	/* A file without permission counts: reading it gives the error. */
	if (stat(k->token, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
		k->token = NULL;
	if (k->token ? kube_use_service(k, e) : kube_use_address(k, at, e))
		return -1;
	bool six = strchr(k->to.host, ':') != NULL; /* it needs brackets */
	k->url = arena_printf(k->a, six ? "%s[%s]:%u" : "%s%s:%u", k->to.tls ? HTTPS : "http://",
	                      k->to.host, (unsigned)k->to.port);
	k->address = k->url;
	if (!k->to.tls)
		return 0;
	/* A certificate may lack the address; every API server's has this name. */
	if (k->server_name == NULL)
		k->server_name = IN_CERTIFICATE;
	k->address = arena_printf(k->a, "%s (%s)", k->url, k->server_name);
	k->ca = path_join(k->a, at->account, "ca.crt");
	k->ca_bundle = ca_bundle_load(k->ca, e);
	if (k->ca_bundle == NULL)
		return err_wrap(e, "no authority to check the API server's certificate with");
	return 0;
}

struct kube *kube_open(const struct layout *at, struct arena *a, struct err *e)
{
	struct kube *k = ARENA_NEW(a, struct kube, 1);
	k->a = a;
	return kube_open_all(k, at, e) == 0 ? k : NULL;
}

void kube_free(struct kube *k)
{
	if (k)
		ca_bundle_free(k->ca_bundle);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int kube_get(struct kube *k, const char *path, size_t body_max, int64_t deadline_ms,
             struct arena *a, struct http_reply *r, struct err *e)
{
	const struct http_request q = {
		.method = "GET",
		.host = k->to.host,
		.port = k->to.port,
		.ca_bundle = k->ca_bundle,
		.server_name = k->server_name,
		.target = path,
		.headers = "Accept: application/json\r\nUser-Agent: pai-runtime\r\n",
		.token_file = k->token,
		.headers_max = HEADERS_MAX,
		.body_max = body_max,
		.deadline_ms = deadline_ms,
	};
	return http_exchange(&q, a, r, e);
}

const char *kube_framework_path(const char *namespace_name, const char *name, struct arena *a,
                                struct err *e)
{
	/* "." and ".." would change the path. */
	bool fine = name_has_only(span_of(namespace_name), "a-z0-9-") &&
	            name_has_only(span_of(name), "a-z0-9.-") && name[0] != '.';
	if (fine)
		return arena_printf(a, API "%s/frameworks/%s", namespace_name, name);
	char quoted[2][4 * QUOTE_MAX];
	err_set(e, FAILED, "\"%s\" in namespace \"%s\" is no name of a Framework",
	        quote(quoted[0], span_of(name)), quote(quoted[1], span_of(namespace_name)));
	return NULL;
}

enum { ANSWER_MAX = 400 /* bytes of an answer in a message */ };

/* ---- answers --------------------------------------------------------------------------------- */

const struct node *kube_json(struct span text, struct arena *a)
{
	static const struct budget SMALL = { 16, 1000, 65536, 1024 };
	ERR_AUTO why = { 0 };
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	bool good = text.n > 0 && text.n <= SMALL.text && utf8_check(text) == text.n &&
	            json_read(text, &SMALL, a, doc, NULL, &why) == 0;
	return good ? &doc->root : NULL;
}

static const char *kube_status_name(int status)
{
	static const struct {
		int status;
		const char *name;
	} NAMES[] = { { 401, "Unauthorized" },   { 403, "Forbidden" },
		      { 404, "Not Found" },      { 429, "Too Many Requests" },
		      { 500, "Internal Error" }, { 502, "Bad Gateway" },
		      { 503, "Unavailable" },    { 504, "Gateway Timeout" } };
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
		if (NAMES[i].status == status)
			return NAMES[i].name;
	}
	return "";
}

void kube_answer(const struct http_reply *r, struct str *out)
{
	ARENA_AUTO a = { 0 };
	const struct node *json = kube_json(r->body, &a);
	struct span text = span_trim(json ? span_of(node_text(json, "message")) : r->body);
	const char *name = kube_status_name(r->status);
	str_printf(out, "%d%s%s", r->status, *name ? " " : "", name);
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
	const struct node *json = r->status == 404 ? kube_json(r->body, &a) : NULL;
	return strcmp(node_text(json, "kind"), "Status") == 0 &&
	       strcmp(node_text(node_get(json, "details"), "name"), name) == 0;
}

/* ---- explanations ---------------------------------------------------------------------------- */

void kube_explain(const struct kube *k, int status, const char *path, struct str *out)
{
	if (k->token == NULL) {
		str_printf(out,
		           "The request to %s was anonymous: no token of a service account is "
		           "mounted (/var/run/secrets/kubernetes.io/serviceaccount/token).",
		           k->address);
		return;
	}
	ARENA_AUTO a = { 0 };
	struct token_claims c = { 0 };
	STR_AUTO about = STR_INIT(4096);
	token_describe(k->token, clock_wall_ms() / 1000, &a, &c, &about);
	if (status == 403) {
		const char *home = strstr(path, NAMESPACES);
		home = home ? home + strlen(NAMESPACES) : "";
		str_puts(out, "The service account ");
		if (c.account)
			str_printf(out, "%s/%s ", c.namespace_name, c.account);
		str_printf(out,
		           "lacks the right (RBAC) to `get` " FRAMEWORKS " in namespace %.*s; "
		           "k8s/deploy/jobs/runtime-account.yaml gives it. ",
		           (int)strcspn(home, "/?"), home);
	} else if (status == 401) {
		str_puts(out, "The API server " KUBE_NOT_TAKEN " ");
	}
	str_printf(out, "Token: %s (%s). \"pai-runtime check-api\" in the pod says more.", k->token,
	           str_c(&about));
}

/* ---- claims ---------------------------------------------------------------------------------- */

int token_claims(struct span jwt, struct arena *a, struct token_claims *out)
{
	struct span rest = jwt;
	(void)span_next(&rest, '.');
	struct span payload = span_next(&rest, '.');
	struct span json;
	const struct node *root = NULL;
	bool three = payload.p + payload.n < jwt.p + jwt.n; /* a dot follows */
	if (three && jwt.n <= TOKEN_MAX && base64url_decode(a, payload, &json) == 0)
		root = kube_json(json, a);
	if (!root)
		return -1;
	const struct node *expires = node_get(root, "exp");
	*out = (struct token_claims){ 0 };
	if (node_is(expires, NODE_INT) && expires->integer > 0)
		out->expires_s = expires->integer;
	/* "system:serviceaccount:NAMESPACE:NAME": in all tokens of service accounts, old and new.
	 */
	static const char START[] = "system:serviceaccount:";
	struct span sub = span_of(node_text(root, "sub"));
	if (!span_starts(sub, START))
		return 0;
	struct span name = span_from(sub, strlen(START));
	struct span space = span_next(&name, ':');
	if (name_has_only(space, "a-z0-9.-") && name_has_only(name, "a-z0-9.-")) {
		out->namespace_name = arena_dup(a, space);
		out->account = arena_dup(a, name);
	}
	return 0;
}

/* ---- sentences ------------------------------------------------------------------------------- */

void duration_in_words(struct str *out, int64_t seconds)
{
	static const struct {
		int64_t seconds;
		const char *name;
	} UNITS[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" } };
	/* A unit counts from two on: "90 s", not "1 min". */
	for (size_t i = 0; i < ARRAY_SIZE(UNITS); i++) {
		if (seconds >= 2 * UNITS[i].seconds) {
			str_printf(out, "%lld %s", (long long)(seconds / UNITS[i].seconds),
			           UNITS[i].name);
			return;
		}
	}
	str_printf(out, "%lld s", (long long)(seconds < 0 ? 0 : seconds));
}

void token_describe(const char *file, int64_t now_s, struct arena *a, struct token_claims *c,
                    struct str *out)
{
	STR_AUTO token = STR_SECRET(TOKEN_MAX);
	ERR_AUTO e = { 0 };
	struct stat st;
	*c = (struct token_claims){ 0 };
	if (token_append(file, &token, &e) != 0) {
		str_puts(out, err_msg(&e));
		return;
	}
	if (token_claims(str_view(&token), a, c) != 0) {
		str_puts(out, "no token of a service account");
	} else {
		if (c->account)
			str_printf(out, "service account %s/%s, ", c->namespace_name, c->account);
		int64_t left_s = c->expires_s - now_s;
		if (c->expires_s == 0) {
			str_puts(out, "never expires");
		} else {
			str_puts(out, left_s > 0 ? "expires in " : "EXPIRED ");
			duration_in_words(out, left_s > 0 ? left_s : -left_s);
			str_puts(out, left_s > 0 ? "" : " ago");
		}
	}
	if (stat(file, &st) == 0) {
		str_puts(out, ", file written ");
		duration_in_words(out, now_s - st.st_mtime);
		str_puts(out, " ago");
	}
}
