/*
 * What a plain scalar of YAML means.  Jobs were written for OpenPAI, which reads
 * them with js-yaml 3.13: YAML 1.1 numbers, but YAML 1.2 booleans.  The order in
 * which the types are tried is part of that: null, boolean, integer, float, date.
 */
#include "base/yaml/yaml_plain.h"

#include <math.h>
#include <stdlib.h>

#include "base/chars.h"
#include "base/yaml/spelling.h"
#include "base/yaml/yaml.h"

static const double EXACT_MAX = 9007199254740992.0; /* 2^53 */

void node_set_number(struct node *n, double v)
{
	if (v >= -EXACT_MAX && v <= EXACT_MAX && v == (double)(int64_t)v) {
		n->type = NODE_INT;
		n->integer = (int64_t)v;
	} else {
		n->type = NODE_REAL;
		n->real = v;
	}
}

static bool is_one_of(struct span t, const char *const *words)
{
	for (; *words; words++) {
		if (span_is(t, *words))
			return true;
	}
	return false;
}

bool plain_null(struct node *n, struct span t)
{
	static const char *const WORDS[] = { "", "~", "null", "Null", "NULL", NULL };
	if (t.n > 4 || !is_one_of(t, WORDS))
		return false;
	n->type = NODE_NULL;
	return true;
}

bool plain_bool(struct node *n, struct span t)
{
	static const char *const TRUE_WORDS[] = { "true", "True", "TRUE", NULL };
	static const char *const FALSE_WORDS[] = { "false", "False", "FALSE", NULL };
	if (t.n < 4 || t.n > 5)
		return false;
	bool yes = is_one_of(t, TRUE_WORDS);
	if (!yes && !is_one_of(t, FALSE_WORDS))
		return false;
	n->type = NODE_BOOL;
	n->boolean = yes;
	return true;
}

/* The value of a digit in bases up to 16, 16 if it is none. */
static unsigned digit_value(char c)
{
	if (is_digit(c))
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned)(c - 'A') + 10;
	return 16;
}

/* The nearest double to the decimal text, whose underscores do not count. */
static double decimal(struct span t)
{
	char small[64];
	char *buf = t.n < sizeof(small) ? small : xmalloc(t.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] != '_')
			buf[n++] = t.p[i];
	}
	buf[n] = '\0';
	double v = strtod(buf, NULL);
	explicit_bzero(buf, n);
	if (buf != small)
		free(buf);
	return v;
}

/*
 * Digits and underscores in base 2^bits, to the nearest double: 60 bits are kept
 * and the lowest of them remembers whether anything below was set.
 */
static bool power_of_two_base(struct span t, unsigned bits, double *v)
{
	uint64_t kept = 0;
	bool below = false;
	bool any = false;
	int exponent = 0;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] == '_')
			continue;
		unsigned digit = digit_value(t.p[i]);
		if (digit >= 1u << bits)
			return false;
		any = true;
		if (kept >> (60 - bits) == 0) {
			kept = kept << bits | digit;
		} else {
			exponent += (int)bits;
			below = below || digit;
		}
	}
	if (!any || t.p[t.n - 1] == '_')
		return false;
	*v = ldexp((double)(kept | below), exponent);
	return true;
}

/* `(:[0-5]?[0-9])+` at the start of t: its length, 0 if it is not there. */
static size_t sixties(struct span t)
{
	size_t i = 0;
	while (i + 1 < t.n && t.p[i] == ':' && is_digit(t.p[i + 1])) {
		bool two = t.p[i + 1] <= '5' && i + 2 < t.n && is_digit(t.p[i + 2]);
		i += two ? 3 : 2;
	}
	return i;
}

/* Groups between colons, each sixty times the next; added up from the right, as js-yaml does. */
static double base_sixty(struct span t)
{
	double v = 0;
	double unit = 1;
	size_t end = t.n;
	for (size_t i = t.n; i-- > 0;) {
		if (i && t.p[i - 1] != ':')
			continue;
		v += decimal((struct span){ t.p + i, end - i }) * unit;
		unit *= 60;
		end = i ? i - 1 : 0;
	}
	return v;
}

static struct span without_sign(struct span t, double *sign)
{
	bool has = t.n && (t.p[0] == '-' || t.p[0] == '+');
	*sign = has && t.p[0] == '-' ? -1 : 1;
	return has ? (struct span){ t.p + 1, t.n - 1 } : t;
}

/* Digits that do not begin with 0: decimal, or base 60. */
static bool int_decimal(struct span t, double *v)
{
	size_t i = 0;
	bool any = false;
	if (t.n == 0 || t.p[0] == '_')
		return false;
	while (i < t.n && (is_digit(t.p[i]) || t.p[i] == '_'))
		any = is_digit(t.p[i++]) || any;
	if (!any)
		return false;
	if (i == t.n) {
		if (t.p[i - 1] == '_')
			return false;
		*v = decimal(t);
		return true;
	}
	if (i + sixties((struct span){ t.p + i, t.n - i }) != t.n)
		return false;
	*v = base_sixty(t);
	return true;
}

static bool int_value(struct span t, double *v)
{
	if (t.n == 0 || t.p[0] != '0')
		return int_decimal(t, v);
	if (t.n == 1) {
		*v = 0;
		return true;
	}
	if (t.p[1] == 'b')
		return power_of_two_base((struct span){ t.p + 2, t.n - 2 }, 1, v);
	if (t.p[1] == 'x')
		return power_of_two_base((struct span){ t.p + 2, t.n - 2 }, 4, v);
	return power_of_two_base((struct span){ t.p + 1, t.n - 1 }, 3, v);
}

bool plain_small_int(struct node *n, struct span t)
{
	int64_t v = 0;
	if (t.n == 0 || t.n > 15 || (t.p[0] == '0' && t.n > 1))
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (!is_digit(t.p[i]))
			return false;
		v = v * 10 + (t.p[i] - '0');
	}
	n->type = NODE_INT;
	n->integer = v;
	return true;
}

bool plain_int(struct node *n, struct span t)
{
	double sign = 1;
	double v = 0;
	if (plain_small_int(n, t))
		return true;
	if (!int_value(without_sign(t, &sign), &v))
		return false;
	node_set_number(n, sign * v);
	return true;
}

static size_t digits_at(struct span t, size_t i, bool underscores)
{
	size_t from = i;
	while (i < t.n && (is_digit(t.p[i]) || (underscores && t.p[i] == '_')))
		i++;
	return i - from;
}

/* The length of `[eE][-+]?[0-9]+` at i, 0 if it is not there. */
static size_t exponent_at(struct span t, size_t i)
{
	if (i >= t.n || (t.p[i] != 'e' && t.p[i] != 'E'))
		return 0;
	size_t sign = i + 1 < t.n && (t.p[i + 1] == '-' || t.p[i + 1] == '+');
	size_t digits = digits_at(t, i + 1 + sign, false);
	return digits ? 1 + sign + digits : 0;
}

/* `(0|[1-9][0-9_]*)(\.[0-9_]*)?EXPONENT?` or `\.[0-9_]+EXPONENT?`, the whole text. */
static bool float_plain(struct span t, bool has_sign)
{
	size_t i = 0;
	if (t.n && is_digit(t.p[0])) {
		i = t.p[0] == '0' ? 1 : digits_at(t, 0, true);
		if (i < t.n && t.p[i] == '.')
			i += 1 + digits_at(t, i + 1, true);
	} else if (t.n && t.p[0] == '.' && !has_sign) {
		size_t digits = digits_at(t, 1, true);
		if (digits == 0)
			return false;
		i = 1 + digits;
	}
	return i && i + exponent_at(t, i) == t.n;
}

/* `[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*`, the whole text. */
static bool float_sixty(struct span t)
{
	if (t.n == 0 || !is_digit(t.p[0]))
		return false;
	size_t i = digits_at(t, 0, true);
	size_t groups = sixties((struct span){ t.p + i, t.n - i });
	i += groups;
	if (groups == 0 || i == t.n || t.p[i] != '.')
		return false;
	return i + 1 + digits_at(t, i + 1, true) == t.n;
}

static bool float_word(struct span t, bool has_sign, double *v)
{
	static const char *const INF[] = { ".inf", ".Inf", ".INF", NULL };
	static const char *const NOT[] = { ".nan", ".NaN", ".NAN", NULL };
	if (t.n != 4 || t.p[0] != '.')
		return false;
	if (is_one_of(t, INF))
		*v = (double)INFINITY;
	else if (!has_sign && is_one_of(t, NOT))
		*v = (double)NAN;
	else
		return false;
	return true;
}

bool plain_float(struct node *n, struct span text)
{
	double sign = 1;
	double v = 0;
	struct span t = without_sign(text, &sign);
	bool has_sign = t.n != text.n;
	if (t.n == 0 || t.p[t.n - 1] == '_')
		return false;
	if (float_plain(t, has_sign))
		v = decimal(t);
	else if (float_sixty(t))
		v = base_sixty(t);
	else if (!float_word(t, has_sign, &v))
		return false;
	node_set_number(n, sign * v);
	return true;
}

static void set_text(struct node *n, enum node_type type, struct span text, struct arena *a)
{
	n->type = (uint8_t)type;
	n->text = arena_dup(a, text);
	n->n = (uint32_t)text.n;
}

/* What a plain scalar may be, by its first character. */
enum guess { TEXT, WORD, NUMBER, ELSEWHERE /* text, and something else for others */ };

static enum guess guess(struct span t)
{
	static const unsigned char FIRST[256] = {
		['~'] = WORD,      ['n'] = WORD,      ['N'] = WORD,      ['t'] = WORD,
		['T'] = WORD,      ['f'] = WORD,      ['F'] = WORD,      ['y'] = ELSEWHERE,
		['Y'] = ELSEWHERE, ['o'] = ELSEWHERE, ['O'] = ELSEWHERE, ['+'] = NUMBER,
		['-'] = NUMBER,    ['.'] = NUMBER,    ['0'] = NUMBER,    ['1'] = NUMBER,
		['2'] = NUMBER,    ['3'] = NUMBER,    ['4'] = NUMBER,    ['5'] = NUMBER,
		['6'] = NUMBER,    ['7'] = NUMBER,    ['8'] = NUMBER,    ['9'] = NUMBER,
	};
	enum { WORD_MAX = 5 };
	enum guess g = t.n ? (enum guess)FIRST[(unsigned char)t.p[0]] : WORD;
	return g != NUMBER && t.n > WORD_MAX ? TEXT : g;
}

bool plain_surely_text(struct span t)
{
	struct node n;
	enum guess g = guess(t);
	return g != NUMBER && !(g == WORD && (plain_null(&n, t) || plain_bool(&n, t)));
}

void yaml_resolve_plain(struct node *n, struct span text, struct arena *a)
{
	enum guess g = guess(text);
	if (g == TEXT) {
		set_text(n, NODE_TEXT, text, a);
		return;
	}
	bool word = g == WORD && (plain_null(n, text) || plain_bool(n, text));
	bool number = g == NUMBER && (plain_int(n, text) || plain_float(n, text));
	if (!word && !number) {
		bool date = g == NUMBER && plain_is_date(text);
		set_text(n, date ? NODE_DATE : NODE_TEXT, text, a);
	}
	spelling_mark(n, text);
}
