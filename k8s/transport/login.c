/* How to log in to the API server; see store.h.  Files are read here, at start and by
 * login_refresh, never by a loop. */
#include "k8s/transport/login.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "k8s/transport/paths.h"

enum { TEXT_MAX = 1 << 20, TOKEN_MAX = 16384 };

static const char SERVICE_ACCOUNT[] = "/var/run/secrets/kubernetes.io/serviceaccount";

static void close_fd(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* was only read, or lives in memory */
}
#define FD_AUTO __attribute__((cleanup(close_fd))) int

static void free_secret(char *text)
{
	if (text != NULL)
		wipe(text, strlen(text));
	free(text);
}

void source_done(struct login_source *s)
{
	free(s->server);
	free(s->namespace_name);
	free(s->ca_file);
	free(s->ca_data);
	free_secret(s->token);
	free(s->token_file);
	free(s->cert_file);
	free(s->cert_data);
	free(s->key_file);
	free_secret(s->key_data);
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
		err_set(e, UNKNOWN_ERROR, "%s: changes while it is read, or is no text", path);
	return text;
}

/* ---- the token --------------------------------------------------------------------- */

/* It becomes a header line: one word of visible characters. */
static bool token_ok(struct span t)
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
	if (token_ok(t))
		return xstrndup(t.p, t.n);
	err_set(e, UNKNOWN_ERROR, "%s: a token is one word of at most %d visible characters", what,
	        TOKEN_MAX);
	return NULL;
}

static char *read_token(const char *file, struct err *e)
{
	char *text = file_text(file, e);
	if (text == NULL)
		return NULL;
	char *token = clean_token(text, file, e);
	free_secret(text);
	return token;
}

static int load_token(struct login *l, const struct login_source *s, struct err *e)
{
	if (s->token_file != NULL) { /* as with kubectl, the file wins */
		l->token_file = xstrdup(s->token_file);
		l->token = read_token(s->token_file, e);
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
	(void)pem_refresh((struct pem *const[]){ &l->ca, &l->cert, &l->key }, 3);
	if (l->token_file == NULL)
		return;
	char *token = read_token(l->token_file, &e);
	if (token == NULL)
		return; /* half written, say: the old one may still do */
	(void)pthread_mutex_lock(&l->lock);
	if (strcmp(token, l->token) != 0) {
		char *old = l->token;
		l->token = token;
		token = old;
		l->version++;
	}
	(void)pthread_mutex_unlock(&l->lock);
	free_secret(token);
}

bool login_header(struct login *l, unsigned *version, struct str *out)
{
	(void)pthread_mutex_lock(&l->lock);
	bool changed = *version != l->version;
	*version = l->version;
	if (changed && l->token != NULL)
		str_printf(out, "Authorization: Bearer %s", l->token);
	(void)pthread_mutex_unlock(&l->lock);
	return changed;
}

/* ---- where it comes from ----------------------------------------------------------- */

int in_cluster_read(const char *dir, struct login_source *out, struct err *e)
{
	/* Read at start, before there are threads. */
	const char *host = getenv("KUBERNETES_SERVICE_HOST"); // NOLINT(concurrency-mt-unsafe)
	const char *port = getenv("KUBERNETES_SERVICE_PORT"); // NOLINT(concurrency-mt-unsafe)
	if (host == NULL || port == NULL)
		return err_set(
		    e, UNKNOWN_ERROR,
		    "no API server is given (--kubeconfig, --apiserver or --standalone), "
		    "and this is no pod: KUBERNETES_SERVICE_HOST is not set");
	bool v6 = strchr(host, ':') != NULL;
	FREE_AUTO char *file = xasprintf("%s/namespace", dir);
	out->server = xasprintf(v6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
	out->ca_file = xasprintf("%s/ca.crt", dir);
	out->token_file = xasprintf("%s/token", dir);
	out->from = "service account";
	out->namespace_name = file_text(file, e);
	return out->namespace_name ? 0 : -1;
}

static char *copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

/* What is said by an option wins over the kubeconfig. */
static void override(char **to, const char *option)
{
	if (option == NULL)
		return;
	free(*to);
	*to = xstrdup(option);
}

static int read_source(const struct login_options *o, struct login_source *s, struct err *e)
{
	int bad = 0;
	if (o->kubeconfig != NULL && o->apiserver != NULL)
		return err_set(e, UNKNOWN_ERROR, "give a kubeconfig or an API server, not both");
	if (o->kubeconfig != NULL) {
		bad = kubeconfig_read(o->kubeconfig, o->context, s, e);
	} else if (o->apiserver != NULL) {
		s->from = "options";
		s->server = copy(o->apiserver);
		s->ca_file = copy(o->ca_file);
		s->token_file = copy(o->token_file);
	} else {
		bad = in_cluster_read(SERVICE_ACCOUNT, s, e);
	}
	if (bad == 0)
		override(&s->namespace_name, o->namespace_name);
	return bad;
}

/* ---- public ------------------------------------------------------------------------ */

/* Variables by which the environment could read or redirect our traffic. */
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
	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
		(void)unsetenv(NAMES[i]); // NOLINT(concurrency-mt-unsafe): at start
}

static void describe(struct login *l, const struct login_source *s)
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

static int fill(struct login *l, const struct login_source *s, struct err *e)
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
		return err_set(e, UNKNOWN_ERROR, "%s: this is no name of a namespace", s->from);
	l->url = address_check(s->server, e);
	if (l->url == NULL)
		return -1;
	if (pem_load(&l->ca, s->ca_file, s->ca_data, e) != 0 ||
	    pem_load(&l->cert, s->cert_file, s->cert_data, e) != 0 ||
	    pem_load(&l->key, s->key_file, s->key_data, e) != 0)
		return -1;
	if (load_token(l, s, e) != 0)
		return -1;
	describe(l, s);
	return 0;
}

struct login *login_new(const struct login_options *o, struct err *e)
{
	SOURCE_AUTO s = { 0 };
	scrub_environment();
	if (read_source(o, &s, e) != 0)
		return NULL;
	struct login *l = xcalloc(1, sizeof(*l));
	l->ca = l->cert = l->key = PEM_NONE;
	l->version = 1;
	(void)pthread_mutex_init(&l->lock, NULL); /* cannot fail with default attributes */
	if (fill(l, &s, e) == 0)
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
	free_secret(l->token);
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
