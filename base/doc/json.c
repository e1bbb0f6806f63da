/* Reads JSON with positions into a tree.  One pass, no recursion: open containers are in the
 * builder. */
#include "base/doc/tree.h"

#include <math.h>
#include <stdlib.h>

#include "base/doc/doc.h"
#include "base/enc.h"
#include "base/str.h"

struct json {
	struct build b;
	struct span text;
	size_t i;       /* the next byte */
	bool one_line;  /* of ASCII, so that columns are bytes */
	size_t counted; /* lines and columns are counted up to here: */
	struct place at;
	struct place comment; /* of the first comment; line 0: none */
	bool syntax;          /* the text is not JSON */
};

static bool json_one_line(struct span text)
{
	size_t i = 0;
	bool others = false;
	for (uint64_t v; i + sizeof(v) <= text.n && !others; i += sizeof(v)) {
		memcpy(&v, text.p + i, sizeof(v)); /* finds bytes from 0x80 on, or below a blank */
		others = ((v | (v - 0x2020202020202020u)) & 0x8080808080808080u) != 0;
	}
	for (; i < text.n && !others; i++)
		others = text.p[i] < ' ' || text.p[i] > '~';
	return !others;
}

/* Line and column of a byte; offsets of consecutive calls ascend. */
static struct place json_place_of(struct json *j, size_t offset)
{
	if (offset > j->counted) {
		if (j->one_line)
			j->at.column += (unsigned)(offset - j->counted);
		else
			place_advance(&j->at, j->text, j->counted, offset);
		j->counted = offset;
	}
	return j->at;
}

/* The text is not JSON; it can be YAML. */
static int json_bad_syntax(struct json *j, size_t offset, const char *what)
{
	j->syntax = true;
	return err_at(j->b.e, INVALID_PROTOCOL, text_place(j->text, offset), "not valid JSON: %s",
	              what);
}

/* The text is JSON, but is refused. */
static int json_refuse(struct json *j, size_t offset, const char *what)
{
	struct place at = text_place(j->text, offset);
	return err_at(j->b.e, INVALID_PROTOCOL, build_place(&j->b, at.line, at.column), "%s", what);
}

static char json_byte_at(const struct json *j, size_t i)
{
	if (i >= j->text.n)
		return '\0';
	return j->text.p[i];
}

static char json_peek(const struct json *j)
{
	return json_byte_at(j, j->i);
}

/* Skips a comment; the slash is next. */
static int skip_comment(struct json *j)
{
	size_t from = j->i;
	char kind = json_byte_at(j, j->i + 1);
	if (kind != '/' && kind != '*')
		return json_bad_syntax(j, from, "a `/` may only begin a comment");
	if (j->comment.line == 0)
		j->comment = json_place_of(j, from);
	size_t end = kind == '/' ? span_skip_class(j->text, from, "^\r\n")
	                         : span_find(j->text, from + 2, "*/");
	if (end == SIZE_MAX)
		return json_bad_syntax(j, from, "the comment that begins here is never closed");
	j->i = kind == '/' ? end : end + 2;
	return 0;
}

static int json_skip_space(struct json *j)
{
	for (;;) {
		char c = json_peek(j);
		if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
			j->i++;
		else if (c != '/')
			return 0;
		else if (skip_comment(j) < 0)
			return -1;
	}
}

static int json_escape(struct json *j, char **out)
{
	size_t from = j->i;
	int c = json_escaped(j->text, &j->i);
	if (c == ESCAPE_UNKNOWN)
		return json_bad_syntax(j, from, "unknown escape after a backslash");
	if (c == ESCAPE_NO_DIGITS)
		return json_bad_syntax(j, from, "`\\u` needs four hexadecimal digits");
	if (c == 0)
		return json_refuse(j, from, "the character U+0000 (NUL) is not allowed in text");
	if (c < 0)
		return json_refuse(j, from,
		                   "this escape is half of a surrogate pair; the other half is "
		                   "missing");
	*out += utf8_put(*out, (uint32_t)c);
	return 0;
}

/* Bytes that end a string or need attention. */
static const bool STRING_STOP[256] = { [0 ... 0x1f] = true, ['"'] = true, ['\\'] = true };

/* The closing quote of the string at j->i.  *plain: the string has no escapes. */
static int json_string_end(struct json *j, size_t *end, bool *plain)
{
	const unsigned char *p = (const unsigned char *)j->text.p;
	size_t n = j->text.n;
	size_t i = j->i + 1;
	*plain = true;
	for (;;) {
		while (i < n && !STRING_STOP[p[i]])
			i++;
		if (i >= n)
			return json_bad_syntax(j, j->i,
			                       "the quote that opens here is never closed");
		if (p[i] == '"')
			break;
		if (p[i] < 0x20)
			return json_bad_syntax(
			    j, i,
			    "line breaks, tabs and control characters in text must "
			    "be written as escapes (or the closing quote is missing)");
		*plain = false;
		i += 2; /* the escaped character does not end the string */
	}
	*end = i;
	return 0;
}

static int json_read_string(struct json *j, struct span *value)
{
	size_t end = 0;
	bool plain;
	if (json_string_end(j, &end, &plain) < 0)
		return -1;
	char *p = arena_alloc(j->b.arena, end - j->i);
	char *out = p;
	j->i++;
	while (j->i < end) {
		const char *from = j->text.p + j->i;
		const char *slash = plain ? NULL : memchr(from, '\\', end - j->i);
		size_t n = slash ? (size_t)(slash - from) : end - j->i;
		bytes_copy(out, from, n);
		out += n;
		j->i += n;
		if (slash && json_escape(j, &out) < 0)
			return -1;
	}
	*out = '\0';
	j->i = end + 1;
	*value = (struct span){ p, (size_t)(out - p) };
	return 0;
}

static int json_read_number(struct json *j, struct node *n)
{
	const char *from = j->text.p + j->i;
	const char *end = json_number_end(from, j->text.p + j->text.n);
	if (end == NULL)
		return json_bad_syntax(j, j->i, "a number is written wrongly");
	struct span t = { from, (size_t)(end - from) };
	(void)plain_float(n, t); /* every number of JSON is a float of YAML */
	if (n->type == NODE_REAL && !isfinite(n->real))
		return json_refuse(j, j->i, "this number is too large: not a finite number");
	spelling_mark(n, t);
	j->i += t.n;
	return 0;
}

static int json_read_word(struct json *j, struct node *n)
{
	struct span rest = span_from(j->text, j->i);
	bool yes = span_starts(rest, "true");
	bool no = span_starts(rest, "false");
	if (!yes && !no && !span_starts(rest, "null"))
		return json_bad_syntax(
		    j, j->i,
		    "a value is expected here: text in double quotes, a number, true, false, "
		    "null, a list or an object");
	n->type = yes || no ? NODE_BOOL : NODE_NULL;
	n->boolean = yes;
	j->i += no ? strlen("false") : strlen("true");
	return 0;
}

static int json_read_scalar(struct json *j, struct node *n)
{
	char c = json_peek(j);
	if (c == '"') {
		struct span text = { NULL, 0 };
		if (json_read_string(j, &text) < 0)
			return -1;
		n->type = NODE_TEXT;
		n->text = text.p;
		n->n = (uint32_t)text.n;
		return 0;
	}
	return c == '-' || (c >= '0' && c <= '9') ? json_read_number(j, n) : json_read_word(j, n);
}

/* Reads a scalar, or opens a container. */
static int json_read_value(struct json *j)
{
	struct place at = json_place_of(j, j->i);
	char c = json_peek(j);
	if (c == '{' || c == '[') {
		if (build_open(&j->b, c == '{' ? NODE_MAP : NODE_LIST, at.line, at.column) < 0)
			return -1;
		j->i++;
		return 0;
	}
	struct node n = { .line = at.line, .column = at.column };
	if (json_read_scalar(j, &n) < 0 || build_spend(&j->b, 1, n.n, at) < 0)
		return -1;
	build_push(&j->b, &n);
	return 0;
}

static int json_read_key(struct json *j)
{
	struct span key = { NULL, 0 };
	struct place at = json_place_of(j, j->i);
	if (json_peek(j) != '"')
		return json_bad_syntax(j, j->i, "a key in double quotes is expected here");
	if (json_read_string(j, &key) < 0)
		return -1;
	if (build_key(&j->b, key, at.line, at.column) < 0 || json_skip_space(j) < 0)
		return -1;
	if (json_peek(j) != ':')
		return json_bad_syntax(j, j->i, "a `:` is expected here, after the key");
	j->i++;
	return json_skip_space(j);
}

/* Reads the end of the innermost container, or its next value. */
static int json_read_next(struct json *j, bool fresh)
{
	bool map = build_top(&j->b)->map;
	if (json_skip_space(j) < 0)
		return -1;
	if (json_peek(j) == (map ? '}' : ']')) {
		struct node n;
		j->i++;
		build_close(&j->b, &n);
		build_push(&j->b, &n);
		return 0;
	}
	if (!fresh) {
		if (json_peek(j) != ',')
			return json_bad_syntax(j, j->i,
			                       map ? "a `,` or `}` is expected here"
			                           : "a `,` or `]` is expected here");
		j->i++;
		if (json_skip_space(j) < 0)
			return -1;
	}
	if (map && json_read_key(j) < 0)
		return -1;
	return json_read_value(j);
}

static int json_read_all(struct json *j)
{
	if (json_skip_space(j) < 0 || json_read_value(j) < 0)
		return -1;
	size_t depth = 0;
	while (j->b.depth) {
		bool fresh = j->b.depth > depth; /* the last step opened the container */
		depth = j->b.depth;
		if (json_read_next(j, fresh) < 0)
			return -1;
	}
	if (json_skip_space(j) < 0)
		return -1;
	if (j->i < j->text.n)
		return json_bad_syntax(j, j->i, "there is text after the end of the document");
	return 0;
}

/* Parameters as in the header.  NOLINTNEXTLINE(readability-function-size) */
int json_read(struct span text, const struct budget *budget, struct arena *a, struct doc *doc,
              struct notes *warnings, struct err *e)
{
	struct json j = { .text = text, .at = { NULL, 1, 1 }, .one_line = json_one_line(text) };
	build_init(&j.b, budget, a, e);
	if (json_read_all(&j) < 0) {
		*doc = (struct doc){ .syntax = j.syntax };
		return -1;
	}
	if (j.comment.line)
		notes_add(warnings, j.comment, "comments are not part of JSON; they are skipped");
	*doc = (struct doc){ .root = j.b.root, .json = true, .whole = !j.b.secret_twice };
	return j.b.refused ? -1 : 0;
}
