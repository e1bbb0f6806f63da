#pragma once
/* Rows of text in columns.  Pure; no thread rule. */
#include "base/arena.h"

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
