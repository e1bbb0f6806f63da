#include "server/http/range.h"

#include "base/str.h"

static const char UNIT[] = "bytes=";

/* Digits; more than a size can be is the largest size. */
static bool read_number(struct span text, size_t *out)
{
	size_t v = 0;
	bool over = false;
	for (size_t i = 0; i < text.n; i++) {
		if (!is_digit(text.p[i]))
			return false;
		over = over || __builtin_mul_overflow(v, 10, &v) ||
		       __builtin_add_overflow(v, (size_t)(text.p[i] - '0'), &v);
	}
	*out = over ? SIZE_MAX : v;
	return text.n > 0;
}

/* The last bytes. */
static enum range read_suffix(struct span text, size_t size, size_t *from, size_t *n)
{
	size_t most;
	if (!read_number(text, &most) || (size == 0 && most > 0))
		return RANGE_WHOLE; /* no Content-Range can name a part of nothing */
	if (most == 0)
		return RANGE_NONE;
	*n = most < size ? most : size;
	*from = size - *n;
	return RANGE_PART;
}

enum range range_read(const char *header, size_t size, size_t *from, size_t *n)
{
	struct span text = span_trim(span_of(header ? header : ""));
	const size_t unit = sizeof(UNIT) - 1;
	if (text.n < unit || strncasecmp(text.p, UNIT, unit) != 0)
		return RANGE_WHOLE;
	text = span_trim((struct span){ text.p + unit, text.n - unit });
	const char *dash = text.n ? memchr(text.p, '-', text.n) : NULL;
	if (!dash)
		return RANGE_WHOLE;
	struct span before = { text.p, (size_t)(dash - text.p) };
	struct span after = { dash + 1, text.n - before.n - 1 };
	size_t first;
	size_t last = SIZE_MAX;
	if (before.n == 0)
		return read_suffix(after, size, from, n);
	if (!read_number(before, &first) || (after.n && !read_number(after, &last)) || last < first)
		return RANGE_WHOLE;
	if (first >= size)
		return RANGE_NONE;
	*from = first;
	*n = (last < size ? last + 1 : size) - first;
	return RANGE_PART;
}
