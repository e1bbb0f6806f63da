#include "runtime-assets/kube.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime-assets/files.h"
#include "runtime-assets/init.h"
#include "runtime-assets/token.h"

enum {
	NAME_MAX_BYTES = 253, /* of a host, a namespace, an object */
	HEADERS_MAX = 64 * 1024
};

#define IN_CERTIFICATE "kubernetes.default.svc"
#define API            "/apis/frameworkcontroller.microsoft.com/v1/namespaces/"

struct kube {
	char *host; /* to connect to; IPv6 without brackets */
	uint16_t port;
	bool tls;
	char *server_name; /* in the certificate */
	struct trust *trust;
	bool mounted;        /* there is a token */
	char *token, *ca;    /* files */
	char *url, *address; /* for messages */
};

/* ---- names and addresses ------------------------------------------------------------------- */

static bool is_name(struct span t, const char *also)
{
	for (size_t i = 0; i < t.n; i++) {
		char c = t.p[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		if (!word && (c == '\0' || !strchr(also, c)))
			return false;
	}
	return t.n > 0 && t.n <= NAME_MAX_BYTES;
}

static bool is_host_name(struct span t)
{
	return is_name(t, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-");
}

static bool is_ip(const char *host, int family)
{
	unsigned char address[16];
	return inet_pton(family, host, address) == 1;
}

static bool is_number(const char *host)
{
	return is_ip(host, AF_INET) || is_ip(host, AF_INET6);
}

/* "HOST:PORT" with the brackets that IPv6 needs. */
static char *authority_text(const char *host, uint16_t port)
{
	bool six = strchr(host, ':') != NULL;
	return xasprintf(six ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
}

/* Host and port of "HOST[:PORT]" or "[IPV6][:PORT]"; -1 if it is neither. */
static int split_authority(struct span t, struct span *host, struct span *port)
{
	const char *end = t.p + t.n;
	const char *after;
	if (span_starts(t, "[")) {
		const char *close = memchr(t.p, ']', t.n);
		if (close == NULL)
			return -1;
		*host = (struct span){ t.p + 1, (size_t)(close - t.p) - 1 };
		after = close + 1;
	} else {
		const char *colon = memchr(t.p, ':', t.n);
		after = colon ? colon : end;
		*host = (struct span){ t.p, (size_t)(after - t.p) };
	}
	*port = SPAN("");
	if (after == end)
		return 0;
	*port = (struct span){ after + 1, (size_t)(end - after - 1) };
	return *after == ':' && port->n > 0 ? 0 : -1;
}

static int set_host(struct kube *k, struct span host, struct span port)
{
	int64_t number = k->tls ? 443 : 80;
	if (port.n && parse_i64(port, 1, UINT16_MAX, &number) != 0)
		return -1;
	if (host.n == 0 || host.n > NAME_MAX_BYTES || memchr(host.p, '\0', host.n))
		return -1;
	k->host = xstrndup(host.p, host.n);
	k->port = (uint16_t)number;
	return is_host_name(host) || is_number(k->host) ? 0 : -1;
}

/* The host of https://HOST..., if it is a name; NULL otherwise.  free() it. */
static char *name_in_address(const char *address)
{
	static const char HTTPS[] = "https://";
	if (address == NULL || strncmp(address, HTTPS, sizeof(HTTPS) - 1) != 0)
		return NULL;
	const char *host = address + sizeof(HTTPS) - 1;
	char *name = xstrndup(host, strcspn(host, ":/?#"));
	if (is_host_name(span_of(name)) && !is_number(name))
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
	k->tls = true;
	if (host == NULL)
		return err_set(e, FAILED,
		               "a service account is mounted (%s), but KUBERNETES_SERVICE_HOST is "
		               "not set: the kubelet sets it in every container",
		               k->token);
	if (set_host(k, span_of(host), span_of(port ? port : "443")) != 0)
		return err_set(
		    e, FAILED,
		    "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are no address");
	k->server_name = name_in_address(env_get("KUBE_APISERVER_ADDRESS"));
	return 0;
}

/* What follows http:// or https://, without the slash that may end it. */
static int use_url(struct kube *k, struct span rest, struct err *e)
{
	struct span host;
	struct span port;
	if (rest.n && rest.p[rest.n - 1] == '/')
		rest.n--;
	if (split_authority(rest, &host, &port) == 0 && set_host(k, host, port) == 0)
		return 0;
	return err_set(e, FAILED,
	               "KUBE_APISERVER_ADDRESS must be http://HOST:PORT or https://HOST:PORT");
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
	k->tls = span_starts(text, "https://");
	if (!k->tls && !span_starts(text, "http://"))
		return err_set(e, FAILED,
		               "KUBE_APISERVER_ADDRESS must start with http:// or https://");
	const char *rest = url + strlen(k->tls ? "https://" : "http://");
	if (use_url(k, span_of(rest), e) != 0)
		return -1;
	if (k->tls && !is_number(k->host))
		k->server_name = xstrdup(k->host);
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
	if (k->tls && open_tls(k, e) != 0)
		return -1;
	FREE_AUTO char *where = authority_text(k->host, k->port);
	k->url = xasprintf(k->tls ? "https://%s" : "http://%s", where);
	k->address = k->tls ? xasprintf("%s (%s)", k->url, k->server_name) : xstrdup(k->url);
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
	free(k->host);
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
	return k->tls ? k->ca : NULL;
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
		.host = k->host,
		.port = k->port,
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
	bool fine =
	    is_name(span_of(namespace_name), "-") && is_name(span_of(name), ".-") && name[0] != '.';
	if (fine)
		return arena_printf(a, API "%s/frameworks/%s", namespace_name, name);
	char quoted[2][4 * QUOTE_MAX];
	err_set(e, FAILED, "\"%s\" in namespace \"%s\" is no name of a Framework",
	        quote(quoted[0], span_of(name)), quote(quoted[1], span_of(namespace_name)));
	return NULL;
}
