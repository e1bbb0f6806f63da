/*
 * libmicrohttpd's daemon: how it is set up, driven and stopped, and what it tells of connections.
 * What becomes of a request stands in http_request.c.
 */
#include "server/http/http.h"

#include <gnutls/abstract.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/transport/store.h"
#include "server/http/connections.h"
#include "server/http/http_request.h"
#include "server/http/tls.h"
#include "server/log.h"

_Static_assert(MHD_VERSION >= 0x00097500, "libmicrohttpd 0.9.75 or later is needed");

enum {
	POOL_BYTES = 16 * 1024, /* of a connection: line, header and part of the body */
	COMPLAINTS_PER_SECOND = 5,
	FRUITLESS_MAX = 32,
	NAP_MS = 5,
	NEVER = INT32_MAX,
};

/* ---- connections ---- */

static void connection_notify(void *cls, struct MHD_Connection *m, void **context,
                              enum MHD_ConnectionNotificationCode code)
{
	struct loop *l = cls;
	l->fruitless = 0;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = connection_begin(
		    l->connections,
		    MHD_get_connection_info(m, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr, m);
	} else {
		struct connection *c = *context;
		/* libmicrohttpd 1.0.1 does not tell the end of some requests that it refuses. */
		if (c->request)
			http_request_end(l, m, &c->request, MHD_REQUEST_TERMINATED_WITH_ERROR);
		connection_end(c);
		*context = NULL;
		l->ended = true;
	}
}

/* The library notices that nothing more comes or goes; and where it has stopped to look (no room
 * for the rest of a line), its own timer ends what has been still for a second. */
static void cut(struct MHD_Connection *m)
{
	(void)shutdown(MHD_get_connection_info(m, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
	               SHUT_RDWR);
	(void)MHD_set_connection_option(m, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
}

static bool gone(struct MHD_Connection *m)
{
	char byte;
	int fd = MHD_get_connection_info(m, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static bool left(struct MHD_Connection *m)
{
	struct pollfd p = { .events = POLLRDHUP };
	p.fd = MHD_get_connection_info(m, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	return poll(&p, 1, 0) > 0;
}

static const struct connection_calls CALLS = { cut, gone, left };

void http_cut(struct loop *l)
{
	connections_cut(l->connections);
}

/* ---- the daemon ---- */

/* Paths are matched as they were sent, and decoded segment by segment. */
static size_t keep_escapes(void *cls, struct MHD_Connection *m, char *s)
{
	(void)cls;
	(void)m;
	return strlen(s);
}

/* Clients make it complain, and there may be many of them. */
static bool may_complain(struct loop *l)
{
	int64_t second = clock_us() / 1000000;
	if (second != l->complained_s)
		l->complaints = 0;
	l->complained_s = second;
	return l->complaints++ < COMPLAINTS_PER_SECOND;
}

__attribute__((format(printf, 2, 0))) static void complain(void *cls, const char *fmt, va_list ap)
{
	char text[256];
	if (!may_complain(cls))
		return;
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut if longer */
	text[strcspn(text, "\n")] = '\0';
	log_event(LOG_INFO, "libmicrohttpd", "text", text);
}

static enum MHD_Result admit(void *cls, const struct sockaddr *from, socklen_t n)
{
	(void)n;
	struct loop *l = cls;
	struct peer p;
	char text[PEER_TEXT];
	if (connections_admit(l->connections, from))
		return MHD_YES;
	if (may_complain(l) && peer_of(from, &p)) {
		peer_text(&p, text);
		log_event(LOG_WARN, "too many connections of one address: refused", "peer", text);
	}
	return MHD_NO;
}

static void panic(void *cls, const char *file, unsigned line, const char *reason)
{
	(void)cls;
	(void)file;
	(void)line;
	log_event(LOG_ERROR, "libmicrohttpd gave up", "why", reason ? reason : "");
	abort();
}

int http_init(struct err *e)
{
	enum library library = framing_library(http_version());
	MHD_set_panic_func(panic, NULL);
	if (library == LIBRARY_REFUSED)
		return err_set(e, UNKNOWN_ERROR,
		               "libmicrohttpd %s is too old: 0.9.75 or later is needed",
		               http_version());
	if (library == LIBRARY_NOT_TRIED)
		log_event(LOG_WARN, "rest-lit was not tried with this version of libmicrohttpd",
		          "version", http_version());
	return 0;
}

const char *http_version(void)
{
	return MHD_get_version();
}

/* ---- TLS ---- */

/* What a client is shown: GnuTLS borrows it.  It decides about the parameters.
 * NOLINTNEXTLINE(readability-function-size) */
static int show_chain(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                      gnutls_pcert_st **certs, unsigned *n, gnutls_ocsp_data_st **ocsp,
                      unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
	(void)info;
	(void)flags; /* what is borrowed is not freed */
	struct tls_chain *c = http_connection_of(gnutls_session_get_ptr(session))->chain;
	*certs = tls_chain_certs(c, n);
	*key = tls_chain_key(c);
	*ocsp = NULL;
	*n_ocsp = 0;
	return 0;
}

/* A function where the library's table of options has an object. */
static void *as_pointer(gnutls_certificate_retrieve_function3 *f)
{
	void *p;
	memcpy(&p, &f, sizeof(p));
	return p;
}

static void tls_options(struct MHD_OptionItem out[static 2])
{
	static char priorities[] = TLS_PRIORITIES; /* the library only reads it */
	out[0] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0, priorities };
	out[1] =
	    (struct MHD_OptionItem){ MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, as_pointer(show_chain) };
}

/* ---- start and stop ---- */

/* MHD_OPTION_CLIENT_DISCIPLINE_LVL, which the headers of 0.9.75 lack: the library may be newer than
 * the headers that we were built with. */
enum { CLIENT_DISCIPLINE_LVL = 38, STRICTEST = 3 };

/* What would be done by STRICT_FOR_CLIENT, the only level of a lenient library, is done in
 * framing.c, with answers in JSON. */
static struct MHD_OptionItem strictness(enum library library)
{
	if (library == LIBRARY_LENIENT)
		return (struct MHD_OptionItem){ MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL };
	return (struct MHD_OptionItem){ (enum MHD_OPTION)CLIENT_DISCIPLINE_LVL, STRICTEST, NULL };
}

int http_start(struct loop *l, struct err *e)
{
	const struct options *o = l->server->options;
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	l->library = framing_library(http_version());
	/* The end of this list is MHD_OPTION_END, which is 0. */
	struct MHD_OptionItem more[4] = { strictness(l->library) };
	if (l->server->tls) {
		flags |= MHD_USE_TLS;
		tls_options(more + 1);
	}
	random_hex(l->id_prefix, 4);
	l->connections = connections_new(l->server, &CALLS);
	/* The logger comes first, or it misses what the other options complain about. */
	l->http = MHD_start_daemon(
	    flags, 0, admit, l, http_request_step, l, MHD_OPTION_EXTERNAL_LOGGER, complain, l,
	    MHD_OPTION_LISTEN_SOCKET, l->listen_fd, MHD_OPTION_NOTIFY_CONNECTION, connection_notify,
	    l, MHD_OPTION_NOTIFY_COMPLETED, http_request_end, l, MHD_OPTION_URI_LOG_CALLBACK,
	    http_request_begin, l, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
	    (unsigned)o->idle_timeout_s, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
	if (l->http)
		return 0;
	connections_free(TAKE(l->connections));
	return err_set(e, UNKNOWN_ERROR, "the HTTP library did not start");
}

int http_fd(const struct loop *l)
{
	return MHD_get_daemon_info(l->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

void http_run(struct loop *l)
{
	l->ended = l->woken = false;
	(void)MHD_run(l->http); /* fails only if the daemon is of another kind */
}

int http_timeout_ms(struct loop *l)
{
	MHD_UNSIGNED_LONG_LONG library;
	int64_t ms = NEVER;
	/* At its limit of connections the library does not listen, and begins again only when it
	 * runs once more after one of them has ended: nothing else might ever wake it.  Nor
	 * does it count those that were resumed. */
	if (l->ended || l->woken)
		return 0;
	if (MHD_get_timeout(l->http, &library) == MHD_YES && library < NEVER)
		ms = (int64_t)library;
	/* When it has no room for the rest of a line, what the client sent is still to be read, and
	 * the library would try again and again till that client is cut off. */
	if (ms == 0 && ++l->fruitless > FRUITLESS_MAX)
		ms = NAP_MS;
	int64_t next_ms = connections_next_ms(l->connections);
	if (next_ms != INT64_MAX) {
		int64_t cut = next_ms - clock_ms();
		cut = cut < 0 ? 0 : cut;
		ms = cut < ms ? cut : ms;
	}
	return ms == NEVER ? -1 : (int)ms;
}

size_t http_connections(const struct loop *l)
{
	return MHD_get_daemon_info(l->http, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections;
}

void http_quiesce(struct loop *l)
{
	int fd = MHD_quiesce_daemon(l->http);
	if (fd >= 0)
		(void)close(fd); /* a listener: nothing to lose */
	l->listen_fd = -1;
}

void http_stop(struct loop *l)
{
	MHD_stop_daemon(TAKE(l->http));
	connections_free(TAKE(l->connections));
}
