#include "server/http/request.h"

#include "k8s/submit/submission.h"
#include "server/http/loop.h"

enum { MESSAGE_NOTES = 3, NOTE_TEXT_MAX = 4096, HEADER_TEXT_MAX = 1000 };

void notes_text(struct str *out, const struct notes *n)
{
	size_t shown = n->n > MESSAGE_NOTES ? MESSAGE_NOTES : n->n;
	for (size_t i = 0; i < shown; i++) {
		if (i)
			str_puts(out, "; ");
		if (n->v[i].line)
			str_printf(out, "line %u: ", n->v[i].line);
		note_text(out, &n->v[i]);
	}
	size_t rest = n->n - shown + n->dropped;
	if (rest)
		str_printf(out, "; and %zu more", rest);
}

static void note_json(struct str *out, const struct note *n)
{
	str_char(out, '{');
	if (n->at) {
		str_puts(out, "\"pointer\":");
		str_json(out, span_of(n->at));
		str_char(out, ',');
	}
	if (n->line)
		str_printf(out, "\"line\":%u,\"column\":%u,", n->line, n->column);
	str_puts(out, "\"message\":");
	str_json(out, span_of(n->msg));
	str_char(out, '}');
}

void notes_json(struct str *out, const struct notes *n)
{
	str_char(out, '[');
	for (size_t i = 0; i < n->n; i++) {
		if (i)
			str_char(out, ',');
		note_json(out, &n->v[i]);
	}
	if (n->dropped)
		str_printf(out, ",{\"message\":\"and %zu more\"}", n->dropped);
	str_char(out, ']');
}

static bool has_places(const struct notes *n)
{
	for (size_t i = 0; i < n->n; i++)
		if (n->v[i].at || n->v[i].line)
			return true;
	return false;
}

void error_json(struct str *out, const struct err *e)
{
	STR_AUTO text = STR_INIT((size_t)NOTE_TEXT_MAX * (MESSAGE_NOTES + 1));
	notes_text(&text, &e->notes);
	str_char(out, '{');
	if (e->code) {
		str_puts(out, "\"code\":");
		str_json(out, span_of(e->code));
		str_char(out, ',');
	}
	str_puts(out, "\"message\":");
	str_json(out, str_view(&text));
	if (has_places(&e->notes)) {
		str_puts(out, ",\"errors\":");
		notes_json(out, &e->notes);
	}
	str_puts(out, "}\n");
}

void header_text(struct str *out, struct span text)
{
	static const char CUT[] = "...";
	bool cut = text.n > HEADER_TEXT_MAX;
	size_t n = cut ? HEADER_TEXT_MAX - (sizeof(CUT) - 1) : text.n;
	for (size_t i = 0; i < n; i++)
		str_put(out, text.p[i] >= ' ' && text.p[i] <= '~' ? text.p + i : "?", 1);
	if (cut)
		str_puts(out, CUT);
}

void answer_json(struct request *r, int status)
{
	r->reply.status = status;
	r->reply.type = "application/json; charset=utf-8";
	answer_send(r);
}

/* Seconds.  Garbage collection takes longer than a queue. */
static const char *answer_retry_after(const struct err *e)
{
	static const struct err deleting = { BEING_DELETED, { 0 } };
	return e->code && strcmp(e->code, deleting.code) == 0 ? "10" : "2";
}

void answer_error(struct request *r, const struct err *e)
{
	r->reply.code = e->code;
	if (e->http == 503)
		answer_header(r, "Retry-After", answer_retry_after(e));
	if (e->http >= 500 && !r->why)
		r->why = arena_dup(&r->arena, span_of(err_msg(e)));
	r->reply.body.n = 0; /* discard an answer that was begun */
	error_json(&r->reply.body, e);
	answer_json(r, e->http);
}

void answer_refuse(struct request *r, int status, const char *code, const char *message)
{
	ERR_AUTO e = { 0 };
	(void)err_set(&e, status, code, "%s", message);
	answer_error(r, &e);
}

void answer_bad(struct request *r, const char *must, struct span found)
{
	char quoted[4 * QUOTE_MAX];
	ERR_AUTO e = { 0 };
	(void)err_set(&e, INVALID_PARAMETERS, "%s, is %s%s%s", must, found.p ? "\"" : "",
	              found.p ? quote(quoted, found) : "not there", found.p ? "\"" : "");
	answer_error(r, &e);
}

/* Compared weakly: with or without W/. */
bool answer_unchanged(struct request *r, const char *tag)
{
	const char *has = request_header(r, "If-None-Match");
	answer_header(r, "ETag", tag);
	if (!has || (strcmp(has, "*") != 0 && !strstr(has, tag + 2)))
		return false;
	r->reply.status = 304;
	answer_send(r);
	return true;
}

void answer_text(struct request *r, int status, const char *text)
{
	r->reply.status = status;
	r->reply.type = "text/plain; charset=utf-8";
	str_puts(&r->reply.body, text);
	answer_send(r);
}

bool answer_has_room(struct request *r)
{
	const struct loop *l = r->loop;
	size_t others = l->held[HOLD_LARGE] - r->held[HOLD_LARGE];
	if (others < (size_t)l->server->options->detail_memory)
		return true;
	answer_refuse(r, UNAVAILABLE, "too many large answers are being sent; try again");
	return false;
}

void answer_hold(struct request *r)
{
	size_t size = r->arena.used + r->reply.body.cap;
	if (size > REPLY_MAX && size > r->held[HOLD_LARGE])
		request_hold(r, HOLD_LARGE, size);
}
