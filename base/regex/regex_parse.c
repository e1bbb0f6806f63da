/* Parses patterns by the rules of Go (regexp/syntax with the Perl flags); sets of characters. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/regex/regex_internal.h"
#include "base/str.h"

enum flag { FOLD = 1, MANY_LINES = 2, DOT_ALL = 4, SWAP_LAZY = 8 };

enum { COUNT_MAX = 1000 };

struct parser {
	struct span text;
	size_t at;
	unsigned flags;
	unsigned depth;
	struct arena *a;
	struct err *e;
};

static inline bool parse_more(const struct parser *p)
{
	return p->at < p->text.n;
}

/* NUL after the end; the pattern can also contain NULs. */
static inline char parse_byte_at(const struct parser *p, size_t at)
{
	if (at < p->text.n)
		return p->text.p[at];
	return '\0';
}

/* The next byte; NUL at the end. */
static inline char parse_peek(const struct parser *p)
{
	return parse_byte_at(p, p->at);
}

/* Consumes this text if it comes next. */
static inline bool parse_take(struct parser *p, const char *what)
{
	struct span rest = span_from(p->text, p->at);
	if (!span_starts(rest, what))
		return false;
	p->at += strlen(what);
	return true;
}

/* Sets the error with its position.  Returns NULL. */
static void *parser_fail(struct parser *p, size_t at, const char *what);
/* Consumes the next character; there must be one. */
static uint32_t parser_rune(struct parser *p);

/* An escape of one character; the backslash is consumed. */
static bool escape_rune(struct parser *p, uint32_t *out);
/* Adds \d, \D, \s, \S, \w or \W to the set; false if none comes next. */
static bool escape_class(struct parser *p, struct runes *set);
/* Sets the error of an invalid escape.  Returns NULL. */
static void *escape_fail(struct parser *p, size_t at);
/* Parses [...] into a clean set. */
static bool class_parse(struct parser *p, struct runes *set);

static struct re *parse_alternate(struct parser *p);

static struct re *tree(struct parser *p, enum re_kind kind)
{
	struct re *re = ARENA_NEW(p->a, struct re, 1);
	re->kind = kind;
	re->copies = 1;
	return re;
}

static void parse_append(struct re *list, struct re *item)
{
	item->prev = list->last;
	if (list->last)
		list->last->next = item;
	else
		list->first = item;
	list->last = item;
	if (item->copies > list->copies)
		list->copies = item->copies;
}

/* Add lo..hi, which is written at byte `at` of the pattern, in both cases under the flag i. */
static bool parser_add(struct parser *p, struct runes *set, size_t at, struct range r)
{
	/* Case folding of other letters needs tables of Unicode; a set of all of them needs none.
	 */
	bool plain = r.hi < 0x80 || (r.lo <= 0x80 && r.hi == RUNE_MAX);
	if (!(p->flags & FOLD)) {
		runes_add(set, p->a, r.lo, r.hi);
		return true;
	}
	if (!plain) {
		err_set(p->e, REGEX_ERROR,
		        "found the character U+%04X under (?i), which allows ASCII only "
		        "(write (?-i:...) around others), at byte %zu",
		        r.lo < 0x80 ? r.hi : r.lo, at + 1);
		return false;
	}
	runes_add_folded(set, p->a, r.lo, r.hi);
	return true;
}

/* The character that the pattern has at byte `at`. */
static struct re *one_rune(struct parser *p, size_t at, uint32_t rune)
{
	struct re *re = tree(p, RE_SET);
	if (!parser_add(p, &re->set, at, (struct range){ rune, rune }))
		return NULL;
	runes_clean(&re->set);
	return re;
}

static struct re *assertion(struct parser *p, enum assertion what)
{
	struct re *re = tree(p, RE_ASSERT);
	re->assertion = what;
	return re;
}

static struct re *dot(struct parser *p)
{
	struct re *re = tree(p, RE_SET);
	if (p->flags & DOT_ALL) {
		runes_add(&re->set, p->a, 0, RUNE_MAX);
		return re;
	}
	runes_add(&re->set, p->a, 0, '\n' - 1);
	runes_add(&re->set, p->a, '\n' + 1, RUNE_MAX);
	return re;
}

/* \Q...\E: every character as it stands. */
static struct re *parse_quoted(struct parser *p)
{
	struct re *list = tree(p, RE_CONCAT);
	while (parse_more(p) && !parse_take(p, "\\E")) {
		size_t at = p->at;
		struct re *re = one_rune(p, at, parser_rune(p));
		if (!re)
			return NULL;
		parse_append(list, re);
	}
	return list;
}

static struct re *parse_escape(struct parser *p)
{
	static const struct {
		const char *text;
		enum assertion what;
	} ASSERTIONS[] = {
		{ "\\A", BEGIN_TEXT },
		{ "\\z", END_TEXT },
		{ "\\b", WORD_EDGE },
		{ "\\B", NO_WORD_EDGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ASSERTIONS); i++) {
		if (parse_take(p, ASSERTIONS[i].text))
			return assertion(p, ASSERTIONS[i].what);
	}
	struct runes set = { 0 };
	if (escape_class(p, &set)) {
		struct re *re = tree(p, RE_SET);
		runes_clean(&set);
		re->set = set;
		return re;
	}
	size_t at = p->at++;
	uint32_t r;
	if (!parse_more(p) || !escape_rune(p, &r))
		return escape_fail(p, at);
	return one_rune(p, at, r);
}

static struct re *parse_class(struct parser *p)
{
	struct re *re = tree(p, RE_SET);
	return class_parse(p, &re->set) ? re : NULL;
}

/* ---- groups ---- */

static bool add_flag(unsigned *flags, char c, bool off)
{
	static const struct {
		char letter;
		enum flag flag;
	} FLAGS[] = { { 'i', FOLD }, { 'm', MANY_LINES }, { 's', DOT_ALL }, { 'U', SWAP_LAZY } };
	for (size_t i = 0; i < ARRAY_SIZE(FLAGS); i++) {
		if (FLAGS[i].letter == c) {
			*flags = off ? *flags & ~(unsigned)FLAGS[i].flag : *flags | FLAGS[i].flag;
			return true;
		}
	}
	return false;
}

/* `i-s:` or `i-s)` after `(?`: the last byte, or NUL if it is malformed. */
static char take_flags(struct parser *p)
{
	unsigned flags = p->flags;
	bool off = false, any = true; /* a minus needs a flag after it */
	while (parse_more(p)) {
		char c = p->text.p[p->at++];
		if (c == '-' && !off) {
			off = true;
			any = false;
		} else if (c == ':' || c == ')') {
			p->flags = any ? flags : p->flags;
			if (any)
				return c;
			break;
		} else if (add_flag(&flags, c, off)) {
			any = true;
		} else {
			return '\0';
		}
	}
	return '\0';
}

/* After (?P< or (?<: the name and its >.  Groups are not captured, so names can repeat. */
static bool take_name(struct parser *p)
{
	size_t from = p->at;
	while (parse_more(p) && rune_is_word((unsigned char)parse_peek(p)))
		p->at++;
	return p->at > from && parse_take(p, ">");
}

static struct re *parse_group(struct parser *p)
{
	size_t open = p->at++;
	unsigned outer = p->flags;
	if (parse_take(p, "?P<") || parse_take(p, "?<")) {
		if (parse_peek(p) == '=' || parse_peek(p) == '!')
			return parser_fail(p, open, "look-behind is not supported,");
		if (!take_name(p))
			return parser_fail(p, open, "invalid name of a group");
	} else if (parse_take(p, "?")) {
		if (parse_peek(p) == '=' || parse_peek(p) == '!')
			return parser_fail(p, open, "look-ahead is not supported,");
		char end = take_flags(p);
		if (!end)
			return parser_fail(p, open, "invalid or unsupported group");
		if (end == ')')
			return tree(p, RE_EMPTY); /* the flags stay set */
	}
	if (++p->depth > REGEX_DEPTH_MAX)
		return parser_fail(p, open, "groups are nested too deeply");
	struct re *re = parse_alternate(p);
	p->depth--;
	if (!re)
		return NULL;
	if (!parse_take(p, ")"))
		return parser_fail(p, open, "missing closing ) of the group");
	p->flags = outer;
	return re;
}

/* ---- repetition ---- */

/* A count without leading zeros; larger counts become COUNT_MAX + 1. */
static bool take_count(struct parser *p, int *out)
{
	size_t from = p->at;
	int value = 0;
	for (; parse_peek(p) >= '0' && parse_peek(p) <= '9'; p->at++) {
		value = value * 10 + (parse_peek(p) - '0');
		if (value > COUNT_MAX)
			value = COUNT_MAX + 1;
	}
	*out = value;
	return p->at > from && !(p->at - from > 1 && p->text.p[from] == '0');
}

/* {n}, {n,} or {n,m}; otherwise nothing is consumed, and the brace is a character. */
static bool take_braces(struct parser *p, int *min, int *max)
{
	size_t from = p->at;
	bool ok = parse_take(p, "{") && take_count(p, min);
	if (ok) {
		*max = *min;
		if (parse_take(p, ",")) {
			*max = -1;
			ok = parse_peek(p) == '}' || take_count(p, max);
		}
		ok = ok && parse_take(p, "}");
	}
	if (!ok)
		p->at = from;
	return ok;
}

struct count {
	int min, max;
};

static bool take_repeat(struct parser *p, struct count *c)
{
	c->min = 0;
	c->max = -1;
	switch (parse_peek(p)) {
	case '{':
		return take_braces(p, &c->min, &c->max);
	case '?':
		c->max = 1;
		break;
	case '+':
		c->min = 1;
		break;
	case '*':
		break;
	default:
		return false;
	}
	p->at++;
	return true;
}

static struct re *repeat(struct parser *p, const struct count *count, size_t at, struct re *item)
{
	struct re *re = tree(p, RE_REPEAT);
	int most = count->max < 0 ? count->min : count->max;
	if (count->min > COUNT_MAX || count->max > COUNT_MAX ||
	    (count->max >= 0 && count->min > count->max))
		return parser_fail(p, at, "invalid count");
	re->min = (int16_t)count->min;
	re->max = (int16_t)count->max;
	re->copies = most > 1 ? most * item->copies : item->copies;
	if (re->copies > COUNT_MAX)
		return parser_fail(p, at, "nested counts multiply to more than 1000");
	re->first = re->last = item;
	re->lazy = parse_take(p, "?") != ((p->flags & SWAP_LAZY) != 0);
	return re;
}

/* ---- sequences ---- */

static struct re *parse_atom(struct parser *p)
{
	switch (parse_peek(p)) {
	case '(':
		return parse_group(p);
	case '[':
		return parse_class(p);
	case '\\':
		return parse_take(p, "\\Q") ? parse_quoted(p) : parse_escape(p);
	case '.':
		p->at++;
		return dot(p);
	case '^':
		p->at++;
		return assertion(p, p->flags & MANY_LINES ? BEGIN_LINE : BEGIN_TEXT);
	case '$':
		p->at++;
		return assertion(p, p->flags & MANY_LINES ? END_LINE : END_TEXT);
	default: {
		size_t at = p->at;
		return one_rune(p, at, parser_rune(p));
	}
	}
}

static bool may_repeat(const struct re *re)
{
	return re->kind != RE_EMPTY;
}

/* An atom with its repetition, which applies to the last character of \Q...\E. */
static struct re *parse_item(struct parser *p, struct re *list)
{
	size_t from = p->at;
	struct count count;
	if (take_repeat(p, &count))
		return parser_fail(p, from, "missing argument to repetition");
	bool text = p->at + 1 < p->text.n && memcmp(p->text.p + p->at, "\\Q", 2) == 0;
	bool flags = parse_peek(p) == '(';
	struct re *item = parse_atom(p);
	if (!item)
		return NULL;
	flags = flags && !may_repeat(item);
	if (text && item->last) {
		while (item->first != item->last) {
			struct re *head = item->first;
			item->first = head->next;
			head->next = head->prev = NULL;
			parse_append(list, head);
		}
		item = item->last;
		item->next = item->prev = NULL;
	}
	from = p->at;
	if (flags || !take_repeat(p, &count))
		return item;
	struct re *re = repeat(p, &count, from, item);
	size_t again = p->at;
	if (re && take_repeat(p, &count))
		return parser_fail(p, again, "repetition of a repetition");
	return re;
}

static struct re *parse_concat(struct parser *p)
{
	struct re *list = tree(p, RE_CONCAT);
	while (parse_more(p) && parse_peek(p) != '|' && parse_peek(p) != ')') {
		struct re *item = parse_item(p, list);
		if (!item)
			return NULL;
		parse_append(list, item);
	}
	return list;
}

static struct re *parse_alternate(struct parser *p)
{
	struct re *list = tree(p, RE_ALTERNATE);
	do {
		struct re *item = parse_concat(p);
		if (!item)
			return NULL;
		parse_append(list, item);
	} while (parse_take(p, "|"));
	return list->first == list->last ? list->first : list;
}

struct re *regex_parse(struct span pattern, struct arena *a, struct err *e)
{
	struct parser p = { .text = pattern, .a = a, .e = e };
	size_t valid = utf8_check(pattern);
	if (pattern.n > REGEX_PATTERN_MAX)
		return parser_fail(&p, REGEX_PATTERN_MAX, "the pattern is too long, it has to end");
	if (valid != pattern.n)
		return parser_fail(&p, valid, "invalid UTF-8");
	struct re *re = parse_alternate(&p);
	if (re && parse_more(&p))
		return parser_fail(&p, p.at, "unexpected )");
	return re;
}

static void *parser_fail(struct parser *p, size_t at, const char *what)
{
	err_set(p->e, REGEX_ERROR, "%s at byte %zu", what, at + 1);
	return NULL;
}

static uint32_t parser_rune(struct parser *p)
{
	unsigned width;
	uint32_t r =
	    utf8_decode((const unsigned char *)p->text.p + p->at, p->text.n - p->at, &width);
	p->at += width;
	return r;
}

/* ---- escapes ---- */

/* After \x: two digits, or any number of digits in braces. */
static bool hex_escape(struct parser *p, uint32_t *out)
{
	bool braces = parse_take(p, "{");
	uint32_t value = 0;
	size_t digits = 0;
	for (; parse_more(p) && (braces || digits < 2); digits++, p->at++) {
		int digit = hex_value(parse_peek(p));
		if (digit < 0)
			break;
		value = value * 16 + (uint32_t)digit;
		if (value > RUNE_MAX)
			return false;
	}
	*out = value;
	return braces ? digits > 0 && parse_take(p, "}") : digits == 2;
}

static bool octal(char c)
{
	return c >= '0' && c <= '7';
}

/* An escape of one character; the backslash is consumed. */
static bool escape_rune(struct parser *p, uint32_t *out)
{
	static const char LETTERS[] = "afnrtv";
	static const char CODES[] = "\a\f\n\r\t\v";
	char c = parse_peek(p);
	const char *letter = c ? strchr(LETTERS, c) : NULL;
	p->at++;
	if (letter) {
		*out = (unsigned char)CODES[letter - LETTERS];
		return true;
	}
	if (c == 'x')
		return hex_escape(p, out);
	/* \1 to \7 alone are back-references. */
	if (octal(c) && (c == '0' || octal(parse_peek(p)))) {
		*out = (uint32_t)(c - '0');
		for (int i = 0; i < 2 && octal(parse_peek(p)); i++)
			*out = *out * 8 + (uint32_t)(p->text.p[p->at++] - '0');
		return true;
	}
	*out = (unsigned char)c;
	return !is_alnum(c) && (unsigned char)c < 0x80;
}

static void *escape_fail(struct parser *p, size_t at)
{
	if (at + 1 >= p->text.n)
		return parser_fail(p, at, "trailing backslash");
	if (strchr("pP", p->text.p[at + 1]))
		return parser_fail(p, at, "classes of Unicode (\\p) are not supported,");
	if (p->text.p[at + 1] >= '1' && p->text.p[at + 1] <= '9')
		return parser_fail(p, at, "back-references are not supported,");
	return parser_fail(p, at, "invalid escape");
}

/* Adds \d, \D, \s, \S, \w or \W to the set; false if none comes next. */
static bool escape_class(struct parser *p, struct runes *set)
{
	char c = parse_byte_at(p, p->at + 1);
	char lower = (char)(c | 0x20);
	if (!c || parse_peek(p) != '\\' || !strchr("dsw", lower))
		return false;
	runes_add_class(set, p->a, (struct span){ &lower, 1 }, c != lower, p->flags & FOLD);
	p->at += 2;
	return true;
}

/* ---- classes ---- */

/* One end of a range. */
static bool class_rune(struct parser *p, size_t open, uint32_t *out)
{
	if (!parse_more(p))
		return parser_fail(p, open, "missing closing ] of the class");
	if (parse_peek(p) != '\\') {
		*out = parser_rune(p);
		return true;
	}
	size_t at = p->at++;
	return (parse_more(p) && escape_rune(p, out)) || escape_fail(p, at);
}

/* [:name:] or [:^name:]: 1 if consumed, 0 if absent, -1 if the name is unknown. */
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
		name = span_from(name, 1);
	/* d, s, w are not POSIX names. */
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
	/* A - before the ] is a character. */
	if (parse_peek(p) == '-' && p->at + 1 < p->text.n && p->text.p[p->at + 1] != ']') {
		p->at++;
		if (!class_rune(p, open, &hi))
			return false;
	}
	if (hi < lo)
		return parser_fail(p, at, "range of characters from high to low");
	return parser_add(p, set, at, (struct range){ lo, hi });
}

static bool class_parse(struct parser *p, struct runes *set)
{
	size_t open = p->at++;
	bool negated = parse_take(p, "^");
	for (bool first = true; first || parse_peek(p) != ']'; first = false) {
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

/* ---- sets of characters ---- */

enum { SHORT = 16 };

void runes_add(struct runes *s, struct arena *a, uint32_t lo, uint32_t hi)
{
	if (s->n == s->cap) {
		uint32_t cap = s->cap ? 2 * s->cap : 2;
		struct range *v = ARENA_NEW(a, struct range, cap);
		if (s->n)
			memcpy(v, s->v, s->n * sizeof(*v));
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct range){ lo, hi };
}

/* Adds the part of r that lies in `letters` (of one case) in the other case. */
static void runes_add_other_case(struct runes *s, struct arena *a, struct range r,
                                 struct range letters)
{
	uint32_t lo = r.lo > letters.lo ? r.lo : letters.lo;
	uint32_t hi = r.hi < letters.hi ? r.hi : letters.hi;
	if (lo <= hi)
		runes_add(s, a, lo ^ 0x20, hi ^ 0x20);
}

void runes_add_folded(struct runes *s, struct arena *a, uint32_t lo, uint32_t hi)
{
	struct range r = { lo, hi };
	runes_add(s, a, lo, hi);
	runes_add_other_case(s, a, r, (struct range){ 'A', 'Z' });
	runes_add_other_case(s, a, r, (struct range){ 'a', 'z' });
}

static int by_start(const void *a, const void *b)
{
	uint32_t x = ((const struct range *)a)->lo;
	uint32_t y = ((const struct range *)b)->lo;
	return (x > y) - (x < y);
}

/* Most sets are a letter in both cases, for which qsort takes longer. */
static void sort_ranges(struct range *v, size_t n)
{
	if (n > SHORT) {
		qsort(v, n, sizeof(*v), by_start);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		struct range r = v[i];
		size_t k = i;
		for (; k > 0 && v[k - 1].lo > r.lo; k--)
			v[k] = v[k - 1];
		v[k] = r;
	}
}

void runes_clean(struct runes *s)
{
	if (s->n < 2)
		return;
	sort_ranges(s->v, s->n);
	uint32_t n = 1;
	for (size_t i = 1; i < s->n; i++) {
		struct range *last = &s->v[n - 1];
		if (s->v[i].lo > last->hi + 1)
			s->v[n++] = s->v[i];
		else if (s->v[i].hi > last->hi)
			last->hi = s->v[i].hi;
	}
	s->n = n;
}

void runes_negate(struct runes *s, struct arena *a)
{
	struct runes out = { 0 };
	uint32_t from = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].lo > from)
			runes_add(&out, a, from, s->v[i].lo - 1);
		from = s->v[i].hi + 1;
	}
	if (from <= RUNE_MAX)
		runes_add(&out, a, from, RUNE_MAX);
	*s = out;
}

bool runes_has(const struct runes *s, uint32_t rune)
{
	size_t lo = 0;
	size_t hi = s->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (rune > s->v[mid].hi)
			lo = mid + 1;
		else if (rune < s->v[mid].lo)
			hi = mid;
		else
			return true;
	}
	return false;
}

bool runes_equal(const struct runes *a, const struct runes *b)
{
	if (a->n != b->n || (a->n > 0 && a->v[0].lo != b->v[0].lo))
		return false;
	return a->n == 0 || memcmp(a->v, b->v, a->n * sizeof(*a->v)) == 0;
}

size_t runes_count(const struct runes *s, size_t most)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n && n < most; i++)
		n += s->v[i].hi - s->v[i].lo + 1;
	return n < most ? n : most;
}

/* pairs: of first and last character. */
static const struct class
{
	const char *name, *pairs;
} CLASSES[] = {
	{ "d", "09" },           { "s", "\t\n\f\r  " },
	{ "w", "09AZ__az" },     { "alnum", "09AZaz" },
	{ "alpha", "AZaz" },     { "ascii", "" /* from NUL on */ },
	{ "blank", "\t\t  " },   { "cntrl", "\x7f\x7f" /* and from NUL on */ },
	{ "digit", "09" },       { "graph", "!~" },
	{ "lower", "az" },       { "print", " ~" },
	{ "punct", "!/:@[`{~" }, { "space", "\t\r  " },
	{ "upper", "AZ" },       { "word", "09AZ__az" },
	{ "xdigit", "09AFaf" },
};

bool runes_add_class(struct runes *s, struct arena *a, struct span name, bool negated, bool fold)
{
	const struct class *c = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(CLASSES) && !c; i++) {
		if (span_is(name, CLASSES[i].name))
			c = &CLASSES[i];
	}
	if (!c)
		return false;
	void (*add)(struct runes *, struct arena *, uint32_t, uint32_t) =
	    fold ? runes_add_folded : runes_add;
	struct runes own = { 0 };
	for (const char *p = c->pairs; *p; p += 2)
		add(&own, a, (unsigned char)p[0], (unsigned char)p[1]);
	if (strcmp(c->name, "ascii") == 0)
		add(&own, a, 0, 0x7F);
	if (strcmp(c->name, "cntrl") == 0)
		add(&own, a, 0, 0x1F);
	runes_clean(&own);
	if (negated)
		runes_negate(&own, a);
	for (size_t i = 0; i < own.n; i++)
		runes_add(s, a, own.v[i].lo, own.v[i].hi);
	return true;
}
