#include "base/json/scan.h"

#include <endian.h>

/* What matters to whoever skips a value. */
enum mark { PLAIN, OPEN, CLOSE, QUOTE };
static const uint8_t MARKS[256] = {
	['{'] = OPEN, ['['] = OPEN, ['}'] = CLOSE, [']'] = CLOSE, ['"'] = QUOTE,
};

/* What ends a number, true, false or null. */
static const bool ENDS[256] = {
	[','] = true, [']'] = true, ['}'] = true,  [':'] = true,  ['"'] = true,  ['{'] = true,
	['['] = true, [' '] = true, ['\t'] = true, ['\n'] = true, ['\r'] = true,
};

/* Of eight bytes, the highest bit of those that are c is set (and perhaps of some behind the
 * first one that is). */
static uint64_t bytes_that_are(uint64_t eight, unsigned char c)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t x = eight ^ (ones * c);
	return (x - ones) & ~x & (ones << 7);
}

/* From behind the opening quote to the closing one; the end of the text if there is none. */
static const char *string_end(const char *p, const char *end)
{
	while (p < end) {
		if (end - p >= 8) {
			uint64_t eight;
			memcpy(&eight, p, 8);
			eight = le64toh(eight);
			uint64_t found = bytes_that_are(eight, '"') | bytes_that_are(eight, '\\');
			if (!found) {
				p += 8;
				continue;
			}
			p += __builtin_ctzll(found) / 8;
		}
		if (*p == '"')
			return p;
		if (*p++ == '\\' && p < end)
			p++;
	}
	return end;
}

static const char *container_end(const char *p, const char *end)
{
	for (size_t depth = 0; p < end; p++) {
		switch ((enum mark)MARKS[(unsigned char)*p]) {
		case PLAIN:
			break;
		case OPEN:
			depth++;
			break;
		case CLOSE:
			if (depth <= 1)
				return p + 1;
			depth--;
			break;
		case QUOTE:
			p = string_end(p + 1, end);
			if (p == end)
				return end;
			break;
		}
	}
	return end;
}

/* Behind the value that begins here; p itself if none does. */
static const char *value_end(const char *p, const char *end)
{
	if (p == end)
		return p;
	if (MARKS[(unsigned char)*p] == OPEN)
		return container_end(p, end);
	if (*p == '"') {
		p = string_end(p + 1, end);
		return p < end ? p + 1 : end;
	}
	while (p < end && !ENDS[(unsigned char)*p])
		p++;
	return p;
}

static const char *skip_space(const char *p, const char *end)
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
	const char *p = skip_space(value.p, value.p + value.n);
	return p < value.p + value.n ? (enum scan_type)TYPES[(unsigned char)*p] : SCAN_NONE;
}

struct scan scan_begin(struct span container)
{
	if (!container.n)
		return (struct scan){ NULL, NULL, '\0' };
	const char *end = container.p + container.n;
	const char *p = skip_space(container.p, end);
	if (p < end && MARKS[(unsigned char)*p] == OPEN)
		return (struct scan){ p + 1, end, *p };
	return (struct scan){ end, end, '\0' };
}

/* What goes on here is no JSON: the walk is over. */
static bool stop(struct scan *s)
{
	s->p = s->end;
	return false;
}

bool scan_more(struct scan *s)
{
	s->p = skip_space(s->p, s->end);
	if (s->p < s->end && *s->p == ',')
		s->p = skip_space(s->p + 1, s->end);
	return s->p < s->end && MARKS[(unsigned char)*s->p] != CLOSE;
}

bool scan_key(struct scan *s, struct span *key)
{
	if (s->open != '{' || !scan_more(s))
		return false;
	if (*s->p != '"')
		return stop(s);
	const char *from = s->p + 1;
	const char *quote = string_end(from, s->end);
	if (quote == s->end)
		return stop(s);
	s->p = skip_space(quote + 1, s->end);
	if (s->p == s->end || *s->p != ':')
		return stop(s);
	s->p = skip_space(s->p + 1, s->end);
	*key = (struct span){ from, (size_t)(quote - from) };
	return true;
}

bool scan_value(struct scan *s, struct span *value)
{
	const char *end = value_end(s->p, s->end);
	if (end == s->p)
		return stop(s);
	*value = (struct span){ s->p, (size_t)(end - s->p) };
	s->p = end;
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

/* Against each of a few: most differ in the first byte. */
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

/* The next member, if it is one of those and the first of that name.  false at the end. */
static bool take_member(struct scan *s, const char *const keys[], struct span values[], size_t n,
                        size_t *found)
{
	struct span key;
	struct span value;
	if (!scan_member(s, &key, &value))
		return false;
	size_t i = scan_which(key, keys, n);
	if (i < n && !values[i].p) {
		values[i] = value;
		++*found;
	}
	return true;
}

static void clear(struct span values[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		values[i] = (struct span){ NULL, 0 };
}

void scan_members(struct span object, const char *const keys[], struct span values[], size_t n)
{
	struct scan s = scan_begin(object);
	size_t found = 0;
	clear(values, n);
	while (found < n && take_member(&s, keys, values, n, &found))
		;
}

void scan_rest(struct scan *s, const char *const keys[], struct span values[], size_t n)
{
	size_t found = 0;
	clear(values, n);
	while (take_member(s, keys, values, n, &found))
		;
}

struct span scan_get(struct span object, const char *key)
{
	struct span value;
	scan_members(object, &key, &value, 1);
	return value;
}

/* To before the value of this key. */
static bool seek(struct scan *s, const char *want)
{
	struct span key;
	struct span value;
	while (scan_key(s, &key)) {
		if (is_key(key, want))
			return true;
		if (!scan_value(s, &value))
			return false;
	}
	return false;
}

struct span scan_into(struct span object, const char *const keys[])
{
	for (size_t i = 0; keys[i]; i++) {
		struct scan s = scan_begin(object);
		if (!seek(&s, keys[i]))
			return (struct span){ NULL, 0 };
		object = (struct span){ s.p, (size_t)(s.end - s.p) };
	}
	return object;
}

struct span scan_down(struct span object, const char *const keys[])
{
	if (!keys[0])
		return object;
	struct span value = scan_into(object, keys);
	struct scan s = { value.p, value.p ? value.p + value.n : NULL, '\0' };
	return scan_value(&s, &value) ? value : (struct span){ NULL, 0 };
}
