#pragma once
/*
 * What a command prints while it waits: lines, and on a terminal a block below them that is drawn
 * anew.  Lines of logs go to standard output, all else to standard error.  Nothing but text goes
 * into a pipe; nor to a terminal with TERM=dumb, or where NO_COLOR is set.  One thread.
 */
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
