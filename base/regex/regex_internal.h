#pragma once
/*
 * What the parts of the regular expressions agree on: sets of characters (regex_runes.c), the tree
 * of a pattern (regex_parse.c), programs and what can be looked for first (regex_program.c), and
 * how they run (regex_run.c).
 */
#include "base/regex/regex.h"

/* Status and code of all errors about patterns. */
#define REGEX_ERROR 500, "RuntimeError"

/* ---- sets of characters ---- */

enum { RUNE_MAX = 0x10FFFF };

struct range {
	uint32_t lo, hi;
};

/* Ranges; ordered and apart from each other once runes_clean() was called. */
struct runes {
	struct range *v;
	uint32_t n, cap;
};

void runes_add(struct runes *s, struct arena *a, uint32_t lo, uint32_t hi);
/* With all that is the same but for its case. */
void runes_add_folded(struct runes *s, struct arena *a, uint32_t lo, uint32_t hi);
/* A class that has a letter (d, s, w) or a POSIX name; false if there is none of that name. */
bool runes_add_class(struct runes *s, struct arena *a, struct span name, bool negated, bool fold);
void runes_clean(struct runes *s);
/* What is not in a clean set. */
void runes_negate(struct runes *s, struct arena *a);
bool runes_has(const struct runes *s, uint32_t rune);
bool runes_equal(const struct runes *a, const struct runes *b);
/* How many characters, but at most `most`. */
size_t runes_count(const struct runes *s, size_t most);

static inline bool rune_is_word(uint32_t r)
{
	return (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') ||
	       r == '_';
}

/* ---- the tree ---- */

enum re_kind { RE_EMPTY, RE_SET, RE_ASSERT, RE_CONCAT, RE_ALTERNATE, RE_REPEAT };

enum assertion { BEGIN_TEXT, END_TEXT, BEGIN_LINE, END_LINE, WORD_EDGE, NO_WORD_EDGE };

/* Small: there is one of each character of a pattern. */
struct re {
	enum re_kind kind : 8;
	enum assertion assertion : 8;
	bool lazy;
	int16_t min, max; /* of RE_REPEAT; max -1: no end */
	int copies;       /* counts of nested repetitions, multiplied */
	union {
		struct runes set;
		struct {
			/* Of RE_CONCAT and RE_ALTERNATE; of RE_REPEAT the one in first. */
			struct re *first, *last;
		};
	};
	struct re *next, *prev;
};

struct re *regex_parse(struct span pattern, struct arena *a, struct err *e);

/* ---- programs ---- */

enum op {
	OP_SET,    /* a character of sets[arg], then x */
	OP_SPLIT,  /* x, and with less priority y */
	OP_ASSERT, /* x if the assertion `arg` holds */
	OP_MATCH   /* of the pattern number x */
};

struct inst {
	uint8_t op;
	uint16_t arg, x, y;
};

/* What the neighbours of a position are, as far as assertions ask. */
enum neighbour { AT_EDGE, AT_NEWLINE, AT_WORD, AT_OTHER };

enum semantics {
	FIRST,   /* of the matches at the leftmost start, the one that the pattern prefers */
	LONGEST, /* the longest */
	ALL      /* which patterns match anywhere */
};

/*
 * Characters that no set tells apart are one class: 1..n_classes.  Class 0 stands for bytes that
 * begin a longer character, n_classes + 1 for the end of the text.
 */
struct program {
	struct inst *inst;
	size_t n, start;
	struct runes *sets;
	size_t n_sets;
	enum semantics semantics;
	bool backwards;
	bool asks_text, asks_line, asks_word; /* which assertions there are */
	uint16_t n_classes;
	uint16_t byte_class[256]; /* of ASCII; 0 for other bytes */
	uint32_t *bound;          /* first characters of intervals, ascending ... */
	uint16_t *bound_class;    /* ... and their classes */
	size_t n_bounds;
	uint32_t *sample; /* one character of each class */
};

/* Compile `re` (with n patterns: all of them, numbered).  NULL if it grows too large. */
struct program *program_new(const struct re *const *re, size_t n, enum semantics semantics,
                            bool backwards, struct arena *a);
/* Is program_new() sure to make one of this?  False does not say that it cannot. */
bool program_fits(const struct re *re);
uint16_t program_class(const struct program *p, uint32_t rune);
enum neighbour neighbour_of(uint32_t rune);
/* Does it hold between these two, in the order of the text? */
bool assertion_holds(enum assertion what, enum neighbour before, enum neighbour after);

/* Text that every match contains (or one of several texts), as a tree: the longest run of single
 * characters.  NULL if there is none of two or more.  A run stays where it is in `re`: what is
 * before its first one and behind its last one does not belong to it. */
const struct re *literal_run(const struct re *re, struct arena *a);

/* ---- running ---- */

struct regex {
	const struct re *tree;
	struct arena *arena;
	const struct program *forwards; /* NULL until it is needed */
};

const struct program *regex_forwards(struct regex *re);

struct run {
	struct text *text;
	int64_t deadline_ms;
	bool *seen;     /* of ALL */
	uint64_t steps; /* instructions looked at, for tests */
};

/* From the start of the text: where the match ends. */
enum regex_found run_forwards(const struct program *p, struct run *r, size_t *end);
/* From `end` backwards: where the longest match begins. */
enum regex_found run_backwards(const struct program *p, struct run *r, size_t end, size_t *start);
