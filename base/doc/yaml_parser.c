/* Prepares the text for libyaml, and explains its errors. */
#include <stdlib.h>

#include "base/doc/yaml_internal.h"
#include "base/enc.h"
#include "base/str.h"

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
		tabs_put(t, span_skip_class(t->text, t->pending, "^\t"), COMMENT_MARK);
		t->marked = true;
	}
	t->pending = NONE;
}

/* Searches the header of a block scalar on this line: behind `: ` or `- `, a `|` or `>` with
 * indicators, followed by nothing but a comment. */
static void tabs_look_for_header(struct tabs *t, const struct tabs_line *l)
{
	struct span line = span_to(t->text, l->to);
	size_t first = l->from + l->lead;
	for (size_t i = first + 2; i < l->to; i++) {
		const char *p = line.p + i;
		if (p[-1] != ' ' && p[-1] != '\t')
			continue;
		if (*p == '#')
			return;
		if (*p != '|' && *p != '>')
			continue;
		const char *before = p - 1;
		while (*before == ' ' || *before == '\t')
			before--;
		size_t indicators = span_skip_class(line, i + 1, "0-9+-");
		size_t rest = span_skip_class(line, indicators, " \t");
		bool ends = rest == line.n || (rest > indicators && line.p[rest] == '#');
		if ((*before != ':' && *before != '-') || !ends)
			continue;
		/* The column of the list item or key to which the value belongs. */
		size_t parent = first;
		size_t next = first;
		while (next < i && line.p[next] == '-' && line.p[next + 1] == ' ') {
			parent = next;
			next = span_skip_class(line, next + 1, " ");
		}
		bool digit = span_skip_class(span_to(line, indicators), i + 1, "+-") < indicators;
		t->block = true;
		t->literal = *p == '|';
		t->parent = (next < i ? next : parent) - l->from;
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

struct span text_without_tabs(struct span text, struct arena *a, bool *marked)
{
	struct tabs t = { .text = text, .arena = a, .pending = NONE };
	*marked = false;
	if (text.n == 0 || memchr(text.p, '\t', text.n) == NULL)
		return text;
	for (size_t i = 0; i < text.n; i++) {
		size_t begin = span_skip_class(text, i, " \t");
		struct tabs_line l = { .from = i,
			               .to = span_skip_class(text, begin, "^\r\n"),
			               .blanks = span_skip_class(text, i, " ") - i,
			               .lead = begin - i };
		bool empty = begin == l.to || text.p[begin] == '#';
		i = l.to;
		if (t.block && tabs_in_block(&t, &l))
			continue;
		if (t.block) {
			if (empty && l.lead > l.blanks && t.pending == NONE)
				t.pending = l.from;
			tabs_end_block(&t, empty ? begin : l.from);
		} else if (empty) {
			tabs_clean(&t, l.from, begin);
		}
		if (!empty)
			tabs_look_for_header(&t, &l);
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

/* "found character that cannot start any token" */
static int yaml_bad_start(struct yaml_reader *y, struct place at)
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

/* libyaml notices some mistakes late: it reads the line as text, and reports the `:` of the next.
 */
enum { LINES_BACK = 2 };

/* The offset of a common mistake in the line, and a sentence; or NONE.  `here`: the problem was
 * noticed on this line. */
static size_t yaml_mistake(struct span line, bool here, const char **says)
{
	/* The key is behind blanks and the `- ` of list items: letters, digits and `_`. */
	size_t key = span_skip_class(line, 0, " \t");
	while (key + 1 < line.n && line.p[key] == '-' && class_has_char(line.p[key + 1], " \t"))
		key = span_skip_class(line, key + 1, " \t");
	size_t end = span_skip_class(line, key, "A-Za-z0-9_");
	struct span rest = span_from(line, end);
	size_t strange = span_skip_class(line, 0, " \t:A-Za-z0-9_-");
	unsigned width;
	uint32_t c = strange == line.n ? 0
	                               : utf8_decode((const unsigned char *)line.p + strange,
	                                             line.n - strange, &width);
	if (c == 0xa0 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f || c == 0x205f ||
	    c == 0x3000) {
		*says = "this character looks like a blank, but is another one (a no-break space, "
			"say): write a blank";
		return strange;
	}
	if (end > key && span_starts(rest, "\xef\xbc\x9a")) {
		*says = "this is a full-width colon: write `:` and a blank";
		return end;
	}
	/* `instances:1`, but not `http://` */
	if (end > key && rest.n > 1 && rest.p[0] == ':' && !class_has_char(rest.p[1], " \t:/")) {
		*says = "a blank is missing behind this `:`";
		return end;
	}
	/* `-echo`, but not `--- ` */
	if (here && rest.n > 1 && end == key && rest.p[0] == '-' && rest.p[1] != '-') {
		*says = "a blank is missing behind this `-`";
		return key;
	}
	return NONE;
}

/* Searches a common mistake on the line of the mark, or (back) on the lines before it as well; if
 * there is one, sets its place and its sentence. */
static void yaml_suspect(struct yaml_reader *y, const yaml_mark_t *m, bool back, struct place *at,
                         const char **says)
{
	struct span text = y->text;
	size_t from = yaml_byte(y, m);
	for (int lines = 0; lines <= (back ? LINES_BACK : 0); lines++) {
		while (from > 0 && !class_has_char(text.p[from - 1], "\r\n"))
			from--;
		struct span line = { text.p + from, span_skip_class(text, from, "^\r\n") - from };
		size_t found = yaml_mistake(line, lines == 0, says);
		if (found != NONE) {
			*at = text_place(text, from + found);
			return;
		}
		if (from == 0)
			return;
		/* Goes back over the line break. */
		from -= from > 1 && memcmp(text.p + from - 2, "\r\n", 2) == 0 ? 2 : 1;
	}
}

int yaml_problem(struct yaml_reader *y)
{
	const yaml_parser_t *p = &y->parser;
	if (p->error == YAML_MEMORY_ERROR)
		abort();
	if (p->error == YAML_READER_ERROR) {
		struct place at = text_place(y->text, p->problem_offset);
		if (p->problem_value == 0xfeff)
			return err_at(y->b.e, INVALID_PROTOCOL, at, YAML_MARK_INSIDE);
		return err_at(y->b.e, INVALID_PROTOCOL, at,
		              "control character U+%04X is not allowed",
		              (unsigned)p->problem_value);
	}
	const struct sentence *s = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(SENTENCES) && !s; i++) {
		const char *context = SENTENCES[i].context;
		if (strcmp(SENTENCES[i].problem, p->problem) == 0 &&
		    (!context || (p->context && strcmp(context, p->context) == 0)))
			s = &SENTENCES[i];
	}
	unsigned where = s ? s->where : AT_PROBLEM;
	const yaml_mark_t *m = where & AT_CONTEXT ? &p->context_mark : &p->problem_mark;
	struct place at = mark_place(m);
	const char *says = s ? s->text : NULL;
	if (where & (LOOK_HERE | LOOK_BACK))
		yaml_suspect(y, m, where & LOOK_BACK, &at, &says);
	if (says)
		return err_at(y->b.e, INVALID_PROTOCOL, at, "%s", says);
	if (strcmp(p->problem, "found character that cannot start any token") == 0)
		return yaml_bad_start(y, at);
	return err_at(y->b.e, INVALID_PROTOCOL, at, "not valid YAML: %s%s%s", p->problem,
	              p->context ? " " : "", p->context ? p->context : "");
}
