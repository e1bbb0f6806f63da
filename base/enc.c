/* Encodes and decodes hex, JSON, UTF-8, numbers and base64.  md5_hex and random_bytes are in
 * hash.c. */
#include "base/enc.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"

void hex_encode(char *out, const void *bytes, size_t n)
{
	static const char hex[] = "0123456789abcdef";
	const uint8_t *byte = bytes;
	for (size_t i = 0; i < n; i++) {
		out[2 * i] = hex[byte[i] >> 4];
		out[2 * i + 1] = hex[byte[i] & 15];
	}
	out[2 * n] = '\0';
}

/* The value of the four hex digits at this offset, or -1. */
static int hex_read_four_digits(struct span text, size_t at)
{
	int v = 0;
	if (at > text.n || text.n - at < 4)
		return -1;
	for (size_t i = at; i < at + 4; i++) {
		int digit = hex_value(text.p[i]);
		if (digit < 0)
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

/* `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?` */
const char *json_number_end(const char *p, const char *end)
{
	p += p < end && *p == '-';
	const char *digits = p;
	while (p < end && is_digit(*p))
		p++;
	if (p == digits || (*digits == '0' && p > digits + 1))
		return NULL;
	if (p < end && *p == '.') {
		digits = ++p;
		while (p < end && is_digit(*p))
			p++;
		if (p == digits)
			return NULL;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		p += p < end && (*p == '-' || *p == '+');
		digits = p;
		while (p < end && is_digit(*p))
			p++;
		if (p == digits)
			return NULL;
	}
	return p;
}

int json_escaped(struct span text, size_t *at)
{
	static const unsigned char LETTERS[256] = {
		['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
		['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
	};
	unsigned char letter = text.n - *at < 2 ? 0 : (unsigned char)text.p[*at + 1];
	*at += 2;
	if (letter != 'u')
		return LETTERS[letter] ?: ESCAPE_UNKNOWN;
	int c = hex_read_four_digits(text, *at);
	*at += 4;
	if (c < 0)
		return ESCAPE_NO_DIGITS;
	if (c < 0xd800 || c >= 0xe000)
		return c;
	bool pair = c < 0xdc00 && text.n - *at >= 2 && memcmp(text.p + *at, "\\u", 2) == 0;
	int low = pair ? hex_read_four_digits(text, *at + 2) : -1;
	if (low < 0xdc00 || low >= 0xe000)
		return ESCAPE_HALF_PAIR;
	*at += 6;
	return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

int percent_byte(struct span text, size_t at)
{
	if (at > text.n || text.n - at < 3 || text.p[at] != '%')
		return -1;
	int high = hex_value(text.p[at + 1]);
	int low = hex_value(text.p[at + 2]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void random_hex(char *out, size_t n)
{
	uint8_t bytes[64];
	assert(n <= sizeof(bytes));
	random_bytes(bytes, n);
	hex_encode(out, bytes, n);
}

void random_uuid(char out[static UUID_TEXT])
{
	char x[33];
	random_hex(x, 16);
	x[12] = '4';               /* version 4, */
	x[16] = "89ab"[x[16] & 3]; /* variant 1 */
	(void)snprintf(out, UUID_TEXT, "%.8s-%.4s-%.4s-%.4s-%.12s", x, x + 8, x + 12, x + 16,
	               x + 20);
}

void shell_word(struct str *out, struct span text)
{
	str_char(out, '\'');
	while (span_chr(text, '\'') < text.n) {
		str_span(out, span_next(&text, '\''));
		str_puts(out, "'\\''");
	}
	str_span(out, text);
	str_char(out, '\'');
}

void memory_wipe(void *p, size_t n)
{
	explicit_bzero(p, n);
}

void free_wiped(void *p)
{
	if (p)
		memory_wipe(p, malloc_usable_size(p));
	free(p);
}

void *realloc_wiped(void *p, size_t n)
{
	void *to = xmalloc(n);
	size_t old = p ? malloc_usable_size(p) : 0;
	if (p)
		memcpy(to, p, old < n ? old : n);
	free_wiped(p);
	return to;
}

/* The digits of v, without sign and point, and its decimal exponent: 0.DIGITS x 10^exp. */
static int shortest_digits(double v, char digits[static 20])
{
	char text[40];
	for (int precision = 0; precision < 17; precision++) {
		(void)snprintf(text, sizeof(text), "%.*e", precision, v);
		if (strtod(text, NULL) == v)
			break;
	}
	size_t n = 0;
	const char *p = text;
	for (; *p != 'e'; p++) {
		if (*p != '.')
			digits[n++] = *p;
	}
	while (n > 1 && digits[n - 1] == '0')
		n--;
	digits[n] = '\0';
	int64_t exponent = 0;
	const char *e = p + 1 + (p[1] == '+');
	int bad = parse_i64(span_of(e), -400, 400, &exponent);
	assert(bad == 0);
	return (int)exponent + 1;
}

/* Number::toString of ECMAScript for a positive finite number: k digits, point at n. */
static void put_digits(struct str *out, const char *digits, int n)
{
	int k = (int)strlen(digits);
	if (k <= n && n <= 21) {
		str_printf(out, "%s%.*s", digits, n - k, "000000000000000000000");
	} else if (0 < n && n <= 21) {
		str_printf(out, "%.*s.%s", n, digits, digits + n);
	} else if (-6 < n && n <= 0) {
		str_printf(out, "0.%.*s%s", -n, "000000", digits);
	} else {
		str_printf(out, "%c%s%se%c%d", digits[0], k > 1 ? "." : "", digits + 1,
		           n > 0 ? '+' : '-', n > 0 ? n - 1 : 1 - n);
	}
}

/*
 * The fast path for numbers with at most six digits after the point (0.01, 1.5): the fewest digits
 * that read back to v.  Returns 0 for other numbers.
 */
static size_t put_short(char out[static NUMBER_MAX], double v)
{
	static const double POWERS[] = { 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6 };
	double size = fabs(v);
	if (!(size >= 1e-6 && size < 1e9))
		return 0;
	for (int k = 0; k <= 6; k++) {
		double shifted = rint(size * POWERS[k]); /* below 10^15: exact */
		if (shifted / POWERS[k] != size)
			continue;
		char *end = out + NUMBER_MAX;
		char *p = end;
		*--p = '\0';
		uint64_t digits = (uint64_t)shifted;
		if (k) {
			p = decimal_before(p, digits % (uint64_t)POWERS[k], k);
			*--p = '.';
		}
		p = decimal_before(p, digits / (uint64_t)POWERS[k], 1);
		if (v < 0)
			*--p = '-';
		memmove(out, p, (size_t)(end - p));
		return (size_t)(end - p) - 1;
	}
	return 0;
}

size_t number_text(char out[static NUMBER_MAX], double v)
{
	size_t n = put_short(out, v);
	if (n)
		return n;
	STR_AUTO text = STR_INIT(NUMBER_MAX - 1);
	if (v < 0)
		str_char(&text, '-');
	if (isnan(v)) {
		str_puts(&text, "NaN");
	} else if (isinf(v)) {
		str_puts(&text, "Infinity");
	} else if (v == 0) {
		str_puts(&text, "0");
	} else {
		char digits[20] = "";
		int exponent = shortest_digits(fabs(v), digits);
		put_digits(&text, digits, exponent);
	}
	assert(!text.full);
	memcpy(out, str_c(&text), text.n + 1);
	return text.n;
}

void number_put(struct str *out, double v)
{
	char text[NUMBER_MAX];
	size_t n = number_text(text, v);
	str_put(out, text, n);
}

size_t utf8_check(struct span text)
{
	const unsigned char *p = (const unsigned char *)text.p;
	unsigned n;
	for (size_t i = 0; i < text.n; i += n) {
		uint64_t eight = UINT64_MAX;
		if (text.n - i >= sizeof(eight))
			memcpy(&eight, p + i, sizeof(eight));
		if ((eight & 0x8080808080808080u) == 0)
			n = sizeof(eight);
		else if (utf8_decode(p + i, text.n - i, &n) == UTF8_INVALID && n == 1)
			return i;
	}
	return text.n;
}

static bool utf8_continues(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

uint32_t utf8_decode(const unsigned char *p, size_t n, unsigned *width)
{
	static const uint32_t LEAST[] = { 0, 0, 0x80, 0x800, 0x10000 };
	*width = 1;
	if (p[0] < 0x80)
		return p[0];
	unsigned size = p[0] < 0xC2 || p[0] >= 0xF5 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
	bool good = size > 0 && size <= n;
	uint32_t r = p[0] & (0x7Fu >> size);
	for (unsigned i = 1; good && i < size; i++) {
		good = utf8_continues(p[i]);
		r = r << 6 | (p[i] & 0x3Fu);
	}
	if (!good || r < LEAST[size] || r > 0x10FFFF || (r >= 0xD800 && r < 0xE000))
		return UTF8_INVALID;
	*width = size;
	return r;
}

/* Valid characters never overlap, so decoding backwards finds the same ones. */
uint32_t utf8_decode_last(const unsigned char *p, size_t n, unsigned *width)
{
	for (unsigned w = 2; w <= 4 && w <= n; w++) {
		if (utf8_continues(p[n - w]))
			continue;
		unsigned got;
		uint32_t r = utf8_decode(p + n - w, w, &got);
		if (got != w)
			break;
		*width = w;
		return r;
	}
	*width = 1;
	return p[n - 1] < 0x80 ? p[n - 1] : UTF8_INVALID;
}

size_t utf8_put(char *out, uint32_t c)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char FIRST[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (char)(0x80 | (c & 63));
	out[0] = (char)(FIRST[n] | c);
	return n;
}

bool utf8_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

bool utf8_plain(struct span text)
{
	const unsigned char *p = (const unsigned char *)text.p;
	unsigned n;
	for (size_t i = 0; i < text.n; i += n)
		if (utf8_is_control(utf8_decode(p + i, text.n - i, &n)))
			return false;
	return true;
}

/*
 * ---- base64 ----
 *
 * Secrets are encoded and decoded here, so no branch or index depends on the data: the time depends
 * on the length only.
 */

/* The alphabet: runs of characters that stand for consecutive numbers. */
static const struct {
	unsigned char first, last, value;
} RUNS[] = {
	{ 'A', 'Z', 0 }, { 'a', 'z', 26 }, { '0', '9', 52 }, { '+', '+', 62 }, { '/', '/', 63 },
};
enum { N_RUNS = ARRAY_SIZE(RUNS), NO_DIGIT = 0x40 };

/* All bits if low <= v <= high, else none; all of them below 2^31. */
static uint32_t base64_mask_between(uint32_t v, uint32_t low, uint32_t high)
{
	return (((v - low) | (high - v)) >> 31) - 1;
}

static char base64_digit_of(uint32_t value)
{
	uint32_t c = 0;
	for (unsigned i = 0; i < N_RUNS; i++) {
		uint32_t from = RUNS[i].value;
		uint32_t to = from + RUNS[i].last - RUNS[i].first;
		c |= base64_mask_between(value, from, to) & (value - from + RUNS[i].first);
	}
	return (char)c;
}

/* NO_DIGIT for other characters.  The runs are written out, for speed. */
static uint32_t base64_value_of(char digit)
{
	uint32_t c = (unsigned char)digit;
	uint32_t upper = base64_mask_between(c, 'A', 'Z');
	uint32_t lower = base64_mask_between(c, 'a', 'z');
	uint32_t number = base64_mask_between(c, '0', '9');
	uint32_t plus = base64_mask_between(c, '+', '+');
	uint32_t slash = base64_mask_between(c, '/', '/');
	uint32_t value = (upper & (c - 'A')) | (lower & (c - 'a' + 26)) |
	                 (number & (c - '0' + 52)) | (plus & 62) | (slash & 63);
	return value | (~(upper | lower | number | plus | slash) & NO_DIGIT);
}

void str_base64(struct str *out, struct span bytes)
{
	const unsigned char *in = (const unsigned char *)bytes.p;
	size_t n = bytes.n / 3 * 4 + (bytes.n % 3 ? 4 : 0);
	if (!str_reserve(out, n))
		return;
	char *p = out->p + out->n;
	for (size_t i = 0; i < bytes.n; i += 3, p += 4) {
		size_t left = bytes.n - i;
		uint32_t three = (uint32_t)in[i] << 16;
		if (left > 1)
			three |= (uint32_t)in[i + 1] << 8;
		if (left > 2)
			three |= in[i + 2];
		p[0] = base64_digit_of(three >> 18);
		p[1] = base64_digit_of(three >> 12 & 63);
		p[2] = '=';
		p[3] = '=';
		if (left > 1)
			p[2] = base64_digit_of(three >> 6 & 63);
		if (left > 2)
			p[3] = base64_digit_of(three & 63);
	}
	out->n += n;
	out->p[out->n] = '\0';
}

int base64_decode(struct arena *a, struct span text, struct span *bytes)
{
	if (text.n % 4)
		return -1;
	size_t padding = 0;
	while (padding < 2 && padding < text.n && text.p[text.n - 1 - padding] == '=')
		padding++;
	size_t n = text.n / 4 * 3 - padding;
	unsigned char *out = arena_alloc(a, text.n / 4 * 3 + 1);
	uint32_t bad = 0;
	for (size_t i = 0; i < text.n; i += 4) {
		uint32_t three = 0;
		size_t digits = i + 4 == text.n ? 4 - padding : 4;
		for (size_t k = 0; k < 4; k++) {
			uint32_t v = k < digits ? base64_value_of(text.p[i + k]) : 0;
			bad |= v & NO_DIGIT;
			three = three << 6 | (v & 63);
		}
		out[i / 4 * 3] = (unsigned char)(three >> 16);
		out[i / 4 * 3 + 1] = (unsigned char)(three >> 8);
		out[i / 4 * 3 + 2] = (unsigned char)three;
	}
	/* Bits after the last byte must be zero: each value has one text. */
	for (size_t k = n; k < text.n / 4 * 3; k++)
		bad |= out[k];
	out[n] = 0;
	if (bad)
		return -1;
	*bytes = (struct span){ (const char *)out, n };
	return 0;
}

int base64url_decode(struct arena *a, struct span text, struct span *bytes)
{
	/* The characters of base64url become those of base64, which become invalid. */
	static const char FROM[] = "-_+/=";
	static const char TO[] = "+/!!!";
	size_t padding = (4 - text.n % 4) % 4;
	char *p = arena_alloc(a, text.n + 4);
	for (size_t i = 0; i < text.n; i++) {
		const char *at = text.p[i] ? strchr(FROM, text.p[i]) : NULL;
		p[i] = text.p[i];
		if (at)
			p[i] = TO[at - FROM];
	}
	memset(p + text.n, '=', padding);
	return padding == 3 ? -1 : base64_decode(a, (struct span){ p, text.n + padding }, bytes);
}
