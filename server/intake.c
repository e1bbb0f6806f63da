#include "server/intake.h"

#include "server/answer.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/routes.h"

static void options_reply(struct request *r, struct span path)
{
	STR_AUTO methods = STR_INIT(256);
	route_methods(&methods, path, &r->arena);
	if (methods.n)
		answer_header(r, "Allow", str_c(&methods));
	r->reply.status = 204;
	answer_send(r);
}

static const char WRONG_TYPE[] =
    "the Content-Type of a job must be text/yaml (or any other text/*), application/yaml, "
    "application/x-yaml or application/json; with curl: -H 'Content-Type: text/yaml'";

static void refuse_large(struct request *r)
{
	ERR_AUTO e = { 0 };
	(void)err_set(&e, TOO_LARGE, "request entity too large: a job may have %ld bytes",
	              (long)r->loop->server->options->max_body);
	r->reply.close = true;
	answer_error(r, &e);
}

/* A client that is still sending does not see an answer: so what is too large is taken and
 * thrown away, up to here. */
static size_t swallow_max(const struct request *r)
{
	return r->body.max * 2 + SWALLOW;
}

/* Of a route that takes a job, by the header alone. */
static void check_body(struct request *r, const struct framing *f)
{
	uint64_t max = (uint64_t)r->loop->server->options->max_body;
	switch (framing_body_type(f)) {
	case BODY_ENCODING_REFUSED:
		answer_refuse(r, 415, "UnsupportedMediaTypeError",
		              "a job must come as it is, without Content-Encoding");
		return;
	case BODY_TYPE_REFUSED:
		answer_refuse(r, 415, "UnsupportedMediaTypeError", WRONG_TYPE);
		return;
	case BODY_TYPE_OK:
		break;
	}
	r->too_large = f->length > max;
	if (!r->too_large)
		/* At once, so that no copy is left behind as it grows. */
		(void)str_reserve(&r->body, f->chunked ? max : f->length);
	else if (f->value[HEADER_EXPECT].p || f->length > swallow_max(r))
		refuse_large(r); /* before the body is sent, or for want of a better moment */
}

/* A request line with a NUL in it is longer than the text that the library hands out. */
static bool line_is_cut(const struct request *r, const char *url, const char *version)
{
	return (intptr_t)version - (intptr_t)url != (intptr_t)r->line_n + 1;
}

void intake_framing(struct request *r, const char *url, const char *version)
{
	const char *wrong = framing_check(&r->framing, version);
	if (!wrong && line_is_cut(r, url, version))
		wrong = "the request line is malformed";
	struct span id = r->framing.value[HEADER_REQUEST_ID];
	if (wrong) {
		r->reply.close = true;
		answer_refuse(r, 400, "InvalidRequestError", wrong);
	} else if (request_id_ok(id)) {
		memcpy(r->id, id.p, id.n);
		r->id[id.n] = '\0';
	}
}

void intake_header(struct request *r)
{
	const struct server *s = r->loop->server;
	const char *foreign = s->options->no_auth ? framing_local(&r->framing, s->port) : NULL;
	struct span path = span_of(r->path);
	r->looked_at = true;
	if (foreign) {
		answer_refuse(r, FORBIDDEN, foreign);
	} else if (strcmp(r->method, "OPTIONS") == 0) {
		options_reply(r, path);
	} else if (!(r->route = route_find(r->method, path, &r->arena, r->args))) {
		answer_refuse(r, 404, "NoApiError",
		              "there is no such route; docs/ROUTES.md lists them");
	} else {
		if (r->route->before)
			r->route->before(r);
		if (r->route->body && !r->answered)
			check_body(r, &r->framing);
	}
}

bool intake_part(struct request *r, const char *data, size_t n)
{
	r->received += n;
	if (r->received > swallow_max(r))
		return false;
	if (r->route->body && !r->too_large)
		str_put(&r->body, data, n);
	if (r->body.full) {
		r->too_large = true;
		str_wipe(&r->body);
	}
	return true;
}

void intake_end(struct request *r)
{
	if (r->too_large)
		refuse_large(r);
	else
		r->route->handle(r);
}

void intake_log(const struct request *r)
{
	struct line line = log_begin(LOG_INFO, "request");
	log_text(&line, "id", span_of(r->id));
	log_text(&line, "method", span_of(r->method ? r->method : "-"));
	struct span path = span_of(r->path);
	path.n = path.n > PATH_SHOWN ? PATH_SHOWN : path.n;
	log_text(&line, "path", path);
	log_int(&line, "status", r->answered ? r->reply.status : 0);
	log_int(&line, "in", (int64_t)r->received);
	log_int(&line, "out", r->answered ? (int64_t)r->reply.body.n : 0);
	log_ms(&line, "ms", log_clock_us() - r->started_us);
	if (r->route && r->route->auth == AUTH_USER)
		log_text(&line, "user", span_of(r->loop->server->options->user));
	if (r->job) {
		log_text(&line, "job", job_name(r->job));
		log_text(&line, "framework", span_of(job_hash(r->job)));
	}
	if (!r->answered)
		log_text(&line, "code", SPAN("ClientGone"));
	else if (r->reply.code)
		log_text(&line, "code", span_of(r->reply.code));
	log_end(&line);
}
