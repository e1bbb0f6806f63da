#include "runtime-assets/net/kube.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime-assets/args.h"
#include "runtime-assets/files.h"
#include "runtime-assets/net/address.h"
#include "runtime-assets/net/token.h"

enum { HEADERS_MAX = 64 * 1024 };

#define IN_CERTIFICATE "kubernetes.default.svc"
#define API            "/apis/frameworkcontroller.microsoft.com/v1/namespaces/"

struct kube {
	struct address to;
	char *server_name; /* in the certificate */
	struct trust *trust;
	bool mounted;        /* there is a token */
	char *token, *ca;    /* files */
	char *url, *address; /* for messages */
};

/* ---- names and addresses ------------------------------------------------------------------- */

/* The host of https://HOST..., if it is a name; NULL otherwise.  free() it. */
static char *name_in_address(const char *address)
{
	static const char HTTPS[] = "https://";
	if (address == NULL || strncmp(address, HTTPS, sizeof(HTTPS) - 1) != 0)
		return NULL;
	const char *host = address + sizeof(HTTPS) - 1;
	char *name = xstrndup(host, strcspn(host, ":/?#"));
	if (is_host_name(span_of(name)) && !address_is_ip(name))
		return name;
	free(name);
	return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The address that the kubelet gives to every container. */
static int use_service(struct kube *k, struct err *e)
{
	const char *host = env_get("KUBERNETES_SERVICE_HOST");
	const char *port = env_get("KUBERNETES_SERVICE_PORT");
	k->to.tls = true;
	if (host == NULL)
		return err_set(e, FAILED,
		               "a service account is mounted (%s), but KUBERNETES_SERVICE_HOST is "
		               "not set: the kubelet sets it in every container",
		               k->token);
	if (address_set(&k->to, span_of(host), span_of(port ? port : "443")) != 0)
		return err_set(
		    e, FAILED,
		    "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are no address");
	k->server_name = name_in_address(env_get("KUBE_APISERVER_ADDRESS"));
	return 0;
}

static int use_address(struct kube *k, const struct layout *at, struct err *e)
{
	const char *url = env_get("KUBE_APISERVER_ADDRESS");
	if (url == NULL)
		return err_set(
		    e, FAILED,
		    "there is no way to the API server: no service account is mounted in "
		    "%s, and KUBE_APISERVER_ADDRESS is not set",
		    at->account);
	struct span text = span_of(url);
	if (!span_starts(text, "https://") && !span_starts(text, "http://"))
		return err_set(e, FAILED,
		               "KUBE_APISERVER_ADDRESS must start with http:// or https://");
	if (address_read(&k->to, text) != 0)
		return err_set(
		    e, FAILED,
		    "KUBE_APISERVER_ADDRESS must be http://HOST:PORT or https://HOST:PORT");
	if (k->to.tls && !address_is_ip(k->to.host))
		k->server_name = xstrdup(k->to.host);
	return 0;
}

static int open_tls(struct kube *k, struct err *e)
{
	/* Addresses in certificates are not looked at; this name is in that of any API server. */
	if (k->server_name == NULL)
		k->server_name = xstrdup(IN_CERTIFICATE);
	k->trust = trust_load(k->ca, e);
	if (k->trust == NULL)
		return err_wrap(e, "no authority to check the API server's certificate with");
	return 0;
}

/* Also what we may not look at: reading it will tell. */
static bool is_there(const char *file)
{
	struct stat st;
	return stat(file, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static int open_all(struct kube *k, const struct layout *at, struct err *e)
{
	k->ca = xasprintf("%s/ca.crt", at->account);
	k->token = xasprintf("%s/token", at->account);
	k->mounted = is_there(k->token);
	if (k->mounted ? use_service(k, e) : use_address(k, at, e))
		return -1;
	if (k->to.tls && open_tls(k, e) != 0)
		return -1;
	k->url = address_url(&k->to);
	k->address = k->to.tls ? xasprintf("%s (%s)", k->url, k->server_name) : xstrdup(k->url);
	return 0;
}

struct kube *kube_open(const struct layout *at, struct err *e)
{
	struct kube *k = xcalloc(1, sizeof(*k));
	if (open_all(k, at, e) == 0)
		return k;
	kube_free(k);
	return NULL;
}

void kube_free(struct kube *k)
{
	if (k == NULL)
		return;
	if (k->trust)
		trust_free(k->trust);
	address_done(&k->to);
	free(k->server_name);
	free(k->token);
	free(k->ca);
	free(k->url);
	free(k->address);
	free(k);
}

const char *kube_address(const struct kube *k)
{
	return k->address;
}

const char *kube_url(const struct kube *k)
{
	return k->url;
}

const char *kube_token_file(const struct kube *k)
{
	return k->mounted ? k->token : NULL;
}

const char *kube_ca_file(const struct kube *k)
{
	return k->to.tls ? k->ca : NULL;
}

const char *kube_server_name(const struct kube *k)
{
	return k->server_name;
}

/* ---- asking ------------------------------------------------------------------------------------
 */

/* A gateway may show what it refuses, headers and all; and what it says goes to logs. */
static void hide_token(const char *token, struct http_reply *r)
{
	if (r->status != 200 && span_find(r->body, 0, token) != SIZE_MAX)
		r->body = SPAN("(an answer with the token in it: not shown)");
}

/* The parameters are those of the door.  NOLINTNEXTLINE(readability-function-size) */
int kube_get(struct kube *k, const char *path, size_t body_max, int64_t deadline_ms,
             struct arena *a, struct http_reply *r, struct err *e)
{
	static const char BEARER[] = "Authorization: Bearer ";
	STR_AUTO bearer = STR_SECRET(TOKEN_MAX + 32);
	if (k->mounted) {
		str_puts(&bearer, BEARER);
		if (token_append(k->token, &bearer, e) != 0)
			return HTTP_BAD_REQUEST;
	}
	const char *const headers[] = { "Accept: application/json", "User-Agent: pai-runtime",
		                        k->mounted ? str_c(&bearer) : NULL, NULL };
	const struct http_request q = {
		.method = "GET",
		.host = k->to.host,
		.port = k->to.port,
		.trust = k->trust,
		.server_name = k->server_name,
		.target = path,
		.headers = headers,
		.headers_max = HEADERS_MAX,
		.body_max = body_max,
		.deadline_ms = deadline_ms,
	};
	int trouble = http_exchange(&q, a, r, e);
	if (trouble == 0 && k->mounted)
		hide_token(str_c(&bearer) + strlen(BEARER), r);
	return trouble;
}

const char *kube_framework_path(const char *namespace_name, const char *name, struct arena *a,
                                struct err *e)
{
	/* Dots alone would mean another place. */
	bool fine = name_has_only(span_of(namespace_name), "-") &&
	            name_has_only(span_of(name), ".-") && name[0] != '.';
	if (fine)
		return arena_printf(a, API "%s/frameworks/%s", namespace_name, name);
	char quoted[2][4 * QUOTE_MAX];
	err_set(e, FAILED, "\"%s\" in namespace \"%s\" is no name of a Framework",
	        quote(quoted[0], span_of(name)), quote(quoted[1], span_of(namespace_name)));
	return NULL;
}
