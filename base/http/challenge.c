/* See challenge.h. */
#include "base/http/challenge.h"

/* ---- lines of headers ------------------------------------------------------------------ */

static char lower(char c)
{
	if (c >= 'A' && c <= 'Z')
		c = (char)(c - 'A' + 'a');
	return c;
}

static bool same_word(struct span s, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = 0; i < n && s.n == n; i++) {
		if (lower(s.p[i]) != lower(word[i]))
			return false;
	}
	return s.n == n;
}

/* Cut the first line off. */
static struct span next_line(struct span *text)
{
	const char *end = memchr(text->p, '\n', text->n);
	size_t n = end ? (size_t)(end - text->p) : text->n;
	struct span line = { text->p, n };
	n += end != NULL;
	*text = (struct span){ text->p + n, text->n - n };
	return line;
}

struct span header_value(struct span headers, const char *name, unsigned nth)
{
	while (headers.n) {
		struct span line = next_line(&headers);
		const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
		size_t n = colon ? (size_t)(colon - line.p) : 0;
		if (colon && same_word((struct span){ line.p, n }, name) && nth-- == 0)
			return span_trim((struct span){ colon + 1, line.n - n - 1 });
	}
	return (struct span){ NULL, 0 };
}

/* ---- one header -------------------------------------------------------------------------- */

struct reader {
	struct span rest;
	struct arena *a;
	struct challenges *out;
	bool first_bearer; /* parameters that come now belong to the first Bearer */
};

static bool peek(const struct reader *r, char c)
{
	return r->rest.n > 0 && r->rest.p[0] == c;
}

static void drop(struct reader *r, size_t n)
{
	r->rest = (struct span){ r->rest.p + n, r->rest.n - n };
}

/* Any of these; how many there were. */
static size_t skip(struct reader *r, const char *set)
{
	size_t n = 0;
	while (n < r->rest.n && r->rest.p[n] && strchr(set, r->rest.p[n]))
		n++;
	drop(r, n);
	return n;
}

/* A token, or the letters of a token68: all that is no blank, comma, quote or `=`. */
static struct span word(struct reader *r)
{
	size_t n = 0;
	while (n < r->rest.n && r->rest.p[n] > ' ' && !strchr(",=\"", r->rest.p[n]))
		n++;
	struct span s = { r->rest.p, n };
	drop(r, n);
	return s;
}

/* "..." with `\x` for x; in the arena.  Without its end it goes up to that of the header. */
static struct span quoted(struct reader *r)
{
	char *to = arena_alloc(r->a, r->rest.n + 1);
	size_t n = 0;
	size_t i = 1;
	for (; i < r->rest.n && r->rest.p[i] != '"'; i++) {
		i += r->rest.p[i] == '\\' && i + 1 < r->rest.n;
		to[n++] = r->rest.p[i];
	}
	drop(r, i < r->rest.n ? i + 1 : r->rest.n);
	to[n] = '\0';
	return (struct span){ to, n };
}

static bool is_clean(struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < ' ' || s.p[i] > '~')
			return false;
	}
	return true;
}

static void keep(struct reader *r, struct span name, struct span value)
{
	struct challenges *c = r->out;
	struct {
		const char *name;
		struct span *to;
	} const WANTED[] = {
		{ "realm", &c->realm },
		{ "service", &c->service },
		{ "scope", &c->scope },
	};
	for (size_t i = 0; i < sizeof(WANTED) / sizeof(WANTED[0]); i++) {
		if (same_word(name, WANTED[i].name) && r->first_bearer && is_clean(value))
			*WANTED[i].to = arena_span(r->a, value);
	}
}

static void begin(struct reader *r, struct span scheme)
{
	struct challenges *c = r->out;
	bool bearer = same_word(scheme, "bearer");
	bool basic = same_word(scheme, "basic");
	r->first_bearer = bearer && !c->bearer;
	c->bearer |= bearer;
	c->basic |= basic;
	c->other |= !bearer && !basic;
}

/*
 * A word with `=` behind it is a parameter, any other begins a challenge, unless it follows
 * a scheme without a comma: then it is a token68, as is what has nothing behind `=`.  What
 * begins with none of these ends the header.
 */
static void read_value(struct reader *r)
{
	bool after_scheme = false;
	for (;;) {
		(void)skip(r, " \t,");
		struct span name = word(r);
		if (name.n == 0)
			return;
		(void)skip(r, " \t");
		if (peek(r, '=')) {
			(void)skip(r, "= \t");
			keep(r, name, peek(r, '"') ? quoted(r) : word(r));
			after_scheme = false;
		} else if (after_scheme) {
			after_scheme = false;
		} else {
			begin(r, name);
			after_scheme = !peek(r, ',');
		}
	}
}

void challenges_read(struct span headers, struct arena *a, struct challenges *out)
{
	struct span none = { "", 0 };
	*out = (struct challenges){ .realm = none, .service = none, .scope = none };
	struct span value;
	for (unsigned i = 0; (value = header_value(headers, "WWW-Authenticate", i)).p; i++) {
		struct reader r = { .rest = value, .a = a, .out = out };
		read_value(&r);
	}
}
