/* Credentials for the API server.  Files are read at start and by login_refresh, never by a
 * loop. */
#include "k8s/transport/login.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "jobs/store/paths.h"
#include "k8s/http/endpoint.h"

enum { TOKEN_MAX = 16384, HEADER_MAX = 20000 };
enum { CLAIMS_DEPTH = 32 };

static const char SERVICE_ACCOUNT[] = "/var/run/secrets/kubernetes.io/serviceaccount";

static void free_secret(char **text)
{
	if (*text != NULL)
		memory_wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

/* ---- PEM --------------------------------------------------------------------------- */

#define PEM_NONE ((struct login_pem){ .fd = -1 })

static const char BEGIN[] = "-----BEGIN ";
static const char END[] = "-----END ";

/* An anonymous file in memory; -1 and errno. */
static int memory_file(struct span text)
{
	int fd = memfd_create("rest-lit", MFD_CLOEXEC);
	if (fd >= 0 && fd_write_all(fd, text) == 0)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

/* Loads from a file or from inline data; neither: PEM_NONE.  -1 and *e (500). */
static int pem_load(struct login_pem *p, const char *file, const char *data, struct err *e)
{
	*p = PEM_NONE;
	if (file == NULL && data == NULL)
		return 0;
	const char *what = file ? file : "inline data of the kubeconfig";
	p->used = file ? config_file_text(file, e) : xstrdup(data);
	if (p->used == NULL)
		return -1;
	if (strstr(p->used, BEGIN) == NULL)
		return err_set(e, UNKNOWN_ERROR, "%s: is not in the PEM format", what);
	p->fd = memory_file(span_of(p->used));
	if (p->fd < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: no memory file: %s", what,
		               strerrordesc_np(errno));
	p->path = xasprintf("/proc/self/fd/%d", p->fd);
	p->file = file ? xstrdup(file) : NULL;
	return 0;
}

static void pem_done(struct login_pem *p)
{
	if (p->fd >= 0)
		(void)close(p->fd); /* in memory */
	free(p->path);
	free(p->file);
	free_secret(&p->used);
	free_secret(&p->seen);
	*p = PEM_NONE;
}

static size_t login_count(const char *text, const char *what)
{
	size_t n = 0;
	while ((text = strstr(text, what)) != NULL) {
		text += strlen(what);
		n++;
	}
	return n;
}

/* Reads the file; true if it is complete and equal to the content read last. */
static bool pem_is_steady(struct login_pem *p)
{
	ERR_AUTO ignored = { 0 };
	if (p->file == NULL)
		return true;
	char *now = config_file_text(p->file, &ignored);
	size_t begins = now ? login_count(now, BEGIN) : 0;
	bool steady = begins > 0 && login_count(now, END) == begins &&
	              strcmp(now, p->seen ? p->seen : p->used) == 0;
	if (now == NULL || strcmp(now, p->used) == 0)
		free_secret(&now);
	free_secret(&p->seen);
	p->seen = now;
	return steady;
}

/* Reads the files again.  Changes take effect when all files are complete and the same at two calls
 * in a row: never half a file, nor a certificate with the key of another. */
static void pem_refresh(struct login_pem *const *all, size_t n)
{
	bool steady = true;
	for (size_t i = 0; i < n; i++)
		steady &= pem_is_steady(all[i]);
	for (size_t i = 0; i < n && steady; i++) {
		struct login_pem *p = all[i];
		if (p->seen == NULL)
			continue;
		/* Atomically replaces the file that the path names. */
		int fd = memory_file(span_of(p->seen));
		if (fd >= 0 && dup3(fd, p->fd, O_CLOEXEC) >= 0) {
			free_secret(&p->used);
			p->used = TAKE(p->seen);
		}
		fd_cleanup(&fd);
	}
}

/* ---- the token --------------------------------------------------------------------- */

/* Reads the token from the file if it is not NULL, as kubectl does; else from the text. */
static char *login_read_token(const char *file, const char *text, const char *from, struct err *e)
{
	char *all = file ? config_file_text(file, e) : xstrdup(text);
	if (all == NULL)
		return NULL;
	struct span t = span_trim(span_of(all));
	char *token = NULL;
	if (t.n > 0 && t.n <= TOKEN_MAX && login_is_visible(t))
		token = xstrndup(t.p, t.n);
	else
		err_set(e, UNKNOWN_ERROR,
		        "%s: a token is one word of at most %d visible characters",
		        file ? file : from, TOKEN_MAX);
	free_secret(&all);
	return token;
}

void login_refresh(struct login *l)
{
	ERR_AUTO e = { 0 };
	pem_refresh((struct login_pem *const[]){ &l->ca, &l->cert, &l->key }, 3);
	if (l->token_file == NULL)
		return;
	char *token = login_read_token(l->token_file, NULL, NULL, &e);
	if (token == NULL)
		return; /* can be half written: keep the old one */
	(void)pthread_mutex_lock(&l->lock);
	if (strcmp(token, l->token) != 0) {
		char *old = l->token;
		l->token = token;
		token = old;
		l->version++;
	}
	(void)pthread_mutex_unlock(&l->lock);
	free_secret(&token);
}

void login_header_refresh(struct login *l, struct login_header *h)
{
	LOCK_AUTO(&l->lock);
	if (h->version != l->version) {
		str_wipe(&h->line);
		h->line = (struct str)STR_SECRET(HEADER_MAX);
		if (l->token != NULL) {
			str_puts(&h->line, "Authorization: Bearer ");
			str_puts(&h->line, l->token);
		}
	}
	h->version = l->version;
}

CURL *login_curl(const struct login *l, struct err *e)
{
	/* http is accepted for loopback only */
	return curl_new(l->url, &(struct curl_pem){ l->ca.path, l->cert.path, l->key.path }, e);
}

void login_set_headers(CURL *h, struct curl_slist **headers, struct login *l,
                       struct login_header *own)
{
	login_header_refresh(l, own);
	if (own->line.n > 0)
		curl_add_header(headers, str_c(&own->line));
	CURL_SET(h, CURLOPT_HTTPHEADER, *headers);
}

/* ---- sources -------------------------------------------------------------------- */

int in_cluster_read(const char *dir, struct arena *a, struct login_source *out, struct err *e)
{
	/* The environment is read at start, before there are threads. */
	const char *host = getenv("KUBERNETES_SERVICE_HOST"); // NOLINT(concurrency-mt-unsafe)
	const char *port = getenv("KUBERNETES_SERVICE_PORT"); // NOLINT(concurrency-mt-unsafe)
	if (host == NULL || port == NULL)
		return err_set(e, UNKNOWN_ERROR,
		               "no API server is given (--kubeconfig, --apiserver or --local), "
		               "and this is not a pod: KUBERNETES_SERVICE_HOST is not set");
	bool v6 = strchr(host, ':') != NULL;
	FREE_AUTO char *text = config_file_text(arena_printf(a, "%s/namespace", dir), e);
	out->server = arena_printf(a, v6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
	out->ca_file = arena_printf(a, "%s/ca.crt", dir);
	out->token_file = arena_printf(a, "%s/token", dir);
	out->from = "service account";
	out->namespace_name = text ? arena_dup(a, span_of(text)) : NULL;
	return text ? 0 : -1;
}

static int login_read_source(const struct login_options *o, struct arena *a, struct login_source *s,
                             struct err *e)
{
	int bad = 0;
	if (o->kubeconfig != NULL && o->apiserver != NULL)
		return err_set(e, UNKNOWN_ERROR, "give a kubeconfig or an API server, not both");
	if (o->kubeconfig != NULL)
		bad = kubeconfig_read(o->kubeconfig, o->context, a, s, e);
	else if (o->apiserver != NULL)
		*s = (struct login_source){ .server = o->apiserver,
			                    .ca_file = o->ca_file,
			                    .token_file = o->token_file,
			                    .from = "options" };
	else
		bad = in_cluster_read(SERVICE_ACCOUNT, a, s, e);
	s->namespace_name = o->namespace_name ?: s->namespace_name; /* options take precedence */
	return bad;
}

/* ---- public ------------------------------------------------------------------------ */

static int login_fill(struct login *l, const struct login_source *s, struct err *e)
{
	if (s->server == NULL)
		return err_set(e, UNKNOWN_ERROR, "%s: no address of an API server", s->from);
	if ((s->cert_file || s->cert_data) != (s->key_file || s->key_data))
		return err_set(e, UNKNOWN_ERROR,
		               "%s: a client certificate needs its key, and a key its certificate",
		               s->from);
	struct span ns = span_trim(span_of(s->namespace_name ? s->namespace_name : "default"));
	l->namespace_name = xstrndup(ns.p, ns.n);
	if (!segment_ok(l->namespace_name))
		return err_set(e, UNKNOWN_ERROR, "%s: the name of the namespace is not valid",
		               s->from);
	const char *fault;
	l->url = address_read(s->server, true, &fault);
	if (l->url == NULL)
		return err_set(e, UNKNOWN_ERROR, "the API server's address: %s", fault);
	if (pem_load(&l->ca, s->ca_file, s->ca_data, e) != 0 ||
	    pem_load(&l->cert, s->cert_file, s->cert_data, e) != 0 ||
	    pem_load(&l->key, s->key_file, s->key_data, e) != 0)
		return -1;
	l->token_file = s->token_file ? xstrdup(s->token_file) : NULL;
	if (s->token_file != NULL || s->token != NULL) {
		l->token = login_read_token(s->token_file, s->token, s->from, e);
		if (l->token == NULL)
			return -1;
	}
	const char *as = l->token_file  ? "token file "
	                 : l->token     ? "token"
	                 : l->cert.path ? "client certificate"
	                                : "nobody";
	l->describe =
	    xasprintf("%s as %s%s (%s)", l->url, as, l->token_file ? l->token_file : "", s->from);
	return 0;
}

struct login *login_new(const struct login_options *o, struct err *e)
{
	/* Variables that could redirect or reveal this program's traffic. */
	static const char *const NAMES[] = {
		"SSLKEYLOGFILE", "GNUTLS_SYSTEM_PRIORITY_FILE",
		"OPENSSL_CONF",  "OPENSSL_MODULES",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
		"http_proxy",    "https_proxy",
		"HTTPS_PROXY",   "all_proxy",
		"ALL_PROXY",     "no_proxy",
		"NO_PROXY",
	};
	ARENA_SECRET a = { 0 };
	struct login_source s = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
		(void)unsetenv(NAMES[i]); // NOLINT(concurrency-mt-unsafe): at start
	if (login_read_source(o, &a, &s, e) != 0)
		return NULL;
	struct login *l = xcalloc(1, sizeof(*l));
	l->ca = l->cert = l->key = PEM_NONE;
	l->version = 1;
	(void)pthread_mutex_init(&l->lock, NULL); /* cannot fail with default attributes */
	if (login_fill(l, &s, e) == 0)
		return l;
	login_free(l);
	return NULL;
}

void login_free(struct login *l)
{
	if (l == NULL)
		return;
	pem_done(&l->ca);
	pem_done(&l->cert);
	pem_done(&l->key);
	free(l->url);
	free(l->token_file);
	free(l->namespace_name);
	free(l->describe);
	free_secret(&l->token);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

const char *login_describe(const struct login *l)
{
	return l->describe;
}

/* Returns the namespace of the jobs, unless an option names another one. */
const char *login_namespace(const struct login *l)
{
	return l->namespace_name;
}

int64_t login_token_end_s(struct login *l)
{
	ARENA_AUTO a = { 0 };
	struct span claims;
	int64_t end_s = 0;
	LOCK_AUTO(&l->lock);
	const char *from = l->token ? strchr(l->token, '.') : NULL;
	const char *to = from ? strchr(from + 1, '.') : NULL;
	if (to &&
	    base64url_decode(&a, (struct span){ from + 1, (size_t)(to - from) - 1 }, &claims) ==
	        0 &&
	    scan_valid(claims, CLAIMS_DEPTH))
		(void)scan_int(scan_get(claims, "exp"), 1, INT64_MAX, &end_s); /* else 0 */
	return end_s;
}
