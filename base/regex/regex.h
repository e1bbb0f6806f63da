#pragma once
/*
 * regex/ searches for the patterns of the exit specification, of failures of pods, and of schemas.
 * regex_parse.c compiles a pattern, regex.c runs its program, regex_set.c filters many patterns.
 *
 * Regular expressions with the syntax of Go's regexp and RE2: leftmost-first match, time linear in
 * the text for every pattern, no back-references, no look-around.  Text is bytes read as UTF-8; an
 * invalid byte is one U+FFFD.
 *
 * Supported: . [] | () (?:) (?P<n>) (?<n>) * + ? {n} {n,} {n,m} and their lazy forms, ^ $ \A \z \b
 * \B, \d \s \w [[:alpha:]] and their negations, \a \f \n \r \t \v \123 \x7F \x{10FFFF} \Q..\E, and
 * the flags i m s U.  The flag i folds the letters of ASCII; other characters under it are refused.
 * Refused: \pN and the other classes of Unicode, \C, patterns above REGEX_PATTERN_MAX bytes, counts
 * above 1000 (also of nested counts multiplied), programs above REGEX_PROGRAM_MAX instructions,
 * groups nested deeper than REGEX_DEPTH_MAX.
 *
 * A program runs as a nondeterministic automaton (Pike's): at each character each of its
 * instructions is followed at most once, so a search takes size of the text times size of the
 * program, and memory of 38 bytes for each instruction.  A compiled pattern does not change:
 * threads can share it.  Pure, except for the clock.
 *
 * Thread: any
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

/* Text that is not necessarily in memory as a whole. */
struct regex_text {
	size_t size;   /* bytes in all, below 2 GiB */
	size_t window; /* bytes of one read, except at the end of the text; at least 8, for
	                * regex_set_scan() at least 64 */
	/* min(window, size - from) bytes from `from` < size; borrowed until the next read. */
	struct span (*read)(struct regex_text *t, size_t from);
};

/* Text in memory: `struct text_span t; regex_text_of(&t, span)` and use &t.text. */
struct text_span {
	struct regex_text text;
	struct span span;
};
void regex_text_of(struct text_span *t, struct span span);

struct regex;

/* Compiles a pattern; the result lives in the arena.  NULL and *e, with the byte of the pattern,
 * from 1
 * ("missing closing ) at byte 3"). */
struct regex *regex_compile(struct span pattern, struct arena *a, struct err *e);

enum regex_found { REGEX_NONE, REGEX_FOUND, REGEX_LATE /* the deadline has passed */ };

/* Bytes [start, end) of a match. */
struct match {
	size_t start, end;
};

/* Finds the first match.  deadline_ms: of clock_ms(); *m is set if it returns REGEX_FOUND. */
enum regex_found regex_search(const struct regex *re, struct regex_text *t, int64_t deadline_ms,
                              struct match *m);

/*
 * Filters many patterns in one pass: a pattern can match only if its longest required literal text
 * occurs (one of each alternative), in any case of its letters.  possible[i] is set if it does, or
 * if the pattern requires none of at least four bytes; other elements are unchanged.  re[i] can be
 * NULL. The set borrows re, and lives in the arena.
 */
struct regex_set;
struct regex_set *regex_set_new(struct regex *const *re, size_t n, struct arena *a);
/* REGEX_LATE, or REGEX_NONE if complete. */
enum regex_found regex_set_scan(const struct regex_set *s, struct regex_text *t,
                                int64_t deadline_ms, bool *possible);
