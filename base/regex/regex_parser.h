#pragma once
/*
 * The reading of patterns, of which regex_chars.c has the parts about single characters and their
 * classes, and regex_parse.c the rest.
 */
#include "base/regex/regex_inner.h"

enum flag { FOLD = 1, MANY_LINES = 2, DOT_ALL = 4, SWAP_LAZY = 8 };

enum { COUNT_MAX = 1000 };

struct parser {
	struct span text;
	size_t at;
	unsigned flags;
	unsigned depth;
	struct arena *a;
	struct err *e;
};

static inline bool more(const struct parser *p)
{
	return p->at < p->text.n;
}

/* NUL behind the end; and where there is one. */
static inline char byte_at(const struct parser *p, size_t at)
{
	if (at < p->text.n)
		return p->text.p[at];
	return '\0';
}

/* The next byte; NUL at the end (where more() tells). */
static inline char peek(const struct parser *p)
{
	return byte_at(p, p->at);
}

/* Is this what comes next?  Then go on behind it. */
static inline bool take(struct parser *p, const char *what)
{
	struct span rest = { p->text.p + p->at, p->text.n - p->at };
	if (!span_starts(rest, what))
		return false;
	p->at += strlen(what);
	return true;
}

/* An error, with the place; NULL. */
void *parser_fail(struct parser *p, size_t at, const char *what);
/* The next character, and go on behind it; there must be one. */
uint32_t parser_rune(struct parser *p);

/* An escape that stands for one character; the backslash is behind us. */
bool escape_rune(struct parser *p, uint32_t *out);
/* Is it \d, \D, \s, \S, \w or \W?  Then into the set. */
bool escape_class(struct parser *p, struct runes *set);
/* What is wrong with the escape there; NULL. */
void *escape_fail(struct parser *p, size_t at);
/* [...] into a clean set. */
bool class_parse(struct parser *p, struct runes *set);
