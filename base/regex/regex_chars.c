/* Escapes and classes of characters in patterns. */
#include "base/regex/regex_parser.h"

#include "base/chars.h"

void *parser_fail(struct parser *p, size_t at, const char *what)
{
	err_set(p->e, REGEX_ERROR, "%s at byte %zu", what, at + 1);
	return NULL;
}

uint32_t parser_rune(struct parser *p)
{
	unsigned width;
	uint32_t r =
	    rune_decode((const unsigned char *)p->text.p + p->at, p->text.n - p->at, &width);
	p->at += width;
	return r;
}

/* ---- escapes ------------------------------------------------------------------------------ */

/* Behind \x: two digits, or any number of them in braces. */
static bool hex_escape(struct parser *p, uint32_t *out)
{
	bool braces = take(p, "{");
	uint32_t value = 0;
	size_t digits = 0;
	for (; more(p) && (braces || digits < 2); digits++, p->at++) {
		int digit = hex_value(peek(p));
		if (digit < 0)
			break;
		value = value * 16 + (uint32_t)digit;
		if (value > RUNE_MAX)
			return false;
	}
	*out = value;
	return braces ? digits > 0 && take(p, "}") : digits == 2;
}

static bool octal(char c)
{
	return c >= '0' && c <= '7';
}

/* An escape that stands for one character; the backslash is behind us. */
bool escape_rune(struct parser *p, uint32_t *out)
{
	static const char LETTERS[] = "afnrtv";
	static const char CODES[] = "\a\f\n\r\t\v";
	char c = peek(p);
	const char *letter = c ? strchr(LETTERS, c) : NULL;
	p->at++;
	if (letter) {
		*out = (unsigned char)CODES[letter - LETTERS];
		return true;
	}
	if (c == 'x')
		return hex_escape(p, out);
	/* \1 to \7 alone would refer back. */
	if (octal(c) && (c == '0' || octal(peek(p)))) {
		*out = (uint32_t)(c - '0');
		for (int i = 0; i < 2 && octal(peek(p)); i++)
			*out = *out * 8 + (uint32_t)(p->text.p[p->at++] - '0');
		return true;
	}
	*out = (unsigned char)c;
	return !is_alnum(c) && (unsigned char)c < 0x80;
}

void *escape_fail(struct parser *p, size_t at)
{
	if (at + 1 >= p->text.n)
		return parser_fail(p, at, "trailing backslash");
	if (strchr("pP", p->text.p[at + 1]))
		return parser_fail(p, at, "classes of Unicode (\\p) are not supported,");
	if (p->text.p[at + 1] >= '1' && p->text.p[at + 1] <= '9')
		return parser_fail(p, at, "back-references are not supported,");
	return parser_fail(p, at, "invalid escape");
}

/* Is it \d, \D, \s, \S, \w or \W?  Then into the set. */
bool escape_class(struct parser *p, struct runes *set)
{
	char c = byte_at(p, p->at + 1);
	char lower = (char)(c | 0x20);
	if (!c || peek(p) != '\\' || !strchr("dsw", lower))
		return false;
	runes_add_class(set, p->a, (struct span){ &lower, 1 }, c != lower, p->flags & FOLD);
	p->at += 2;
	return true;
}

/* ---- classes -------------------------------------------------------------------------------- */

/* One end of a range. */
static bool class_rune(struct parser *p, size_t open, uint32_t *out)
{
	if (!more(p))
		return parser_fail(p, open, "missing closing ] of the class");
	if (peek(p) != '\\') {
		*out = parser_rune(p);
		return true;
	}
	size_t at = p->at++;
	return (more(p) && escape_rune(p, out)) || escape_fail(p, at);
}

/* [:name:] or [:^name:]: 1 if taken, 0 if it is none, -1 if there is none of that name. */
static int posix_class(struct parser *p, struct runes *set)
{
	if (!span_starts((struct span){ p->text.p + p->at, p->text.n - p->at }, "[:"))
		return 0;
	size_t end = span_find(p->text, p->at + 2, ":]");
	if (end == SIZE_MAX)
		return 0;
	struct span name = { p->text.p + p->at + 2, end - p->at - 2 };
	bool negated = name.n && name.p[0] == '^';
	if (negated)
		name = (struct span){ name.p + 1, name.n - 1 };
	/* d, s, w are no names. */
	if (name.n < 2 || !runes_add_class(set, p->a, name, negated, p->flags & FOLD)) {
		parser_fail(p, p->at, "unknown class of characters");
		return -1;
	}
	p->at = end + 2;
	return 1;
}

static bool class_range(struct parser *p, size_t open, struct runes *set)
{
	size_t at = p->at;
	uint32_t lo;
	uint32_t hi;
	if (!class_rune(p, open, &lo))
		return false;
	hi = lo;
	/* A - before the ] is one itself. */
	if (peek(p) == '-' && p->at + 1 < p->text.n && p->text.p[p->at + 1] != ']') {
		p->at++;
		if (!class_rune(p, open, &hi))
			return false;
	}
	if (hi < lo)
		return parser_fail(p, at, "range of characters from high to low");
	if (p->flags & FOLD)
		runes_add_folded(set, p->a, lo, hi);
	else
		runes_add(set, p->a, lo, hi);
	return true;
}

bool class_parse(struct parser *p, struct runes *set)
{
	size_t open = p->at++;
	bool negated = take(p, "^");
	for (bool first = true; first || peek(p) != ']'; first = false) {
		int posix = posix_class(p, set);
		if (posix < 0)
			return false;
		if (posix == 0 && !escape_class(p, set) && !class_range(p, open, set))
			return false;
	}
	p->at++;
	runes_clean(set);
	if (negated)
		runes_negate(set, p->a);
	return true;
}
