/* Grows texts up to their maxima, and compares, searches, cuts and parses spans. */
#include "base/str.h"

#include <assert.h>
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"

static void *str_check(void *p)
{
	if (p == NULL) {
		(void)fputs("out of memory\n", stderr); /* errors are ignored: abort follows */
		abort();
	}
	return p;
}

void *xmalloc(size_t n)
{
	return str_check(malloc(n ? n : 1));
}

void *xcalloc(size_t n, size_t size)
{
	return str_check(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n)
{
	return str_check(realloc(p, n ? n : 1));
}

char *xstrdup(const char *s)
{
	return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
	char *p = xmalloc(n + 1);
	if (n)
		memcpy(p, s, n);
	p[n] = '\0';
	return p;
}

char *xvasprintf(const char *fmt, va_list ap)
{
	char *p = NULL;
	return str_check(vasprintf(&p, fmt, ap) < 0 ? NULL : p);
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *p = xvasprintf(fmt, ap);
	va_end(ap);
	return p;
}

size_t span_find(struct span s, size_t from, const char *needle)
{
	size_t n = strlen(needle);
	/* Needles are short and their first characters rare: memchr beats memmem here. */
	for (size_t i = from; n <= s.n && i <= s.n - n; i++) {
		const char *p = memchr(s.p + i, needle[0], s.n - i);
		if (p == NULL)
			break;
		i = (size_t)(p - s.p);
		if (i + n <= s.n && memcmp(p, needle, n) == 0)
			return i;
	}
	return SIZE_MAX;
}

bool span_same(struct span a, struct span b)
{
	for (size_t i = 0; i < a.n && a.n == b.n; i++)
		if (to_lower(a.p[i]) != to_lower(b.p[i]))
			return false;
	return a.n == b.n;
}

bool span_among(struct span s, const char *const *texts)
{
	while (*texts && !span_is(s, *texts))
		texts++;
	return *texts;
}

bool class_has_char(char c, const char *class)
{
	bool others = *class == '^';
	const unsigned char *p = (const unsigned char *)class + others;
	for (; *p; p++) {
		unsigned char first = *p;
		if (p[1] == '-' && p[2])
			p += 2;
		if ((unsigned char)c >= first && (unsigned char)c <= *p)
			return !others;
	}
	return others;
}

size_t span_skip_class(struct span s, size_t from, const char *class)
{
	while (from < s.n && class_has_char(s.p[from], class))
		from++;
	return from;
}

bool span_only_alnum_or(struct span s, const char *extra)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_alnum(s.p[i]) && (s.p[i] == '\0' || !strchr(extra, s.p[i])))
			return false;
	return true;
}

bool span_has_control(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (((unsigned char)s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] == 0x7f)
			return true;
	return false;
}

bool span_digits(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_digit(s.p[i]))
			return false;
	return s.n > 0;
}

size_t span_lower_alnum(char *out, struct span s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++)
		if (is_alnum(s.p[i]))
			out[n++] = to_lower(s.p[i]);
	return n;
}

bool span_equals_lower_alnum(struct span name, struct span lower_alnum)
{
	size_t n = 0;
	for (size_t i = 0; i < name.n; i++) {
		if (!is_alnum(name.p[i]))
			continue;
		if (n == lower_alnum.n || lower_alnum.p[n++] != to_lower(name.p[i]))
			return false;
	}
	return n == lower_alnum.n;
}

struct span span_cut(struct span s, size_t max)
{
	if (s.n <= max)
		return s;
	while (max > 0 && ((unsigned char)s.p[max] & 0xc0) == 0x80)
		max--;
	return (struct span){ s.p, max };
}

struct span span_trim(struct span s)
{
	while (s.n && is_space(s.p[0]))
		s = span_from(s, 1);
	while (s.n && is_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

bool str_reserve_slow(struct str *s, size_t n)
{
	assert(s->max < SIZE_MAX / 4);
	if (s->full || n > s->max - s->n) {
		s->full = true;
		return false;
	}
	size_t want = s->n + n + 1;
	size_t cap = s->cap ? s->cap : 64;
	while (cap < want)
		cap += cap;
	if (cap > s->max + 1)
		cap = s->max + 1;
	s->p = s->secret ? realloc_wiped(s->p, cap) : xrealloc(s->p, cap);
	s->cap = cap;
	return true;
}

char *decimal_before(char *end, uint64_t v, int least)
{
	for (; v || least > 0; v /= 10, least--)
		*--end = (char)('0' + v % 10);
	return end;
}

void str_int(struct str *s, int64_t v)
{
	char digits[20];
	char *end = digits + sizeof(digits);
	char *p = decimal_before(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 1);
	if (v < 0)
		*--p = '-';
	str_put(s, p, (size_t)(end - p));
}

void str_printf(struct str *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	FREE_AUTO char *p = xvasprintf(fmt, ap);
	va_end(ap);
	str_puts(s, p);
}

/* The character after the backslash for each byte that JSON escapes; 'u': \u00XX; 0: no escape. */
static const char JSON_ESCAPE[256] = {
	/* clang-format off */
	[0x00 ... 0x07] = 'u', ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', [0x0b] = 'u',
	['\f'] = 'f', ['\r'] = 'r', [0x0e ... 0x1f] = 'u',
	['"'] = '"', ['\\'] = '\\', [0x7f] = 'u',
	/* clang-format on */
};

typedef unsigned char bytes8 __attribute__((vector_size(8)));

/* The first of eight bytes that JSON escapes, or 8. */
static size_t json_first_escaped(const char *p)
{
	bytes8 v;
	memcpy(&v, p, sizeof(v));
	bytes8 hit = (bytes8)((v < 0x20) | (v == '"') | (v == '\\') | (v == 0x7f));
	uint64_t w;
	memcpy(&w, &hit, sizeof(w));
	return w ? (size_t)__builtin_ctzll(le64toh(w)) / 8 : 8;
}

/* The number of bytes from p on that need no escape, eight at a time. */
static size_t json_plain(const char *p, size_t n)
{
	size_t i = 0;
	if (n >= 8) {
		for (; i <= n - 8; i += 8) {
			size_t k = json_first_escaped(p + i);
			if (k < 8)
				return i + k;
		}
		i = n - 8; /* the last eight overlap checked ones */
		return i + json_first_escaped(p + i);
	}
	while (i < n && !JSON_ESCAPE[(unsigned char)p[i]])
		i++;
	return i;
}

void str_json_text(struct str *s, struct span t)
{
	static const char hex[] = "0123456789abcdef";
	for (;;) {
		size_t n = json_plain(t.p, t.n);
		str_put(s, n ? t.p : "", n);
		if (n == t.n)
			return;
		unsigned char c = (unsigned char)t.p[n];
		str_char(s, '\\');
		str_char(s, JSON_ESCAPE[c]);
		if (JSON_ESCAPE[c] == 'u') {
			const char code[4] = { '0', '0', hex[c >> 4], hex[c & 15] };
			str_put(s, code, sizeof(code));
		}
		t = span_from(t, n + 1);
	}
}

void str_json(struct str *s, struct span t)
{
	/* Fast path for text without escapes. */
	if (json_plain(t.p, t.n) == t.n && str_reserve(s, t.n + 2)) {
		char *p = s->p + s->n;
		p[0] = '"';
		bytes_copy(p + 1, t.p, t.n);
		p[t.n + 1] = '"';
		p[t.n + 2] = '\0';
		s->n += t.n + 2;
		return;
	}
	str_char(s, '"');
	str_json_text(s, t);
	str_char(s, '"');
}

char *str_take(struct str *s)
{
	char *p = s->p ? s->p : xstrdup("");
	*s = (struct str){ .max = s->max, .secret = s->secret };
	return p;
}

void str_done(struct str *s)
{
	if (s->p && s->secret)
		explicit_bzero(s->p, s->cap);
	free(s->p);
	*s = (struct str){ .max = s->max, .secret = s->secret };
}

void str_wipe(struct str *s)
{
	if (s->p)
		explicit_bzero(s->p, s->cap);
	str_done(s);
}

int parse_i64(struct span t, int64_t min, int64_t max, int64_t *out)
{
	size_t i = t.n && t.p[0] == '-';
	bool negative = i == 1;
	if (i == t.n)
		return -1;
	int64_t v = 0;
	for (; i < t.n; i++) {
		int digit = t.p[i] - '0';
		if (digit < 0 || digit > 9)
			return -1;
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, negative ? -digit : digit, &v))
			return -1;
	}
	if (v < min || v > max)
		return -1;
	*out = v;
	return 0;
}
