/*
 * From libmicrohttpd's callbacks to a request.  For each request on a connection (connections.h):
 * http_request_begin (first line), http_request_step (header; then each part of the body; then the
 * end), http_request_end.  What is decided there stands in intake.c.
 */
#include "server/http/http_request.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/transport/store.h"
#include "server/http/answer.h"
#include "server/http/connections.h"
#include "server/http/edge.h"
#include "server/http/intake.h"
#include "server/http/lasting.h"
#include "server/http/loop.h"
#include "server/http/stream.h"
#include "server/log.h"

struct connection *http_connection_of(struct MHD_Connection *m)
{
	return MHD_get_connection_info(m, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void turn(const struct request *r, enum activity activity)
{
	connection_run_once(http_connection_of(r->connection), activity);
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

/* An answer may hold a secret: the token of a login. */
static struct MHD_Response *take_body(struct reply *reply)
{
	size_t n = reply->body.n;
	MHD_ContentReaderFreeCallback done = reply->body.secret ? free_wiped : free;
	return MHD_create_response_from_buffer_with_free_callback(n, str_take(&reply->body), done);
}

static void add_headers(struct request *r, struct MHD_Response *response)
{
	const struct reply *reply = &r->reply;
	edge_headers(r);
	if (reply->type)
		add_header(response, "Content-Type", reply->type);
	add_header(response, "X-Content-Type-Options", "nosniff");
	add_header(response, "X-Request-Id", r->id);
	add_header(response, "Cache-Control", "no-store");
	add_header(response, "Referrer-Policy", "no-referrer");
	for (size_t i = 0; i < reply->n_headers; i++)
		add_header(response, reply->headers[i].name, reply->headers[i].value);
	/* Where chunks end, a proxy may see otherwise: the library takes lines of theirs that end
	 * in bare LF, and the API does not show it.  So nothing is read behind them. */
	if (reply->close || r->framing.chunked || atomic_load(&r->loop->server->phase) != PHASE_RUN)
		add_header(response, "Connection", "close");
}

const char *request_header(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

size_t request_swallow_max(const struct request *r)
{
	return r->framing.chunked ? SWALLOW_CHUNKED : r->body.max * 2 + SWALLOW;
}

/* An answer before the end of a request closes the connection, and a client that is still sending
 * would find it closed instead of reading why.  So the answer is kept till all has come, unless
 * that is too much, the client waits for leave to send, or cannot be trusted about where its body
 * ends. */
static bool more_follows(const struct request *r)
{
	return r->seen && !r->whole && (r->framing.length || r->framing.chunked) &&
	       !r->reply.close && !r->framing.value[HEADER_EXPECT].p &&
	       r->framing.length <= request_swallow_max(r);
}

/* Takes the response over. */
static void queue(struct request *r, struct MHD_Response *response)
{
	turn(r, ANSWERING);
	/* Fails only if the connection is past answering; then it ends by itself. */
	(void)MHD_queue_response(r->connection, (unsigned)r->reply.status, response);
	MHD_destroy_response(response);
}

void answer_with(struct request *r, struct MHD_Response *response)
{
	if (!response)
		abort(); /* out of memory, as in xmalloc */
	add_headers(r, response);
	r->answered = true;
	if (more_follows(r))
		r->kept = response;
	else
		queue(r, response);
	if (!r->waiting)
		return;
	r->waiting = false;
	if (r->kept)
		turn(r, READING);
	r->loop->woken = true;
	MHD_resume_connection(r->connection);
}

void answer_send(struct request *r)
{
	size_t n = r->reply.body.n;
	struct MHD_Response *response = take_body(&r->reply);
	r->reply.body.n = n; /* for the log */
	answer_with(r, response);
}

void request_wait(struct request *r)
{
	if (r->waiting)
		return;
	r->waiting = true;
	turn(r, WAITING);
	MHD_suspend_connection(r->connection);
}

void request_go_on(struct request *r)
{
	r->waiting = false;
	turn(r, READING);
	r->loop->woken = true;
	MHD_resume_connection(r->connection);
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

static void run_ends(struct request *r)
{
	for (struct request_end *end = r->ends; end; end = end->next)
		end->fn(end->arg);
}

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

/* Blanks and control characters do not stand in a URI, though the library takes them. */
static bool is_odd(const char *uri, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)uri[i] <= ' ' || uri[i] == 0x7f)
			return true;
	return false;
}

/* The library notes each parameter of the query, and when it has no room for that, it neither
 * answers nor goes on. */
static bool has_room(const char *uri, size_t n)
{
	struct framing as_headers = { 0 };
	for (size_t i = 0; i < n; i++)
		if (uri[i] == '&')
			framing_parameter(&as_headers);
	return framing_size(&as_headers, n) != SIZE_HEADERS;
}

static void read_target(struct request *r, const char *uri)
{
	struct span target = span_of(uri);
	struct span host = { 0 };
	r->odd_line = is_odd(uri, target.n) || !framing_target(&target, &host);
	if (host.p)
		r->host = arena_span(&r->arena, host);
	size_t n = strcspn(target.p, "?");
	r->path = host.p && n == 0 ? "/" : arena_dup(&r->arena, (struct span){ target.p, n });
	r->query = arena_dup(&r->arena, span_of(target.p + n + (target.p[n] == '?')));
}

void *http_request_begin(void *cls, const char *uri, struct MHD_Connection *m)
{
	struct loop *l = cls;
	struct request *r = xcalloc(1, sizeof(*r));
	r->loop = l;
	r->connection = m;
	r->client = http_connection_of(m)->from;
	peer_text(&r->client, r->peer);
	r->started_us = clock_us();
	r->line_n = strlen(uri);
	read_target(r, uri);
	r->reply.body = STR_INIT(REPLY_MAX);
	r->body = STR_SECRET(l->body_max);
	make_id(r);
	http_connection_of(m)->request = r;
	l->requests++;
	l->fruitless = 0;
	turn(r, READING);
	if (!has_room(uri, r->line_n))
		connection_cut(http_connection_of(m));
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

static void header_came(struct request *r, const char *url, const char *method, const char *version)
{
	const struct framing_line line = { method, url, version, r->line_n };
	size_t head_n =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
		->header_size;
	r->seen = true;
	r->method = arena_dup(&r->arena, span_of(method));
	if (r->loop->library == LIBRARY_LENIENT)
		framing_line(&r->framing, &line);
	(void)MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, take_header, &r->framing);
	edge_arrived(r);
	intake_framing(r, version, method + head_n);
	if (r->host.p)
		r->framing.value[HEADER_HOST] = r->host;
	/* Without a body, the end comes at once. */
	if (!r->answered && (r->framing.length || r->framing.chunked))
		intake_header(r);
	r->in_header = r->waiting;
}

static bool part_came(struct request *r, const char *data, size_t n)
{
	if (!r->kept)
		return intake_part(r, data, n);
	r->received += n;
	return r->received <= request_swallow_max(r);
}

static void end_came(struct request *r)
{
	r->whole = true;
	if (r->kept) {
		queue(r, TAKE(r->kept));
		return;
	}
	turn(r, WAITING);
	if (!r->looked_at)
		intake_header(r);
	if (!r->answered && !r->waiting)
		intake_end(r);
}

/* And about these. NOLINTNEXTLINE(readability-function-size) */
enum MHD_Result http_request_step(void *cls, struct MHD_Connection *m, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **context)
{
	(void)cls;
	(void)m;
	struct request *r = *context;
	size_t part = *n;
	r->loop->fruitless = 0;
	if (r->answered && !r->kept)
		return MHD_YES;
	*n = 0;
	if (!r->seen)
		header_came(r, url, method, version);
	else if (r->in_header)
		r->in_header = false;
	else if (part)
		return part_came(r, data, part) ? MHD_YES : MHD_NO;
	else
		end_came(r);
	return MHD_YES;
}

/* What the library itself refuses never gets as far as http_request_step. */
static void note_refusal(struct request *r)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_HTTP_STATUS);
	if (r->answered || !info || !info->http_status)
		return;
	r->answered = true;
	r->reply.status = (int)info->http_status;
	r->reply.code = "RefusedByLibrary";
}

/* Who ended it: the client, or we? */
static void note_cut(struct request *r, enum MHD_RequestTerminationCode how)
{
	if (!r->why && (http_connection_of(r->connection)->cut ||
	                how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED))
		r->why = "it took too long to send its request, or its place was needed";
}

void http_request_end(void *cls, struct MHD_Connection *m, void **context,
                      enum MHD_RequestTerminationCode how)
{
	struct loop *l = cls;
	struct request *r = *context;
	if (!r)
		return;
	*context = NULL;
	http_connection_of(m)->request = NULL;
	l->fruitless = 0;
	note_refusal(r);
	if (!r->answered)
		note_cut(r, how);
	lasting_end(r);
	/* The library has a timer of its own beside ours. */
	stream_gone(r, how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED);
	intake_log(r);
	if (r->kept)
		MHD_destroy_response(r->kept);
	run_ends(r);
	l->large_bytes -= r->large_held;
	intake_uncount(r);
	str_wipe(&r->body);
	r->reply.body.n = 0;
	str_done(&r->reply.body);
	if (r->secret)
		arena_wipe(&r->arena);
	else
		arena_done(&r->arena);
	free(r);
	l->requests--;
	connection_run_once(http_connection_of(m), IDLE);
}
