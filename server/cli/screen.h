#pragma once
/*
 * What a command prints while it waits: lines, and on a terminal a block below them that is drawn
 * anew.  Lines of logs go to standard output, all else to standard error.  Nothing but text goes
 * into a pipe; nor to a terminal with TERM=dumb, or where NO_COLOR is set.  One thread.
 */
#include "base/arena.h"
#include "base/str.h"

struct screen {
	bool block;    /* standard error can be drawn on */
	bool terminal; /* standard output is one: what is printed there is made visible */
	bool lost;     /* standard output takes no more */
	size_t drawn;  /* lines of the block that stands there */
	struct str text;
};

void screen_init(struct screen *s);
/* The last block is wiped away. */
void screen_done(struct screen *s);
size_t screen_columns(void);
size_t screen_rows(void);

/* A line, which is visible text, on standard error; LF is added. */
void screen_say(struct screen *s, struct span line);
/* The same with the time of day before it. */
void screen_tell(struct screen *s, struct span line);
/* A line of a log on standard output. */
void screen_log(struct screen *s, const char *prefix, struct span line, bool cut);
/* What the block is from now on: whole lines. */
void screen_block(struct screen *s, struct span text);
/* Draw it, if it is not there. */
void screen_show(struct screen *s);

/* Bytes as they come, into lines.  Pure; no thread rule. */
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

/* Rows of text in columns.  Pure; no thread rule. */
enum { TABLE_COLUMNS = 9 };

struct table {
	struct arena arena;
	size_t columns, n; /* cells */
	const char **cell;
	size_t cap;
	size_t width[TABLE_COLUMNS];
};

/* With its heads: table_begin(&t, (const char *[]){ "NAME", "STATE" }, 2). */
void table_begin(struct table *t, const char *const heads[], size_t columns);
/* The next cell, made visible; "" is shown as "-".  A row after another. */
void table_cell(struct table *t, struct span text);
void table_number(struct table *t, int64_t n);
/* All of it; no blanks at the ends of lines.  What the last column has beyond so many columns of a
 * terminal is cut off; where less than 16 would stay, it goes on in the next line.  Appends. */
void table_write(struct str *out, const struct table *t, size_t columns);
void table_done(struct table *t);
