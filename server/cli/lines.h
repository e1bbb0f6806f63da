#pragma once
/* Bytes as they come, into lines.  Pure; no thread rule. */
#include "base/str.h"

struct lines {
	struct str line; /* what has come of the one that is not yet whole */
	bool cut;        /* more of it has come than is kept */
};

/* STR_INIT-like: lines of at most `max` bytes; what is beyond is passed over, and `cut` says so. */
#define LINES_INIT(max) ((struct lines){ STR_INIT(max), false })

/* A line, without its end (LF, CR LF). */
typedef void line_taker(void *arg, struct span line, bool cut);

void lines_feed(struct lines *l, struct span bytes, line_taker *take, void *arg);
/* The last one, if it has no end. */
void lines_end(struct lines *l, line_taker *take, void *arg);
void lines_done(struct lines *l);

/*
 * Text from elsewhere as it may stand on a terminal: control characters, what is no UTF-8, and
 * characters that turn the direction of writing, as \x1b or \u{202e}; tabs stay.  Appends.
 */
void visible_text(struct str *out, struct span text);
/* What a terminal would show of a line that goes back to its start (CR) now and then: what comes
 * behind the last of them, that at its end aside. */
struct span visible_part(struct span line);
/* Columns that it takes, or more.  Of visible text without tabs. */
size_t visible_width(struct span text);
/* As much of it as fits into so many columns. */
struct span visible_cut(struct span text, size_t columns);
