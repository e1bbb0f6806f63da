/* Errors and warnings with places; see err.h. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/str.h"

enum { MESSAGE_MAX = 4096 };

__attribute__((format(printf, 1, 0))) static char *vformat(const char *fmt, va_list ap)
{
	char *p = NULL;
	if (vasprintf(&p, fmt, ap) < 0)
		abort();
	return p;
}

/* A pointer longer than AT_MAX is cut at a slash: it points to an enclosing value. */
static char *keep_pointer(const char *at)
{
	size_t n = strlen(at);
	if (n > AT_MAX)
		for (n = AT_MAX; n > 0 && at[n] != '/';)
			n--;
	return xstrndup(at, n);
}

static void notes_take(struct notes *n, struct place where, char *msg)
{
	if (n->n == NOTES_MAX) {
		n->dropped++;
		free(msg);
		return;
	}
	if (n->v == NULL)
		n->v = xcalloc(NOTES_MAX, sizeof(*n->v));
	n->v[n->n++] = (struct note){
		.msg = msg,
		.at = where.at ? keep_pointer(where.at) : NULL,
		.line = where.line,
		.column = where.column,
	};
}

int err_set(struct err *e, int http, const char *code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *msg = vformat(fmt, ap); /* before err_done: the arguments can be the old message */
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
	notes_take(&e->notes, where, vformat(fmt, ap));
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
	char *context = vformat(fmt, ap);
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
	notes_take(n, where, vformat(fmt, ap));
	va_end(ap);
}

static bool is_behind(const struct note *a, const struct note *b)
{
	return a->line > b->line || (a->line == b->line && a->column > b->column);
}

void notes_sort(struct notes *n)
{
	for (size_t i = 1; i < n->n; i++)
		for (size_t k = i; k > 0 && is_behind(&n->v[k - 1], &n->v[k]); k--) {
			struct note later = n->v[k - 1];
			n->v[k - 1] = n->v[k];
			n->v[k] = later;
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

static bool plain_name(struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool letter = is_lower(c) || is_upper(c) || c == '_';
		if (!letter && !(i && (is_digit(c) || c == '-')))
			return false;
	}
	return s.n > 0;
}

/* One reference token of a JSON pointer, decoded, in the notation of messages. */
static void put_token(struct str *out, struct span token, bool first)
{
	STR_AUTO name = STR_INIT(MESSAGE_MAX);
	for (size_t i = 0; i < token.n; i++) {
		char c = token.p[i];
		if (c == '~' && i + 1 < token.n)
			c = token.p[++i] == '1' ? '/' : '~';
		str_char(&name, c);
	}
	struct span plain = str_view(&name);
	if (span_digits(plain)) {
		str_printf(out, "[%s]", plain.p);
	} else if (plain_name(plain)) {
		str_printf(out, "%s%s", first ? "" : ".", plain.p);
	} else {
		char buf[4 * QUOTE_MAX];
		str_printf(out, "[\"%s\"]", quote(buf, plain));
	}
}

void note_text(struct str *out, const struct note *n)
{
	const char *p = n->at && n->at[0] == '/' ? n->at + 1 : NULL;
	for (bool first = true; p; first = false) {
		const char *end = strchr(p, '/');
		put_token(out, (struct span){ p, end ? (size_t)(end - p) : strlen(p) }, first);
		p = end ? end + 1 : NULL;
	}
	if (n->at && n->at[0] == '/')
		str_puts(out, ": ");
	str_puts(out, n->msg);
}

static void quote_one(struct str *out, struct span one, uint32_t c)
{
	if (c >= 0x80 && utf8_acts(c))
		str_printf(out, "\\u%04x", c);
	else if (c == '"' || c == '\\')
		str_char(out, (char)c); /* not escaped: the message is for people */
	else
		str_json_text(out, one);
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
		quote_one(&out, span_to(rest, n), c);
		i += n;
	}
	if (i < text.n)
		str_puts(&out, "...");
	memcpy(buf, str_c(&out), out.n + 1);
	return buf;
}

enum { STEP = 2, CASE = 1, KEY_MAX = 64 };

static unsigned replace_cost(char a, char b)
{
	return a == b ? 0 : to_lower(a) == to_lower(b) ? CASE : STEP;
}

static unsigned err_least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;
	return ab < c ? ab : c;
}

/* Row i of the table from the two rows above it. */
static void next_row(struct span a, struct span b, size_t i, unsigned *const row[3])
{
	row[2][0] = (unsigned)(i * STEP);
	for (size_t j = 1; j <= b.n; j++) {
		char x = a.p[i - 1];
		char y = b.p[j - 1];
		row[2][j] = err_least(row[1][j] + STEP, row[2][j - 1] + STEP,
		                      row[1][j - 1] + replace_cost(x, y));
		if (i > 1 && j > 1 && x == b.p[j - 2] && y == a.p[i - 2] &&
		    row[0][j - 2] + STEP < row[2][j])
			row[2][j] = row[0][j - 2] + STEP;
	}
}

unsigned edit_distance(struct span a, struct span b, unsigned limit)
{
	unsigned rows[3][KEY_MAX + 1];
	size_t apart = a.n > b.n ? a.n - b.n : b.n - a.n;
	if (a.n > KEY_MAX || b.n > KEY_MAX || apart * STEP > limit)
		return limit + 1;
	for (size_t j = 0; j <= b.n; j++)
		rows[0][j] = (unsigned)(j * STEP);
	for (size_t i = 1; i <= a.n; i++) {
		unsigned *const row[3] = { rows[(i + 1) % 3], rows[(i + 2) % 3], rows[i % 3] };
		next_row(a, b, i, row);
	}
	unsigned d = rows[a.n % 3][b.n];
	return d <= limit ? d : limit + 1;
}

unsigned edit_limit(size_t n)
{
	if (n < 2 || n > KEY_MAX)
		return 0;
	return n < 4 ? STEP : n < 8 ? 2 * STEP : 3 * STEP;
}

void guess_try(struct guess *g, const char *candidate)
{
	unsigned limit = edit_limit(g->name.n);
	unsigned d = edit_distance(g->name, span_of(candidate), limit);
	if (g->name.n > 3 && strncmp(candidate, g->name.p, g->name.n) == 0)
		d = 0; /* a prefix */
	if (d > limit || (g->best && d >= g->distance))
		return;
	g->best = candidate;
	g->distance = d;
}
