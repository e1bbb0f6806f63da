/* Prepares the text for libyaml, wipes its buffers, and explains its errors. */
#include <stdlib.h>

#include "base/str.h"
#include "base/yaml/yaml_internal.h"

#define NONE SIZE_MAX

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
	for (size_t i = 0; i < ARRAY_SIZE(BREAKS); i++) {
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

/* explicit_bzero, optimized for short scalars. */
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
	__asm__ volatile("" : : "r"(p) : "memory"); /* not removed by the compiler */
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
 * ---- tabs ----
 *
 * js-yaml accepts and libyaml refuses tabs in blank and comment lines, and as the first character
 * of a literal block scalar.  Block scalars are recognized line by line; in doubt, a line is not
 * changed, and libyaml reports its tabs.
 */

struct tabs {
	struct span text;
	struct arena *arena;
	char *copy;     /* NULL until something is changed */
	bool block;     /* inside a block scalar */
	bool literal;   /* of the kind `|` */
	size_t parent;  /* column of its key or list item */
	size_t indent;  /* of its text; 0: not known yet */
	bool marked;    /* a tab is one of the marks */
	size_t pending; /* first of the last lines of the block that have only tabs; or NONE */
};

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

/* A tab in the indentation ends a block scalar.  With blanks in its place the line could be a part
 * of it; a comment in this column cannot. */
static void tabs_end_block(struct tabs *t, size_t at)
{
	t->block = false;
	if (t->pending != NONE) {
		tabs_clean(t, t->pending, at);
		tabs_put(t, t->pending + span_chr(span_from(t->text, t->pending), '\t'),
		         COMMENT_MARK);
		t->marked = true;
	}
	t->pending = NONE;
}

/* `|` or `>` with indicators, followed by nothing but a comment. */
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

/* Is the value at `at` that of a key or list item, behind `: ` or `- `? */
static bool tabs_is_value(const struct tabs *t, size_t at)
{
	const char *p = t->text.p + at - 1;
	if (*p != ' ' && *p != '\t')
		return false;
	while (*p == ' ' || *p == '\t')
		p--;
	return *p == ':' || *p == '-';
}

/* The column of the list item or key to which the value at `value` belongs. */
static size_t tabs_parent(const struct tabs *t, const struct tabs_line *l, size_t value)
{
	size_t at = l->from + l->lead;
	size_t next = at;
	while (next < value && t->text.p[next] == '-' && t->text.p[next + 1] == ' ') {
		at = next++;
		while (t->text.p[next] == ' ')
			next++;
	}
	return (next < value ? next : at) - l->from;
}

/* Searches the header of a block scalar on this line. */
static void tabs_look_for_header(struct tabs *t, const struct tabs_line *l)
{
	for (size_t i = l->from + l->lead + 2; i < l->to; i++) {
		const char *p = t->text.p + i;
		if (p[0] == '#' && (p[-1] == ' ' || p[-1] == '\t'))
			return;
		struct span rest = { p, l->to - i };
		if ((p[0] != '|' && p[0] != '>') || !tabs_is_value(t, i) || !is_header_end(rest))
			continue;
		bool digit = (rest.n > 1 && is_digit(p[1])) || (rest.n > 2 && is_digit(p[2]));
		t->block = true;
		t->literal = p[0] == '|';
		t->parent = tabs_parent(t, l, i);
		t->indent = digit ? t->parent + 1 : 0;
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
			t->marked = true;
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
	size_t at = l->from + l->lead;
	bool empty = at == l->to || t->text.p[at] == '#';
	if (t->block) {
		if (tabs_in_block(t, l))
			return;
		if (empty && l->lead > l->blanks && t->pending == NONE)
			t->pending = l->from;
		tabs_end_block(t, empty ? at : l->from);
	} else if (empty) {
		tabs_clean(t, l->from, at);
	}
	if (!empty)
		tabs_look_for_header(t, l);
}

struct span text_without_tabs(struct span text, struct arena *a, bool *marked)
{
	struct tabs t = { .text = text, .arena = a, .pending = NONE };
	*marked = false;
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
	*marked = t.marked;
	return t.copy ? (struct span){ t.copy, text.n } : text;
}

/* ---- errors of libyaml, as sentences for users, at the place of the mistake ---- */

/* The mark of libyaml to report, and whether to search the mistake on its line, or before it. */
enum { AT_PROBLEM = 0, AT_CONTEXT = 1, LOOK_HERE = 2, LOOK_BACK = 4 };

/* clang-format off */
static const struct sentence {
	const char *problem;
	const char *context; /* NULL: any */
	unsigned where;
	const char *text;
} SENTENCES[] = {
	{ "mapping values are not allowed in this context", NULL, LOOK_BACK,
	  "a `:` with a value is not allowed here (wrong indentation, or text with a `: ` that needs quotes)" },
	{ "could not find expected ':'", NULL, AT_CONTEXT | LOOK_HERE,
	  "this line should be a key with a `:` (wrong indentation, or a `:` left out)" },
	{ "did not find expected key", "while parsing a block mapping", LOOK_HERE,
	  "a key is expected here: the indentation does not fit that of the keys before" },
	{ "did not find expected '-' indicator", NULL, LOOK_HERE,
	  "a list item with `- ` is expected here: the indentation does not fit that of the items before" },
	{ "did not find expected ',' or '}'", NULL, AT_PROBLEM,
	  "a `,` or `}` is expected here, in the mapping that begins with `{`" },
	{ "did not find expected ',' or ']'", NULL, AT_PROBLEM,
	  "a `,` or `]` is expected here, in the list that begins with `[`" },
	{ "found unexpected end of stream", "while scanning a quoted scalar", AT_CONTEXT,
	  "the quote that opens here is never closed" },
	{ "found unexpected document indicator", "while scanning a quoted scalar", AT_CONTEXT,
	  "the quote that opens here is not closed before the document ends" },
	{ "found unknown escape character", NULL, AT_PROBLEM,
	  "unknown escape after a backslash in a text in double quotes (a backslash itself is written `\\\\`)" },
	{ "did not find expected hexdecimal number", NULL, AT_PROBLEM,
	  "hexadecimal digits are expected in this escape" },
	{ "found invalid Unicode character escape code", NULL, AT_PROBLEM,
	  "this escape is no character (half of a surrogate pair, or above U+10FFFF)" },
	{ "block sequence entries are not allowed in this context", NULL, AT_PROBLEM,
	  "a list item with `- ` is not allowed here (it belongs on a line of its own)" },
	{ "block mapping entries are not allowed in this context", NULL, AT_PROBLEM,
	  "a `?` is not allowed here" },
	{ "mapping keys are not allowed in this context", NULL, AT_PROBLEM,
	  "a key is not allowed here" },
	{ "did not find expected node content", NULL, AT_PROBLEM,
	  "a value is expected here" },
	{ "did not find expected <document start>", NULL, AT_PROBLEM,
	  "there is text after the end of the document" },
	{ "found undefined tag handle", NULL, AT_PROBLEM,
	  "the prefix of this tag is not defined (text that begins with `!` needs quotes)" },
	{ "found unknown directive name", NULL, AT_CONTEXT,
	  "unknown directive: a line that begins with `%` can only be %YAML or %TAG" },
	{ "found incompatible YAML document", NULL, AT_PROBLEM,
	  "only %YAML 1.1 and 1.2 can be read" },
	{ "did not find expected alphabetic or numeric character", "while scanning an alias", AT_CONTEXT,
	  "an alias needs a name of letters, digits, `_` and `-` (text that begins with `*` needs quotes)" },
	{ "did not find expected alphabetic or numeric character", "while scanning an anchor", AT_CONTEXT,
	  "an anchor needs a name of letters, digits, `_` and `-` (text that begins with `&` needs quotes)" },
	{ "found a tab character where an indentation space is expected", NULL, AT_PROBLEM,
	  "tabs cannot be used for indentation" },
	{ "found a tab character that violates indentation", NULL, AT_PROBLEM,
	  "tabs cannot be used for indentation" },
	{ "did not find expected comment or line break", "while scanning a block scalar", AT_PROBLEM,
	  "nothing but a comment may follow `|` or `>` on their line" },
};
/* clang-format on */

static const struct sentence *find_sentence(const yaml_parser_t *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(SENTENCES); i++) {
		const struct sentence *s = &SENTENCES[i];
		bool fits =
		    s->context == NULL || (p->context && strcmp(s->context, p->context) == 0);
		if (fits && strcmp(s->problem, p->problem) == 0)
			return s;
	}
	return NULL;
}

/* Characters that are not allowed in YAML. */
static int bad_character(struct yaml_reader *y)
{
	const yaml_parser_t *p = &y->parser;
	struct place at = text_place(y->text, p->problem_offset);
	if (p->problem_value == 0xfeff) {
		return err_at(y->b.e, INVALID_PROTOCOL, at,
		              "a byte-order mark (U+FEFF) may only be at the start");
	}
	return err_at(y->b.e, INVALID_PROTOCOL, at, "control character U+%04X is not allowed",
	              (unsigned)p->problem_value);
}

/* "found character that cannot start any token" */
static int bad_start(struct yaml_reader *y, struct place at)
{
	size_t i = yaml_byte(y, &y->parser.problem_mark);
	char c = '\0';
	if (i < y->text.n)
		c = y->text.p[i];
	if (c == '\t')
		return err_at(y->b.e, INVALID_PROTOCOL, at, "tabs cannot be used for indentation");
	if (c == '%' || c == '@' || c == '`') {
		return err_at(y->b.e, INVALID_PROTOCOL, at,
		              "text that begins with `%c` needs quotes", c);
	}
	return err_at(y->b.e, INVALID_PROTOCOL, at, "a value cannot begin with this character");
}

int yaml_problem(struct yaml_reader *y)
{
	const yaml_parser_t *p = &y->parser;
	if (p->error == YAML_MEMORY_ERROR)
		abort();
	if (p->error == YAML_READER_ERROR)
		return bad_character(y);
	const struct sentence *s = find_sentence(p);
	unsigned where = s ? s->where : AT_PROBLEM;
	const yaml_mark_t *m = where & AT_CONTEXT ? &p->context_mark : &p->problem_mark;
	struct place at = { NULL, mark_line(m), mark_column(m) };
	const char *says = NULL;
	if (where & (LOOK_HERE | LOOK_BACK) && yaml_suspect(y, m, where & LOOK_BACK, &at, &says))
		return err_at(y->b.e, INVALID_PROTOCOL, at, "%s", says);
	if (s)
		return err_at(y->b.e, INVALID_PROTOCOL, at, "%s", s->text);
	if (strcmp(p->problem, "found character that cannot start any token") == 0)
		return bad_start(y, at);
	return err_at(y->b.e, INVALID_PROTOCOL, at, "not valid YAML: %s%s%s", p->problem,
	              p->context ? " " : "", p->context ? p->context : "");
}

/* libyaml notices some mistakes late: it reads the line as text, and reports the `:` of the next.
 */

enum { LINES_BACK = 2 };

static bool is_gap(char c)
{
	return c == ' ' || c == '\t';
}

/* Length of U+00A0, U+2000 to U+200A, U+202F, U+205F or U+3000, or 0. */
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

/* Each returns the offset of a mistake in the line, or NONE. */

static size_t find_false_blank(struct span line)
{
	for (size_t i = 0; i < line.n; i++) {
		struct span rest = span_from(line, i);
		if (false_blank(rest))
			return i;
		bool goes_on = is_gap(line.p[i]) || line.p[i] == '-' || line.p[i] == ':' ||
		               line.p[i] == '_' || is_alnum(line.p[i]);
		if (!goes_on)
			return NONE;
	}
	return NONE;
}

/* The offset after blanks and the `- ` of list items. */
static size_t yaml_text_content(struct span line)
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
	size_t from = yaml_text_content(line);
	size_t i = from;
	while (i < line.n && (is_alnum(line.p[i]) || line.p[i] == '_'))
		i++;
	return i > from ? i : NONE;
}

static size_t find_wide_colon(struct span line)
{
	size_t i = key_end(line);
	bool wide = i != NONE && span_starts(span_from(line, i), "\xef\xbc\x9a");
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
	size_t i = yaml_text_content(line);
	bool tight = i + 1 < line.n && line.p[i] == '-' && line.p[i + 1] != '-';
	return tight ? i : NONE;
}

static const struct {
	size_t (*find)(struct span line);
	bool here; /* only on the line of the problem */
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
		for (size_t i = 0; i < ARRAY_SIZE(SUSPECTS); i++) {
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
