/* Checks route, user and limits before the body of a request, receives the body, and calls the
 * handler. */
#include "server/http/http_internal.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/code/code.h"
#include "base/posix/clock.h"
#include "server/config/options.h"
#include "server/http/query.h"
#include "server/http/rate_limit.h"
#include "server/http/route.h"
#include "server/state/log.h"

enum { TOKEN_MIN = 80 /* bytes of the shortest signed token */ };

static void admission_no_route(struct request *r, struct span path)
{
	const struct route *only = r->loop->only;
	STR_AUTO methods = STR_INIT(256);
	if (!only)
		route_methods(r->loop->server->routes, &methods, path, &r->arena);
	else if (span_is(path, only->path))
		str_puts(&methods, only->method);
	if (!methods.n) {
		answer_refuse(r, 404, "NoApiError",
		              only ? "there is no such route on this port"
		                   : "there is no such route; / and /openapi.json list all routes");
		return;
	}
	answer_header(r, "Allow", str_c(&methods));
	answer_refuse(r, 405, "MethodNotAllowedError",
	              arena_printf(&r->arena, "the methods of this path are %s", str_c(&methods)));
}

#define JOB_TYPES                                                                                  \
	"the Content-Type of a job must be text/yaml (or any other text/*), application/yaml, "    \
	"application/x-yaml or application/json"
#define WITH_CURL "; with curl: -H 'Content-Type: text/yaml'"
#define JOB_AS_FORM                                                                                \
	"a job must not be sent as a form (application/x-www-form-urlencoded), which is what "     \
	"curl does by default; with curl: -H 'Content-Type: text/yaml' --data-binary @job.yaml "   \
	"(-d removes the line breaks)"

/* Accepted Content-Types by kind of body. */
static const struct {
	unsigned types; /* bits, by enum body_type */
	const char *wrong;
} TAKES[BODY_MAX] = {
	[BODY_JOB] = { 1u << BODY_TYPE_TEXT | 1u << BODY_TYPE_JSON | 1u << BODY_TYPE_YAML,
	               JOB_TYPES WITH_CURL },
	[BODY_JOB_V1] = { 1u << BODY_TYPE_TEXT | 1u << BODY_TYPE_JSON | 1u << BODY_TYPE_YAML |
	                      1u << BODY_TYPE_FORM,
	                  JOB_TYPES ", and application/x-www-form-urlencoded for v1" WITH_CURL },
	[BODY_FIELDS] = { 1u << BODY_TYPE_TEXT | 1u << BODY_TYPE_JSON | 1u << BODY_TYPE_FORM,
	                  "the Content-Type must be application/json, text/* (with JSON in it) or "
	                  "application/x-www-form-urlencoded" },
	[BODY_OUTPUT] = { 1u << BODY_TYPE_BYTES,
	                  "the Content-Type must be application/octet-stream" },
	[BODY_SESSION] = { 1u << BODY_TYPE_BYTES,
	                   "the Content-Type must be application/octet-stream" },
	[BODY_CODE] = { 1u << BODY_TYPE_GZIP, "the Content-Type must be application/gzip" },
};

static void refuse_large(struct request *r)
{
	r->reply.close = true;
	answer_refuse(r, TOO_LARGE,
	              arena_printf(&r->arena, "request entity too large: the limit is %zu bytes",
	                           r->body.max));
}

static void check_body(struct request *r, const struct request_head *f)
{
	enum body_type type = head_body_type(f);
	if (type == BODY_ENCODING_REFUSED) {
		answer_refuse(r, 415, "UnsupportedMediaTypeError",
		              "a body must not have a Content-Encoding");
		return;
	}
	if (r->route->body == BODY_JOB && type == BODY_TYPE_FORM) { /* as OpenPAI's server */
		answer_refuse(r, 400, "InvalidProtocolError", JOB_AS_FORM);
		return;
	}
	if (!(TAKES[r->route->body].types & 1u << type)) {
		answer_refuse(r, 415, "UnsupportedMediaTypeError", TAKES[r->route->body].wrong);
		return;
	}
	r->form = type == BODY_TYPE_FORM;
	if (r->route->body == BODY_FIELDS && r->body.max > FIELDS_BODY)
		r->body.max = FIELDS_BODY;
	if (r->route->body == BODY_CODE)
		r->body.max = r->loop->server->local ? CODE_MACHINE : CODE_CLUSTER_PACKED;
	if (r->route->body == BODY_SESSION)
		return; /* of any length */
	r->drop = f->length > r->body.max ? DROP_TOO_LARGE : DROP_NOTHING;
	if (r->drop && (f->value[HEADER_EXPECT].p || f->length > request_swallow_max(r)))
		refuse_large(r); /* before the body is sent */
}

void admission_check_head(struct request *r, const char *version, const char *head_end)
{
	const char *wrong = request_check(&r->head, version, head_end);
	if (!wrong && r->odd_line)
		wrong = "the request line is malformed";
	struct span id = r->head.value[HEADER_REQUEST_ID];
	enum head_size size = head_size(&r->head, r->line_n);
	if (wrong && size != SIZE_LINE) {
		r->reply.close = true;
		answer_refuse(r, 400, "InvalidRequestError", wrong);
		return;
	}
	if (id.n && id.n <= REQUEST_ID_MAX && span_only_alnum_or(id, "-")) {
		memcpy(r->id, id.p, id.n);
		r->id[id.n] = '\0';
	}
	r->reply.close = size != SIZE_OK;
	if (size == SIZE_LINE)
		answer_refuse(r, 414, "UriTooLongError",
		              "path and query have more than 8 KiB; each parameter counts as 64 "
		              "bytes more than its length");
	else if (size == SIZE_HEADERS)
		answer_refuse(
		    r, 431, "HeaderTooLargeError",
		    "path and headers have more than 14 KiB; each header counts as 64 bytes "
		    "more than its length");
}

/* Called once, when the principal is known or not needed. */
static void check_known(struct request *r)
{
	rate_limit_user(r);
	if (!request_answered(r) && r->route->before)
		r->route->before(r);
}

/* The route needs no authentication. */
static bool admission_is_open(struct request *r)
{
	const struct options *o = r->loop->server->options;
	struct span link;
	switch (r->route->auth) {
	case AUTH_NONE:
		return true;
	case AUTH_LINK:
		return query_find(span_of(r->query), LINK_PARAMETER, &r->arena, &link);
	case AUTH_V1: /* a token that is sent is checked */
		return o->compat[0] && !o->no_auth && !r->head.value[HEADER_AUTHORIZATION].p;
	case AUTH_USER:
	case AUTH_PERSON:
	case AUTH_POD:
		break;
	}
	return false;
}

/* Checks a client of the Unix socket of `rest-lit run`; returns the reason of a refusal, or
 * NULL. */
static const char *check_peer(const struct request *r)
{
	struct ucred peer = { .pid = 0 };
	socklen_t n = sizeof(peer);
	bool own =
	    getsockopt(http_socket(r->connection), SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
	    peer.pid == getpid() && peer.uid == geteuid();
	return own ? NULL : "only the process that has made this socket may use it";
}

void admission_header(struct request *r)
{
	const struct server *s = r->loop->server;
	struct span path = span_of(r->path);
	if (s->options->no_auth && !r->loop->only) { /* no foreign web page may ask */
		struct request_head head = r->head;
		/* A link on another page may open the page of this server, which has no data of
		 * users. */
		if (span_is(route_strip(path), "/"))
			head.value[HEADER_FETCH_SITE] = (struct span){ NULL, 0 };
		const char *foreign =
		    s->foreground ? check_peer(r)
				  : request_check_local(&head, s->tls ? "https" : "http", s->port);
		if (foreign) {
			answer_refuse(r, FORBIDDEN, foreign);
			return;
		}
	}
	rate_limit_check(r);
	if (request_answered(r))
		return;
	const struct route *only = r->loop->only;
	if (!only)
		r->route = route_find(s->routes, r->method, path, &r->arena, r->args);
	else if (strcmp(r->method, only->method) == 0 && span_is(path, only->path))
		r->route = only;
	if (strcmp(r->method, "OPTIONS") == 0 && !only) {
		STR_AUTO methods = STR_INIT(256);
		route_methods(r->loop->server->routes, &methods, path, &r->arena);
		cors_options(r, str_view(&methods));
		return;
	}
	if (!r->route) {
		admission_no_route(r, path);
		return;
	}
	if (r->route->body)
		check_body(r, &r->head);
	/* A body that is too large is answered 413 at its end, without authentication. */
	if (request_answered(r) || r->drop)
		return;
	bool known = admission_is_open(r) || s->hooks->identify(r);
	if (known && !request_answered(r))
		check_known(r);
}

void request_identified(struct request *r)
{
	check_known(r);
	if (!request_answered(r))
		http_resume(r, r->pipe ? WAITING : READING); /* a body_to_fd has no limit of time */
}

bool admission_body_part(struct request *r, struct span part, size_t *left)
{
	size_t n = part.n;
	if (r->pipe) {
		size_t taken = body_pipe_put(r, part);
		r->received += taken;
		*left = n - taken;
		return true;
	}
	r->received += n;
	if (r->received > request_swallow_max(r))
		return false;
	if (r->kept || !r->route->body || r->drop)
		return true;
	if (r->route->body == BODY_CODE &&
	    (r->received - n) / CODE_PROGRESS != r->received / CODE_PROGRESS)
		connection_set_activity(http_connection_of(r->connection), READING);
	if (r->sink) {
		r->sink(r, part);
		return true;
	}
	str_span(&r->body, part);
	request_hold(r, HOLD_BODY, r->body.cap);
	r->drop = r->body.full                            ? DROP_TOO_LARGE
	          : r->loop->held[HOLD_BODY] > BODIES_MAX ? DROP_NO_ROOM
	                                                  : DROP_NOTHING;
	if (r->drop) {
		str_wipe(&r->body);
		request_hold(r, HOLD_BODY, 0);
	}
	request_hold(r, HOLD_MEMORY, r->body.cap);
	return true;
}

void admission_run_handler(struct request *r)
{
	if (!r->loop->store) { /* the loop is ending */
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return;
	}
	if (r->route->body != BODY_CODE) /* which a thread is going to read */
		request_hold(r, HOLD_BODY, 0);
	if (r->drop == DROP_TOO_LARGE)
		refuse_large(r);
	else if (r->drop == DROP_NO_ROOM)
		answer_refuse(r, UNAVAILABLE, "the server is receiving too many requests at once");
	else
		r->route->handle(r);
}

/* Returns true if the segment is a token: the argument of a revocation, or of the form of one. */
static bool may_be_token(struct span before, struct span segment)
{
	const char *dot = memchr(segment.p, '.', segment.n);
	if (span_is(before, "/tokens") || span_is(before, "/token"))
		return segment.n > 1 && !span_is(segment, "/check") &&
		       !span_is(segment, "/application");
	if (span_starts(segment, "/eyJ")) /* base64 of `{"`, the begin of most tokens */
		return true;
	return segment.n > TOKEN_MIN && dot &&
	       memchr(dot + 1, '.', segment.n - (size_t)(dot + 1 - segment.p));
}

/* Appends the path for the log: shortened, tokens redacted. */
static void admission_put_path(struct str *out, struct span path)
{
	struct span before = SPAN("");
	size_t left = PATH_SHOWN;
	while (path.n && left) {
		const char *slash = memchr(path.p + 1, '/', path.n - 1);
		struct span segment = { path.p, slash ? (size_t)(slash - path.p) : path.n };
		struct span shown = may_be_token(before, segment) ? SPAN("/***") : segment;
		path.p += segment.n;
		path.n -= segment.n;
		shown.n = shown.n < left ? shown.n : left;
		left -= shown.n;
		str_span(out, shown);
		before = segment;
	}
}

void admission_log(const struct request *r)
{
	/* These answers need the attention of an administrator. */
	bool trouble = request_answered(r) && r->reply.status >= 500 && r->reply.status != 501;
	struct line line = log_begin(trouble ? LOG_WARN : LOG_INFO, "request");
	log_text(&line, "id", span_of(r->id));
	log_text(&line, "method", span_of(r->method ? r->method : "-"));
	STR_AUTO path = STR_INIT((size_t)2 * PATH_SHOWN);
	admission_put_path(&path, span_of(r->path));
	log_text(&line, "path", str_view(&path));
	log_int(&line, "status", request_answered(r) ? r->reply.status : 0);
	log_int(&line, "in", (int64_t)r->received);
	log_int(&line, "out", request_answered(r) ? (int64_t)r->reply.body.n : 0);
	log_ms(&line, "ms", clock_us() - r->started_us);
	if (r->client_text[0])
		log_text(&line, "peer", span_of(r->client_text));
	if (r->user)
		log_text(&line, "user", span_of(r->user));
	if (r->log)
		r->log(r, &line);
	if (!request_answered(r))
		log_text(&line, "code", r->why ? SPAN("CutOff") : SPAN("ClientGone"));
	else if (r->reply.code)
		log_text(&line, "code", span_of(r->reply.code));
	if (r->why)
		log_text(&line, "why", span_of(r->why));
	log_end(&line);
}
