/* Text that grows up to a maximum; see str.h. */
#include "base/str.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void *check(void *p)
{
	if (p == NULL) {
		(void)fputs("out of memory\n", stderr); /* nothing else can be done about it */
		abort();
	}
	return p;
}

void *xmalloc(size_t n)
{
	return check(malloc(n ? n : 1));
}

void *xcalloc(size_t n, size_t size)
{
	return check(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n)
{
	return check(realloc(p, n ? n : 1));
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

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *p = NULL;
	int n = vasprintf(&p, fmt, ap);
	va_end(ap);
	return check(n < 0 ? NULL : p);
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
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

struct span span_trim(struct span s)
{
	while (s.n && is_blank(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

/* realloc would leave what it moves behind in freed memory. */
static char *move_secret(char *p, size_t n, size_t cap)
{
	char *to = xmalloc(cap);
	if (p) {
		memcpy(to, p, n + 1);
		explicit_bzero(p, n + 1);
		free(p);
	}
	return to;
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
	s->p = s->secret ? move_secret(s->p, s->n, cap) : xrealloc(s->p, cap);
	s->cap = cap;
	return true;
}

void str_puts(struct str *s, const char *text)
{
	str_put(s, text, strlen(text));
}

void str_int(struct str *s, int64_t v)
{
	char digits[20];
	size_t i = sizeof(digits);
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	do {
		digits[--i] = (char)('0' + u % 10);
		u /= 10;
	} while (u);
	if (v < 0)
		str_char(s, '-');
	str_put(s, digits + i, sizeof(digits) - i);
}

void str_printf(struct str *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *p = NULL;
	int n = vasprintf(&p, fmt, ap);
	va_end(ap);
	check(n < 0 ? NULL : p);
	str_put(s, p, (size_t)n);
	free(p);
}

/* What stands behind the backslash for each byte that JSON escapes; 'u': \u00XX; 0: nothing. */
static const char JSON_ESCAPE[256] = {
	/* clang-format off */
	[0x00 ... 0x07] = 'u', ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', [0x0b] = 'u',
	['\f'] = 'f', ['\r'] = 'r', [0x0e ... 0x1f] = 'u',
	['"'] = '"', ['\\'] = '\\', [0x7f] = 'u',
	/* clang-format on */
};

/* The high bit of each byte of w that is below n (n up to 128), and perhaps of bytes above such a
 * one. */
static uint64_t bytes_below(uint64_t w, uint64_t n)
{
	return (w - 0x0101010101010101U * n) & ~w & 0x8080808080808080U;
}

static uint64_t bytes_equal(uint64_t w, unsigned char c)
{
	return bytes_below(w ^ (0x0101010101010101U * c), 1);
}

/* How many bytes from p on need no escape, in steps of eight: most of a manifest. */
static size_t json_plain(const char *p, size_t n)
{
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		uint64_t w;
		memcpy(&w, p + i, 8);
		if (bytes_below(w, 0x20) | bytes_equal(w, '"') | bytes_equal(w, '\\') |
		    bytes_equal(w, 0x7f))
			break;
	}
	return i;
}

void str_json_text(struct str *s, struct span t)
{
	static const char hex[] = "0123456789abcdef";
	size_t from = 0;
	for (size_t i = json_plain(t.p, t.n); i < t.n; i++) {
		unsigned char c = (unsigned char)t.p[i];
		char esc = JSON_ESCAPE[c];
		if (esc == 0)
			continue;
		str_put(s, t.p + from, i - from);
		from = i + 1;
		char code[6] = { '\\', esc, '0', '0', hex[c >> 4], hex[c & 15] };
		str_put(s, code, esc == 'u' ? 6 : 2);
		i += json_plain(t.p + from, t.n - from);
	}
	str_put(s, t.n ? t.p + from : "", t.n - from);
}

void str_json(struct str *s, struct span t)
{
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
