/* Is it JSON?  One pass, without recursion: what is open stands in a set of bits. */
#include <assert.h>
#include <endian.h>

#include "base/chars.h"
#include "base/enc.h"
#include "base/json/scan.h"

struct check {
	const char *p, *end;
	unsigned depth, max;
	uint64_t objects[SCAN_DEPTH_MAX / 64 + 1]; /* bit d: what is open at depth d is an object */
};

static char peek(const struct check *c)
{
	return *c->p;
}

/* To what is no white space; false at the end. */
static bool space(struct check *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\r' || *c->p == '\t'))
		c->p++;
	return c->p < c->end;
}

static bool is(struct check *c, char wanted)
{
	if (c->p == c->end || *c->p != wanted)
		return false;
	c->p++;
	return true;
}

static bool literal(struct check *c, struct span word)
{
	if ((size_t)(c->end - c->p) < word.n || memcmp(c->p, word.p, word.n) != 0)
		return false;
	c->p += word.n;
	return true;
}

static bool digits(struct check *c)
{
	const char *from = c->p;
	while (c->p < c->end && is_digit(*c->p))
		c->p++;
	return c->p > from;
}

static bool number(struct check *c)
{
	(void)is(c, '-'); /* it may have one */
	if (!is(c, '0') && !digits(c))
		return false;
	if (is(c, '.') && !digits(c))
		return false;
	if (is(c, 'e') || is(c, 'E')) {
		if (!is(c, '+'))
			(void)is(c, '-'); /* neither is needed */
		return digits(c);
	}
	return true;
}

/* Behind the backslash. */
static bool escape(struct check *c)
{
	if (c->p == c->end)
		return false;
	char letter = *c->p++;
	if (letter != 'u')
		return letter && strchr("\"\\/bfnrt", letter);
	for (int i = 0; i < 4; i++, c->p++) {
		if (c->p == c->end || hex_value(*c->p) < 0)
			return false;
	}
	return true;
}

/* In each of eight bytes of ASCII or UTF-8, the highest bit: it may be a quote, a backslash, or a
 * control character. */
static uint64_t special(uint64_t x)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t quote = x ^ (ones * '"');
	uint64_t backslash = x ^ (ones * '\\');
	return (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
	        ((x - ones * ' ') & ~x)) &
	       (ones << 7);
}

/* Behind the opening quote. */
static bool string(struct check *c)
{
	while (c->p < c->end) {
		if (c->end - c->p >= 8) {
			uint64_t eight;
			memcpy(&eight, c->p, 8);
			uint64_t found = special(le64toh(eight));
			if (!found) {
				c->p += 8;
				continue;
			}
			c->p += __builtin_ctzll(found) / 8;
		}
		char b = *c->p++;
		if (b == '"')
			return true;
		if ((unsigned char)b < ' ' || (b == '\\' && !escape(c)))
			return false;
	}
	return false;
}

static bool in_object(const struct check *c)
{
	return c->objects[c->depth / 64] >> (c->depth % 64) & 1;
}

static bool key(struct check *c)
{
	return space(c) && is(c, '"') && string(c) && space(c) && is(c, ':');
}

/* Into a container that is not empty (*open), or over one that is. */
static bool container(struct check *c, bool *open)
{
	bool object = *c->p++ == '{';
	if (c->depth == c->max || !space(c))
		return false;
	if (is(c, object ? '}' : ']'))
		return true;
	c->depth++;
	uint64_t bit = UINT64_C(1) << (c->depth % 64);
	uint64_t *bits = &c->objects[c->depth / 64];
	*bits = object ? *bits | bit : *bits & ~bit;
	*open = true;
	return !object || key(c);
}

static bool scalar(struct check *c)
{
	switch (peek(c)) {
	case '"':
		c->p++;
		return string(c);
	case 't':
		return literal(c, SPAN("true"));
	case 'f':
		return literal(c, SPAN("false"));
	case 'n':
		return literal(c, SPAN("null"));
	default:
		return number(c);
	}
}

/* Behind a value: out of what it closes, to where the next one begins (*more), or to the end. */
static bool after(struct check *c, bool *more)
{
	while (c->depth) {
		if (!space(c))
			return false;
		bool object = in_object(c);
		if (is(c, ',')) {
			*more = true;
			return !object || key(c);
		}
		if (!is(c, object ? '}' : ']'))
			return false;
		c->depth--;
	}
	return true;
}

bool scan_valid(struct span text, unsigned depth)
{
	assert(depth <= SCAN_DEPTH_MAX);
	struct check c = { .p = text.p, .end = text.p + text.n, .max = depth };
	if (utf8_check(text) < text.n)
		return false;
	for (bool more = true; more;) {
		bool open = false;
		if (!space(&c))
			return false;
		if (peek(&c) == '{' || peek(&c) == '[') {
			if (!container(&c, &open))
				return false;
		} else if (!scalar(&c)) {
			return false;
		}
		more = open;
		if (!open && !after(&c, &more))
			return false;
	}
	return !space(&c);
}
