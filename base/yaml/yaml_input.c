/* What libyaml's parser is given, and that nothing of it is left in memory. */
#include "base/yaml/yaml_input.h"

#include <stdlib.h>

#include "base/chars.h"

bool text_is_ascii(struct span t)
{
	size_t i = 0;
	uint64_t all = 0;
	for (; i + 8 <= t.n; i += 8) {
		uint64_t word = 0;
		memcpy(&word, t.p + i, 8);
		all |= word;
	}
	for (; i < t.n; i++)
		all |= (unsigned char)t.p[i];
	return (all & 0x8080808080808080u) == 0;
}

struct span text_without_breaks(struct span text, struct arena *a)
{
	static const struct {
		const char *from, *to;
	} BREAKS[] = {
		{ "\xc2\x85", "\xc2\xa0" },
		{ "\xe2\x80\xa8", "\xe2\x80\xa7" },
		{ "\xe2\x80\xa9", "\xe2\x80\xa7" },
	};
	char *copy = NULL;
	for (size_t i = 0; i < sizeof(BREAKS) / sizeof(BREAKS[0]); i++) {
		size_t n = strlen(BREAKS[i].from);
		const char *at = text.p;
		const char *end = text.p + text.n;
		while ((at = memmem(at, (size_t)(end - at), BREAKS[i].from, n))) {
			if (copy == NULL)
				copy = arena_dup(a, text);
			memcpy(copy + (at - text.p), BREAKS[i].to, n);
			at += n;
		}
	}
	return copy ? (struct span){ copy, text.n } : text;
}

void parser_open(yaml_parser_t *p, struct span text)
{
	if (!yaml_parser_initialize(p))
		abort();
	yaml_parser_set_encoding(p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(p, (const unsigned char *)text.p, text.n);
}

void parser_close(yaml_parser_t *p)
{
	yaml_parser_delete(p);
}

/* As explicit_bzero; most scalars are so short that calling it costs more. */
static void wipe_scalar(unsigned char *p, size_t n)
{
	if (n > 16) {
		explicit_bzero(p, n);
		return;
	}
	if (n >= 8) {
		memset(p, 0, 8);
		memset(p + n - 8, 0, 8);
	} else {
		for (size_t i = 0; i < n; i++)
			p[i] = 0;
	}
	__asm__ volatile("" : : "r"(p) : "memory"); /* somebody may look */
}

void event_wipe(const yaml_event_t *ev)
{
	if (ev->type == YAML_SCALAR_EVENT)
		wipe_scalar(ev->data.scalar.value, ev->data.scalar.length);
}

void parser_wipe(yaml_parser_t *p, size_t n)
{
	size_t raw = (size_t)(p->raw_buffer.end - p->raw_buffer.start);
	size_t buffer = (size_t)(p->buffer.end - p->buffer.start);
	n++; /* a final NUL */
	explicit_bzero(p->raw_buffer.start, raw < n ? raw : n);
	explicit_bzero(p->buffer.start, buffer < n ? buffer : n);
	for (yaml_token_t *t = p->tokens.head; t != p->tokens.tail; t++) {
		if (t->type == YAML_SCALAR_TOKEN)
			explicit_bzero(t->data.scalar.value, t->data.scalar.length);
	}
}

/*
 * Tabs that js-yaml takes and libyaml refuses: in lines that are blank or have only a comment, and
 * as the first character of a literal block scalar.  Lines and columns stay what they are.
 *
 * Block scalars are told from the rest by their lines alone.  A doubt leaves a line as it is, and
 * libyaml then says what it says of tabs.
 */

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
