/*
 * libcurl's defaults suit interactive use: proxies from the environment, the system's CAs beside
 * the given one, two dozen protocols, HTTP/2.  CURL_SETTINGS turns them off on every handle.
 */
#include "k8s/http/curl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/child.h"
#include "base/posix/clock.h"

#define NUMBER(option, value)                                                                      \
	{                                                                                          \
		option, #option, false, value, NULL                                                \
	}
#define TEXT(option, value)                                                                        \
	{                                                                                          \
		option, #option, true, 0, value                                                    \
	}

/* clang-format off */
const struct curl_setting CURL_SETTINGS[] = {
	/* destinations */
	TEXT(CURLOPT_REDIR_PROTOCOLS_STR, "https"),
	TEXT(CURLOPT_DEFAULT_PROTOCOL, "https"),
	NUMBER(CURLOPT_FOLLOWLOCATION, 0), /* a redirect is an error */
	TEXT(CURLOPT_PROXY, ""),           /* ignores the environment */
	TEXT(CURLOPT_NOPROXY, "*"),
	NUMBER(CURLOPT_PATH_AS_IS, 1),     /* never rewrite ../ */

	/* TLS */
	NUMBER(CURLOPT_SSL_VERIFYPEER, 1),
	NUMBER(CURLOPT_SSL_VERIFYHOST, 2),
	NUMBER(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2), /* or later */
	TEXT(CURLOPT_CAPATH, NULL),        /* no system CAs; see curl_new */

	/* authentication */
	NUMBER(CURLOPT_NETRC, CURL_NETRC_IGNORED),
	NUMBER(CURLOPT_HTTPAUTH, CURLAUTH_NONE), /* the header is ours */
	NUMBER(CURLOPT_UNRESTRICTED_AUTH, 0),
	NUMBER(CURLOPT_VERBOSE, 0),        /* would print the token */
	TEXT(CURLOPT_USERAGENT, "rest-lit/" REST_LIT_VERSION),

	/* protocol features */
	NUMBER(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1),
	NUMBER(CURLOPT_HTTP09_ALLOWED, 0),
	NUMBER(CURLOPT_TRANSFER_ENCODING, 0),
	TEXT(CURLOPT_ACCEPT_ENCODING, NULL), /* nothing is inflated */
	NUMBER(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1),

	/* memory per handle */
	NUMBER(CURLOPT_BUFFERSIZE, 4096),  /* answers are metadata */
	NUMBER(CURLOPT_UPLOAD_BUFFERSIZE, 16384), /* its minimum; default 64 KiB */

	/* time limits */
	NUMBER(CURLOPT_CA_CACHE_TIMEOUT, 60), /* OpenSSL's default is a day; CAs are replaced */
	NUMBER(CURLOPT_CONNECTTIMEOUT_MS, 5000),
	NUMBER(CURLOPT_DNS_CACHE_TIMEOUT, 60),
	NUMBER(CURLOPT_QUICK_EXIT, 1),     /* do not wait for the resolver's thread */
	NUMBER(CURLOPT_MAXAGE_CONN, 90),
	NUMBER(CURLOPT_TCP_KEEPALIVE, 1),
	NUMBER(CURLOPT_TCP_NODELAY, 1),
	NUMBER(CURLOPT_NOSIGNAL, 1),       /* there are threads */
};
/* clang-format on */
const size_t CURL_SETTINGS_N = ARRAY_SIZE(CURL_SETTINGS);

int curl_start(struct err *e)
{
	/* Wiped on free: libcurl's buffers hold tokens and Secrets.  Repeated calls are counted. */
	CURLcode bad = curl_global_init_mem(CURL_GLOBAL_DEFAULT, xmalloc, free_wiped, realloc_wiped,
	                                    xstrdup, xcalloc);
	if (bad)
		return err_set(e, UNKNOWN_ERROR, "libcurl: %s", curl_easy_strerror(bad));
	const curl_version_info_data *v = curl_version_info(CURLVERSION_NOW);
	if (v->ssl_version == NULL)
		return err_set(e, UNKNOWN_ERROR, "this libcurl has no TLS");
	if (!(v->features & CURL_VERSION_ASYNCHDNS))
		return err_set(e, UNKNOWN_ERROR, "this libcurl has no asynchronous resolver");
	return 0;
}

static int curl_set_all(CURL *h, const struct curl_setting *s, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		CURLcode bad = s[i].is_text ? curl_easy_setopt(h, s[i].option, s[i].text)
		                            : curl_easy_setopt(h, s[i].option, s[i].number);
		if (bad)
			return err_set(e, UNKNOWN_ERROR, "libcurl: %s: %s", s[i].name,
			               curl_easy_strerror(bad));
	}
	return 0;
}

/* The CAs of the machine: the directory that this libcurl was built with (a built-in file is still
 * set), or else the file of Debian, Fedora or SUSE. */
static int curl_set_authorities(CURL *h, struct err *e)
{
	static const char *const FILES[] = { "/etc/ssl/certs/ca-certificates.crt",
		                             "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		                             "/etc/ssl/ca-bundle.pem" };
	ARENA_AUTO a = { 0 };
	const char *system = NULL;
	size_t i = 0;
	(void)curl_easy_getinfo(h, CURLINFO_CAPATH, &system);
	if (system)
		return curl_set_all(h, &(struct curl_setting)TEXT(CURLOPT_CAPATH, system), 1, e);
	while (i < ARRAY_SIZE(FILES) && access(FILES[i], R_OK) != 0)
		i++;
	if (i < ARRAY_SIZE(FILES))
		return curl_set_all(h, &(struct curl_setting)TEXT(CURLOPT_CAINFO, FILES[i]), 1, e);
	return err_set(e, UNKNOWN_ERROR, "there are no certificates of CAs at %s, %s, or %s: %s",
	               FILES[0], FILES[1], FILES[2], program_install("ca-certificates", &a));
}

CURL *curl_new(const char *url, const struct curl_pem *pem, struct err *e)
{
	bool plain = span_starts(span_of(url), "http://");
	bool own = pem->ca != NULL && pem->ca[0];
	CURL *h = curl_easy_init();
	if (h == NULL) {
		err_set(e, UNKNOWN_ERROR, "libcurl: no memory for a handle");
		return NULL;
	}
	const struct curl_setting of_url[] = {
		TEXT(CURLOPT_URL, url),
		TEXT(CURLOPT_PROTOCOLS_STR, plain ? "http" : "https"),
		TEXT(CURLOPT_SSLCERT, pem->cert),
		TEXT(CURLOPT_SSLKEY, pem->key),
	};
	int bad = curl_set_all(h, CURL_SETTINGS, CURL_SETTINGS_N, e);
	if (bad == 0 && own)
		bad = curl_set_all(h, &(struct curl_setting)TEXT(CURLOPT_CAINFO, pem->ca), 1, e);
	else if (bad == 0 && !plain)
		bad = curl_set_authorities(h, e);
	/* The file may be replaced, and libcurl 8 caches it for a day.  libcurl 7 with GnuTLS has
	 * neither the cache nor the option. */
	if (own)
		(void)curl_easy_setopt(h, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	if (bad == 0 && curl_set_all(h, of_url, ARRAY_SIZE(of_url), e) == 0)
		return h;
	curl_easy_cleanup(h);
	return NULL;
}

void curl_receive(CURL *h, curl_write_callback write, void *arg, char *error)
{
	CURL_SET(h, CURLOPT_WRITEFUNCTION, write);
	CURL_SET(h, CURLOPT_WRITEDATA, arg);
	CURL_SET(h, CURLOPT_PRIVATE, arg);
	CURL_SET(h, CURLOPT_ERRORBUFFER, error);
}

void curl_add_header(struct curl_slist **headers, const char *line)
{
	*headers = curl_slist_append(*headers, line);
	assert(*headers != NULL);
}

void curl_free_headers(struct curl_slist **headers)
{
	for (struct curl_slist *h = *headers; h != NULL; h = h->next)
		memory_wipe(h->data, strlen(h->data));
	curl_slist_free_all(*headers);
	*headers = NULL;
}

int curl_status(CURL *h)
{
	long status = 0;
	(void)curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status); /* stays 0 */
	return (int)status;
}

bool curl_is_permanent(CURLcode result)
{
	return result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE ||
	       result == CURLE_SSL_ISSUER_ERROR || result == CURLE_UNSUPPORTED_PROTOCOL ||
	       result == CURLE_URL_MALFORMAT;
}

/* ---- the multi handle -------------------------------------------------------------- */

/*
 * libcurl asks to remove the socket of a connection after each transfer and to add it again before
 * the next one.  A socket that is reported when it is closed stays in the epoll set meanwhile:
 * `watched` changes when `wanted` has more events, or when an event comes that is not wanted: an
 * idle connection is writable, if the answer to its first request was there when that was sent, or
 * its peer has ended it.
 */
struct curl_socket {
	uint8_t wanted, watched; /* EPOLLIN, EPOLLOUT: by libcurl; in the epoll set */
	bool kept;               /* curl_loop_forget_socket is called when it is closed */
	int over_port;           /* its local port, if the peer has closed it while idle; or 0 */
};
_Static_assert((EPOLLIN | EPOLLOUT) <= UINT8_MAX, "the events fit into struct curl_socket");

static struct curl_socket *curl_loop_socket(struct curl_loop *l, curl_socket_t fd)
{
	size_t i = (size_t)fd;
	if (i >= l->n_sockets) {
		size_t n = i + 64;
		l->sockets = xrealloc(l->sockets, n * sizeof(*l->sockets));
		memset(l->sockets + l->n_sockets, 0, (n - l->n_sockets) * sizeof(*l->sockets));
		l->n_sockets = n;
	}
	return &l->sockets[i];
}

static int curl_loop_watch_events(struct curl_loop *l, curl_socket_t fd, uint8_t events)
{
	struct curl_socket *s = curl_loop_socket(l, fd);
	struct epoll_event ev = { .events = events, .data.fd = fd };
	int op = !events ? EPOLL_CTL_DEL : s->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	s->watched = events;
	if (epoll_ctl(l->epoll, op, fd, &ev) == 0 || op == EPOLL_CTL_DEL)
		return 0;
	/* libcurl can close sockets of its resolver without a word. */
	return errno == ENOENT ? epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) : -1;
}

static int curl_loop_watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct curl_loop *l = arg;
	struct curl_socket *s = curl_loop_socket(l, fd);
	(void)easy;
	(void)unused;
	s->wanted = 0;
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		s->wanted |= EPOLLIN;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		s->wanted |= EPOLLOUT;
	bool more = (s->wanted & ~s->watched) != 0;
	bool less = s->wanted != s->watched && !s->kept;
	return more || less ? curl_loop_watch_events(l, fd, s->wanted) : 0;
}

static int curl_loop_keep_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	(void)purpose;
	*curl_loop_socket(arg, fd) = (struct curl_socket){ .kept = true };
	return CURL_SOCKOPT_OK;
}

/* The kernel removes a closed descriptor from the epoll set. */
static int curl_loop_forget_socket(void *arg, curl_socket_t fd)
{
	struct curl_loop *l = arg;
	struct curl_socket *s = curl_loop_socket(l, fd);
	l->n_over -= s->over_port != 0;
	*s = (struct curl_socket){ 0 };
	return close(fd);
}

/* The port identifies the connection for curl_loop_is_over. */
static void curl_loop_note_over(struct curl_loop *l, curl_socket_t fd)
{
	struct curl_socket *s = curl_loop_socket(l, fd);
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = { .v6 = { 0 } };
	socklen_t n = sizeof(at);
	if (s->over_port || getsockname(fd, &at.any, &n) != 0)
		return;
	/* The port is at the same place for IPv4 and IPv6. */
	s->over_port = ntohs(at.v4.sin_port);
	l->n_over += s->over_port != 0;
}

/* Connections are rarely over, as n_over tells, so that a search is enough. */
bool curl_loop_is_over(const struct curl_loop *l, int local_port)
{
	for (size_t i = 0; l->n_over && i < l->n_sockets; i++)
		if (l->sockets[i].over_port == local_port)
			return local_port != 0;
	return false;
}

static int curl_loop_set_timer(CURLM *multi, long ms, void *arg)
{
	struct curl_loop *l = arg;
	(void)multi;
	l->wake_ms = ms < 0 ? INT64_MAX : clock_ms() + ms;
	return 0;
}

int curl_loop_init(struct curl_loop *l, long connections, struct err *e)
{
	*l = (struct curl_loop){ .multi = curl_multi_init(), .epoll = -1, .wake_ms = INT64_MAX };
	if (l->multi == NULL ||
	    curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, curl_loop_watch_socket) ||
	    curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l) ||
	    curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, curl_loop_set_timer) ||
	    curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l) ||
	    curl_multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, connections))
		return err_set(e, UNKNOWN_ERROR, "libcurl: a multi handle cannot be set up");
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0)
		return err_set(e, UNKNOWN_ERROR, "epoll: %s", strerrordesc_np(errno));
	return 0;
}

void curl_loop_done(struct curl_loop *l)
{
	if (l->multi != NULL) {
		(void)curl_multi_cleanup(l->multi); /* cannot fail: no handle is left in it */
		if (l->epoll >= 0)
			(void)close(l->epoll);
	}
	free(l->sockets);
	*l = (struct curl_loop){ .epoll = -1, .wake_ms = INT64_MAX };
}

static size_t curl_loop_run_timers(struct curl_loop *l)
{
	int running = 0;
	l->wake_ms = INT64_MAX;
	(void)curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	return (size_t)running;
}

void curl_loop_start(struct curl_loop *l, CURL *h, size_t added)
{
	CURL_SET(h, CURLOPT_SOCKOPTFUNCTION, curl_loop_keep_socket);
	CURL_SET(h, CURLOPT_SOCKOPTDATA, l);
	CURL_SET(h, CURLOPT_CLOSESOCKETFUNCTION, curl_loop_forget_socket);
	CURL_SET(h, CURLOPT_CLOSESOCKETDATA, l);
	CURLMcode bad = curl_multi_add_handle(l->multi, h);
	assert(bad == CURLM_OK);
	if (curl_loop_run_timers(l) < added)
		l->wake_ms = 0;
}

void curl_loop_run_once(struct curl_loop *l)
{
	enum { EVENTS = 64 };
	struct epoll_event events[EVENTS];
	int n = epoll_wait(l->epoll, events, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		int fd = events[i].data.fd;
		uint32_t e = events[i].events;
		const struct curl_socket *s = curl_loop_socket(l, fd);
		int what = (e & EPOLLIN ? CURL_CSELECT_IN : 0) |
		           (e & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
		           (e & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
		int running;
		bool idle = s->kept && !s->wanted;
		bool over = idle && (e & ~(uint32_t)EPOLLOUT) != 0;
		/* MOD or DEL of what is watched: cannot fail. */
		if (!(e & s->wanted) && s->wanted != s->watched)
			(void)curl_loop_watch_events(l, fd, idle && !over ? EPOLLIN : s->wanted);
		if (over)
			curl_loop_note_over(l, fd);
		if (s->wanted)
			(void)curl_multi_socket_action(l->multi, fd, what, &running);
	}
	if (clock_ms() >= l->wake_ms)
		(void)curl_loop_run_timers(l);
}

void *curl_loop_finished(struct curl_loop *l, CURLcode *result)
{
	int left;
	char *owner = NULL;
	CURLMsg *m = curl_multi_info_read(l->multi, &left);
	if (m == NULL)
		return NULL;
	*result = m->data.result;
	(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &owner);
	return owner;
}

int curl_timeout_ms(int64_t wake_ms)
{
	int64_t ms = wake_ms - clock_ms();
	if (wake_ms == INT64_MAX)
		return -1;
	return ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}
