/*
 * libmicrohttpd (MHD): the daemon of a loop, connections, and the life of a request.  For each
 * request on a connection MHD calls request_begin (request line), request_step (head; then each
 * part of the body; then the end), and request_ended.  The decisions are in admission.c.
 */
#include "server/http/http_internal.h"

#include <assert.h>
#include <gnutls/abstract.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "jobs/store/store.h"
#include "server/config/options.h"
#include "server/http/rate_limit.h"
#include "server/http/route.h"
#include "server/http/stream.h"
#include "server/http/tls.h"
#include "server/state/counts.h"
#include "server/state/log.h"

_Static_assert(MHD_VERSION >= 0x00097500, "libmicrohttpd 0.9.75 or later is needed");

enum {
	POOL_BYTES =
	    16 * 1024, /* buffer of a connection: request line, headers, part of the body */
	COMPLAINTS_PER_SECOND = 5,
	FRUITLESS_MAX = 32,
	RUNS_MAX = 4, /* of MHD, in one round of the loop */
	NAP_MS = 5,
	NEVER = INT32_MAX,
};

struct connection *http_connection_of(struct MHD_Connection *m)
{
	return MHD_get_connection_info(m, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

int http_socket(struct MHD_Connection *m)
{
	return MHD_get_connection_info(m, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* MHD notices the shutdown; if it does not poll the socket (no room for the rest of a line), its
 * own timer of a second closes the connection. */
void http_shutdown(struct MHD_Connection *m)
{
	(void)shutdown(http_socket(m), SHUT_RDWR);
	(void)MHD_set_connection_option(m, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
}

static void request_set_activity(const struct request *r, enum activity activity)
{
	connection_set_activity(http_connection_of(r->connection), activity);
}

/* ---- the phases of a request ---- */

/* The phases that may follow each one.  MHD repeats the callback in which a request was suspended,
 * so its end can come twice; and it answers broken requests itself, at any time. */
#define TO(phase) (1u << REQUEST_##phase)
static const unsigned REQUEST_NEXT[REQUEST_ANSWERED + 1] = {
	[REQUEST_ARRIVING] = TO(PAUSED) | TO(WHOLE) | TO(ANSWERED),
	[REQUEST_PAUSED] = TO(RESUMED) | TO(ANSWERED),
	[REQUEST_RESUMED] = TO(ARRIVING) | TO(ANSWERED),
	[REQUEST_WHOLE] = TO(WHOLE) | TO(SUSPENDED) | TO(ANSWERED),
	[REQUEST_SUSPENDED] = TO(WHOLE) | TO(ANSWERED),
};

static void request_become(struct request *r, enum request_phase phase)
{
	assert(REQUEST_NEXT[r->phase] & 1u << phase);
	r->phase = phase;
}

/* ---- answers ---- */

void answer_header(struct request *r, const char *name, const char *value)
{
	if (r->reply.n_headers == REPLY_HEADERS)
		return;
	r->reply.headers[r->reply.n_headers].name = name;
	r->reply.headers[r->reply.n_headers++].value = arena_dup(&r->arena, span_of(value));
}

static void http_add_header(struct MHD_Response *response, const char *name, const char *value)
{
	/* Fails only for invalid text; the server's headers are valid. */
	(void)MHD_add_response_header(response, name, value);
}

static void add_headers(struct request *r, struct MHD_Response *response)
{
	const struct reply *reply = &r->reply;
	cors_headers(r);
	if (reply->type)
		http_add_header(response, "Content-Type", reply->type);
	http_add_header(response, "X-Content-Type-Options", "nosniff");
	http_add_header(response, "X-Request-Id", r->id);
	http_add_header(response, "Cache-Control", reply->cache ? reply->cache : "no-store");
	http_add_header(response, "Referrer-Policy", "no-referrer");
	for (size_t i = 0; i < reply->n_headers; i++)
		http_add_header(response, reply->headers[i].name, reply->headers[i].value);
	/* A chunked request closes the connection: MHD accepts chunk lines that end in bare LF
	 * without reporting it, so a proxy may see another end of the body. */
	if (reply->close || r->head.chunked || atomic_load(&r->loop->server->phase) != PHASE_RUN)
		http_add_header(response, "Connection", "close");
}

const char *request_header(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

size_t request_swallow_max(const struct request *r)
{
	bool code = r->route && r->route->body == BODY_CODE;
	if (r->pipe)
		return SIZE_MAX;
	return r->head.chunked ? SWALLOW_CHUNKED : r->body.max * (code ? 1 : 2) + SWALLOW;
}

static void request_queue_response(struct request *r, struct MHD_Response *response)
{
	request_become(r, REQUEST_ANSWERED);
	request_set_activity(r, ANSWERING);
	/* Fails only if the connection is already closing. */
	(void)MHD_queue_response(r->connection, (unsigned)r->reply.status, response);
	MHD_destroy_response(response);
}

void http_resume(struct request *r, enum activity activity)
{
	if (r->phase != REQUEST_ANSWERED) /* else a stream goes on */
		request_become(r, r->phase == REQUEST_PAUSED ? REQUEST_RESUMED : REQUEST_WHOLE);
	request_set_activity(r, activity);
	r->loop->woken = true;
	MHD_resume_connection(r->connection);
}

void answer_with(struct request *r, struct MHD_Response *response)
{
	if (!response)
		abort(); /* out of memory, as in xmalloc */
	add_headers(r, response);
	bool waits = r->phase == REQUEST_PAUSED || r->phase == REQUEST_SUSPENDED;
	r->answered_us = clock_us();
	/* An early error response is delayed until the body is received; otherwise MHD resets the
	 * connection before the client has read it.  Not for large bodies, with `Expect:
	 * 100-continue`, or if the end of the body is doubtful. */
	bool more_follows = r->phase < REQUEST_WHOLE && (r->head.length || r->head.chunked) &&
	                    !r->reply.close && !r->head.value[HEADER_EXPECT].p &&
	                    r->head.length <= request_swallow_max(r);
	if (more_follows)
		r->kept = response;
	else
		request_queue_response(r, response);
	if (waits)
		http_resume(r, more_follows ? READING : ANSWERING);
}

void answer_send(struct request *r)
{
	size_t n = r->reply.body.n;
	request_hold(r, HOLD_MEMORY, r->body.cap + r->reply.body.cap);
	/* The body may hold a secret, such as the token of a login. */
	MHD_ContentReaderFreeCallback done = r->reply.body.secret ? free_wiped : free;
	struct MHD_Response *response =
	    MHD_create_response_from_buffer_with_free_callback(n, str_take(&r->reply.body), done);
	r->reply.body.n = n; /* for the log */
	answer_with(r, response);
}

void request_wait(struct request *r)
{
	if (r->phase == REQUEST_PAUSED || r->phase == REQUEST_SUSPENDED)
		return;
	request_become(r, r->phase == REQUEST_ARRIVING ? REQUEST_PAUSED : REQUEST_SUSPENDED);
	request_set_activity(r, WAITING);
	MHD_suspend_connection(r->connection);
}

/* ---- a request's life ---- */

struct request_end {
	struct request_end *next;
	void (*fn)(void *arg);
	void *arg;
};

void request_on_end(struct request *r, void (*fn)(void *arg), void *arg)
{
	struct request_end *end = ARENA_NEW(&r->arena, struct request_end, 1);
	*end = (struct request_end){ r->ends, fn, arg };
	r->ends = end;
}

static void read_target(struct request *r, const char *uri)
{
	struct span target = span_of(uri);
	struct span host = { 0 };
	r->line_n = target.n;
	/* MHD accepts blanks and control characters in a URI. */
	for (size_t i = 0; i < target.n; i++)
		r->odd_line |= (unsigned char)uri[i] <= ' ' || uri[i] == 0x7f;
	r->odd_line |= !head_split_target(&target, &host);
	if (host.p)
		r->host = arena_span(&r->arena, host);
	size_t n = strcspn(target.p, "?");
	r->path = host.p && n == 0 ? "/" : arena_dup(&r->arena, (struct span){ target.p, n });
	r->query = arena_dup(&r->arena, span_of(target.p + n + (target.p[n] == '?')));
}

static void *request_begin(void *cls, const char *uri, struct MHD_Connection *m)
{
	static const char HEX[] = "0123456789abcdef";
	struct loop *l = cls;
	struct request *r = xcalloc(1, sizeof(*r));
	r->loop = l;
	r->connection = m;
	r->client = http_connection_of(m)->from;
	client_address_text(&r->client, r->client_text);
	r->started_us = clock_us();
	read_target(r, uri);
	/* MHD stores each parameter of the query; without room for them it hangs, so it gets none,
	 * and the line counts as too long. */
	struct request_head parameters = { 0 };
	for (size_t i = 0; i < r->line_n; i++)
		parameters.room += uri[i] == '&' ? HEAD_NOTE : 0;
	/* libmicrohttpd 1.0.0 to 1.0.8 moves its read buffer behind the last parameter or header,
	 * and crashes behind a parameter without a value, or overwrites the version behind another
	 * one.  The server never asks it for parameters, so it gets none.  0.9.75 does not have
	 * this fault, and its check of folded headers needs the whole line. */
	bool many = head_size(&parameters, r->line_n) == SIZE_HEADERS;
	const char *query = many || l->library != LIBRARY_LENIENT ? strchr(uri, '?') : NULL;
	if (query) /* the line is in the connection's writable memory */
		*(char *)(uintptr_t)(query + 1) = '\0'; /* NOLINT(performance-no-int-to-ptr) */
	r->reply.body = STR_INIT(REPLY_MAX);
	r->body = STR_SECRET(l->body_max);
	memcpy(r->id, l->id_prefix, 8);
	uint32_t number = l->next_id++;
	for (size_t i = 16; i > 8; number >>= 4)
		r->id[--i] = HEX[number & 15];
	http_connection_of(m)->request = r;
	l->requests++;
	l->fruitless = 0;
	request_set_activity(r, READING);
	if (many)
		r->line_n = SIZE_MAX;
	return r;
}

/* MHD prescribes the parameters. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name, size_t n,
                                   const char *value, size_t value_n)
{
	(void)kind;
	head_take_header(cls, (struct span){ name, n }, (struct span){ value, value_n });
	return MHD_YES;
}

static void request_header_complete(struct request *r, const char *url, const char *method,
                                    const char *version)
{
	const struct head_line line = { method, url, version, r->line_n };
	size_t head_n =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
		->header_size;
	r->method = arena_dup(&r->arena, span_of(method));
	if (r->loop->library == LIBRARY_LENIENT)
		head_take_line(&r->head, &line);
	(void)MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, take_header, &r->head);
	cors_arrived(r);
	admission_check_head(r, version, method + head_n);
	if (r->host.p)
		r->head.value[HEADER_HOST] = r->host;
	/* request_complete follows at once if there is no body, and does this. */
	if (!request_answered(r) && (r->head.length || r->head.chunked))
		admission_header(r);
}

static void request_complete(struct request *r)
{
	bool bare = r->phase == REQUEST_ARRIVING && !r->head.length && !r->head.chunked;
	request_become(r, REQUEST_WHOLE);
	if (r->kept) {
		request_queue_response(r, TAKE(r->kept));
		return;
	}
	request_set_activity(r, WAITING);
	if (bare)
		admission_header(r);
	if (r->phase == REQUEST_WHOLE)
		admission_run_handler(r);
}

/* MHD prescribes the parameters. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result request_step(void *cls, struct MHD_Connection *m, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n, void **context)
{
	(void)cls;
	(void)m;
	struct request *r = *context;
	size_t part = *n;
	r->loop->fruitless = 0;
	if (r->phase == REQUEST_ANSWERED)
		return MHD_YES;
	*n = 0;
	bool resumed = r->phase == REQUEST_RESUMED;
	if (!r->method) {
		request_header_complete(r, url, method, version);
		return MHD_YES;
	}
	if (resumed) /* before the body, or in front of the rest of a part */
		request_become(r, REQUEST_ARRIVING);
	if (part)
		return admission_body_part(r, (struct span){ data, part }, n) ? MHD_YES : MHD_NO;
	if (!resumed)
		request_complete(r);
	return MHD_YES;
}

/* Notes the reason why a request ended that was not answered. */
static void request_note_end(struct request *r, enum MHD_RequestTerminationCode how)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_HTTP_STATUS);
	bool late = how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED;
	if (info && info->http_status) { /* MHD has refused it before request_step */
		request_become(r, REQUEST_ANSWERED);
		r->reply.status = (int)info->http_status;
		r->reply.code = "RefusedByLibrary";
	} else if (!r->why && (http_connection_of(r->connection)->cut || late)) {
		r->why = "the client sent its request too slowly, or the connection was evicted";
	}
}

static void request_ended(void *cls, struct MHD_Connection *m, void **context,
                          enum MHD_RequestTerminationCode how)
{
	struct loop *l = cls;
	struct request *r = *context;
	if (!r)
		return;
	*context = NULL;
	http_connection_of(m)->request = NULL;
	l->fruitless = 0;
	if (!request_answered(r))
		request_note_end(r, how);
	long_lived_end(r);
	/* The timeout is MHD's own. */
	stream_client_left(r, how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED);
	admission_log(r);
	bool timed = r->answered_us && !r->untimed;
	counts_request(
	    l->counts, r->route ? (size_t)(r->route - l->counts->routes) : l->counts->n_routes,
	    request_answered(r) ? r->reply.status : 0, timed ? r->answered_us - r->started_us : -1);
	if (r->kept)
		MHD_destroy_response(r->kept);
	for (struct request_end *end = r->ends; end; end = end->next)
		end->fn(end->arg);
	for (enum holding kind = 0; kind < HOLDINGS; kind++)
		request_hold(r, kind, 0);
	str_wipe(&r->body);
	r->reply.body.n = 0;
	str_done(&r->reply.body);
	(r->secret ? arena_wipe : arena_done)(&r->arena);
	free(r);
	l->requests--;
	connection_set_activity(http_connection_of(m), IDLE);
}

/* ---- connections ---- */

/* Limits the log messages that clients cause. */
static bool http_may_complain(struct loop *l)
{
	int64_t second = clock_us() / 1000000;
	if (second != l->complained_s)
		l->complaints = 0;
	l->complained_s = second;
	return l->complaints++ < COMPLAINTS_PER_SECOND;
}

static void http_log_crowd(struct loop *l, const struct client_address *from)
{
	char text[CLIENT_ADDRESS_TEXT];
	if (!http_may_complain(l))
		return;
	client_address_text(from, text);
	log_event(LOG_WARN, "too many connections from one address; a connection was refused",
	          "peer", text);
}

static void connection_notify(void *cls, struct MHD_Connection *m, void **context,
                              enum MHD_ConnectionNotificationCode code)
{
	struct loop *l = cls;
	l->fruitless = 0;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		struct connection *c = connection_begin(
		    l->connections,
		    MHD_get_connection_info(m, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr, m);
		if (c->cut)
			http_log_crowd(l, &c->from);
		*context = c;
	} else {
		struct connection *c = *context;
		/* MHD 1.0.1 does not report the end of some requests that it refuses. */
		if (c->request)
			request_ended(l, m, &c->request, MHD_REQUEST_TERMINATED_WITH_ERROR);
		connection_end(c);
		*context = NULL;
		l->ended = true;
	}
}

/* ---- the daemon ---- */

/* route.c decodes paths segment by segment. */
static size_t http_keep_escapes(void *cls, struct MHD_Connection *m, char *s)
{
	(void)cls;
	(void)m;
	return strlen(s);
}

__attribute__((format(printf, 2, 0))) static void http_complain(void *cls, const char *fmt,
                                                                va_list ap)
{
	char text[256];
	if (!http_may_complain(cls))
		return;
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut if longer */
	text[strcspn(text, "\n")] = '\0';
	log_event(LOG_INFO, "libmicrohttpd", "text", text);
}

static enum MHD_Result http_admit(void *cls, const struct sockaddr *from, socklen_t n)
{
	(void)n;
	struct loop *l = cls;
	struct client_address p;
	if (!connection_from(l, from, -1, &p) || rate_limit_count(l->server->rate_limits, &p, 0))
		return MHD_YES;
	http_log_crowd(l, &p);
	return MHD_NO;
}

static void http_panic(void *cls, const char *file, unsigned line, const char *reason)
{
	(void)cls;
	(void)file;
	(void)line;
	log_event(LOG_ERROR, "libmicrohttpd gave up", "why", reason ? reason : "");
	abort();
}

int http_init(struct err *e)
{
	enum library library = request_check_library(http_version());
	MHD_set_panic_func(http_panic, NULL);
	if (library == LIBRARY_REFUSED)
		return err_set(e, UNKNOWN_ERROR,
		               "libmicrohttpd %s is too old: 0.9.75 or later is needed",
		               http_version());
	if (library == LIBRARY_NOT_TRIED)
		log_event(LOG_WARN, "rest-lit is not tested with this version of libmicrohttpd",
		          "version", http_version());
	return 0;
}

const char *http_version(void)
{
	return MHD_get_version();
}

/* ---- TLS ---- */

/* Gives GnuTLS the certificate of a connection, borrowed; GnuTLS prescribes the parameters.
 * NOLINTNEXTLINE(readability-function-size) */
static int http_show_chain(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                           gnutls_pcert_st **certs, unsigned *n, gnutls_ocsp_data_st **ocsp,
                           unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
	(void)info;
	(void)flags; /* 0: GnuTLS does not free them */
	struct tls_chain *c = http_connection_of(gnutls_session_get_ptr(session))->chain;
	*key = tls_chain_show(c, certs, n);
	*ocsp = NULL;
	*n_ocsp = 0;
	return 0;
}

/* ---- start and stop ---- */

/* MHD_OPTION_CLIENT_DISCIPLINE_LVL, which the headers of 0.9.75 lack: the library may be newer than
 * the headers of the build. */
enum { CLIENT_DISCIPLINE_LVL = 38, STRICTEST = 3 };

int http_start(struct loop *l, struct err *e)
{
	const struct options *o = l->server->options;
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	l->library = request_check_library(http_version());
	/* The levels of a lenient library are not used: request_check.c has these checks, with
	 * answers in JSON. */
	bool lenient = l->library == LIBRARY_LENIENT;
	/* The zero at the end is MHD_OPTION_END. */
	struct MHD_OptionItem more[4] = {
		{ lenient ? MHD_OPTION_STRICT_FOR_CLIENT : (enum MHD_OPTION)CLIENT_DISCIPLINE_LVL,
		  lenient ? 0 : STRICTEST, NULL },
	};
	if (l->tls) {
		static char priorities[] = TLS_PRIORITIES; /* MHD only reads it */
		static gnutls_certificate_retrieve_function3 *const SHOW = http_show_chain;
		flags |= MHD_USE_TLS;
		more[1] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0, priorities };
		more[2].option = MHD_OPTION_HTTPS_CERT_CALLBACK2;
		memcpy(&more[2].ptr_value, &SHOW, sizeof(SHOW)); /* a function as an object */
	}
	random_hex(l->id_prefix, 4);
	l->connections = xcalloc(1, sizeof(*l->connections));
	l->connections->loop = l;
	l->connections->places = (size_t)o->connections;
	/* MHD's own timer for idle connections expires first, except for a request line that
	 * arrives byte by byte. */
	l->connections->lists[IDLE].limit_ms = (o->idle_timeout_s + o->read_timeout_s) * 1000;
	l->connections->lists[READING].limit_ms = o->read_timeout_s * 1000;
	l->connections->lists[ANSWERING].limit_ms = o->idle_timeout_s * 1000;
	/* The logger comes first, so that it receives the messages about the other options. */
	l->http = MHD_start_daemon(
	    flags, 0, http_admit, l, request_step, l, MHD_OPTION_EXTERNAL_LOGGER, http_complain, l,
	    MHD_OPTION_LISTEN_SOCKET, l->listen_fd, MHD_OPTION_NOTIFY_CONNECTION, connection_notify,
	    l, MHD_OPTION_NOTIFY_COMPLETED, request_ended, l, MHD_OPTION_URI_LOG_CALLBACK,
	    request_begin, l, MHD_OPTION_UNESCAPE_CALLBACK, http_keep_escapes, NULL,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
	    (unsigned)o->idle_timeout_s, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
	if (l->http)
		return MHD_get_daemon_info(l->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	free(TAKE(l->connections));
	return err_set(e, UNKNOWN_ERROR, "libmicrohttpd did not start");
}

static int64_t library_timeout_ms(const struct loop *l)
{
	MHD_UNSIGNED_LONG_LONG ms;
	return MHD_get_timeout(l->http, &ms) == MHD_YES && ms < NEVER ? (int64_t)ms : NEVER;
}

/* MHD takes several runs to send an answer, to end the request, and to look for the next one. */
void http_run(struct loop *l)
{
	unsigned runs = 0;
	l->ended = l->woken = false;
	do {
		l->fruitless++;
		(void)MHD_run(l->http); /* fails only for a daemon with threads */
	} while (++runs < RUNS_MAX && l->fruitless < RUNS_MAX && library_timeout_ms(l) == 0);
}

int http_timeout_ms(struct loop *l)
{
	/* MHD does not listen at its limit of connections, and listens again only when it runs
	 * after a connection has ended.  Its timeout ignores resumed connections, too. */
	if (l->ended || l->woken)
		return 0;
	int64_t ms = library_timeout_ms(l);
	/* MHD would poll in a busy loop until the client is cut off, if it has no room for the rest
	 * of a line. */
	if (ms == 0 && l->fruitless > FRUITLESS_MAX)
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
		(void)close(fd); /* a listener holds no data */
	l->listen_fd = -1;
}

void http_stop(struct loop *l)
{
	MHD_stop_daemon(TAKE(l->http));
	free(TAKE(l->connections));
}
