/* Errors and warnings with places; see err.h. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/str.h"

enum { MESSAGE_MAX = 4096 };

static void notes_take(struct notes *n, struct place where, char *msg)
{
	if (n == NULL || n->n == NOTES_MAX) {
		if (n)
			n->dropped++;
		free(msg);
		return;
	}
	if (n->v == NULL)
		n->v = xcalloc(NOTES_MAX, sizeof(*n->v));
	/* A pointer longer than AT_MAX is cut at a slash: it points to an enclosing value. */
	size_t length = where.at ? strlen(where.at) : 0;
	if (length > AT_MAX)
		for (length = AT_MAX; length > 0 && where.at[length] != '/';)
			length--;
	n->v[n->n++] = (struct note){
		.msg = msg,
		.at = where.at ? xstrndup(where.at, length) : NULL,
		.line = where.line,
		.column = where.column,
	};
}

int err_set(struct err *e, int http, const char *code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *msg = xvasprintf(fmt, ap); /* before err_done: the arguments can be the old message */
	va_end(ap);
	err_done(e);
	e->http = http;
	e->code = code;
	notes_take(&e->notes, NOWHERE, msg);
	return -1;
}

int err_at(struct err *e, int http, const char *code, struct place where, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	notes_take(&e->notes, where, xvasprintf(fmt, ap));
	va_end(ap);
	if (e->http == 0) {
		e->http = http;
		e->code = code;
	}
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *context = xvasprintf(fmt, ap);
	va_end(ap);
	if (e->notes.n) {
		struct note *first = &e->notes.v[0];
		char *msg = xasprintf("%s: %s", context, first->msg);
		free(first->msg);
		first->msg = msg;
	}
	free(context);
	return -1;
}

const char *err_msg(const struct err *e)
{
	return e->notes.n ? e->notes.v[0].msg : "";
}

void err_done(struct err *e)
{
	notes_done(&e->notes);
	*e = (struct err){ 0 };
}

void notes_add(struct notes *n, struct place where, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	notes_take(n, where, xvasprintf(fmt, ap));
	va_end(ap);
}

void notes_sort(struct notes *n)
{
	for (size_t i = 1; i < n->n; i++)
		for (size_t k = i; k > 0; k--) {
			struct note *before = &n->v[k - 1];
			struct note note = n->v[k];
			if (before->line < note.line ||
			    (before->line == note.line && before->column <= note.column))
				break;
			n->v[k] = *before;
			*before = note;
		}
}

void notes_done(struct notes *n)
{
	for (size_t i = 0; i < n->n; i++) {
		free(n->v[i].msg);
		free(n->v[i].at);
	}
	free(n->v);
	*n = (struct notes){ 0 };
}

void notes_move(struct notes *n, struct notes *from)
{
	for (size_t i = 0; i < from->n; i++) {
		struct note *note = &from->v[i];
		struct place where = { note->at, note->line, note->column };
		notes_take(n, where, TAKE(note->msg));
	}
	if (n)
		n->dropped += from->dropped;
	notes_done(from);
}

void err_move(struct err *e, struct err *from)
{
	if (e->http == 0) {
		e->http = from->http;
		e->code = from->code;
	}
	notes_move(&e->notes, &from->notes);
	err_done(from);
}

/* Appends one reference token of a JSON pointer, decoded: ~0 is ~, and ~1 is /. */
static void place_token(struct str *out, struct span token)
{
	for (size_t i = 0; i < token.n; i++) {
		char c = token.p[i];
		if (c == '~' && i + 1 < token.n)
			c = token.p[++i] == '1' ? '/' : '~';
		str_char(out, c);
	}
}

void note_text(struct str *out, const struct note *n)
{
	bool pointer = n->at && n->at[0] == '/';
	struct span rest = pointer ? span_of(n->at + 1) : SPAN("");
	for (bool more = pointer, first = true; more; first = false) {
		/* A key or an index. */
		STR_AUTO name = STR_INIT(MESSAGE_MAX);
		more = span_chr(rest, '/') < rest.n;
		place_token(&name, span_next(&rest, '/'));
		struct span key = str_view(&name);
		char buf[4 * QUOTE_MAX];
		if (span_digits(key))
			str_printf(out, "[%s]", key.p);
		else if (key.n && class_has_char(key.p[0], "A-Za-z_") &&
		         span_all(key, "A-Za-z0-9_-"))
			str_printf(out, "%s%s", first ? "" : ".", key.p);
		else
			str_printf(out, "[\"%s\"]", quote(buf, key));
	}
	if (pointer)
		str_puts(out, ": ");
	str_puts(out, n->msg);
}

const char *quote(char buf[static 4 * QUOTE_MAX], struct span text)
{
	STR_AUTO out = STR_INIT(4 * QUOTE_MAX - 1);
	size_t i = 0;
	while (i < text.n) {
		struct span rest = span_from(text, i);
		unsigned n;
		uint32_t c = utf8_decode((const unsigned char *)rest.p, rest.n, &n);
		if (out.n + n > QUOTE_MAX - 3)
			break;
		if (c >= 0x80 && utf8_is_control(c))
			str_printf(&out, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			str_char(&out, (char)c); /* not escaped: the message is for people */
		else if (c == UTF8_INVALID)
			str_puts(&out,
			         "\xef\xbf\xbd"); /* messages are UTF-8, file names need not be */
		else
			str_json_text(&out, span_to(rest, n));
		i += n;
	}
	if (i < text.n)
		str_puts(&out, "...");
	memcpy(buf, str_c(&out), out.n + 1);
	return buf;
}

/* ---- "did you mean ...?" ---- */

enum { STEP = 2, CASE = 1, KEY_MAX = 64 };

unsigned edit_distance(struct span a, struct span b, unsigned limit)
{
	unsigned rows[3][KEY_MAX + 1]; /* of the table of distances: this one, and two above it */
	size_t apart = a.n > b.n ? a.n - b.n : b.n - a.n;
	if (a.n > KEY_MAX || b.n > KEY_MAX || apart * STEP > limit)
		return limit + 1;
	for (size_t j = 0; j <= b.n; j++)
		rows[0][j] = (unsigned)(j * STEP);
	for (size_t i = 1; i <= a.n; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3];
		const unsigned *second = rows[(i + 1) % 3];
		row[0] = (unsigned)(i * STEP);
		for (size_t j = 1; j <= b.n; j++) {
			char x = a.p[i - 1];
			char y = b.p[j - 1];
			unsigned replace = x == y ? 0 : to_lower(x) == to_lower(y) ? CASE : STEP;
			unsigned least = above[j - 1] + replace;
			if (above[j] + STEP < least)
				least = above[j] + STEP;
			if (row[j - 1] + STEP < least)
				least = row[j - 1] + STEP;
			if (i > 1 && j > 1 && x == b.p[j - 2] && y == a.p[i - 2] &&
			    second[j - 2] + STEP < least)
				least = second[j - 2] + STEP;
			row[j] = least;
		}
	}
	unsigned d = rows[a.n % 3][b.n];
	return d <= limit ? d : limit + 1;
}

void guess_try(struct guess *g, const char *candidate)
{
	size_t n = g->name.n;
	unsigned limit = n < 2 || n > KEY_MAX ? 0 : n < 4 ? STEP : n < 8 ? 2 * STEP : 3 * STEP;
	unsigned d = edit_distance(g->name, span_of(candidate), limit);
	if (!g->whole && g->name.n > 3 && strncmp(candidate, g->name.p, g->name.n) == 0)
		d = 0; /* a prefix */
	if (d > limit || (g->best && d >= g->distance))
		return;
	g->best = candidate;
	g->distance = d;
}
