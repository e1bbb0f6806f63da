/* Finds the ends of JSON values by quotes and brackets, checks whole texts, and decodes single
 * values. */
#include "base/json/scan.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/str.h"
#include "base/time.h"

/* Characters that matter when a value is skipped. */
enum scan_mark { PLAIN, OPEN, CLOSE, QUOTE };
static const uint8_t MARKS[256] = {
	['{'] = OPEN, ['['] = OPEN, ['}'] = CLOSE, [']'] = CLOSE, ['"'] = QUOTE,
};

/* Characters that end a number, true, false or null. */
static const bool ENDS[256] = {
	[','] = true, [']'] = true, ['}'] = true,  [':'] = true,  ['"'] = true,  ['{'] = true,
	['['] = true, [' '] = true, ['\t'] = true, ['\n'] = true, ['\r'] = true,
};

/* The closing quote, searched from after the opening quote; `end` if there is none. */
static const char *scan_string_end(const char *p, const char *end)
{
	const char *from = p;
	while ((p = memchr(p, '"', (size_t)(end - p))) != NULL) {
		const char *backslashes = p;
		while (backslashes > from && backslashes[-1] == '\\')
			backslashes--;
		if ((p - backslashes) % 2 == 0)
			return p;
		p++;
	}
	return end;
}

/* Returns the end of the text, which ends inside of a string that has begun before p. */
static const char *scan_tail_open(struct scan_tail *t, const char *p, const char *end)
{
	const char *backslashes = end;
	while (backslashes > p && backslashes[-1] == '\\')
		backslashes--;
	t->string = true;
	t->escaped = (end - backslashes) % 2 == 1;
	return end;
}

/* Inside of a string, whose first byte here can be escaped. */
static const char *scan_tail_string(struct scan_tail *t, const char *p, const char *end)
{
	const char *from = t->escaped ? p + 1 : p;
	const char *quote = scan_string_end(from, end);
	t->string = t->escaped = false;
	return quote < end ? quote + 1 : scan_tail_open(t, from, end);
}

static const char *scan_tail_container(struct scan_tail *t, const char *p, const char *end)
{
	size_t depth = t->depth;
	for (const char *from; p < end && depth > 0; p++) {
		switch ((enum scan_mark)MARKS[(unsigned char)*p]) {
		case PLAIN:
			break;
		case OPEN:
			depth++;
			break;
		case CLOSE:
			depth--;
			break;
		case QUOTE:
			from = p + 1;
			p = scan_string_end(from, end);
			if (p == end)
				p = scan_tail_open(t, from, end) - 1; /* p++ follows */
			break;
		}
	}
	t->depth = depth;
	return p;
}

size_t scan_tail(struct scan_tail *t, struct span piece)
{
	const char *p = piece.p;
	const char *end = p + piece.n;
	while (p < end && !t->ended) {
		if (t->scalar) {
			while (p < end && !ENDS[(unsigned char)*p])
				p++;
			t->ended = p < end;
		} else if (t->string) {
			p = scan_tail_string(t, p, end);
			t->ended = !t->string && t->depth == 0;
		} else if (t->depth > 0) {
			p = scan_tail_container(t, p, end);
			t->ended = !t->string && t->depth == 0;
		} else { /* at the first byte */
			enum scan_mark mark = (enum scan_mark)MARKS[(unsigned char)*p];
			t->depth = mark == OPEN;
			t->string = mark == QUOTE;
			t->scalar = !t->depth && !t->string;
			p += !t->scalar;
		}
	}
	return (size_t)(p - piece.p);
}

static const char *scan_skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

enum scan_type scan_type(struct span value)
{
	static const uint8_t TYPES[256] = {
		['{'] = SCAN_OBJECT, ['['] = SCAN_ARRAY,  ['"'] = SCAN_STRING, ['t'] = SCAN_BOOL,
		['f'] = SCAN_BOOL,   ['n'] = SCAN_NULL,   ['-'] = SCAN_NUMBER, ['0'] = SCAN_NUMBER,
		['1'] = SCAN_NUMBER, ['2'] = SCAN_NUMBER, ['3'] = SCAN_NUMBER, ['4'] = SCAN_NUMBER,
		['5'] = SCAN_NUMBER, ['6'] = SCAN_NUMBER, ['7'] = SCAN_NUMBER, ['8'] = SCAN_NUMBER,
		['9'] = SCAN_NUMBER,
	};
	if (!value.n)
		return SCAN_NONE;
	const char *p = scan_skip_space(value.p, value.p + value.n);
	return p < value.p + value.n ? (enum scan_type)TYPES[(unsigned char)*p] : SCAN_NONE;
}

struct scan scan_begin(struct span container)
{
	if (!container.n)
		return (struct scan){ NULL, NULL, '\0' };
	const char *end = container.p + container.n;
	const char *p = scan_skip_space(container.p, end);
	if (p < end && MARKS[(unsigned char)*p] == OPEN)
		return (struct scan){ p + 1, end, *p };
	return (struct scan){ end, end, '\0' };
}

/* Ends the iteration: the text is not JSON. */
static bool scan_stop(struct scan *s)
{
	s->p = s->end;
	return false;
}

bool scan_more(struct scan *s)
{
	s->p = scan_skip_space(s->p, s->end);
	if (s->p < s->end && *s->p == ',')
		s->p = scan_skip_space(s->p + 1, s->end);
	return s->p < s->end && MARKS[(unsigned char)*s->p] != CLOSE;
}

bool scan_key(struct scan *s, struct span *key)
{
	if (s->open != '{' || !scan_more(s))
		return false;
	if (*s->p != '"')
		return scan_stop(s);
	const char *from = s->p + 1;
	const char *quote = scan_string_end(from, s->end);
	if (quote == s->end)
		return scan_stop(s);
	s->p = scan_skip_space(quote + 1, s->end);
	if (s->p == s->end || *s->p != ':')
		return scan_stop(s);
	s->p = scan_skip_space(s->p + 1, s->end);
	*key = (struct span){ from, (size_t)(quote - from) };
	return true;
}

bool scan_value(struct scan *s, struct span *value)
{
	struct scan_tail t = { 0 };
	size_t n =
	    s->p == s->end ? 0 : scan_tail(&t, (struct span){ s->p, (size_t)(s->end - s->p) });
	if (n == 0)
		return scan_stop(s);
	*value = (struct span){ s->p, n };
	s->p += n;
	return true;
}

enum scan_type scan_peek(const struct scan *s)
{
	return scan_type((struct span){ s->p, (size_t)(s->end - s->p) });
}

struct scan scan_enter(const struct scan *s)
{
	return scan_begin((struct span){ s->p, (size_t)(s->end - s->p) });
}

void scan_leave(struct scan *s, const struct scan *inner)
{
	s->p = inner->p < inner->end ? inner->p + 1 : inner->end;
}

bool scan_member(struct scan *s, struct span *key, struct span *value)
{
	return scan_key(s, key) && scan_value(s, value);
}

bool scan_item(struct scan *s, struct span *value)
{
	return s->open == '[' && scan_more(s) && scan_value(s, value);
}

size_t scan_count(struct span container)
{
	bool object = scan_type(container) == SCAN_OBJECT;
	struct scan s = scan_begin(container);
	struct span key;
	struct span value;
	size_t n = 0;
	while (object ? scan_member(&s, &key, &value) : scan_item(&s, &value))
		n++;
	return n;
}

static bool is_key(struct span key, const char *want)
{
	for (size_t i = 0; i < key.n; i++) {
		if (key.p[i] != want[i] || !want[i])
			return false;
	}
	return !want[key.n];
}

size_t scan_which(struct span key, const char *const keys[], size_t n)
{
	size_t i = 0;
	while (i < n && !is_key(key, keys[i]))
		i++;
	return i;
}

void scan_members(struct span object, const char *const keys[], struct span values[], size_t n)
{
	struct scan s = scan_begin(object);
	struct span key;
	struct span value;
	for (size_t i = 0; i < n; i++)
		values[i] = (struct span){ NULL, 0 };
	for (size_t found = 0; found < n && scan_member(&s, &key, &value);) {
		size_t i = scan_which(key, keys, n);
		if (i < n && !values[i].p) {
			values[i] = value;
			found++;
		}
	}
}

struct span scan_get(struct span object, const char *key)
{
	struct span value;
	scan_members(object, &key, &value, 1);
	return value;
}

struct span scan_into(struct span object, const char *const keys[])
{
	struct span key;
	struct span value;
	for (size_t i = 0; keys[i]; i++) {
		struct scan s = scan_begin(object);
		bool more = scan_key(&s, &key);
		while (more && !is_key(key, keys[i]))
			more = scan_value(&s, &value) && scan_key(&s, &key);
		if (!more)
			return (struct span){ NULL, 0 };
		object = (struct span){ s.p, (size_t)(s.end - s.p) };
	}
	return object;
}

/* Hides that scan_into leaves the end of the value open. */
struct span scan_down(struct span object, const char *const keys[])
{
	if (!keys[0])
		return object;
	struct span value = scan_into(object, keys);
	struct scan s = { value.p, value.p ? value.p + value.n : NULL, '\0' };
	return scan_value(&s, &value) ? value : (struct span){ NULL, 0 };
}

/* ---- validation: one pass, no recursion; a bit set has the kinds of the open containers ---- */

struct scan_check {
	const char *p, *end;
	unsigned depth, max;
	uint64_t
	    objects[SCAN_DEPTH_MAX / 64 + 1]; /* bit d: the container at depth d is an object */
};

/* Skips white space; false at the end. */
static bool scan_check_space(struct scan_check *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\r' || *c->p == '\t'))
		c->p++;
	return c->p < c->end;
}

static bool scan_is(struct scan_check *c, char wanted)
{
	if (c->p == c->end || *c->p != wanted)
		return false;
	c->p++;
	return true;
}

static bool scan_check_literal(struct scan_check *c, struct span word)
{
	if ((size_t)(c->end - c->p) < word.n || memcmp(c->p, word.p, word.n) != 0)
		return false;
	c->p += word.n;
	return true;
}

/* Checks an escape sequence; c->p is after the backslash. */
static bool scan_escape(struct scan_check *c)
{
	struct span escape = { c->p - 1, (size_t)(c->end - c->p) + 1 };
	size_t n = 0;
	int r = json_escaped(escape, &n);
	if (r == ESCAPE_UNKNOWN || r == ESCAPE_NO_DIGITS)
		return false;
	c->p += n - 1;
	return true;
}

/* Checks a string; c->p is after the opening quote. */
static bool scan_check_string(struct scan_check *c)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	while (c->p < c->end) {
		if (c->end - c->p >= 8) {
			uint64_t x;
			memcpy(&x, c->p, 8);
			x = le64toh(x);
			uint64_t quote = x ^ (ones * '"');
			uint64_t backslash = x ^ (ones * '\\');
			/* The highest bit of each byte that can be one of them, or a control
			 * character. */
			uint64_t found =
			    (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
			     ((x - ones * ' ') & ~x)) &
			    (ones << 7);
			if (!found) {
				c->p += 8;
				continue;
			}
			c->p += __builtin_ctzll(found) / 8;
		}
		char b = *c->p++;
		if (b == '"')
			return true;
		if ((unsigned char)b < ' ' || (b == '\\' && !scan_escape(c)))
			return false;
	}
	return false;
}

static bool scan_check_key(struct scan_check *c)
{
	return scan_check_space(c) && scan_is(c, '"') && scan_check_string(c) &&
	       scan_check_space(c) && scan_is(c, ':');
}

/* Enters a container that is not empty (*open), or skips an empty one. */
static bool scan_check_container(struct scan_check *c, bool *open)
{
	bool object = *c->p++ == '{';
	if (c->depth == c->max || !scan_check_space(c))
		return false;
	if (scan_is(c, object ? '}' : ']'))
		return true;
	c->depth++;
	uint64_t bit = UINT64_C(1) << (c->depth % 64);
	uint64_t *bits = &c->objects[c->depth / 64];
	*bits = object ? *bits | bit : *bits & ~bit;
	*open = true;
	return !object || scan_check_key(c);
}

static bool scan_check_scalar(struct scan_check *c)
{
	switch (*c->p) {
	case '"':
		c->p++;
		return scan_check_string(c);
	case 't':
		return scan_check_literal(c, SPAN("true"));
	case 'f':
		return scan_check_literal(c, SPAN("false"));
	case 'n':
		return scan_check_literal(c, SPAN("null"));
	default:
		c->p = json_number_end(c->p, c->end);
		return c->p != NULL;
	}
}

/* Called after a value: leaves closed containers; *more: another value follows. */
static bool scan_check_after_value(struct scan_check *c, bool *more)
{
	while (c->depth) {
		if (!scan_check_space(c))
			return false;
		bool object = c->objects[c->depth / 64] >> (c->depth % 64) & 1;
		if (scan_is(c, ',')) {
			*more = true;
			return !object || scan_check_key(c);
		}
		if (!scan_is(c, object ? '}' : ']'))
			return false;
		c->depth--;
	}
	return true;
}

bool scan_valid(struct span text, unsigned depth)
{
	assert(depth <= SCAN_DEPTH_MAX);
	struct scan_check c = { .p = text.p, .end = text.p + text.n, .max = depth };
	if (utf8_check(text) < text.n)
		return false;
	for (bool more = true; more;) {
		bool open = false;
		if (!scan_check_space(&c))
			return false;
		if (*c.p == '{' || *c.p == '[') {
			if (!scan_check_container(&c, &open))
				return false;
		} else if (!scan_check_scalar(&c)) {
			return false;
		}
		more = open;
		if (!open && !scan_check_after_value(&c, &more))
			return false;
	}
	return !scan_check_space(&c);
}

/* ---- single values ---- */

bool scan_int(struct span value, int64_t min, int64_t max, int64_t *out)
{
	struct span whole = span_next(&value, '.');
	return span_all(value, "0") && parse_i64(whole, min, max, out) == 0;
}

double scan_figure(struct span value)
{
	return scan_type(value) == SCAN_NUMBER ? strtod(value.p, NULL) : -1;
}

/* The output is never longer than the input.  `any`: NUL and halves of surrogate pairs become
 * U+FFFD. */
static bool scan_unescape(struct span t, bool any, char *out, size_t *n)
{
	for (size_t i = 0; i < t.n;) {
		if (t.p[i] != '\\') {
			out[(*n)++] = t.p[i++];
			continue;
		}
		int c = json_escaped(t, &i);
		if (any && (c == 0 || c == ESCAPE_HALF_PAIR))
			c = UTF8_INVALID;
		if (c <= 0)
			return false;
		*n += utf8_put(out + *n, (uint32_t)c);
	}
	return true;
}

static bool scan_decode(struct span value, bool any, struct arena *a, struct span *out)
{
	if (value.n < 2 || value.p[0] != '"' || value.p[value.n - 1] != '"')
		return false;
	struct span t = { value.p + 1, value.n - 2 };
	if (t.n == 0 || !memchr(t.p, '\\', t.n)) {
		*out = t;
		return true;
	}
	char *text = arena_alloc(a, t.n);
	size_t n = 0;
	if (!scan_unescape(t, any, text, &n))
		return false;
	*out = (struct span){ text, n };
	return true;
}

bool scan_string(struct span value, struct arena *a, struct span *out)
{
	return scan_decode(value, false, a, out);
}

struct span scan_text(struct span value, struct arena *a)
{
	struct span text = { "", 0 };
	(void)scan_decode(value, true, a, &text); /* else "" */
	return text;
}

bool scan_time_ms(struct span value, int64_t *out)
{
	if (scan_type(value) != SCAN_STRING || value.n < 2)
		return false;
	return rfc3339_read((struct span){ value.p + 1, value.n - 2 }, out);
}
