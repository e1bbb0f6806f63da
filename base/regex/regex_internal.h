#pragma once
/* Sets of characters and trees (regex_parse.c), programs and required literals (regex_program.c),
 * and the automaton (regex.c). */
#include "base/regex/regex.h"

/* Status and code of all errors about patterns. */
#define REGEX_ERROR 500, "RuntimeError"

/* ---- sets of characters ---- */

enum { RUNE_MAX = 0x10FFFF };

struct range {
	uint32_t lo, hi;
};

/* Ranges; after runes_clean() sorted, disjoint and not adjacent. */
struct runes {
	struct range *v;
	uint32_t n, cap;
};

void runes_add(struct runes *s, struct arena *a, uint32_t lo, uint32_t hi);
/* With the ASCII letters of the other case. */
void runes_add_folded(struct runes *s, struct arena *a, uint32_t lo, uint32_t hi);
/* A class by its letter (d, s, w) or POSIX name; false if unknown. */
bool runes_add_class(struct runes *s, struct arena *a, struct span name, bool negated, bool fold);
void runes_clean(struct runes *s);
/* The complement of a clean set. */
void runes_negate(struct runes *s, struct arena *a);
bool runes_has(const struct runes *s, uint32_t rune);
bool runes_equal(const struct runes *a, const struct runes *b);
/* The number of characters, at most `most`. */
size_t runes_count(const struct runes *s, size_t most);

static inline bool rune_is_word(uint32_t r)
{
	return (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') ||
	       r == '_';
}

/* ---- the tree ---- */

enum re_kind { RE_EMPTY, RE_SET, RE_ASSERT, RE_CONCAT, RE_ALTERNATE, RE_REPEAT };

enum assertion { BEGIN_TEXT, END_TEXT, BEGIN_LINE, END_LINE, WORD_EDGE, NO_WORD_EDGE };

/* One for each character of a pattern, so it is small. */
struct re {
	enum re_kind kind : 8;
	enum assertion assertion : 8;
	bool lazy;
	int16_t min, max; /* of RE_REPEAT; max -1: no end */
	int copies;       /* product of the counts of nested repetitions */
	union {
		struct runes set;
		struct {
			/* Of RE_CONCAT and RE_ALTERNATE; RE_REPEAT uses first. */
			struct re *first, *last;
		};
	};
	struct re *next, *prev;
};

struct re *regex_parse(struct span pattern, struct arena *a, struct err *e);

/* ---- programs ---- */

enum op {
	OP_SET,    /* a character of sets[arg], then x */
	OP_SPLIT,  /* x, or with lower priority y */
	OP_ASSERT, /* x if the assertion `arg` holds */
	OP_MATCH   /* of the pattern number x */
};

struct inst {
	uint8_t op;
	uint16_t arg, x, y;
};

/* A neighbour of a position, as assertions distinguish them. */
enum neighbour { AT_EDGE, AT_NEWLINE, AT_WORD, AT_OTHER };

enum semantics {
	FIRST,   /* leftmost-first */
	LONGEST, /* the longest */
	ALL      /* all patterns that match anywhere */
};

/* Characters that are in the same sets form a class, 1..n_classes.  Class 0: the first byte of a
 * longer character; n_classes + 1: the end of the text. */
struct program {
	struct inst *inst;
	size_t n, start;
	struct runes *sets;
	size_t n_sets;
	enum semantics semantics;
	bool backwards;
	bool asks_text, asks_line, asks_word; /* kinds of assertions */
	uint16_t n_classes;
	uint16_t byte_class[256]; /* of ASCII; 0 for other bytes */
	uint32_t *bound;          /* first characters of intervals, ascending ... */
	uint16_t *bound_class;    /* ... and their classes */
	size_t n_bounds;
	uint32_t *sample; /* one character of each class */
};

/* Compiles n patterns into one program.  NULL if it becomes too large. */
struct program *program_new(const struct re *const *re, size_t n, enum semantics semantics,
                            bool backwards, struct arena *a);
/* program_new() will succeed; false: unknown. */
bool program_fits(const struct re *re);
uint16_t program_class(const struct program *p, uint32_t rune);
enum neighbour neighbour_of(uint32_t rune);
/* The assertion holds between these two, in the order of the text. */
bool assertion_holds(enum assertion what, enum neighbour before, enum neighbour after);

/* The longest literal text that every match contains (or one of several), as a tree; NULL if
 * shorter than two characters.  The nodes are shared with `re`: siblings before `first` and after
 * `last` do not belong to it. */
const struct re *literal_run(const struct re *re, struct arena *a);

/* ---- running ---- */

struct regex {
	const struct re *tree;
	struct arena *arena;
	const struct program *forwards; /* NULL until the first search */
};

const struct program *regex_forwards(struct regex *re);

struct run {
	struct text *text;
	int64_t deadline_ms;
	bool *seen;     /* of ALL */
	uint64_t steps; /* instructions examined, for tests */
};

/* The end of the match, searched from the start of the text. */
enum regex_found run_forwards(const struct program *p, struct run *r, size_t *end);
/* The start of the longest match, searched backwards from `end`. */
enum regex_found run_backwards(const struct program *p, struct run *r, size_t end, size_t *start);
