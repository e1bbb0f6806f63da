/* Credentials for the API server.  Files are read at start and by login_refresh, never by a
 * loop. */
#include "k8s/transport/login.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/lock.h"
#include "k8s/transport/paths.h"

enum { TEXT_MAX = 1 << 20, TOKEN_MAX = 16384, HEADER_MAX = 20000, URL_MAX = 512 };
enum { CLAIMS_DEPTH = 32 };

static const char SERVICE_ACCOUNT[] = "/var/run/secrets/kubernetes.io/serviceaccount";

static void login_close_fd(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* read-only, or in memory */
}
#define FD_AUTO __attribute__((cleanup(login_close_fd))) int

static void free_secret(char **text)
{
	if (*text != NULL)
		wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void source_done(struct login_source *s)
{
	free(s->server);
	free(s->namespace_name);
	free(s->ca_file);
	free(s->ca_data);
	free_secret(&s->token);
	free(s->token_file);
	free(s->cert_file);
	free(s->cert_data);
	free(s->key_file);
	free_secret(&s->key_data);
	*s = (struct login_source){ 0 };
}

/* ---- files ------------------------------------------------------------------------- */

static char *read_fd(int fd, size_t size)
{
	char *text = xmalloc(size + 1);
	size_t n = 0;
	while (n < size) {
		ssize_t got = read(fd, text + n, size - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	if (n == size && strlen(text) == n)
		return text;
	wipe(text, size);
	free(text);
	return NULL;
}

char *file_text(const char *path, struct err *e)
{
	struct stat st;
	FD_AUTO fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) != 0) {
		err_set(e, UNKNOWN_ERROR, "%s: %s", path, strerrordesc_np(errno));
		return NULL;
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > TEXT_MAX) {
		err_set(e, UNKNOWN_ERROR, "%s: must be a regular file of 1 to %d bytes", path,
		        TEXT_MAX);
		return NULL;
	}
	char *text = read_fd(fd, (size_t)st.st_size);
	if (text == NULL)
		err_set(e, UNKNOWN_ERROR, "%s: changes while it is read, or is not text", path);
	return text;
}

/* ---- PEM --------------------------------------------------------------------------- */

#define PEM_NONE ((struct pem){ .fd = -1 })

static const char BEGIN[] = "-----BEGIN ";
static const char END[] = "-----END ";

/* An anonymous file in memory; -1 and errno. */
static int memory_file(struct span rest)
{
	int fd = memfd_create("rest-lit", MFD_CLOEXEC);
	while (fd >= 0 && rest.n > 0) {
		ssize_t n = write(fd, rest.p, rest.n);
		if (n <= 0) {
			(void)close(fd);
			return -1;
		}
		rest.p += n;
		rest.n -= (size_t)n;
	}
	return fd;
}

/* From a file or from inline data; neither: PEM_NONE.  -1 and *e (500). */
static int pem_load(struct pem *p, const char *file, const char *data, struct err *e)
{
	*p = PEM_NONE;
	if (file == NULL && data == NULL)
		return 0;
	const char *what = file ? file : "inline data of the kubeconfig";
	p->used = file ? file_text(file, e) : xstrdup(data);
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

static void pem_done(struct pem *p)
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

static bool login_is_whole(const char *text)
{
	return login_count(text, BEGIN) > 0 && login_count(text, BEGIN) == login_count(text, END);
}

/* Read the file; true if it is complete and equal to the content read last. */
static bool is_steady(struct pem *p)
{
	ERR_AUTO ignored = { 0 };
	if (p->file == NULL)
		return true;
	char *now = file_text(p->file, &ignored);
	const char *last = p->seen ? p->seen : p->used;
	bool steady = now != NULL && strcmp(now, last) == 0 && login_is_whole(now);
	if (now == NULL || strcmp(now, p->used) == 0) {
		free_secret(&now);
		free_secret(&p->seen);
	} else {
		free_secret(&p->seen);
		p->seen = now;
	}
	return steady;
}

/* Atomically replace the file that the path names. */
static void pem_replace(struct pem *p)
{
	int fd = memory_file(span_of(p->seen));
	bool taken = fd >= 0 && dup3(fd, p->fd, O_CLOEXEC) >= 0;
	if (fd >= 0)
		(void)close(fd);
	if (taken) {
		free_secret(&p->used);
		p->used = TAKE(p->seen);
	}
}

/* Reads the files again.  Changes take effect when all files are complete and the same at two calls
 * in a row: never half a file, nor a certificate with the key of another. */
static void pem_refresh(struct pem *const *all, size_t n)
{
	bool steady = true;
	for (size_t i = 0; i < n; i++)
		steady &= is_steady(all[i]);
	for (size_t i = 0; i < n && steady; i++) {
		if (all[i]->seen != NULL)
			pem_replace(all[i]);
	}
}

/* ---- addresses: no user names or queries, which could leak secrets ----------------- */

static bool is_loopback(struct span host)
{
	return span_is(host, "localhost") || span_is(host, "127.0.0.1") || span_is(host, "[::1]");
}

static bool host_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == ':' || c == '[' || c == ']';
}

/* The host of "host[:port]"; empty if malformed. */
static struct span host_of(struct span authority)
{
	size_t n = authority.n;
	for (size_t i = 0; i < n; i++) {
		if (!host_char(authority.p[i]))
			return SPAN("");
	}
	size_t bracket = span_chr(authority, ']');
	return span_to(authority, bracket < n ? bracket + 1 : span_chr(authority, ':'));
}

/* The host is followed by nothing, or by ":" and a valid port. */
static bool port_ok(struct span authority, struct span host)
{
	int64_t port;
	if (authority.n == host.n)
		return true;
	if (authority.p[host.n] != ':')
		return false;
	return parse_i64(span_from(authority, host.n + 1), 1, UINT16_MAX, &port) == 0;
}

/* Why `rest` (after the scheme) is not HOST[:PORT][/PATH], or NULL. */
static const char *address_fault(struct span rest, bool only_here)
{
	struct span authority = span_to(rest, span_chr(rest, '/'));
	struct span host = host_of(authority);
	for (size_t i = 0; i < rest.n; i++) {
		if (!host_char(rest.p[i]) && rest.p[i] != '/' && rest.p[i] != '_')
			host = SPAN("");
	}
	if (host.n == 0)
		return "must be https://HOST[:PORT][/PATH]";
	if (!port_ok(authority, host))
		return "the port must be a number from 1 to 65535";
	if (only_here && !is_loopback(host))
		return "http is accepted for this machine only, use https";
	return NULL;
}

char *address_read(const char *text, bool secrets, const char **fault)
{
	struct span url = span_trim(span_of(text));
	bool plain = span_starts(url, "http://");
	size_t scheme = plain ? strlen("http://") : strlen("https://");
	*fault = secrets ? "must start with https://" : "must start with https:// or http://";
	if ((plain || span_starts(url, "https://")) && url.n <= URL_MAX) {
		while (url.n > scheme && url.p[url.n - 1] == '/')
			url.n--;
		*fault = address_fault((struct span){ url.p + scheme, url.n - scheme },
		                       plain && secrets);
	}
	return *fault ? NULL : xstrndup(url.p, url.n);
}

/* ---- the token --------------------------------------------------------------------- */

/* Valid in a header line: one word of visible characters. */
static bool login_token_ok(struct span t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] <= ' ' || t.p[i] > '~')
			return false;
	}
	return t.n > 0 && t.n <= TOKEN_MAX;
}

static char *clean_token(const char *text, const char *what, struct err *e)
{
	struct span t = span_trim(span_of(text));
	if (login_token_ok(t))
		return xstrndup(t.p, t.n);
	err_set(e, UNKNOWN_ERROR, "%s: a token is one word of at most %d visible characters", what,
	        TOKEN_MAX);
	return NULL;
}

static char *login_read_token(const char *file, struct err *e)
{
	char *text = file_text(file, e);
	if (text == NULL)
		return NULL;
	char *token = clean_token(text, file, e);
	free_secret(&text);
	return token;
}

static int load_token(struct login *l, const struct login_source *s, struct err *e)
{
	if (s->token_file != NULL) { /* as with kubectl, the file wins */
		l->token_file = xstrdup(s->token_file);
		l->token = login_read_token(s->token_file, e);
		return l->token ? 0 : -1;
	}
	if (s->token == NULL)
		return 0;
	l->token = clean_token(s->token, s->from, e);
	return l->token ? 0 : -1;
}

void login_refresh(struct login *l)
{
	ERR_AUTO e = { 0 };
	pem_refresh((struct pem *const[]){ &l->ca, &l->cert, &l->key }, 3);
	if (l->token_file == NULL)
		return;
	char *token = login_read_token(l->token_file, &e);
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

/* ---- sources -------------------------------------------------------------------- */

int in_cluster_read(const char *dir, struct login_source *out, struct err *e)
{
	/* Read at start, before there are threads. */
	const char *host = getenv("KUBERNETES_SERVICE_HOST"); // NOLINT(concurrency-mt-unsafe)
	const char *port = getenv("KUBERNETES_SERVICE_PORT"); // NOLINT(concurrency-mt-unsafe)
	if (host == NULL || port == NULL)
		return err_set(
		    e, UNKNOWN_ERROR,
		    "no API server is given (--kubeconfig, --apiserver or --standalone), "
		    "and this is not a pod: KUBERNETES_SERVICE_HOST is not set");
	bool v6 = strchr(host, ':') != NULL;
	FREE_AUTO char *file = xasprintf("%s/namespace", dir);
	out->server = xasprintf(v6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
	out->ca_file = xasprintf("%s/ca.crt", dir);
	out->token_file = xasprintf("%s/token", dir);
	out->from = "service account";
	out->namespace_name = file_text(file, e);
	return out->namespace_name ? 0 : -1;
}

static char *login_copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

/* Options take precedence over the kubeconfig. */
static void override(char **to, const char *option)
{
	if (option == NULL)
		return;
	free(*to);
	*to = xstrdup(option);
}

static int login_read_source(const struct login_options *o, struct login_source *s, struct err *e)
{
	int bad = 0;
	if (o->kubeconfig != NULL && o->apiserver != NULL)
		return err_set(e, UNKNOWN_ERROR, "give a kubeconfig or an API server, not both");
	if (o->kubeconfig != NULL) {
		bad = kubeconfig_read(o->kubeconfig, o->context, s, e);
	} else if (o->apiserver != NULL) {
		s->from = "options";
		s->server = login_copy(o->apiserver);
		s->ca_file = login_copy(o->ca_file);
		s->token_file = login_copy(o->token_file);
	} else {
		bad = in_cluster_read(SERVICE_ACCOUNT, s, e);
	}
	if (bad == 0)
		override(&s->namespace_name, o->namespace_name);
	return bad;
}

/* ---- public ------------------------------------------------------------------------ */

/* Removes variables that could redirect or reveal this program's traffic. */
static void scrub_environment(void)
{
	static const char *const NAMES[] = {
		"SSLKEYLOGFILE", "GNUTLS_SYSTEM_PRIORITY_FILE",
		"OPENSSL_CONF",  "OPENSSL_MODULES",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
		"http_proxy",    "https_proxy",
		"HTTPS_PROXY",   "all_proxy",
		"ALL_PROXY",     "no_proxy",
		"NO_PROXY",
	};
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
		(void)unsetenv(NAMES[i]); // NOLINT(concurrency-mt-unsafe): at start
}

static void login_set_description(struct login *l, const struct login_source *s)
{
	const char *as = "nobody";
	if (l->token_file != NULL)
		as = "token file ";
	else if (l->token != NULL)
		as = "token";
	else if (l->cert.path != NULL)
		as = "client certificate";
	l->describe =
	    xasprintf("%s as %s%s (%s)", l->url, as, l->token_file ? l->token_file : "", s->from);
}

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
	if (load_token(l, s, e) != 0)
		return -1;
	login_set_description(l, s);
	return 0;
}

struct login *login_new(const struct login_options *o, struct err *e)
{
	SOURCE_AUTO s = { 0 };
	scrub_environment();
	if (login_read_source(o, &s, e) != 0)
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
