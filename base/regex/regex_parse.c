/* Pattern to tree, by Go's rules (regexp/syntax with the flags of Perl). */
#include "base/enc.h"
#include "base/regex/regex_parser.h"

static struct re *parse_alternate(struct parser *p);

static struct re *tree(struct parser *p, enum re_kind kind)
{
	struct re *re = ARENA_NEW(p->a, struct re, 1);
	re->kind = kind;
	re->copies = 1;
	return re;
}

static void append(struct re *list, struct re *item)
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

static struct re *set_of(struct parser *p, uint32_t lo, uint32_t hi)
{
	struct re *re = tree(p, RE_SET);
	if (p->flags & FOLD)
		runes_add_folded(&re->set, p->a, lo, hi);
	else
		runes_add(&re->set, p->a, lo, hi);
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
static struct re *quoted(struct parser *p)
{
	struct re *list = tree(p, RE_CONCAT);
	while (more(p) && !take(p, "\\E")) {
		uint32_t r = parser_rune(p);
		append(list, set_of(p, r, r));
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
	for (size_t i = 0; i < sizeof(ASSERTIONS) / sizeof(*ASSERTIONS); i++) {
		if (take(p, ASSERTIONS[i].text))
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
	if (!more(p) || !escape_rune(p, &r))
		return escape_fail(p, at);
	return set_of(p, r, r);
}

static struct re *parse_class(struct parser *p)
{
	struct re *re = tree(p, RE_SET);
	return class_parse(p, &re->set) ? re : NULL;
}

/* ---- groups -----------------------------------------------------------------------------------
 */

static bool add_flag(unsigned *flags, char c, bool off)
{
	static const struct {
		char letter;
		enum flag flag;
	} FLAGS[] = { { 'i', FOLD }, { 'm', MANY_LINES }, { 's', DOT_ALL }, { 'U', SWAP_LAZY } };
	for (size_t i = 0; i < sizeof(FLAGS) / sizeof(*FLAGS); i++) {
		if (FLAGS[i].letter == c) {
			*flags = off ? *flags & ~(unsigned)FLAGS[i].flag : *flags | FLAGS[i].flag;
			return true;
		}
	}
	return false;
}

/* `i-s:` or `i-s)` behind `(?`: the byte that ended it, NUL if it is malformed. */
static char take_flags(struct parser *p)
{
	unsigned flags = p->flags;
	bool off = false, any = true; /* a minus needs a flag behind it */
	while (more(p)) {
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

/* Behind (?P< or (?<: the name and its >.  Nobody asks for groups, so a name may come twice. */
static bool take_name(struct parser *p)
{
	size_t from = p->at;
	while (more(p) && rune_is_word((unsigned char)peek(p)))
		p->at++;
	return p->at > from && take(p, ">");
}

static struct re *parse_group(struct parser *p)
{
	size_t open = p->at++;
	unsigned outer = p->flags;
	if (take(p, "?P<") || take(p, "?<")) {
		if (peek(p) == '=' || peek(p) == '!')
			return parser_fail(p, open, "look-behind is not supported,");
		if (!take_name(p))
			return parser_fail(p, open, "invalid name of a group");
	} else if (take(p, "?")) {
		if (peek(p) == '=' || peek(p) == '!')
			return parser_fail(p, open, "look-ahead is not supported,");
		char end = take_flags(p);
		if (!end)
			return parser_fail(p, open, "invalid or unsupported group");
		if (end == ')')
			return tree(p, RE_EMPTY); /* the flags stay */
	}
	if (++p->depth > REGEX_DEPTH_MAX)
		return parser_fail(p, open, "groups are nested too deeply");
	struct re *re = parse_alternate(p);
	p->depth--;
	if (!re)
		return NULL;
	if (!take(p, ")"))
		return parser_fail(p, open, "missing closing ) of the group");
	p->flags = outer;
	return re;
}

/* ---- repetition ---------------------------------------------------------------------------------
 */

/* A count: 0 if there is none, or it has leading zeros; what is too large becomes COUNT_MAX + 1. */
static bool take_count(struct parser *p, int *out)
{
	size_t from = p->at;
	int value = 0;
	for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
		value = value * 10 + (peek(p) - '0');
		if (value > COUNT_MAX)
			value = COUNT_MAX + 1;
	}
	*out = value;
	return p->at > from && !(p->at - from > 1 && p->text.p[from] == '0');
}

/* {n}, {n,} or {n,m}; otherwise nothing is taken, and the brace is a character. */
static bool take_braces(struct parser *p, int *min, int *max)
{
	size_t from = p->at;
	bool ok = take(p, "{") && take_count(p, min);
	if (ok) {
		*max = *min;
		if (take(p, ",")) {
			*max = -1;
			ok = peek(p) == '}' || take_count(p, max);
		}
		ok = ok && take(p, "}");
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
	switch (peek(p)) {
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
	re->lazy = take(p, "?") != ((p->flags & SWAP_LAZY) != 0);
	return re;
}

/* ---- sequences
 * ------------------------------------------------------------------------------------- */

static struct re *parse_atom(struct parser *p)
{
	switch (peek(p)) {
	case '(':
		return parse_group(p);
	case '[':
		return parse_class(p);
	case '\\':
		return take(p, "\\Q") ? quoted(p) : parse_escape(p);
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
		uint32_t r = parser_rune(p);
		return set_of(p, r, r);
	}
	}
}

static bool may_repeat(const struct re *re)
{
	return re->kind != RE_EMPTY;
}

/* An atom with what repeats it.  Of \Q...\E only the last character is repeated. */
static struct re *parse_item(struct parser *p, struct re *list)
{
	size_t from = p->at;
	struct count count;
	if (take_repeat(p, &count))
		return parser_fail(p, from, "missing argument to repetition");
	bool text = p->at + 1 < p->text.n && memcmp(p->text.p + p->at, "\\Q", 2) == 0;
	bool flags = peek(p) == '(';
	struct re *item = parse_atom(p);
	if (!item)
		return NULL;
	flags = flags && !may_repeat(item);
	if (text && item->last) {
		while (item->first != item->last) {
			struct re *head = item->first;
			item->first = head->next;
			head->next = head->prev = NULL;
			append(list, head);
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
	while (more(p) && peek(p) != '|' && peek(p) != ')') {
		struct re *item = parse_item(p, list);
		if (!item)
			return NULL;
		append(list, item);
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
		append(list, item);
	} while (take(p, "|"));
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
	if (re && more(&p))
		return parser_fail(&p, p.at, "unexpected )");
	return re;
}
