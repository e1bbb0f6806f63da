/* Single values of JSON, as what they mean. */
#include "base/chars.h"
#include "base/json/scan.h"

bool scan_bool(struct span value, bool *out)
{
	if (!span_is(value, "true") && !span_is(value, "false"))
		return false;
	*out = value.n == 4;
	return true;
}

bool scan_int(struct span value, int64_t min, int64_t max, int64_t *out)
{
	size_t n = 0;
	while (n < value.n && value.p[n] != '.')
		n++;
	for (size_t i = n + 1; i < value.n; i++) {
		if (value.p[i] != '0')
			return false;
	}
	return parse_i64((struct span){ value.p, n }, min, max, out) == 0;
}

/* Four hexadecimal digits as a number, -1 if they are none. */
static int hex4(struct span t, size_t at)
{
	int v = 0;
	if (t.n < at || t.n - at < 4)
		return -1;
	for (size_t i = at; i < at + 4; i++) {
		int digit = hex_value(t.p[i]);
		if (digit < 0)
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

static size_t put_utf8(char *out, int c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 63));
		out[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 63));
	out[2] = (char)(0x80 | (c >> 6 & 63));
	out[3] = (char)(0x80 | (c & 63));
	return 4;
}

/* The character that is escaped as \uXXXX, whose digits begin at *at, or as two of those; moves *at
 * behind it.  0: none that a text may have. */
static int escaped_character(struct span t, size_t *at)
{
	int c = hex4(t, *at);
	*at += 4;
	if (c < 0 || (c >= 0xdc00 && c < 0xe000))
		return 0;
	if (c < 0xd800 || c >= 0xe000)
		return c;
	bool pair = t.n - *at >= 2 && t.p[*at] == '\\' && t.p[*at + 1] == 'u';
	int low = pair ? hex4(t, *at + 2) : -1;
	*at += 6;
	return low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : 0;
}

/* What an escape of one letter stands for, 0 if it is none. */
static char escaped_letter(char c)
{
	static const char LETTERS[256] = {
		['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
		['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
	};
	return LETTERS[(unsigned char)c];
}

/* No escape is shorter than what it stands for. */
static bool unescape(struct span t, char *out, size_t *n)
{
	for (size_t i = 0; i < t.n;) {
		if (t.p[i] != '\\') {
			out[(*n)++] = t.p[i++];
			continue;
		}
		if (t.n - i < 2)
			return false;
		char letter = t.p[i + 1];
		i += 2;
		int c = letter == 'u' ? escaped_character(t, &i) : escaped_letter(letter);
		if (c == 0)
			return false;
		*n += put_utf8(out + *n, c);
	}
	return true;
}

bool scan_string(struct span value, struct arena *a, struct span *out)
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
	if (!unescape(t, text, &n))
		return false;
	*out = (struct span){ text, n };
	return true;
}

struct span scan_text(struct span value, struct arena *a)
{
	struct span text = { "", 0 };
	(void)scan_string(value, a, &text); /* what is none is "" */
	return text;
}

/* n digits, or -1. */
static int digits(const char *p, size_t n)
{
	int v = 0;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(p[i]))
			return -1;
		v = v * 10 + (p[i] - '0');
	}
	return v;
}

static int days_of(int year, int month)
{
	static const int DAYS[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return month == 2 && leap ? 29 : DAYS[month - 1];
}

/* From 1970 to the first of March of the year before this month, and on: leap days come last. */
static int days_since_1970(int year, int month, int day)
{
	int y = month > 2 ? year : year - 1;
	int m = month > 2 ? month - 3 : month + 9;
	return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 719469;
}

/* "2026-11-22T01:34:56" */
static bool seconds_since_1970(const char *p, int64_t *out)
{
	if (p[4] != '-' || p[7] != '-' || p[10] != 'T' || p[13] != ':' || p[16] != ':')
		return false;
	int year = digits(p, 4);
	int month = digits(p + 5, 2);
	int day = digits(p + 8, 2);
	int hour = digits(p + 11, 2);
	int minute = digits(p + 14, 2);
	int second = digits(p + 17, 2);
	if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_of(year, month))
		return false;
	if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
		return false;
	*out = days_since_1970(year, month, day) * INT64_C(86400) + hour * INT64_C(3600) +
	       minute * INT64_C(60) + second;
	return true;
}

bool scan_time_ms(struct span value, int64_t *out)
{
	enum { PLAIN = sizeof("\"2026-11-22T01:34:56Z\"") - 1, FRACTION_AT = PLAIN - 2 };
	int64_t s = 0;
	if (value.n < PLAIN || value.p[0] != '"' || !seconds_since_1970(value.p + 1, &s))
		return false;
	const char *p = value.p + FRACTION_AT;
	size_t n = value.n - FRACTION_AT; /* ".123Z" and the quote */
	if (p[n - 2] != 'Z' || p[n - 1] != '"')
		return false;
	int64_t ms = 0;
	if (n > 2) {
		if (p[0] != '.' || n == 3)
			return false;
		for (size_t i = 1, unit = 100; i < n - 2; i++, unit /= 10) {
			if (!is_digit(p[i]))
				return false;
			ms += (int64_t)unit * (p[i] - '0');
		}
	}
	*out = s * 1000 + ms;
	return true;
}
