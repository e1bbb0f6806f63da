#pragma once
/* Sets of characters (regex_runes.c) and programs, which regex_parse.c makes and regex.c runs. */
#include "base/regex/regex.h"

/* ---- sets of characters ---- */

enum { RUNE_MAX = 0x10FFFF };

struct rune_range {
	uint32_t lo, hi;
};

/* Ranges; after runes_clean() sorted, disjoint and not adjacent. */
struct runes {
	uint64_t ascii[2]; /* after runes_clean(): a bit for each character of ASCII */
	struct rune_range *v;
	uint32_t n, cap;
};

/* fold: with the ASCII letters of the other case. */
void runes_add(struct runes *s, struct arena *a, struct rune_range r, bool fold);
/* A class by its letter (d, s, w) or POSIX name; false if unknown. */
bool runes_add_class(struct runes *s, struct arena *a, struct span name, bool negated, bool fold);
void runes_clean(struct runes *s);
/* The complement of a clean set, which is clean. */
void runes_negate(struct runes *s, struct arena *a);
/* The same for a character beyond ASCII. */
bool runes_has_wide(const struct runes *s, uint32_t rune);

/* Returns true if the clean set contains the character; one array access for ASCII. */
static inline bool runes_has(const struct runes *s, uint32_t rune)
{
	return rune < 128 ? s->ascii[rune >> 6] >> (rune & 63) & 1 : runes_has_wide(s, rune);
}

static inline bool rune_is_word(uint32_t r)
{
	return (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') ||
	       r == '_';
}

/* ---- programs ---- */

enum regex_op {
	OP_SET,    /* a character of the set, then x */
	OP_SPLIT,  /* x, or with lower priority y */
	OP_ASSERT, /* x if the assertion holds */
	OP_MATCH
};

enum assertion { BEGIN_TEXT, END_TEXT, BEGIN_LINE, END_LINE, WORD_EDGE, NO_WORD_EDGE };

/* x and y are relative to the instruction: a piece of a program can be copied. */
struct inst {
	const struct runes *set;
	int16_t x, y;
	uint8_t op, assertion;
};

/* A text that occurs in a match, as UTF-8, each byte with the bit 0x20: a letter in either case. */
struct literal {
	const char *text;
	size_t n;
	struct literal *next;
};

enum { LITERAL_MIN = 4, LITERAL_MAX = 64 };

struct regex {
	const struct inst *inst; /* the first one is the start */
	size_t n;
	const struct literal *literals; /* one of them is in each match; NULL: not known */
};
