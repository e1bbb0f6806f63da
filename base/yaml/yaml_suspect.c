/*
 * What libyaml notices late: the mistake stands on a line of which it made a part of a text, and
 * its problem is the `:` of the next line.
 */
#include "base/chars.h"
#include "base/yaml/yaml_reader.h"

enum { LINES_BACK = 2 };
#define NONE SIZE_MAX

static bool is_gap(char c)
{
	return c == ' ' || c == '\t';
}

/* Length of a character that looks like a blank but is none, or 0: U+00A0, U+2000 to U+200A,
 * U+202F, U+205F, U+3000. */
static size_t false_blank(struct span t)
{
	if (span_starts(t, "\xc2\xa0"))
		return 2;
	if (span_starts(t, "\xe2\x80\xaf") || span_starts(t, "\xe2\x81\x9f") ||
	    span_starts(t, "\xe3\x80\x80"))
		return 3;
	bool wide = t.n > 2 && span_starts(t, "\xe2\x80");
	return wide && (unsigned char)t.p[2] >= 0x80 && (unsigned char)t.p[2] <= 0x8a ? 3 : 0;
}

/* Each of these: offset in the line of what is wrong, or NONE. */

static size_t find_false_blank(struct span line)
{
	for (size_t i = 0; i < line.n; i++) {
		struct span rest = { line.p + i, line.n - i };
		if (false_blank(rest))
			return i;
		bool goes_on = is_gap(line.p[i]) || line.p[i] == '-' || line.p[i] == ':' ||
		               line.p[i] == '_' || is_alnum(line.p[i]);
		if (!goes_on)
			return NONE;
	}
	return NONE;
}

/* What remains of the line behind blanks and the `- ` of list items. */
static size_t content(struct span line)
{
	size_t i = 0;
	while (i < line.n &&
	       (is_gap(line.p[i]) || (line.p[i] == '-' && i + 1 < line.n && is_gap(line.p[i + 1]))))
		i++;
	return i;
}

/* The end of a key of letters, digits and `_`. */
static size_t key_end(struct span line)
{
	size_t from = content(line);
	size_t i = from;
	while (i < line.n && (is_alnum(line.p[i]) || line.p[i] == '_'))
		i++;
	return i > from ? i : NONE;
}

static size_t find_wide_colon(struct span line)
{
	size_t i = key_end(line);
	bool wide =
	    i != NONE && span_starts((struct span){ line.p + i, line.n - i }, "\xef\xbc\x9a");
	return wide ? i : NONE;
}

/* `instances:1`, but not `http://` */
static size_t find_tight_colon(struct span line)
{
	size_t i = key_end(line);
	bool tight = i != NONE && i + 1 < line.n && line.p[i] == ':' && !is_gap(line.p[i + 1]) &&
	             line.p[i + 1] != ':' && line.p[i + 1] != '/';
	return tight ? i : NONE;
}

/* `-echo`, but not `--- ` */
static size_t find_tight_dash(struct span line)
{
	size_t i = content(line);
	bool tight = i + 1 < line.n && line.p[i] == '-' && line.p[i + 1] != '-';
	return tight ? i : NONE;
}

static const struct {
	size_t (*find)(struct span line);
	bool here; /* only on the very line of the problem */
	const char *text;
} SUSPECTS[] = {
	{ find_false_blank, false,
	  "this character looks like a blank, but is another one (a no-break space, say): write a "
	  "blank" },
	{ find_wide_colon, false, "this is a full-width colon: write `:` and a blank" },
	{ find_tight_colon, false, "a blank is missing behind this `:`" },
	{ find_tight_dash, true, "a blank is missing behind this `-`" },
};

static bool is_break(char c)
{
	return c == '\n' || c == '\r';
}

/* The line before the one that starts at `from`; false if there is none. */
static bool line_before(struct span text, size_t from, struct span *line)
{
	size_t end = from;
	if (end == 0)
		return false;
	end -= end > 1 && text.p[end - 1] == '\n' && text.p[end - 2] == '\r' ? 2 : 1;
	size_t start = end;
	while (start > 0 && !is_break(text.p[start - 1]))
		start--;
	*line = (struct span){ text.p + start, end - start };
	return true;
}

bool yaml_suspect(struct yaml_reader *y, const yaml_mark_t *m, bool back, struct place *at,
                  const char **says)
{
	struct span text = y->text;
	size_t from = yaml_byte(y, m);
	while (from > 0 && !is_break(text.p[from - 1]))
		from--;
	size_t to = from;
	while (to < text.n && !is_break(text.p[to]))
		to++;
	struct span line = { text.p + from, to - from };
	for (int lines = 0; lines <= (back ? LINES_BACK : 0); lines++) {
		for (size_t i = 0; i < sizeof(SUSPECTS) / sizeof(SUSPECTS[0]); i++) {
			size_t found = SUSPECTS[i].here && lines ? NONE : SUSPECTS[i].find(line);
			if (found == NONE)
				continue;
			*at = text_place(text, (size_t)(line.p - text.p) + found);
			*says = SUSPECTS[i].text;
			return true;
		}
		if (!line_before(text, (size_t)(line.p - text.p), &line))
			break;
	}
	return false;
}
