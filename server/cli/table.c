#include "server/cli/table.h"

#include <assert.h>
#include <stdlib.h>

#include "server/cli/lines.h"

enum { CELL_MAX = 4096, NUMBER_TEXT = 24, LAST_MIN = 16, GAP = 2 };

static void add(struct table *t, const char *text)
{
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->cell = xrealloc(t->cell, t->cap * sizeof(*t->cell));
	}
	size_t width = visible_width(span_of(text));
	size_t *column = &t->width[t->n % t->columns];
	*column = width > *column ? width : *column;
	t->cell[t->n++] = text;
}

void table_begin(struct table *t, const char *const heads[], size_t columns)
{
	assert(columns > 0 && columns <= TABLE_COLUMNS);
	*t = (struct table){ .columns = columns };
	for (size_t i = 0; i < columns; i++)
		add(t, heads[i]);
}

void table_cell(struct table *t, struct span text)
{
	STR_AUTO out = STR_INIT((size_t)8 * CELL_MAX);
	text.n = text.n > CELL_MAX ? CELL_MAX : text.n;
	visible_text(&out, text);
	char *cell = arena_dup(&t->arena, out.n ? str_view(&out) : SPAN("-"));
	for (char *p = cell; (p = strchr(p, '\t'));)
		*p = ' ';
	add(t, cell);
}

void table_number(struct table *t, int64_t n)
{
	STR_AUTO out = STR_INIT(NUMBER_TEXT);
	str_int(&out, n);
	table_cell(t, str_view(&out));
}

static void put_last(struct str *out, struct span text, size_t room)
{
	bool fits = visible_width(text) <= room;
	str_span(out, fits ? text : visible_cut(text, room - 3));
	str_puts(out, fits ? "\n" : "...\n");
}

void table_write(struct str *out, const struct table *t, size_t columns)
{
	size_t before = 0; /* the last column */
	for (size_t i = 0; i + 1 < t->columns; i++)
		before += t->width[i] + GAP;
	size_t end = columns;
	while (end < before + LAST_MIN)
		end += columns + 1; /* the last column of a line, too, where a line follows */
	size_t room = end - before;
	for (size_t i = 0; i < t->n; i++) {
		struct span text = span_of(t->cell[i]);
		if ((i + 1) % t->columns == 0) {
			put_last(out, text, room);
			continue;
		}
		str_span(out, text);
		str_printf(out, "%*s", (int)(t->width[i % t->columns] - visible_width(text) + GAP),
		           "");
	}
}

void table_done(struct table *t)
{
	free(t->cell);
	arena_done(&t->arena);
}
