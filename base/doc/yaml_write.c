/*
 * Writes trees as YAML from which js-yaml, PyYAML (YAML 1.1) and YAML 1.2 readers get the same
 * values.  libyaml's emitter is not used: it leaves copies of secrets in freed memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/doc/yaml.h"
#include "base/enc.h"

/* libyaml and PyYAML look for the `:` of a simple key within 1024 characters. */
enum { STEP = 2, SIMPLE_KEY_MAX = 1000, WORD_MAX = 5 };

static void put_indent(struct str *out, size_t indent)
{
	while (indent--)
		str_char(out, ' ');
}

/* Returns true if the character has no special meaning inside of unquoted text. */
static bool is_harmless(char c)
{
	return is_alnum(c) || (c && strchr("_./+=@%$()<>^~;*|-", c));
}

static bool may_be_plain(struct span t)
{
	/* Words that are no text for a reader of YAML 1.1. */
	static const char *const WORDS[] = { "y",    "n",     "yes",  "no",   "on",  "off",
		                             "true", "false", "null", "none", "nan", "inf" };
	for (size_t i = 0; t.n <= WORD_MAX && i < ARRAY_SIZE(WORDS); i++)
		if (span_same(t, span_of(WORDS[i])))
			return false;
	/* Characters that cannot begin a number, a date or an indicator. */
	if (t.n == 0 || !class_has_char(t.p[0], "A-Za-z_/$"))
		return false;
	/* `e5` is a number for some readers. */
	if (class_has_char(t.p[0], "eE") && span_digits(span_from(t, 1)))
		return false;
	for (size_t i = 1; i < t.n; i++) {
		char next = ' ';
		if (i + 1 < t.n)
			next = t.p[i + 1];
		bool fits =
		    t.p[i] == ':' ? next != ' ' && next != ':' : t.p[i] == ' ' && is_harmless(next);
		if (!fits && !is_harmless(t.p[i]))
			return false;
	}
	return true;
}

/* Returns true if a reader takes the character for not printable, or for a line break. */
static bool needs_escape(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
	       c == 0xfffe || c == 0xffff;
}

static void put_quoted(struct str *out, struct span t)
{
	static const char FROM[] = "\"\\\n\t\r";
	static const char TO[] = "\"\\ntr";
	str_char(out, '"');
	const unsigned char *p = (const unsigned char *)t.p;
	unsigned n = 0;
	for (size_t i = 0; i < t.n; i += n) {
		uint32_t c = utf8_decode(p + i, t.n - i, &n);
		const char *at = c && c < 0x80 ? strchr(FROM, (int)c) : NULL;
		if (at) {
			str_char(out, '\\');
			str_char(out, TO[at - FROM]);
		} else if (needs_escape(c)) {
			str_printf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
		} else {
			str_put(out, t.p + i, n);
		}
	}
	str_char(out, '"');
}

/* Several lines; the first has text and does not begin with white space. */
static bool may_be_literal(struct span t)
{
	if (t.n < 2 || !memchr(t.p, '\n', t.n) || class_has_char(t.p[0], " \t\n"))
		return false;
	const unsigned char *p = (const unsigned char *)t.p;
	unsigned n = 0;
	for (size_t i = 0; i < t.n; i += n) {
		uint32_t c = utf8_decode(p + i, t.n - i, &n);
		if (c != '\n' && c != '\t' && needs_escape(c))
			return false;
	}
	return true;
}

/* `|` and the lines, without the last line break. */
static void put_literal(struct str *out, struct span t, size_t indent)
{
	bool ends = t.p[t.n - 1] == '\n';
	bool more = ends && t.p[t.n - 2] == '\n';
	str_puts(out, more ? "|+" : ends ? "|" : "|-");
	if (ends)
		t.n--;
	for (bool last = false; !last;) {
		last = span_chr(t, '\n') == t.n;
		struct span line = span_next(&t, '\n');
		str_char(out, '\n');
		if (line.n) {
			put_indent(out, indent);
			str_span(out, line);
		}
	}
}

/* Writes the number with a point and a signed exponent, as YAML 1.1 requires. */
static void put_real(struct str *out, double v)
{
	char text[40];
	if (isnan(v)) {
		str_puts(out, ".nan");
		return;
	}
	if (isinf(v)) {
		str_puts(out, v < 0 ? "-.inf" : ".inf");
		return;
	}
	(void)number_text(text, v);
	if (!strchr(text, '.') || strchr(text, 'e')) {
		for (int digits = 1; digits <= 17; digits++) {
			(void)snprintf(text, sizeof(text), "%.*e", digits, v);
			if (strtod(text, NULL) == v)
				break;
		}
	}
	str_puts(out, text);
}

/* The value is on the line of its key or dash. */
static bool is_inline(const struct node *n)
{
	return (n->type != NODE_LIST && n->type != NODE_MAP) || n->n == 0;
}

static void put_key(struct str *out, struct span key, size_t indent)
{
	STR_AUTO quoted = STR_INIT(out->max);
	bool plain = may_be_plain(key);
	if (!plain)
		put_quoted(&quoted, key);
	struct span text = plain ? key : str_view(&quoted);
	bool simple = text.n <= SIMPLE_KEY_MAX;
	if (!simple)
		str_puts(out, "? ");
	str_span(out, text);
	if (!simple) {
		str_char(out, '\n');
		put_indent(out, indent);
	}
	str_char(out, ':');
}

static void write_scalar(struct str *out, const struct node *n, size_t indent)
{
	if (n->type == NODE_REAL)
		put_real(out, n->real);
	else if (n->type != NODE_TEXT && n->type != NODE_DATE)
		node_json(out, n);
	else if (may_be_plain(node_span(n)))
		str_span(out, node_span(n));
	else if (may_be_literal(node_span(n)))
		put_literal(out, node_span(n), indent ? indent : STEP);
	else
		put_quoted(out, node_span(n));
	str_char(out, '\n');
}

/* The caller has indented the first line. */
static void write_node(struct str *out, const struct node *n, size_t indent)
{
	if (is_inline(n)) {
		write_scalar(out, n, indent);
		return;
	}
	for (uint32_t i = 0; i < n->n; i++) {
		if (i)
			put_indent(out, indent);
		if (n->type == NODE_LIST) {
			str_puts(out, "- ");
			write_node(out, &n->item[i], indent + STEP);
			continue;
		}
		const struct member *m = &n->member[i];
		put_key(out, member_key(m), indent);
		if (is_inline(&m->value)) {
			str_char(out, ' ');
		} else {
			str_char(out, '\n');
			put_indent(out, indent + STEP);
		}
		write_node(out, &m->value, indent + STEP);
	}
}

void yaml_write(struct str *out, const struct node *n)
{
	write_node(out, n, 0);
}
