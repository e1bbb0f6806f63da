#pragma once
/*
 * Regular expressions as Go's regexp and RE2 have them, for the patterns of the exit
 * specification: leftmost match, of several ways to match there the first by the order of the
 * pattern ("leftmost-first"), time linear in the text whatever the pattern, no back-references
 * and no look-around.  Text is bytes read as UTF-8; a byte that belongs to no valid character is
 * one U+FFFD.
 *
 * Taken: . [] | () (?:) (?P<n>) (?<n>) * + ? {n} {n,} {n,m} and their lazy forms, ^ $ \A \z \b \B,
 * \d \s \w [[:alpha:]] and their negations, \a \f \n \r \t \v \123 \x7F \x{10FFFF} \Q..\E, and the
 * flags i m s U in front, inside or of a group.  The flag i folds ASCII letters; other characters
 * under it are refused.  Not taken: \pN and the other classes of Unicode, \C.  What is too large is
 * refused as well: texts above REGEX_PATTERN_MAX bytes, counts above 1000 (also of nested ones
 * multiplied), programs above REGEX_PROGRAM_MAX instructions, groups nested above REGEX_DEPTH_MAX.
 *
 * How: a pattern is compiled to a nondeterministic program, of which deterministic states are made
 * as the text needs them, in a cache of bounded size.  One pass forwards finds where the match
 * ends, one backwards from there where it begins.  Pure, but for the clock.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
	REGEX_PATTERN_MAX = 8192,  /* bytes */
	REGEX_PROGRAM_MAX = 12000, /* instructions */
	REGEX_DEPTH_MAX = 250
};

/* Text that need not be in memory as a whole. */
struct text {
	size_t size;   /* bytes in all */
	size_t window; /* bytes that one read gives, unless the text ends before; at least 8 */
	/* The bytes from `from` (< size) on, min(window, size - from) of them; borrowed until the
	 * next read. */
	struct span (*read)(struct text *t, size_t from);
};

/* Text in memory: `struct text_span t; text_of(&t, span)` and use &t.text. */
struct text_span {
	struct text text;
	struct span span;
};
void text_of(struct text_span *t, struct span span);

struct regex;

/* Read a pattern.  Its program is made by the first search, in the same arena.  What it returns
 * lives in the arena.  NULL and *e, which says what is wrong at which
 * byte of the pattern, from 1 ("missing closing ) at byte 3"). */
struct regex *regex_compile(struct span pattern, struct arena *a, struct err *e);

enum regex_found { REGEX_NONE, REGEX_FOUND, REGEX_LATE /* the deadline was over */ };

/* Bytes [start, end) of a match. */
struct match {
	size_t start, end;
};

/* Find the first match.  deadline_ms is on clock_ms(); *m is written if it returns REGEX_FOUND. */
enum regex_found regex_search(struct regex *re, struct text *t, int64_t deadline_ms,
                              struct match *m);

/*
 * Which of many patterns can match at all, in one pass: a pattern can only match where the longest
 * literal text that it demands occurs (one of each alternative).  possible[i] is set for those that
 * do, and for patterns that demand none; the other members are not touched.  re[i] may be NULL.
 */
struct regex_set;
struct regex_set *regex_set_new(struct regex *const *re, size_t n, struct arena *a);
/* REGEX_LATE, or REGEX_NONE when done. */
enum regex_found regex_set_scan(const struct regex_set *s, struct text *t, int64_t deadline_ms,
                                bool *possible);
