#pragma once
/*
 * Regular expressions of schemas.  What schemas mostly have, `^[class]+$` and
 * `^[class][class]*$`, is two bitmaps; the rest is a POSIX extended regular
 * expression over bytes of UTF-8.  `$` is the very end of the text, never the place before
 * a final line break; no locale plays a part.  A backslash is for punctuation, outside
 * brackets: what ECMAScript knows beyond that (`\d`, `[\]]`) is refused.  `.` and
 * `[^a]` stand for characters of UTF-8; `[é]` and `é+`, of which a part is a single byte, are
 * refused.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct pattern;

/* Compile a pattern; it lives in the arena, but must be given to pattern_done.  `next`
 * becomes pattern_next().  NULL and *e (500) if it is none. */
struct pattern *pattern_new(struct arena *a, struct span source, struct pattern *next,
                            struct err *e);
struct pattern *pattern_next(const struct pattern *p);
void pattern_done(struct pattern *p);

/* The text ends in NUL and has none inside. */
bool pattern_matches(const struct pattern *p, struct span text);

/* Words for people, to be used when a text does not match: "may only have letters,
 * digits, _ and -".  Borrowed from the pattern. */
const char *pattern_words(const struct pattern *p);
/* Replace the words. */
void pattern_say(struct pattern *p, const char *words);
