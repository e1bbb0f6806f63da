/*
 * Scalars that are not taken alike by everybody.  YAML 1.1 (PyYAML) and YAML 1.2 differ in
 * numbers and booleans; js-yaml 3, which jobs were written for, is in between.
 */
#include "base/yaml/spelling.h"

#include <math.h>

#include "base/chars.h"
#include "base/enc.h"

/* So many digits a double always holds; of so short a text none is written with an exponent. */
enum { DIGITS_MAX = 15, SHORT_MAX = 8 };

static bool is_one_of(struct span t, const char *const *words)
{
	for (; *words; words++)
		if (span_is(t, *words))
			return true;
	return false;
}

/* Booleans of PyYAML that are text here. */
static bool is_boolean_elsewhere(struct span t)
{
	static const char *const WORDS[] = { "yes", "Yes", "YES", "no",  "No",  "NO", "on",
		                             "On",  "ON",  "off", "Off", "OFF", NULL };
	return t.n <= 3 && is_one_of(t, WORDS);
}

/* Numbers of YAML 1.2 that are text here: 0o17, 08. */
static bool is_number_elsewhere(struct span t)
{
	if (t.n < 2 || t.p[0] != '0')
		return false;
	bool octal = t.p[1] == 'o';
	size_t i = octal ? 2 : 1;
	if (i == t.n)
		return false;
	for (; i < t.n; i++)
		if (!is_digit(t.p[i]) || (octal && t.p[i] > '7'))
			return false;
	return true;
}

/* Digits that are written again as they are, seen without a calculation: 12, 0.5, 3.25. */
static bool is_short(struct span t)
{
	size_t i = 0;
	while (i < t.n && is_digit(t.p[i]))
		i++;
	bool whole = i && (t.p[0] != '0' || i == 1);
	if (!whole || i == t.n || t.p[i] != '.')
		return whole && i == t.n && i <= DIGITS_MAX;
	size_t point = i++;
	while (i < t.n && is_digit(t.p[i]))
		i++;
	return i == t.n && i > point + 1 && i <= SHORT_MAX && t.p[i - 1] != '0';
}

static bool has_exponent(struct span t)
{
	bool hex = t.n > 2 && (t.p[1] == 'x' || t.p[2] == 'x');
	return !hex && (memchr(t.p, 'e', t.n) || memchr(t.p, 'E', t.n));
}

/* Is it the same text, written again?  1e3 and .5 mean 1000 and 0.5 to everybody. */
static bool comes_back(struct span t, double v)
{
	char text[NUMBER_MAX];
	if (is_short(t))
		return true;
	if (!isfinite(v))
		return false;
	if (t.p[0] == '.' || has_exponent(t))
		return true;
	size_t n = number_text(text, v);
	return span_eq(t, (struct span){ text, n });
}

static enum spelling of_number(struct span t, double v)
{
	size_t sign = t.n && (t.p[0] == '-' || t.p[0] == '+');
	struct span digits = { t.p + sign, t.n - sign };
	if (digits.n > 1 && digits.p[0] == '0' && digits.p[1] >= '0' && digits.p[1] <= '7')
		return SPELT_OCTAL;
	if (memchr(t.p, ':', t.n))
		return SPELT_SIXTY;
	if (comes_back(t, v))
		return SPELT_PLAINLY;
	return isfinite(v) && fabs(v) >= 0x1p53 && !memchr(t.p, '.', t.n) ? SPELT_ROUNDED
	                                                                  : SPELT_OTHERWISE;
}

static enum spelling of(const struct node *n, struct span t)
{
	switch ((enum node_type)n->type) {
	case NODE_INT:
		return of_number(t, (double)n->integer);
	case NODE_REAL:
		return of_number(t, n->real);
	case NODE_BOOL:
		return t.p[0] < 'a' ? SPELT_OTHERWISE : SPELT_PLAINLY;
	case NODE_DATE:
		return SPELT_DATE;
	case NODE_TEXT:
		return is_boolean_elsewhere(t)  ? SPELT_BOOLEAN
		       : is_number_elsewhere(t) ? SPELT_NUMBER
		                                : SPELT_PLAINLY;
	case NODE_NULL:
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return SPELT_PLAINLY;
}

void spelling_mark(struct node *n, struct span text)
{
	enum spelling s = text.n ? of(n, text) : SPELT_PLAINLY;
	if (s != SPELT_PLAINLY)
		n->flags |= (uint8_t)(NODE_ODD | s << SPELLING_SHIFT);
}
