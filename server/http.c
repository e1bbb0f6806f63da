/*
 * From libmicrohttpd's callbacks to a request.  For each connection: connection_begin; for each
 * request on it: request_begin (first line), request_step (header; then each part of the
 * body; then the end), request_end.  What is decided there stands in intake.c; deadlines are ours
 * too, since its timeout starts anew with each byte.
 */
#include "server/http.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/enc.h"
#include "k8s/store.h"
#include "server/answer.h"
#include "server/intake.h"
#include "server/log.h"

enum {
	POOL_BYTES = 16 * 1024, /* of a connection: line, header and part of the body */
	COMPLAINTS_PER_SECOND = 5,
	NEVER = INT32_MAX,
};

struct connection {
	struct connection *prev, *next;
	struct loop *loop;
	int fd;
	int64_t cut_ms; /* by store_now_ms; 0: not now */
};

/* ---- connections ---- */

static void cut_after(struct connection *c, int64_t seconds)
{
	c->cut_ms = seconds ? store_now_ms() + seconds * 1000 : 0;
	if (c->cut_ms && c->cut_ms < c->loop->next_cut_ms)
		c->loop->next_cut_ms = c->cut_ms;
}

static void connection_begin(struct loop *l, struct MHD_Connection *m, void **context)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(m, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct connection *c = xcalloc(1, sizeof(*c));
	c->loop = l;
	c->fd = info->connect_fd;
	c->next = l->connections;
	if (c->next)
		c->next->prev = c;
	l->connections = c;
	cut_after(c, l->server->options->read_timeout_s);
	*context = c;
}

static void connection_end(struct loop *l, void **context)
{
	struct connection *c = *context;
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		l->connections = c->next;
	l->ended = true;
	free(c);
	*context = NULL;
}

static void connection_notify(void *cls, struct MHD_Connection *m, void **context,
                              enum MHD_ConnectionNotificationCode code)
{
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		connection_begin(cls, m, context);
	else
		connection_end(cls, context);
}

static struct connection *connection_of(struct MHD_Connection *m)
{
	return MHD_get_connection_info(m, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void http_cut(struct loop *l)
{
	int64_t now = store_now_ms();
	if (now < l->next_cut_ms)
		return;
	l->next_cut_ms = INT64_MAX;
	for (struct connection *c = l->connections; c; c = c->next) {
		if (c->cut_ms && c->cut_ms <= now) {
			/* The library sees the end and lets go of it by itself. */
			(void)shutdown(c->fd, SHUT_RDWR);
			c->cut_ms = 0;
		} else if (c->cut_ms && c->cut_ms < l->next_cut_ms) {
			l->next_cut_ms = c->cut_ms;
		}
	}
}

/* ---- answers ---- */

void answer_header(struct request *r, const char *name, const char *value)
{
	if (r->reply.n_headers == REPLY_HEADERS)
		return;
	r->reply.headers[r->reply.n_headers].name = name;
	r->reply.headers[r->reply.n_headers++].value = arena_dup(&r->arena, span_of(value));
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
	/* It refuses only what is no header text, and ours is checked. */
	(void)MHD_add_response_header(response, name, value);
}

static struct MHD_Response *make_response(struct request *r)
{
	struct reply *reply = &r->reply;
	size_t n = reply->body.n;
	struct MHD_Response *response =
	    MHD_create_response_from_buffer(n, str_take(&reply->body), MHD_RESPMEM_MUST_FREE);
	if (!response)
		abort();   /* out of memory, as in xmalloc */
	reply->body.n = n; /* for the log */
	if (reply->type)
		add_header(response, "Content-Type", reply->type);
	add_header(response, "X-Content-Type-Options", "nosniff");
	add_header(response, "X-Request-Id", r->id);
	add_header(response, "Cache-Control", "no-store");
	add_header(response, "Referrer-Policy", "no-referrer");
	for (size_t i = 0; i < reply->n_headers; i++)
		add_header(response, reply->headers[i].name, reply->headers[i].value);
	if (reply->close || atomic_load(&r->loop->server->phase) != PHASE_RUN)
		add_header(response, "Connection", "close");
	return response;
}

void answer_send(struct request *r)
{
	struct MHD_Response *response = make_response(r);
	r->answered = true;
	cut_after(connection_of(r->connection), r->loop->server->options->idle_timeout_s);
	/* Fails only if the connection is past answering; then it ends by itself. */
	(void)MHD_queue_response(r->connection, (unsigned)r->reply.status, response);
	MHD_destroy_response(response);
	if (r->waiting) {
		r->waiting = false;
		MHD_resume_connection(r->connection);
	}
}

void request_wait(struct request *r)
{
	r->waiting = true;
	MHD_suspend_connection(r->connection);
}

/* ---- a request's life ---- */

static void make_id(struct request *r)
{
	static const char HEX[] = "0123456789abcdef";
	struct loop *l = r->loop;
	uint32_t n = l->next_id++;
	memcpy(r->id, l->id_prefix, 8);
	for (size_t i = 16; i > 8; n >>= 4)
		r->id[--i] = HEX[n & 15];
	r->id[16] = '\0';
}

static void *request_begin(void *cls, const char *uri, struct MHD_Connection *m)
{
	struct loop *l = cls;
	struct request *r = xcalloc(1, sizeof(*r));
	r->loop = l;
	r->connection = m;
	r->started_us = log_clock_us();
	r->line_n = strlen(uri);
	r->path = arena_dup(&r->arena, (struct span){ uri, strcspn(uri, "?") });
	r->reply.body = STR_INIT(REPLY_MAX);
	r->body = STR_INIT((size_t)l->server->options->max_body);
	make_id(r);
	l->requests++;
	cut_after(connection_of(m), l->server->options->read_timeout_s);
	return r;
}

/* The library decides about these parameters. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name, size_t n,
                                   const char *value, size_t value_n)
{
	(void)kind;
	framing_header(cls, (struct span){ name, n }, (struct span){ value, value_n });
	return MHD_YES;
}

/* And about these. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result request_step(void *cls, struct MHD_Connection *m, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n, void **context)
{
	(void)cls;
	struct request *r = *context;
	if (r->answered)
		return MHD_YES;
	if (!r->seen) {
		r->seen = true;
		r->method = arena_dup(&r->arena, span_of(method));
		(void)MHD_get_connection_values_n(m, MHD_HEADER_KIND, take_header, &r->framing);
		intake_framing(r, url, version);
		/* An answer before the end of the request closes the connection, which only a
		 * request with a body is worth. */
		if (!r->answered && (r->framing.length || r->framing.chunked))
			intake_header(r);
		return MHD_YES;
	}
	if (*n) {
		size_t part = *n;
		*n = 0;
		return intake_part(r, data, part) ? MHD_YES : MHD_NO;
	}
	cut_after(connection_of(m), 0);
	if (!r->looked_at)
		intake_header(r);
	if (!r->answered)
		intake_end(r);
	return MHD_YES;
}

static void request_end(void *cls, struct MHD_Connection *m, void **context,
                        enum MHD_RequestTerminationCode how)
{
	(void)how;
	struct loop *l = cls;
	struct request *r = *context;
	if (!r)
		return;
	*context = NULL;
	intake_log(r);
	str_wipe(&r->body);
	r->reply.body.n = 0;
	str_done(&r->reply.body);
	notes_done(&r->warnings);
	if (r->secret)
		arena_wipe(&r->arena);
	else
		arena_done(&r->arena);
	free(r);
	l->requests--;
	const struct options *o = l->server->options;
	/* Until the next first line, which starts the time for reading anew. */
	cut_after(connection_of(m), o->idle_timeout_s + o->read_timeout_s);
}

/* ---- the daemon ---- */

/* Paths are matched as they were sent, and decoded segment by segment. */
static size_t keep_escapes(void *cls, struct MHD_Connection *m, char *s)
{
	(void)cls;
	(void)m;
	return strlen(s);
}

__attribute__((format(printf, 2, 0))) static void complain(void *cls, const char *fmt, va_list ap)
{
	struct loop *l = cls;
	int64_t second = log_clock_us() / 1000000;
	if (second != l->complained_s)
		l->complaints = 0;
	l->complained_s = second;
	if (l->complaints++ >= COMPLAINTS_PER_SECOND)
		return;
	char text[256];
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut if longer */
	size_t n = strcspn(text, "\n");
	text[n] = '\0';
	log_event(LOG_INFO, "libmicrohttpd", "text", text);
}

static void panic(void *cls, const char *file, unsigned line, const char *reason)
{
	(void)cls;
	(void)file;
	(void)line;
	log_event(LOG_ERROR, "libmicrohttpd gave up", "reason", reason ? reason : "");
	abort();
}

void http_init(void)
{
	MHD_set_panic_func(panic, NULL);
}

const char *http_version(void)
{
	return MHD_get_version();
}

int http_start(struct loop *l, struct err *e)
{
	const struct options *o = l->server->options;
	l->next_cut_ms = INT64_MAX;
	random_hex(l->id_prefix, 4);
	/* The logger comes first, or it misses what the other options complain about. */
	l->http = MHD_start_daemon(
	    MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
	    request_step, l, MHD_OPTION_EXTERNAL_LOGGER, complain, l, MHD_OPTION_LISTEN_SOCKET,
	    l->listen_fd, MHD_OPTION_NOTIFY_CONNECTION, connection_notify, l,
	    MHD_OPTION_NOTIFY_COMPLETED, request_end, l, MHD_OPTION_URI_LOG_CALLBACK, request_begin,
	    l, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections,
	    MHD_OPTION_PER_IP_CONNECTION_LIMIT,
	    /* Without logins all clients are on this machine. */
	    o->no_auth ? 0u : (unsigned)o->connections_per_address,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
	    (unsigned)o->idle_timeout_s, MHD_OPTION_END);
	if (!l->http)
		return err_set(e, UNKNOWN_ERROR, "the HTTP library did not start");
	return 0;
}

int http_fd(const struct loop *l)
{
	return MHD_get_daemon_info(l->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

void http_run(struct loop *l)
{
	l->ended = false;
	(void)MHD_run(l->http); /* fails only if the daemon is of another kind */
}

int http_timeout_ms(const struct loop *l)
{
	MHD_UNSIGNED_LONG_LONG library;
	int64_t ms = NEVER;
	/* At its limit of connections the library does not listen, and begins again only when it
	 * runs once more after one of them has ended: nothing else might ever wake it. */
	if (l->ended)
		return 0;
	if (MHD_get_timeout(l->http, &library) == MHD_YES && library < NEVER)
		ms = (int64_t)library;
	if (l->next_cut_ms != INT64_MAX) {
		int64_t cut = l->next_cut_ms - store_now_ms();
		cut = cut < 0 ? 0 : cut;
		ms = cut < ms ? cut : ms;
	}
	return ms == NEVER ? -1 : (int)ms;
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
	MHD_stop_daemon(l->http);
	l->http = NULL;
}
