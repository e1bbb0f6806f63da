/*
 * Tabs that js-yaml takes and libyaml refuses: in lines that are blank or have only a comment, and
 * as the first character of a literal block scalar.  Lines and columns stay what they are.
 *
 * Block scalars are told from the rest by their lines alone.  A doubt leaves a line as it is, and
 * libyaml then says what it says of tabs.
 */
#include "base/chars.h"
#include "base/yaml/yaml_input.h"

struct tabs {
	struct span text;
	struct arena *arena;
	char *copy;     /* NULL until something is changed */
	bool block;     /* inside a block scalar */
	bool literal;   /* of the kind `|` */
	size_t parent;  /* blanks before the line with its header */
	size_t indent;  /* of its text; 0: not known yet */
	bool first_tab; /* some literal block begins with a tab */
	size_t
	    pending; /* first of the last lines of the block that are blank but for tabs; or NONE */
};
#define NONE SIZE_MAX

/* One line without its end. */
struct tabs_line {
	size_t from, to;
	size_t blanks; /* at its start */
	size_t lead;   /* blanks and tabs at its start */
};

static void tabs_put(struct tabs *t, size_t at, char c)
{
	if (t->copy == NULL)
		t->copy = arena_dup(t->arena, t->text);
	t->copy[at] = c;
}

static void tabs_clean(struct tabs *t, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (t->text.p[i] == '\t')
			tabs_put(t, i, ' ');
}

/* A block scalar ends before a tab in the place of its indentation: no text of it may follow. */
static void tabs_end_block(struct tabs *t, size_t at)
{
	t->block = false;
	if (t->pending != NONE)
		tabs_clean(t, t->pending, at);
	t->pending = NONE;
}

/* Is this `|` or `>` with its indicators, behind which nothing comes but a comment? */
static bool is_header_end(struct span s)
{
	size_t i = 1;
	while (i < s.n && (is_digit(s.p[i]) || s.p[i] == '+' || s.p[i] == '-'))
		i++;
	size_t blanks = i;
	while (blanks < s.n && (s.p[blanks] == ' ' || s.p[blanks] == '\t'))
		blanks++;
	return blanks == s.n || (blanks > i && s.p[blanks] == '#');
}

/* Does a block scalar begin behind a `: ` or `- ` of this line? */
static void tabs_look_for_header(struct tabs *t, const struct tabs_line *l)
{
	for (size_t i = l->from + l->lead + 2; i < l->to; i++) {
		const char *p = t->text.p + i;
		if (p[0] == '#' && (p[-1] == ' ' || p[-1] == '\t'))
			return;
		bool opens =
		    (p[0] == '|' || p[0] == '>') && p[-1] == ' ' && (p[-2] == ':' || p[-2] == '-');
		struct span rest = { p, l->to - i };
		if (!opens || !is_header_end(rest))
			continue;
		bool digit = (rest.n > 1 && is_digit(p[1])) || (rest.n > 2 && is_digit(p[2]));
		t->block = true;
		t->literal = p[0] == '|';
		t->parent = l->blanks;
		t->indent = digit ? l->blanks + 1 : 0;
		return;
	}
}

/* A line of a block scalar; false if the scalar has ended before it. */
static bool tabs_in_block(struct tabs *t, const struct tabs_line *l)
{
	bool blank = l->lead == l->to - l->from;
	bool tab = l->lead > l->blanks;
	if (t->indent == 0 && l->blanks > t->parent && (tab || !blank)) {
		t->indent = l->blanks;
		t->pending = NONE;
		if (tab && t->literal) {
			tabs_put(t, l->from + l->blanks, TAB_MARK);
			t->first_tab = true;
		}
		return true;
	}
	if (blank) {
		if (tab && (t->indent == 0 || l->blanks < t->indent) && t->pending == NONE)
			t->pending = l->from;
		return true;
	}
	if (t->indent == 0 || l->blanks < t->indent)
		return false;
	t->pending = NONE;
	return true;
}

static void tabs_on_line(struct tabs *t, const struct tabs_line *l)
{
	if (t->block && tabs_in_block(t, l))
		return;
	tabs_end_block(t, l->from);
	size_t at = l->from + l->lead;
	if (at == l->to || t->text.p[at] == '#')
		tabs_clean(t, l->from, at);
	else
		tabs_look_for_header(t, l);
}

struct span text_without_tabs(struct span text, struct arena *a, bool *first_tab)
{
	struct tabs t = { .text = text, .arena = a, .pending = NONE };
	*first_tab = false;
	if (text.n == 0 || memchr(text.p, '\t', text.n) == NULL)
		return text;
	for (size_t i = 0; i < text.n; i++) {
		struct tabs_line l = { .from = i };
		while (i + l.blanks < text.n && text.p[i + l.blanks] == ' ')
			l.blanks++;
		l.lead = l.blanks;
		while (i + l.lead < text.n &&
		       (text.p[i + l.lead] == ' ' || text.p[i + l.lead] == '\t'))
			l.lead++;
		i += l.lead;
		while (i < text.n && text.p[i] != '\n' && text.p[i] != '\r')
			i++;
		l.to = i;
		tabs_on_line(&t, &l);
	}
	tabs_end_block(&t, text.n);
	*first_tab = t.first_tab;
	return t.copy ? (struct span){ t.copy, text.n } : text;
}
