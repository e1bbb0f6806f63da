/* Writes answers and errors as JSON, as text and as headers. */
#include "server/http/request.h"

#include "base/json/put.h"
#include "jobs/submit/submission.h"
#include "server/config/options.h"
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

void notes_json(struct str *out, const struct notes *n)
{
	json_put_open(out, NULL, '[');
	for (size_t i = 0; i < n->n; i++) {
		json_put_open(out, NULL, '{');
		if (n->v[i].at)
			json_put_word(out, "pointer", n->v[i].at);
		if (n->v[i].line) {
			json_put_int(out, "line", n->v[i].line);
			json_put_int(out, "column", n->v[i].column);
		}
		json_put_word(out, "message", n->v[i].msg);
		str_char(out, '}');
	}
	if (n->dropped)
		str_printf(out, ",{\"message\":\"and %zu more\"}", n->dropped);
	str_char(out, ']');
}

void error_json(struct str *out, const struct err *e)
{
	STR_AUTO text = STR_INIT((size_t)NOTE_TEXT_MAX * (MESSAGE_NOTES + 1));
	bool places = false;
	for (size_t i = 0; i < e->notes.n; i++)
		places |= e->notes.v[i].at || e->notes.v[i].line;
	notes_text(&text, &e->notes);
	json_put_open(out, NULL, '{');
	if (e->code)
		json_put_word(out, "code", e->code);
	json_put_text(out, "message", str_view(&text));
	if (places) {
		json_put_key(out, "errors");
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

void answer_error(struct request *r, const struct err *e)
{
	static const struct err DELETING = { BEING_DELETED, { 0 } };
	r->reply.code = e->code;
	bool deleting = e->code && strcmp(e->code, DELETING.code) == 0;
	if (e->http == 503) /* seconds; garbage collection takes longer than a queue */
		answer_header(r, "Retry-After", deleting ? "10" : "2");
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
	answer_refuse(r, INVALID_PARAMETERS,
	              found.p ? arena_printf(&r->arena, "%s, is \"%s\"", must, quote(quoted, found))
	                      : arena_printf(&r->arena, "%s, is not there", must));
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
