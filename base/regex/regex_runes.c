/* Sets of characters, and characters in bytes. */
#include <stdlib.h>

#include "base/regex/regex_fold.h"
#include "base/regex/regex_inner.h"

enum { SHORT = 16 };

void runes_add(struct runes *s, struct arena *a, uint32_t lo, uint32_t hi)
{
	if (s->n == s->cap) {
		uint32_t cap = s->cap ? 2 * s->cap : 2;
		struct range *v = ARENA_NEW(a, struct range, cap);
		if (s->n)
			memcpy(v, s->v, s->n * sizeof(*v));
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct range){ lo, hi };
}

struct target {
	struct runes *set;
	struct arena *arena;
};

/* The others of the circle that a character is in. */
static void add_circle(void *self, uint32_t rune)
{
	struct target *t = self;
	for (uint32_t r = fold_next(rune); r != rune; r = fold_next(r))
		runes_add(t->set, t->arena, r, r);
}

void runes_add_folded(struct runes *s, struct arena *a, uint32_t lo, uint32_t hi)
{
	struct target t = { s, a };
	runes_add(s, a, lo, hi);
	if (lo == hi)
		add_circle(&t, lo);
	else if (lo > 0 || hi < RUNE_MAX) /* all is all */
		fold_each(lo, hi, add_circle, &t);
}

static int by_start(const void *a, const void *b)
{
	uint32_t x = ((const struct range *)a)->lo;
	uint32_t y = ((const struct range *)b)->lo;
	return (x > y) - (x < y);
}

/* Most sets are a letter in its cases, for which calling somebody would take longer. */
static void sort_ranges(struct range *v, size_t n)
{
	if (n > SHORT) {
		qsort(v, n, sizeof(*v), by_start);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		struct range r = v[i];
		size_t k = i;
		for (; k > 0 && v[k - 1].lo > r.lo; k--)
			v[k] = v[k - 1];
		v[k] = r;
	}
}

void runes_clean(struct runes *s)
{
	if (s->n < 2)
		return;
	sort_ranges(s->v, s->n);
	uint32_t n = 1;
	for (size_t i = 1; i < s->n; i++) {
		struct range *last = &s->v[n - 1];
		if (s->v[i].lo > last->hi + 1)
			s->v[n++] = s->v[i];
		else if (s->v[i].hi > last->hi)
			last->hi = s->v[i].hi;
	}
	s->n = n;
}

void runes_negate(struct runes *s, struct arena *a)
{
	struct runes out = { 0 };
	uint32_t from = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].lo > from)
			runes_add(&out, a, from, s->v[i].lo - 1);
		from = s->v[i].hi + 1;
	}
	if (from <= RUNE_MAX)
		runes_add(&out, a, from, RUNE_MAX);
	*s = out;
}

bool runes_has(const struct runes *s, uint32_t rune)
{
	size_t lo = 0;
	size_t hi = s->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (rune > s->v[mid].hi)
			lo = mid + 1;
		else if (rune < s->v[mid].lo)
			hi = mid;
		else
			return true;
	}
	return false;
}

bool runes_equal(const struct runes *a, const struct runes *b)
{
	if (a->n != b->n || (a->n > 0 && a->v[0].lo != b->v[0].lo))
		return false;
	return a->n == 0 || memcmp(a->v, b->v, a->n * sizeof(*a->v)) == 0;
}

size_t runes_count(const struct runes *s, size_t most)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n && n < most; i++)
		n += s->v[i].hi - s->v[i].lo + 1;
	return n < most ? n : most;
}

/* Pairs of first and last character. */
static const struct class
{
	const char *name, *pairs;
} CLASSES[] = {
	{ "d", "09" },           { "s", "\t\n\f\r  " },
	{ "w", "09AZ__az" },     { "alnum", "09AZaz" },
	{ "alpha", "AZaz" },     { "ascii", "" /* from NUL on */ },
	{ "blank", "\t\t  " },   { "cntrl", "\x7f\x7f" /* and from NUL on */ },
	{ "digit", "09" },       { "graph", "!~" },
	{ "lower", "az" },       { "print", " ~" },
	{ "punct", "!/:@[`{~" }, { "space", "\t\r  " },
	{ "upper", "AZ" },       { "word", "09AZ__az" },
	{ "xdigit", "09AFaf" },
};

bool runes_add_class(struct runes *s, struct arena *a, struct span name, bool negated, bool fold)
{
	const struct class *c = NULL;
	for (size_t i = 0; i < sizeof(CLASSES) / sizeof(*CLASSES) && !c; i++) {
		if (span_is(name, CLASSES[i].name))
			c = &CLASSES[i];
	}
	if (!c)
		return false;
	void (*add)(struct runes *, struct arena *, uint32_t, uint32_t) =
	    fold ? runes_add_folded : runes_add;
	struct runes own = { 0 };
	for (const char *p = c->pairs; *p; p += 2)
		add(&own, a, (unsigned char)p[0], (unsigned char)p[1]);
	if (strcmp(c->name, "ascii") == 0)
		add(&own, a, 0, 0x7F);
	if (strcmp(c->name, "cntrl") == 0)
		add(&own, a, 0, 0x1F);
	runes_clean(&own);
	if (negated)
		runes_negate(&own, a);
	for (size_t i = 0; i < own.n; i++)
		runes_add(s, a, own.v[i].lo, own.v[i].hi);
	return true;
}

static bool continues(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

uint32_t rune_decode(const unsigned char *p, size_t n, unsigned *width)
{
	*width = 1;
	if (p[0] < 0x80)
		return p[0];
	if (p[0] >= 0xC2 && p[0] < 0xE0 && n >= 2 && continues(p[1])) {
		*width = 2;
		return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
	}
	if (p[0] >= 0xE0 && p[0] < 0xF0 && n >= 3 && continues(p[1]) && continues(p[2])) {
		uint32_t r = (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
		if (r < 0x800 || (r >= 0xD800 && r < 0xE000))
			return RUNE_INVALID;
		*width = 3;
		return r;
	}
	if (p[0] >= 0xF0 && p[0] < 0xF5 && n >= 4 && continues(p[1]) && continues(p[2]) &&
	    continues(p[3])) {
		uint32_t r = (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 |
		             (p[3] & 0x3Fu);
		if (r < 0x10000 || r > RUNE_MAX)
			return RUNE_INVALID;
		*width = 4;
		return r;
	}
	return RUNE_INVALID;
}

/* A valid character never begins inside of another, so that looking from behind finds the same. */
uint32_t rune_decode_last(const unsigned char *p, size_t n, unsigned *width)
{
	for (unsigned w = 2; w <= 4 && w <= n; w++) {
		if (continues(p[n - w]))
			continue;
		unsigned got;
		uint32_t r = rune_decode(p + n - w, w, &got);
		if (got != w)
			break;
		*width = w;
		return r;
	}
	*width = 1;
	return p[n - 1] < 0x80 ? p[n - 1] : RUNE_INVALID;
}
