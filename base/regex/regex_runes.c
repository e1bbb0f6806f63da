/* Sets of characters, and characters in bytes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/regex/regex_inner.h"

/* Upper and lower case. */
/* The next character that differs in its case only; itself if there is none. */
static uint32_t fold_next(uint32_t rune);
/* Calls `each` for every character of lo..hi that has others of another case. */
static void fold_each(uint32_t lo, uint32_t hi, void (*each)(void *self, uint32_t rune),
                      void *self);

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

/*
 * Which characters differ in their case only: for every range the distance to the next one of the
 * circle, as k -> KELVIN SIGN -> K -> k.  ASCII's own are in code.  In the order of `lo`.  Made
 * from Unicode 13 (Go's unicode.SimpleFold gives these).
 */

/* clang-format off */
static const struct fold {
	uint32_t lo : 17, more : 7, /* how far the range reaches */
	         by_two : 1;        /* every second one of it */
	int32_t delta;
} FOLDS[] = {
	{ 0xb5, 0, 0, 743 }, { 0xc0, 22, 0, 32 }, { 0xd8, 6, 0, 32 }, { 0xdf, 0, 0, 7615 }, { 0xe0, 4, 0, -32 },
	{ 0xe5, 0, 0, 8262 }, { 0xe6, 16, 0, -32 }, { 0xf8, 6, 0, -32 }, { 0xff, 0, 0, 121 }, { 0x100, 46, 1, 1 },
	{ 0x101, 46, 1, -1 }, { 0x132, 4, 1, 1 }, { 0x133, 4, 1, -1 }, { 0x139, 14, 1, 1 }, { 0x13a, 14, 1, -1 },
	{ 0x14a, 44, 1, 1 }, { 0x14b, 44, 1, -1 }, { 0x178, 0, 0, -121 }, { 0x179, 4, 1, 1 }, { 0x17a, 4, 1, -1 },
	{ 0x17f, 0, 0, -300 }, { 0x180, 0, 0, 195 }, { 0x181, 0, 0, 210 }, { 0x182, 2, 1, 1 }, { 0x183, 2, 1, -1 },
	{ 0x186, 0, 0, 206 }, { 0x187, 0, 0, 1 }, { 0x188, 0, 0, -1 }, { 0x189, 1, 0, 205 }, { 0x18b, 0, 0, 1 },
	{ 0x18c, 0, 0, -1 }, { 0x18e, 0, 0, 79 }, { 0x18f, 0, 0, 202 }, { 0x190, 0, 0, 203 }, { 0x191, 0, 0, 1 },
	{ 0x192, 0, 0, -1 }, { 0x193, 0, 0, 205 }, { 0x194, 0, 0, 207 }, { 0x195, 0, 0, 97 }, { 0x196, 0, 0, 211 },
	{ 0x197, 0, 0, 209 }, { 0x198, 0, 0, 1 }, { 0x199, 0, 0, -1 }, { 0x19a, 0, 0, 163 }, { 0x19c, 0, 0, 211 },
	{ 0x19d, 0, 0, 213 }, { 0x19e, 0, 0, 130 }, { 0x19f, 0, 0, 214 }, { 0x1a0, 4, 1, 1 }, { 0x1a1, 4, 1, -1 },
	{ 0x1a6, 0, 0, 218 }, { 0x1a7, 0, 0, 1 }, { 0x1a8, 0, 0, -1 }, { 0x1a9, 0, 0, 218 }, { 0x1ac, 0, 0, 1 },
	{ 0x1ad, 0, 0, -1 }, { 0x1ae, 0, 0, 218 }, { 0x1af, 0, 0, 1 }, { 0x1b0, 0, 0, -1 }, { 0x1b1, 1, 0, 217 },
	{ 0x1b3, 2, 1, 1 }, { 0x1b4, 2, 1, -1 }, { 0x1b7, 0, 0, 219 }, { 0x1b8, 0, 0, 1 }, { 0x1b9, 0, 0, -1 },
	{ 0x1bc, 0, 0, 1 }, { 0x1bd, 0, 0, -1 }, { 0x1bf, 0, 0, 56 }, { 0x1c4, 1, 0, 1 }, { 0x1c6, 0, 0, -2 },
	{ 0x1c7, 1, 0, 1 }, { 0x1c9, 0, 0, -2 }, { 0x1ca, 1, 0, 1 }, { 0x1cc, 0, 0, -2 }, { 0x1cd, 14, 1, 1 },
	{ 0x1ce, 14, 1, -1 }, { 0x1dd, 0, 0, -79 }, { 0x1de, 16, 1, 1 }, { 0x1df, 16, 1, -1 }, { 0x1f1, 1, 0, 1 },
	{ 0x1f3, 0, 0, -2 }, { 0x1f4, 0, 0, 1 }, { 0x1f5, 0, 0, -1 }, { 0x1f6, 0, 0, -97 }, { 0x1f7, 0, 0, -56 },
	{ 0x1f8, 38, 1, 1 }, { 0x1f9, 38, 1, -1 }, { 0x220, 0, 0, -130 }, { 0x222, 16, 1, 1 }, { 0x223, 16, 1, -1 },
	{ 0x23a, 0, 0, 10795 }, { 0x23b, 0, 0, 1 }, { 0x23c, 0, 0, -1 }, { 0x23d, 0, 0, -163 }, { 0x23e, 0, 0, 10792 },
	{ 0x23f, 1, 0, 10815 }, { 0x241, 0, 0, 1 }, { 0x242, 0, 0, -1 }, { 0x243, 0, 0, -195 }, { 0x244, 0, 0, 69 },
	{ 0x245, 0, 0, 71 }, { 0x246, 8, 1, 1 }, { 0x247, 8, 1, -1 }, { 0x250, 0, 0, 10783 }, { 0x251, 0, 0, 10780 },
	{ 0x252, 0, 0, 10782 }, { 0x253, 0, 0, -210 }, { 0x254, 0, 0, -206 }, { 0x256, 1, 0, -205 }, { 0x259, 0, 0, -202 },
	{ 0x25b, 0, 0, -203 }, { 0x25c, 0, 0, 42319 }, { 0x260, 0, 0, -205 }, { 0x261, 0, 0, 42315 }, { 0x263, 0, 0, -207 },
	{ 0x265, 0, 0, 42280 }, { 0x266, 0, 0, 42308 }, { 0x268, 0, 0, -209 }, { 0x269, 0, 0, -211 }, { 0x26a, 0, 0, 42308 },
	{ 0x26b, 0, 0, 10743 }, { 0x26c, 0, 0, 42305 }, { 0x26f, 0, 0, -211 }, { 0x271, 0, 0, 10749 }, { 0x272, 0, 0, -213 },
	{ 0x275, 0, 0, -214 }, { 0x27d, 0, 0, 10727 }, { 0x280, 0, 0, -218 }, { 0x282, 0, 0, 42307 }, { 0x283, 0, 0, -218 },
	{ 0x287, 0, 0, 42282 }, { 0x288, 0, 0, -218 }, { 0x289, 0, 0, -69 }, { 0x28a, 1, 0, -217 }, { 0x28c, 0, 0, -71 },
	{ 0x292, 0, 0, -219 }, { 0x29d, 0, 0, 42261 }, { 0x29e, 0, 0, 42258 }, { 0x345, 0, 0, 84 }, { 0x370, 2, 1, 1 },
	{ 0x371, 2, 1, -1 }, { 0x376, 0, 0, 1 }, { 0x377, 0, 0, -1 }, { 0x37b, 2, 0, 130 }, { 0x37f, 0, 0, 116 },
	{ 0x386, 0, 0, 38 }, { 0x388, 2, 0, 37 }, { 0x38c, 0, 0, 64 }, { 0x38e, 1, 0, 63 }, { 0x391, 16, 0, 32 },
	{ 0x3a3, 0, 0, 31 }, { 0x3a4, 7, 0, 32 }, { 0x3ac, 0, 0, -38 }, { 0x3ad, 2, 0, -37 }, { 0x3b1, 2, 1, -32 },
	{ 0x3b2, 0, 0, 30 }, { 0x3b4, 2, 1, -32 }, { 0x3b5, 0, 0, 64 }, { 0x3b7, 0, 0, -32 }, { 0x3b8, 0, 0, 25 },
	{ 0x3b9, 0, 0, 7173 }, { 0x3ba, 0, 0, 54 }, { 0x3bb, 2, 1, -32 }, { 0x3bc, 0, 0, -775 }, { 0x3be, 1, 0, -32 },
	{ 0x3c0, 0, 0, 22 }, { 0x3c1, 0, 0, 48 }, { 0x3c2, 0, 0, 1 }, { 0x3c3, 2, 0, -32 }, { 0x3c6, 0, 0, 15 },
	{ 0x3c7, 1, 0, -32 }, { 0x3c9, 0, 0, 7517 }, { 0x3ca, 1, 0, -32 }, { 0x3cc, 0, 0, -64 }, { 0x3cd, 1, 0, -63 },
	{ 0x3cf, 0, 0, 8 }, { 0x3d0, 0, 0, -62 }, { 0x3d1, 0, 0, 35 }, { 0x3d5, 0, 0, -47 }, { 0x3d6, 0, 0, -54 },
	{ 0x3d7, 0, 0, -8 }, { 0x3d8, 22, 1, 1 }, { 0x3d9, 22, 1, -1 }, { 0x3f0, 0, 0, -86 }, { 0x3f1, 0, 0, -80 },
	{ 0x3f2, 0, 0, 7 }, { 0x3f3, 0, 0, -116 }, { 0x3f4, 0, 0, -92 }, { 0x3f5, 0, 0, -96 }, { 0x3f7, 0, 0, 1 },
	{ 0x3f8, 0, 0, -1 }, { 0x3f9, 0, 0, -7 }, { 0x3fa, 0, 0, 1 }, { 0x3fb, 0, 0, -1 }, { 0x3fd, 2, 0, -130 },
	{ 0x400, 15, 0, 80 }, { 0x410, 31, 0, 32 }, { 0x430, 1, 0, -32 }, { 0x432, 0, 0, 6222 }, { 0x433, 2, 1, -32 },
	{ 0x434, 0, 0, 6221 }, { 0x436, 7, 0, -32 }, { 0x43e, 0, 0, 6212 }, { 0x43f, 1, 0, -32 }, { 0x441, 1, 0, 6210 },
	{ 0x443, 6, 0, -32 }, { 0x44a, 0, 0, 6204 }, { 0x44b, 4, 0, -32 }, { 0x450, 15, 0, -80 }, { 0x460, 2, 1, 1 },
	{ 0x461, 0, 0, -1 }, { 0x463, 0, 0, 6180 }, { 0x464, 28, 1, 1 }, { 0x465, 28, 1, -1 }, { 0x48a, 52, 1, 1 },
	{ 0x48b, 52, 1, -1 }, { 0x4c0, 0, 0, 15 }, { 0x4c1, 12, 1, 1 }, { 0x4c2, 12, 1, -1 }, { 0x4cf, 0, 0, -15 },
	{ 0x4d0, 94, 1, 1 }, { 0x4d1, 94, 1, -1 }, { 0x531, 37, 0, 48 }, { 0x561, 37, 0, -48 }, { 0x10a0, 37, 0, 7264 },
	{ 0x10c7, 0, 0, 7264 }, { 0x10cd, 0, 0, 7264 }, { 0x10d0, 42, 0, 3008 }, { 0x10fd, 2, 0, 3008 }, { 0x13a0, 79, 0, 38864 },
	{ 0x13f0, 5, 0, 8 }, { 0x13f8, 5, 0, -8 }, { 0x1c80, 0, 0, -6254 }, { 0x1c81, 0, 0, -6253 }, { 0x1c82, 0, 0, -6244 },
	{ 0x1c83, 0, 0, -6242 }, { 0x1c84, 0, 0, 1 }, { 0x1c85, 0, 0, -6243 }, { 0x1c86, 0, 0, -6236 }, { 0x1c87, 0, 0, -6181 },
	{ 0x1c88, 0, 0, 35266 }, { 0x1c90, 42, 0, -3008 }, { 0x1cbd, 2, 0, -3008 }, { 0x1d79, 0, 0, 35332 }, { 0x1d7d, 0, 0, 3814 },
	{ 0x1d8e, 0, 0, 35384 }, { 0x1e00, 96, 1, 1 }, { 0x1e01, 94, 1, -1 }, { 0x1e61, 0, 0, 58 }, { 0x1e62, 50, 1, 1 },
	{ 0x1e63, 50, 1, -1 }, { 0x1e9b, 0, 0, -59 }, { 0x1e9e, 0, 0, -7615 }, { 0x1ea0, 94, 1, 1 }, { 0x1ea1, 94, 1, -1 },
	{ 0x1f00, 7, 0, 8 }, { 0x1f08, 7, 0, -8 }, { 0x1f10, 5, 0, 8 }, { 0x1f18, 5, 0, -8 }, { 0x1f20, 7, 0, 8 },
	{ 0x1f28, 7, 0, -8 }, { 0x1f30, 7, 0, 8 }, { 0x1f38, 7, 0, -8 }, { 0x1f40, 5, 0, 8 }, { 0x1f48, 5, 0, -8 },
	{ 0x1f51, 6, 1, 8 }, { 0x1f59, 6, 1, -8 }, { 0x1f60, 7, 0, 8 }, { 0x1f68, 7, 0, -8 }, { 0x1f70, 1, 0, 74 },
	{ 0x1f72, 3, 0, 86 }, { 0x1f76, 1, 0, 100 }, { 0x1f78, 1, 0, 128 }, { 0x1f7a, 1, 0, 112 }, { 0x1f7c, 1, 0, 126 },
	{ 0x1f80, 7, 0, 8 }, { 0x1f88, 7, 0, -8 }, { 0x1f90, 7, 0, 8 }, { 0x1f98, 7, 0, -8 }, { 0x1fa0, 7, 0, 8 },
	{ 0x1fa8, 7, 0, -8 }, { 0x1fb0, 1, 0, 8 }, { 0x1fb3, 0, 0, 9 }, { 0x1fb8, 1, 0, -8 }, { 0x1fba, 1, 0, -74 },
	{ 0x1fbc, 0, 0, -9 }, { 0x1fbe, 0, 0, -7289 }, { 0x1fc3, 0, 0, 9 }, { 0x1fc8, 3, 0, -86 }, { 0x1fcc, 0, 0, -9 },
	{ 0x1fd0, 1, 0, 8 }, { 0x1fd8, 1, 0, -8 }, { 0x1fda, 1, 0, -100 }, { 0x1fe0, 1, 0, 8 }, { 0x1fe5, 0, 0, 7 },
	{ 0x1fe8, 1, 0, -8 }, { 0x1fea, 1, 0, -112 }, { 0x1fec, 0, 0, -7 }, { 0x1ff3, 0, 0, 9 }, { 0x1ff8, 1, 0, -128 },
	{ 0x1ffa, 1, 0, -126 }, { 0x1ffc, 0, 0, -9 }, { 0x2126, 0, 0, -7549 }, { 0x212a, 0, 0, -8415 }, { 0x212b, 0, 0, -8294 },
	{ 0x2132, 0, 0, 28 }, { 0x214e, 0, 0, -28 }, { 0x2160, 15, 0, 16 }, { 0x2170, 15, 0, -16 }, { 0x2183, 0, 0, 1 },
	{ 0x2184, 0, 0, -1 }, { 0x24b6, 25, 0, 26 }, { 0x24d0, 25, 0, -26 }, { 0x2c00, 46, 0, 48 }, { 0x2c30, 46, 0, -48 },
	{ 0x2c60, 0, 0, 1 }, { 0x2c61, 0, 0, -1 }, { 0x2c62, 0, 0, -10743 }, { 0x2c63, 0, 0, -3814 }, { 0x2c64, 0, 0, -10727 },
	{ 0x2c65, 0, 0, -10795 }, { 0x2c66, 0, 0, -10792 }, { 0x2c67, 4, 1, 1 }, { 0x2c68, 4, 1, -1 }, { 0x2c6d, 0, 0, -10780 },
	{ 0x2c6e, 0, 0, -10749 }, { 0x2c6f, 0, 0, -10783 }, { 0x2c70, 0, 0, -10782 }, { 0x2c72, 0, 0, 1 }, { 0x2c73, 0, 0, -1 },
	{ 0x2c75, 0, 0, 1 }, { 0x2c76, 0, 0, -1 }, { 0x2c7e, 1, 0, -10815 }, { 0x2c80, 98, 1, 1 }, { 0x2c81, 98, 1, -1 },
	{ 0x2ceb, 2, 1, 1 }, { 0x2cec, 2, 1, -1 }, { 0x2cf2, 0, 0, 1 }, { 0x2cf3, 0, 0, -1 }, { 0x2d00, 37, 0, -7264 },
	{ 0x2d27, 0, 0, -7264 }, { 0x2d2d, 0, 0, -7264 }, { 0xa640, 10, 1, 1 }, { 0xa641, 8, 1, -1 }, { 0xa64b, 0, 0, -35267 },
	{ 0xa64c, 32, 1, 1 }, { 0xa64d, 32, 1, -1 }, { 0xa680, 26, 1, 1 }, { 0xa681, 26, 1, -1 }, { 0xa722, 12, 1, 1 },
	{ 0xa723, 12, 1, -1 }, { 0xa732, 60, 1, 1 }, { 0xa733, 60, 1, -1 }, { 0xa779, 2, 1, 1 }, { 0xa77a, 2, 1, -1 },
	{ 0xa77d, 0, 0, -35332 }, { 0xa77e, 8, 1, 1 }, { 0xa77f, 8, 1, -1 }, { 0xa78b, 0, 0, 1 }, { 0xa78c, 0, 0, -1 },
	{ 0xa78d, 0, 0, -42280 }, { 0xa790, 2, 1, 1 }, { 0xa791, 2, 1, -1 }, { 0xa794, 0, 0, 48 }, { 0xa796, 18, 1, 1 },
	{ 0xa797, 18, 1, -1 }, { 0xa7aa, 0, 0, -42308 }, { 0xa7ab, 0, 0, -42319 }, { 0xa7ac, 0, 0, -42315 }, { 0xa7ad, 0, 0, -42305 },
	{ 0xa7ae, 0, 0, -42308 }, { 0xa7b0, 0, 0, -42258 }, { 0xa7b1, 0, 0, -42282 }, { 0xa7b2, 0, 0, -42261 }, { 0xa7b3, 0, 0, 928 },
	{ 0xa7b4, 10, 1, 1 }, { 0xa7b5, 10, 1, -1 }, { 0xa7c2, 0, 0, 1 }, { 0xa7c3, 0, 0, -1 }, { 0xa7c4, 0, 0, -48 },
	{ 0xa7c5, 0, 0, -42307 }, { 0xa7c6, 0, 0, -35384 }, { 0xa7c7, 2, 1, 1 }, { 0xa7c8, 2, 1, -1 }, { 0xa7f5, 0, 0, 1 },
	{ 0xa7f6, 0, 0, -1 }, { 0xab53, 0, 0, -928 }, { 0xab70, 79, 0, -38864 }, { 0xff21, 25, 0, 32 }, { 0xff41, 25, 0, -32 },
	{ 0x10400, 39, 0, 40 }, { 0x10428, 39, 0, -40 }, { 0x104b0, 35, 0, 40 }, { 0x104d8, 35, 0, -40 }, { 0x10c80, 50, 0, 64 },
	{ 0x10cc0, 50, 0, -64 }, { 0x118a0, 31, 0, 32 }, { 0x118c0, 31, 0, -32 }, { 0x16e40, 31, 0, 32 }, { 0x16e60, 31, 0, -32 },
	{ 0x1e900, 33, 0, 34 }, { 0x1e922, 33, 0, -34 },
};
/* clang-format on */

static uint32_t fold_next(uint32_t rune)
{
	if (rune < 128) {
		bool upper = rune >= 'A' && rune <= 'Z';
		if (rune == 'k' || rune == 's')
			return rune == 'k' ? 0x212A : 0x17F;
		if (upper || (rune >= 'a' && rune <= 'z'))
			return rune ^ 0x20;
		return rune;
	}
	for (size_t i = 0; i < sizeof(FOLDS) / sizeof(*FOLDS) && FOLDS[i].lo <= rune; i++) {
		const struct fold *f = &FOLDS[i];
		if (rune > f->lo + f->more)
			continue;
		if (!f->by_two || (rune - f->lo) % 2 == 0)
			return (uint32_t)((int32_t)rune + f->delta);
	}
	return rune;
}

static void fold_each(uint32_t lo, uint32_t hi, void (*each)(void *self, uint32_t rune), void *self)
{
	for (uint32_t r = lo; r <= hi && r < 128; r++) {
		if (fold_next(r) != r)
			each(self, r);
	}
	for (size_t i = 0; i < sizeof(FOLDS) / sizeof(*FOLDS) && FOLDS[i].lo <= hi; i++) {
		const struct fold *f = &FOLDS[i];
		uint32_t step = f->by_two ? 2 : 1;
		for (uint32_t r = f->lo; r <= f->lo + f->more; r += step) {
			if (r >= lo && r <= hi)
				each(self, r);
		}
	}
}
