/*
 * Compiles patterns by the rules of Go (regexp/syntax with the Perl flags).  Instructions are
 * emitted in the order of the pattern.  Each part of a pattern is a piece of the program: it is
 * entered at its first instruction and left to the instruction behind it, so pieces in sequence
 * need no jumps, a repetition copies its piece, and alternatives are patched to leave to their
 * common end.
 */
#include <stdlib.h>

#include "base/enc.h"
#include "base/regex/regex_internal.h"

/* Status and code of all errors about patterns. */
#define REGEX_ERROR 500, "RuntimeError"

enum flag { FOLD = 1, MANY_LINES = 2, DOT_ALL = 4, SWAP_LAZY = 8 };

enum { COUNT_MAX = 1000 };

struct parser {
	struct span text;
	size_t at;
	unsigned flags, depth;
	bool quoted; /* after \Q */
	struct arena *a;
	struct err *e;
	struct inst *inst;
	size_t n, cap;
	bool full; /* nothing more is emitted */
};

/* The properties of the piece of the program from `from` to its end. */
struct program_piece {
	size_t from;
	int copies;     /* product of the counts of nested repetitions */
	bool nullable;  /* can match the empty text */
	bool flags;     /* only sets flags: it cannot be repeated */
	uint8_t text_n; /* of a single character: its text as in a literal; 0: none */
	char text[4];
	struct literal *literals; /* one of them is in each match; NULL: not known */
	size_t shortest;          /* bytes of the shortest; 0: none */
};

static inline bool parse_more(const struct parser *p)
{
	return p->at < p->text.n;
}

/* The next byte; NUL at the end, but the pattern can also contain NULs. */
static inline char parse_peek(const struct parser *p)
{
	if (parse_more(p))
		return p->text.p[p->at];
	return '\0';
}

/* Consumes this text if it comes next. */
static inline bool parse_take(struct parser *p, const char *what)
{
	if (!span_starts(span_from(p->text, p->at), what))
		return false;
	p->at += strlen(what);
	return true;
}

/* Sets the error with its position.  Returns false. */
static bool parse_fail(struct parser *p, size_t at, const char *what)
{
	err_set(p->e, REGEX_ERROR, "%s at byte %zu", what, at + 1);
	return false;
}

/* Consumes the next character; there must be one. */
static uint32_t parse_rune(struct parser *p)
{
	unsigned width;
	const unsigned char *next = (const unsigned char *)p->text.p + p->at;
	uint32_t r = utf8_decode(next, p->text.n - p->at, &width);
	p->at += width;
	return r;
}

/* ---- instructions ---- */

static void program_append(struct parser *p, const struct inst *v, size_t n)
{
	if (p->full || p->n + n > REGEX_PROGRAM_MAX) {
		p->full = true;
		return;
	}
	while (p->n + n > p->cap) {
		p->cap = p->cap ? 2 * p->cap : 64;
		p->inst = xrealloc(p->inst, p->cap * sizeof(*p->inst));
	}
	if (n)
		memcpy(p->inst + p->n, v, n * sizeof(*v));
	p->n += n;
}

static struct inst program_split(bool lazy, size_t more, size_t enough)
{
	return (struct inst){ .op = OP_SPLIT,
		              .x = (int16_t)(lazy ? enough : more),
		              .y = (int16_t)(lazy ? more : enough) };
}

/* Instructions from..to that leave to `to` go to `target` instead. */
static void program_leave_to(struct parser *p, size_t from, size_t to, size_t target)
{
	for (size_t i = from; i < to; i++) {
		struct inst *in = &p->inst[i];
		if (i + in->x == to)
			in->x = (int16_t)(target - i);
		if (i + in->y == to)
			in->y = (int16_t)(target - i);
	}
}

/* Appends a clean set.  The text is known of one character, and of a letter in both cases. */
static bool emit_set(struct parser *p, struct program_piece *out, const struct runes *set)
{
	struct runes *kept = ARENA_NEW(p->a, struct runes, 1);
	*kept = *set;
	program_append(p, &(struct inst){ .op = OP_SET, .set = kept, .x = 1 }, 1);
	out->nullable = false;
	uint32_t first = set->n ? set->v[0].lo : 0;
	bool one = set->n > 0 && set->v[0].hi == first && first != UTF8_INVALID;
	bool pair = one && set->n == 2 && first < 128 && set->v[1].lo == (first ^ 0x20) &&
	            set->v[1].hi == set->v[1].lo;
	if (pair || (one && set->n == 1)) {
		out->text_n = (uint8_t)utf8_put(out->text, first);
		for (size_t i = 0; i < out->text_n; i++)
			out->text[i] |= 0x20;
	}
	return true;
}

static bool emit_assertion(struct parser *p, enum assertion what)
{
	program_append(p, &(struct inst){ .op = OP_ASSERT, .assertion = (uint8_t)what, .x = 1 }, 1);
	return true;
}

/* Adds r, which is written at byte `at` of the pattern, in both cases under the flag i. */
static bool parse_add(struct parser *p, struct runes *set, size_t at, struct rune_range r)
{
	/* Case folding of other letters needs tables of Unicode; a set of all of them does not. */
	bool plain = r.hi < 0x80 || (r.lo <= 0x80 && r.hi == RUNE_MAX);
	if ((p->flags & FOLD) && !plain) {
		err_set(p->e, REGEX_ERROR,
		        "found the character U+%04X under (?i), which allows ASCII only "
		        "(write (?-i:...) around others), at byte %zu",
		        r.lo < 0x80 ? r.hi : r.lo, at + 1);
		return false;
	}
	runes_add(set, p->a, r, p->flags & FOLD);
	return true;
}

/* The character that the pattern has at byte `at`. */
static bool emit_rune(struct parser *p, struct program_piece *out, size_t at, uint32_t rune)
{
	struct runes set = { 0 };
	if (!parse_add(p, &set, at, (struct rune_range){ rune, rune }))
		return false;
	runes_clean(&set);
	return emit_set(p, out, &set);
}

/* ---- escapes ---- */

static bool is_octal_digit(char c)
{
	return c >= '0' && c <= '7';
}

/* An escape of one character at byte `at`; the backslash is consumed. */
static bool escape_rune(struct parser *p, size_t at, uint32_t *out)
{
	static const char LETTERS[] = "afnrtv";
	static const char CODES[] = "\a\f\n\r\t\v";
	if (!parse_more(p))
		return parse_fail(p, at, "trailing backslash");
	char c = p->text.p[p->at++];
	const char *letter = c ? strchr(LETTERS, c) : NULL;
	*out = (unsigned char)c;
	if (letter) {
		*out = (unsigned char)CODES[letter - LETTERS];
		return true;
	}
	if (c == 'x') { /* two digits, or any number of digits in braces */
		bool braces = parse_take(p, "{");
		size_t digits = 0;
		*out = 0;
		for (int digit; parse_more(p) && (braces || digits < 2); digits++, p->at++) {
			if ((digit = hex_value(parse_peek(p))) < 0)
				break;
			*out = *out * 16 + (uint32_t)digit;
			if (*out > RUNE_MAX)
				return parse_fail(p, at, "invalid escape");
		}
		return (braces ? digits > 0 && parse_take(p, "}") : digits == 2) ||
		       parse_fail(p, at, "invalid escape");
	}
	/* \1 to \7 alone are back-references. */
	if (is_octal_digit(c) && (c == '0' || is_octal_digit(parse_peek(p)))) {
		*out = (uint32_t)(c - '0');
		for (int i = 0; i < 2 && is_octal_digit(parse_peek(p)); i++)
			*out = *out * 8 + (uint32_t)(p->text.p[p->at++] - '0');
		return true;
	}
	if (c == 'p' || c == 'P')
		return parse_fail(p, at, "classes of Unicode (\\p) are not supported,");
	if (c >= '1' && c <= '9')
		return parse_fail(p, at, "back-references are not supported,");
	return (!is_alnum(c) && (unsigned char)c < 0x80) || parse_fail(p, at, "invalid escape");
}

/* Adds \d, \D, \s, \S, \w or \W to the set; false if none comes next. */
static bool escape_class(struct parser *p, struct runes *set)
{
	struct span rest = span_from(p->text, p->at);
	if (rest.n < 2)
		return false;
	char lower = (char)(rest.p[1] | 0x20);
	if (rest.p[0] != '\\' || !strchr("dsw", lower))
		return false;
	runes_add_class(set, p->a, (struct span){ &lower, 1 }, rest.p[1] != lower, p->flags & FOLD);
	p->at += 2;
	return true;
}

static bool parse_escape(struct parser *p, struct program_piece *out)
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
			return emit_assertion(p, ASSERTIONS[i].what);
	}
	struct runes set = { 0 };
	if (escape_class(p, &set)) {
		runes_clean(&set);
		return emit_set(p, out, &set);
	}
	size_t at = p->at++;
	uint32_t r;
	return escape_rune(p, at, &r) && emit_rune(p, out, at, r);
}

/* ---- classes ---- */

/* Reads one end of a range. */
static bool class_rune(struct parser *p, size_t open, uint32_t *out)
{
	size_t at = p->at;
	if (!parse_more(p))
		return parse_fail(p, open, "missing closing ] of the class");
	if (parse_take(p, "\\"))
		return escape_rune(p, at, out);
	*out = parse_rune(p);
	return true;
}

/* Adds a class, a character or a range, of the class that begins at byte `open`. */
static bool class_item(struct parser *p, size_t open, struct runes *set)
{
	size_t at = p->at;
	bool fold = p->flags & FOLD;
	size_t end =
	    span_starts(span_from(p->text, at), "[:") ? span_find(p->text, at + 2, ":]") : SIZE_MAX;
	if (end != SIZE_MAX) {
		struct span name = { p->text.p + at + 2, end - at - 2 };
		bool negated = name.n && name.p[0] == '^';
		name = span_from(name, negated);
		p->at = end + 2;
		/* d, s, w are not POSIX names. */
		return (name.n > 1 && runes_add_class(set, p->a, name, negated, fold)) ||
		       parse_fail(p, at, "unknown class of characters");
	}
	if (escape_class(p, set))
		return true;
	struct rune_range r;
	if (!class_rune(p, open, &r.lo))
		return false;
	r.hi = r.lo;
	/* A - before the ] is a character. */
	bool last = p->at + 1 >= p->text.n || p->text.p[p->at + 1] == ']';
	if (!last && parse_take(p, "-") && !class_rune(p, open, &r.hi))
		return false;
	if (r.hi < r.lo)
		return parse_fail(p, at, "range of characters from high to low");
	return parse_add(p, set, at, r);
}

static bool parse_class(struct parser *p, struct program_piece *out)
{
	size_t open = p->at++;
	struct runes set = { 0 };
	bool negated = parse_take(p, "^");
	for (bool first = true; first || parse_peek(p) != ']'; first = false) {
		if (!class_item(p, open, &set))
			return false;
	}
	p->at++;
	runes_clean(&set);
	if (negated)
		runes_negate(&set, p->a);
	return emit_set(p, out, &set);
}

/* ---- groups ---- */

static bool parse_alternate(struct parser *p, struct program_piece *out);

/* `i-s:` or `i-s)` after `(?`: the last byte, or NUL if it is malformed. */
static char take_flags(struct parser *p)
{
	static const struct {
		char letter;
		unsigned flag;
	} FLAGS[] = { { 'i', FOLD }, { 'm', MANY_LINES }, { 's', DOT_ALL }, { 'U', SWAP_LAZY } };
	unsigned flags = p->flags;
	bool off = false, any = true; /* a minus needs a flag after it */
	while (parse_more(p)) {
		char c = p->text.p[p->at++];
		if (any && (c == ':' || c == ')')) {
			p->flags = flags;
			return c;
		}
		if (c == '-' && !off) {
			off = true;
			any = false;
			continue;
		}
		size_t i = 0;
		while (i < ARRAY_SIZE(FLAGS) && FLAGS[i].letter != c)
			i++;
		if (i == ARRAY_SIZE(FLAGS))
			break;
		flags = off ? flags & ~FLAGS[i].flag : flags | FLAGS[i].flag;
		any = true;
	}
	return '\0';
}

static bool parse_group(struct parser *p, struct program_piece *out)
{
	size_t open = p->at++;
	unsigned outer = p->flags;
	if (parse_take(p, "?P<") || parse_take(p, "?<")) {
		if (parse_peek(p) == '=' || parse_peek(p) == '!')
			return parse_fail(p, open, "look-behind is not supported,");
		/* Groups are not captured, so names can repeat. */
		size_t name = p->at;
		while (rune_is_word((unsigned char)parse_peek(p)))
			p->at++;
		if (p->at == name || !parse_take(p, ">"))
			return parse_fail(p, open, "invalid name of a group");
	} else if (parse_take(p, "?")) {
		if (parse_peek(p) == '=' || parse_peek(p) == '!')
			return parse_fail(p, open, "look-ahead is not supported,");
		char end = take_flags(p);
		if (!end)
			return parse_fail(p, open, "invalid or unsupported group");
		out->flags = end == ')'; /* the flags stay set */
		if (out->flags)
			return true;
	}
	if (++p->depth > REGEX_DEPTH_MAX)
		return parse_fail(p, open, "groups are nested too deeply");
	if (!parse_alternate(p, out))
		return false;
	p->depth--;
	if (!parse_take(p, ")"))
		return parse_fail(p, open, "missing closing ) of the group");
	p->flags = outer;
	return true;
}

/* ---- repetition ---- */

struct repeat_count {
	int min, max; /* max -1: no end */
};

/* A count without leading zeros; larger counts become COUNT_MAX + 1. */
static bool take_number(struct parser *p, int *out)
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

/* *, +, ?, {n}, {n,} or {n,m}; any other brace is a character. */
static bool take_repeat(struct parser *p, struct repeat_count *c)
{
	size_t from = p->at;
	*c = (struct repeat_count){ 0, -1 };
	if (parse_take(p, "*"))
		return true;
	c->min = 1;
	if (parse_take(p, "+"))
		return true;
	*c = (struct repeat_count){ 0, 1 };
	if (parse_take(p, "?"))
		return true;
	bool ok = parse_take(p, "{") && take_number(p, &c->min);
	c->max = c->min;
	if (ok && parse_take(p, ",")) {
		c->max = -1;
		ok = parse_peek(p) == '}' || take_number(p, &c->max);
	}
	if (ok && parse_take(p, "}"))
		return true;
	p->at = from;
	return false;
}

/* The piece becomes its repetition: x{2,} is xx+, x{2,4} is xx(x(x)?)?, and x* of an x that can be
 * empty is (x+)?, which keeps the order of preference. */
static void emit_repeat(struct parser *p, const struct program_piece *item, struct repeat_count c,
                        bool lazy)
{
	size_t from = item->from;
	size_t n = p->n - from;
	FREE_AUTO struct inst *body = xmalloc(n * sizeof(*body) + 1);
	if (n)
		memcpy(body, p->inst + from, n * sizeof(*body));
	p->n = from;
	struct inst again = program_split(lazy, -n, 1);
	for (int i = 0; i < c.min; i++)
		program_append(p, body, n);
	for (int i = c.min; i < c.max && !p->full; i++) {
		struct inst more = program_split(lazy, 1, (size_t)(c.max - i) * (n + 1));
		program_append(p, &more, 1);
		program_append(p, body, n);
	}
	if (c.max >= 0)
		return;
	if (c.min == 0) {
		struct inst some = program_split(lazy, 1, n + 1 + item->nullable);
		program_append(p, &some, 1);
		program_append(p, body, n);
	}
	if (c.min > 0 || item->nullable)
		program_append(p, &again, 1);
	else if (!p->full)
		program_leave_to(p, from + 1, p->n, from);
}

/* ---- sequences ---- */

static bool parse_atom(struct parser *p, struct program_piece *out)
{
	size_t at = p->at;
	*out = (struct program_piece){ .from = p->n, .copies = 1, .nullable = true };
	if (!p->quoted && parse_take(p, "\\Q"))
		p->quoted = true;
	if (p->quoted) {
		at = p->at;
		bool empty = !parse_more(p) || span_starts(span_from(p->text, at), "\\E");
		return empty || emit_rune(p, out, at, parse_rune(p));
	}
	struct runes any = { 0 };
	switch (parse_peek(p)) {
	case '(':
		return parse_group(p, out);
	case '[':
		return parse_class(p, out);
	case '\\':
		return parse_escape(p, out);
	case '.':
		p->at++;
		if (!(p->flags & DOT_ALL))
			runes_add(&any, p->a, (struct rune_range){ '\n', '\n' }, false);
		runes_negate(&any, p->a);
		return emit_set(p, out, &any);
	case '^':
		p->at++;
		return emit_assertion(p, p->flags & MANY_LINES ? BEGIN_LINE : BEGIN_TEXT);
	case '$':
		p->at++;
		return emit_assertion(p, p->flags & MANY_LINES ? END_LINE : END_TEXT);
	default:
		return emit_rune(p, out, at, parse_rune(p));
	}
}

/* An atom with its repetition, which applies to the last character of \Q...\E. */
static bool parse_item(struct parser *p, struct program_piece *out)
{
	size_t from = p->at;
	struct repeat_count c;
	if (!p->quoted && take_repeat(p, &c))
		return parse_fail(p, from, "missing argument to repetition");
	if (!parse_atom(p, out))
		return false;
	p->quoted = p->quoted && !parse_take(p, "\\E");
	from = p->at;
	if (p->quoted || out->flags || !take_repeat(p, &c))
		return true;
	int most = c.max < 0 ? c.min : c.max;
	if (c.min > COUNT_MAX || c.max > COUNT_MAX || (c.max >= 0 && c.min > c.max))
		return parse_fail(p, from, "invalid count");
	if (most > 1)
		out->copies *= most;
	if (out->copies > COUNT_MAX)
		return parse_fail(p, from, "nested counts multiply to more than 1000");
	bool lazy = parse_take(p, "?") != ((p->flags & SWAP_LAZY) != 0);
	emit_repeat(p, out, c, lazy);
	out->text_n = 0;
	if (c.min == 0) {
		out->nullable = true;
		out->literals = NULL;
		out->shortest = 0;
	}
	from = p->at;
	return !take_repeat(p, &c) || parse_fail(p, from, "repetition of a repetition");
}

/* Items in sequence.  Characters next to each other are a literal; the longest one is kept. */
static bool parse_concat(struct parser *p, struct program_piece *out)
{
	char text[LITERAL_MAX];
	size_t n = 0;
	bool more = true;
	*out = (struct program_piece){ .from = p->n, .copies = 1, .nullable = true };
	while (more) {
		struct program_piece item = { 0 };
		more =
		    parse_more(p) && (p->quoted || (parse_peek(p) != '|' && parse_peek(p) != ')'));
		if (more && !parse_item(p, &item))
			return false;
		if (more) {
			out->nullable = out->nullable && item.nullable;
			out->copies = item.copies > out->copies ? item.copies : out->copies;
		}
		if (item.text_n == 0 || n + item.text_n > sizeof(text)) {
			if (n >= LITERAL_MIN && n > out->shortest) {
				out->shortest = n;
				out->literals = ARENA_NEW(p->a, struct literal, 1);
				out->literals->n = n;
				out->literals->text = arena_dup(p->a, (struct span){ text, n });
			}
			n = 0;
		}
		memcpy(text + n, item.text, item.text_n);
		n += item.text_n;
		if (item.shortest > out->shortest) {
			out->shortest = item.shortest;
			out->literals = item.literals;
		}
	}
	return true;
}

static bool parse_alternate(struct parser *p, struct program_piece *out)
{
	if (!parse_concat(p, out))
		return false;
	size_t start = out->from;
	size_t branches = 1;
	for (; parse_take(p, "|"); branches++) {
		/* Inserted before the branch: tries this branch, else the next one. */
		struct inst either = program_split(false, 1, p->n + 1 - start);
		program_append(p, &either, 1);
		if (!p->full) {
			memmove(p->inst + start + 1, p->inst + start,
			        (p->n - 1 - start) * sizeof(*p->inst));
			p->inst[start] = either;
		}
		struct program_piece next;
		if (!parse_concat(p, &next))
			return false;
		start = next.from;
		out->nullable = out->nullable || next.nullable;
		out->copies = next.copies > out->copies ? next.copies : out->copies;
		struct literal **end = &next.literals;
		while (*end)
			end = &(*end)->next;
		*end = out->literals;
		out->shortest = next.shortest < out->shortest ? next.shortest : out->shortest;
		out->literals = out->shortest ? next.literals : NULL;
	}
	for (size_t at = out->from; branches > 1 && !p->full; branches--) {
		size_t end = at + p->inst[at].y;
		if (end == at + 1) /* an empty branch */
			p->inst[at].x = (int16_t)(p->n - at);
		program_leave_to(p, at + 1, end, p->n);
		at = end;
	}
	return true;
}

static bool parse_pattern(struct parser *p, struct program_piece *out)
{
	size_t valid = utf8_check(p->text);
	if (p->text.n > REGEX_PATTERN_MAX)
		return parse_fail(p, REGEX_PATTERN_MAX, "the pattern is too long, it has to end");
	if (valid != p->text.n)
		return parse_fail(p, valid, "invalid UTF-8");
	if (!parse_alternate(p, out))
		return false;
	if (parse_more(p))
		return parse_fail(p, p->at, "unexpected )");
	program_append(p, &(struct inst){ .op = OP_MATCH }, 1);
	if (p->full)
		err_set(p->e, REGEX_ERROR, "the pattern is too large");
	return !p->full;
}

struct regex *regex_compile(struct span pattern, struct arena *a, struct err *e)
{
	struct parser p = { .text = pattern, .a = a, .e = e };
	struct regex *re = NULL;
	struct program_piece whole;
	if (parse_pattern(&p, &whole)) {
		struct inst *inst = ARENA_NEW(a, struct inst, p.n);
		memcpy(inst, p.inst, p.n * sizeof(*inst));
		re = ARENA_NEW(a, struct regex, 1);
		*re = (struct regex){ .inst = inst, .n = p.n, .literals = whole.literals };
	}
	free(p.inst);
	return re;
}
