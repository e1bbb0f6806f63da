/* Builds sets of characters as sorted ranges, also negated and of named classes. */
#include <stdlib.h>

#include "base/regex/regex_internal.h"

void runes_add(struct runes *s, struct arena *a, struct rune_range r, bool fold)
{
	static const struct rune_range CASES[] = { { 'A', 'Z' }, { 'a', 'z' } };
	if (s->n == s->cap) {
		uint32_t cap = s->cap ? 2 * s->cap : 1;
		struct rune_range *v = ARENA_NEW(a, struct rune_range, cap);
		if (s->n)
			memcpy(v, s->v, s->n * sizeof(*v));
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = r;
	for (size_t i = 0; fold && i < ARRAY_SIZE(CASES); i++) {
		uint32_t lo = r.lo > CASES[i].lo ? r.lo : CASES[i].lo;
		uint32_t hi = r.hi < CASES[i].hi ? r.hi : CASES[i].hi;
		if (lo <= hi)
			runes_add(s, a, (struct rune_range){ lo ^ 0x20, hi ^ 0x20 }, false);
	}
}

static int runes_order(const void *x, const void *y)
{
	const struct rune_range *a = x;
	const struct rune_range *b = y;
	return (a->lo > b->lo) - (a->lo < b->lo);
}

void runes_clean(struct runes *s)
{
	size_t n = 0;
	if (s->n > 1)
		qsort(s->v, s->n, sizeof(*s->v), runes_order);
	for (size_t i = 0; i < s->n; i++) {
		struct rune_range *last = n ? &s->v[n - 1] : NULL;
		if (!last || s->v[i].lo > last->hi + 1)
			s->v[n++] = s->v[i];
		else if (s->v[i].hi > last->hi)
			last->hi = s->v[i].hi;
	}
	s->n = (uint32_t)n;
	s->ascii[0] = s->ascii[1] = 0;
	for (size_t i = 0; i < n; i++) {
		for (uint32_t r = s->v[i].lo; r <= s->v[i].hi && r < 128; r++)
			s->ascii[r >> 6] |= (uint64_t)1 << (r & 63);
	}
}

void runes_negate(struct runes *s, struct arena *a)
{
	struct runes out = { 0 };
	uint32_t from = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].lo > from)
			runes_add(&out, a, (struct rune_range){ from, s->v[i].lo - 1 }, false);
		from = s->v[i].hi + 1;
	}
	if (from <= RUNE_MAX)
		runes_add(&out, a, (struct rune_range){ from, RUNE_MAX }, false);
	runes_clean(&out);
	*s = out;
}

bool runes_has_wide(const struct runes *s, uint32_t rune)
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

bool runes_add_class(struct runes *s, struct arena *a, struct span name, bool negated, bool fold)
{
	/* pairs: of first and last character. */
	static const struct {
		const char *name;
		struct span pairs;
	} CLASSES[] = {
		{ "d", SPAN("09") },           { "s", SPAN("\t\n\f\r  ") },
		{ "w", SPAN("09AZ__az") },     { "alnum", SPAN("09AZaz") },
		{ "alpha", SPAN("AZaz") },     { "ascii", SPAN("\0\x7f") },
		{ "blank", SPAN("\t\t  ") },   { "cntrl", SPAN("\0\x1f\x7f\x7f") },
		{ "digit", SPAN("09") },       { "graph", SPAN("!~") },
		{ "lower", SPAN("az") },       { "print", SPAN(" ~") },
		{ "punct", SPAN("!/:@[`{~") }, { "space", SPAN("\t\r  ") },
		{ "upper", SPAN("AZ") },       { "word", SPAN("09AZ__az") },
		{ "xdigit", SPAN("09AFaf") },
	};
	size_t i = 0;
	while (i < ARRAY_SIZE(CLASSES) && !span_is(name, CLASSES[i].name))
		i++;
	if (i == ARRAY_SIZE(CLASSES))
		return false;
	struct runes own = { 0 };
	const unsigned char *pair = (const unsigned char *)CLASSES[i].pairs.p;
	for (size_t k = 0; k < CLASSES[i].pairs.n; k += 2)
		runes_add(&own, a, (struct rune_range){ pair[k], pair[k + 1] }, fold);
	runes_clean(&own);
	if (negated)
		runes_negate(&own, a);
	for (size_t k = 0; k < own.n; k++)
		runes_add(s, a, own.v[k], false);
	return true;
}
