/*
 * Writes trees as YAML from which js-yaml, PyYAML (YAML 1.1) and YAML 1.2 readers get the same
 * values.  libyaml's emitter is not used: it leaves copies of secrets in freed memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/enc.h"
#include "base/yaml/yaml.h"

/* libyaml and PyYAML look for the `:` of a simple key within 1024 characters. */
enum { STEP = 2, SIMPLE_KEY_MAX = 1000 };

static void write_node(struct str *out, const struct node *n, size_t indent);

static void put_indent(struct str *out, size_t indent)
{
	while (indent--)
		str_char(out, ' ');
}

/* Characters without a special meaning inside of unquoted text. */
static bool yaml_put_is_harmless(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("_./+-=@%$()<>^~;*|", c));
}

/* Characters that cannot begin a number, a date or an indicator. */
static bool is_harmless_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/' || c == '$';
}

/* Not text for a reader of YAML 1.1. */
static bool is_reserved(struct span t)
{
	static const char *const WORDS[] = { "y",    "n",     "yes",  "no",   "on",  "off",
		                             "true", "false", "null", "none", "nan", "inf" };
	for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++) {
		if (t.n == strlen(WORDS[i]) && strncasecmp(t.p, WORDS[i], t.n) == 0)
			return true;
	}
	return false;
}

/* `e5` is a number for some readers. */
static bool is_exponent(struct span t)
{
	size_t i = 1;
	while (i < t.n && t.p[i] >= '0' && t.p[i] <= '9')
		i++;
	return (t.p[0] == 'e' || t.p[0] == 'E') && i > 1 && i == t.n;
}

static bool may_be_plain(struct span t)
{
	if (t.n == 0 || is_exponent(t) || !is_harmless_start(t.p[0]) || is_reserved(t))
		return false;
	for (size_t i = 1; i < t.n; i++) {
		char c = t.p[i];
		char next = ' ';
		if (i + 1 < t.n)
			next = t.p[i + 1];
		if (yaml_put_is_harmless(c))
			continue;
		if (c == ':' ? next != ' ' && next != ':' : c == ' ' && yaml_put_is_harmless(next))
			continue;
		return false;
	}
	return true;
}

/* Not printable, or a line break, for a reader. */
static bool needs_escape(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
	       c == 0xfffe || c == 0xffff;
}

/* The short escape of a character, or 0. */
static char yaml_put_short_escape(uint32_t c)
{
	static const char FROM[] = "\"\\\n\t\r";
	static const char TO[] = "\"\\ntr";
	const char *at = c && c < 0x80 ? strchr(FROM, (int)c) : NULL;
	if (at == NULL)
		return '\0';
	return TO[at - FROM];
}

static void put_quoted(struct str *out, struct span t)
{
	str_char(out, '"');
	const unsigned char *p = (const unsigned char *)t.p;
	unsigned n = 0;
	for (size_t i = 0; i < t.n; i += n) {
		uint32_t c = utf8_decode(p + i, t.n - i, &n);
		char esc = yaml_put_short_escape(c);
		if (esc) {
			str_char(out, '\\');
			str_char(out, esc);
		} else if (needs_escape(c)) {
			char code[8];
			(void)snprintf(code, sizeof(code), c < 0x100 ? "\\x%02x" : "\\u%04x", c);
			str_puts(out, code);
		} else {
			str_put(out, t.p + i, n);
		}
	}
	str_char(out, '"');
}

/* Several lines; the first has text and does not begin with white space. */
static bool may_be_literal(struct span t)
{
	if (t.n < 2 || !memchr(t.p, '\n', t.n) || strchr(" \t\n", t.p[0]))
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

static void yaml_put_text(struct str *out, struct span t, size_t indent)
{
	if (may_be_plain(t))
		str_span(out, t);
	else if (may_be_literal(t))
		put_literal(out, t, indent ? indent : STEP);
	else
		put_quoted(out, t);
}

/* With a point and a signed exponent, as YAML 1.1 requires. */
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
	STR_AUTO text = STR_INIT(out->max);
	if (may_be_plain(key))
		str_span(&text, key);
	else
		put_quoted(&text, key);
	bool simple = text.n <= SIMPLE_KEY_MAX;
	if (!simple)
		str_puts(out, "? ");
	str_span(out, str_view(&text));
	if (!simple) {
		str_char(out, '\n');
		put_indent(out, indent);
	}
	str_char(out, ':');
}

/* Both: the caller has indented the first line. */
static void write_mapping(struct str *out, const struct node *n, size_t indent)
{
	for (uint32_t i = 0; i < n->n; i++) {
		const struct member *m = &n->member[i];
		if (i)
			put_indent(out, indent);
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

static void write_sequence(struct str *out, const struct node *n, size_t indent)
{
	for (uint32_t i = 0; i < n->n; i++) {
		if (i)
			put_indent(out, indent);
		str_puts(out, "- ");
		write_node(out, &n->item[i], indent + STEP);
	}
}

static void write_scalar(struct str *out, const struct node *n, size_t indent)
{
	switch ((enum node_type)n->type) {
	case NODE_NULL:
	case NODE_TYPE_MAX:
	case NODE_BOOL:
	case NODE_INT:
		node_json(out, n);
		break;
	case NODE_REAL:
		put_real(out, n->real);
		break;
	case NODE_TEXT:
	case NODE_DATE:
		yaml_put_text(out, node_span(n), indent);
		break;
	case NODE_LIST:
		str_puts(out, "[]");
		break;
	case NODE_MAP:
		str_puts(out, "{}");
		break;
	}
	str_char(out, '\n');
}

static void write_node(struct str *out, const struct node *n, size_t indent)
{
	if (is_inline(n))
		write_scalar(out, n, indent);
	else if (n->type == NODE_MAP)
		write_mapping(out, n, indent);
	else
		write_sequence(out, n, indent);
}

void yaml_write(struct str *out, const struct node *n)
{
	write_node(out, n, 0);
}
