/* Scalars of YAML: tags (those of js-yaml's safe schema that are useful in jobs) and types. */
#include "base/doc/yaml_internal.h"

#include <math.h>
#include <stdlib.h>

#include "base/doc/yaml.h"
#include "base/enc.h"
#include "base/str.h"

static void scalar_set_text(struct node *n, enum node_type type, struct span text, struct arena *a)
{
	n->type = (uint8_t)type;
	n->text = arena_dup(a, text);
	n->n = (uint32_t)text.n;
}

/*
 * ---- unquoted scalars ----
 *
 * OpenPAI reads jobs with js-yaml 3.13: numbers of YAML 1.1, booleans of YAML 1.2.  Types are tried
 * in its order: null, boolean, integer, float, date.  Each function returns true and the value if
 * the text has the type; else *n is unchanged.
 */

static const double EXACT_MAX = 9007199254740992.0; /* 2^53 */

static void node_set_number(struct node *n, double v)
{
	if (v >= -EXACT_MAX && v <= EXACT_MAX && v == (double)(int64_t)v) {
		n->type = NODE_INT;
		n->integer = (int64_t)v;
	} else {
		n->type = NODE_REAL;
		n->real = v;
	}
}

static bool plain_null(struct node *n, struct span t)
{
	static const char *const WORDS[] = { "", "~", "null", "Null", "NULL", NULL };
	if (t.n > 4 || !span_among(t, WORDS))
		return false;
	n->type = NODE_NULL;
	return true;
}

static bool plain_bool(struct node *n, struct span t)
{
	static const char *const TRUE_WORDS[] = { "true", "True", "TRUE", NULL };
	static const char *const FALSE_WORDS[] = { "false", "False", "FALSE", NULL };
	bool yes = t.n == 4 && span_among(t, TRUE_WORDS);
	if (!yes && (t.n != 5 || !span_among(t, FALSE_WORDS)))
		return false;
	n->type = NODE_BOOL;
	n->boolean = yes;
	return true;
}

/* The nearest double to the decimal text; underscores are ignored. */
static double float_parse_decimal(struct span t)
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

/* Digits and underscores in base 2^bits, to the nearest double: 60 bits are kept; the lowest of
 * them is set if a lower bit was. */
static bool power_of_two_base(struct span t, unsigned bits, double *v)
{
	uint64_t kept = 0;
	bool below = false;
	bool any = false;
	int exponent = 0;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] == '_')
			continue;
		int digit = hex_value(t.p[i]);
		if (digit < 0 || digit >= 1 << bits)
			return false;
		any = true;
		if (kept >> (60 - bits) == 0) {
			kept = kept << bits | (uint64_t)digit;
		} else {
			exponent += (int)bits;
			below = below || digit > 0;
		}
	}
	if (!any || t.p[t.n - 1] == '_')
		return false;
	*v = ldexp((double)(kept | below), exponent);
	return true;
}

/* The length of `(:[0-5]?[0-9])+` at the start of t, or 0. */
static size_t base_sixty_length(struct span t)
{
	size_t i = 0;
	while (i + 1 < t.n && t.p[i] == ':' && is_digit(t.p[i + 1])) {
		bool two = t.p[i + 1] <= '5' && i + 2 < t.n && is_digit(t.p[i + 2]);
		i += two ? 3 : 2;
	}
	return i;
}

/* Groups between colons in base 60, added from the right as js-yaml does. */
static double base_sixty(struct span t)
{
	double v = 0;
	double unit = 1;
	size_t end = t.n;
	for (size_t i = t.n; i-- > 0;) {
		if (i && t.p[i - 1] != ':')
			continue;
		v += float_parse_decimal((struct span){ t.p + i, end - i }) * unit;
		unit *= 60;
		end = i ? i - 1 : 0;
	}
	return v;
}

static struct span without_sign(struct span t, double *sign)
{
	bool has = t.n && (t.p[0] == '-' || t.p[0] == '+');
	*sign = has && t.p[0] == '-' ? -1 : 1;
	return has ? span_from(t, 1) : t;
}

/* Digits without a leading 0: decimal, or base 60. */
static bool int_decimal(struct span t, double *v)
{
	size_t i = span_skip_class(t, 0, "0-9_");
	if (i == 0 || t.p[0] == '_')
		return false;
	if (i == t.n && t.p[i - 1] == '_')
		return false;
	if (i == t.n) {
		*v = float_parse_decimal(t);
		return true;
	}
	if (i + base_sixty_length(span_from(t, i)) != t.n)
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
		return power_of_two_base(span_from(t, 2), 1, v);
	if (t.p[1] == 'x')
		return power_of_two_base(span_from(t, 2), 4, v);
	return power_of_two_base(span_from(t, 1), 3, v);
}

/* Most numbers of jobs: up to 15 decimal digits without a leading 0. */
static bool plain_small_int(struct node *n, struct span t)
{
	int64_t v = 0;
	if (t.n == 0 || t.n > 15 || !is_digit(t.p[0]) || (t.p[0] == '0' && t.n > 1) ||
	    parse_i64(t, 0, INT64_MAX, &v) < 0)
		return false;
	n->type = NODE_INT;
	n->integer = v;
	return true;
}

static bool plain_int(struct node *n, struct span t)
{
	double sign = 1;
	double v = 0;
	if (!int_value(without_sign(t, &sign), &v))
		return false;
	node_set_number(n, sign * v);
	return true;
}

/* `(0|[1-9][0-9_]*)(\.[0-9_]*)?EXPONENT?` or `\.[0-9_]+EXPONENT?`, the whole text.  EXPONENT is
 * `[eE][-+]?[0-9]+`. */
static bool float_plain(struct span t, bool has_sign)
{
	size_t i = 0;
	if (t.n && is_digit(t.p[0])) {
		i = t.p[0] == '0' ? 1 : span_skip_class(t, 0, "0-9_");
		if (i < t.n && t.p[i] == '.')
			i = span_skip_class(t, i + 1, "0-9_");
	} else if (t.n && t.p[0] == '.' && !has_sign) {
		i = span_skip_class(t, 1, "0-9_");
		if (i == 1)
			return false;
	}
	if (i && i < t.n && (t.p[i] == 'e' || t.p[i] == 'E')) {
		size_t sign = i + 1 < t.n && (t.p[i + 1] == '-' || t.p[i + 1] == '+');
		size_t end = span_skip_class(t, i + 1 + sign, "0-9");
		i = end > i + 1 + sign ? end : i;
	}
	return i && i == t.n;
}

/* `[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*`, the whole text. */
static bool float_sixty(struct span t)
{
	size_t i = span_skip_class(t, 0, "0-9_");
	size_t groups = base_sixty_length(span_from(t, i));
	i += groups;
	return is_digit(t.p[0]) && groups && i < t.n && t.p[i] == '.' &&
	       span_skip_class(t, i + 1, "0-9_") == t.n;
}

bool plain_float(struct node *n, struct span text)
{
	static const char *const INF[] = { ".inf", ".Inf", ".INF", NULL };
	static const char *const NOT[] = { ".nan", ".NaN", ".NAN", NULL };
	double sign = 1;
	double v = 0;
	struct span t = without_sign(text, &sign);
	bool has_sign = t.n != text.n;
	if (t.n == 0 || t.p[t.n - 1] == '_')
		return false;
	if (float_plain(t, has_sign))
		v = float_parse_decimal(t);
	else if (float_sixty(t))
		v = base_sixty(t);
	else if (span_among(t, INF))
		v = (double)INFINITY;
	else if (!has_sign && span_among(t, NOT))
		v = (double)NAN;
	else
		return false;
	node_set_number(n, sign * v);
	return true;
}

/* ---- dates, as js-yaml 3.13 recognizes them ---- */

/* The length of the match, or 0.  In the pattern, 0 is a digit, 1 an optional digit. */
static size_t scalar_match(struct span t, const char *pattern)
{
	size_t i = 0;
	for (; *pattern; pattern++) {
		bool digit = i < t.n && is_digit(t.p[i]);
		if (*pattern == '1')
			i += digit;
		else if (*pattern == '0' ? !digit : i >= t.n || t.p[i] != *pattern)
			return 0;
		else
			i++;
	}
	return i;
}

/* `[ \t]*(Z|[-+][0-9][0-9]?(:[0-9][0-9])?)`, the whole text. */
static bool is_zone(struct span t)
{
	t = span_from(t, span_skip_class(t, 0, " \t"));
	if (span_is(t, "Z"))
		return true;
	if (t.n == 0 || (t.p[0] != '-' && t.p[0] != '+'))
		return false;
	t = span_from(t, 1);
	size_t n = scalar_match(t, "01");
	if (n == 0)
		return false;
	t = span_from(t, n);
	return t.n == 0 || scalar_match(t, ":00") == t.n;
}

/* Looks like a date, or date and time. */
static bool plain_is_date(struct span t)
{
	if (t.n == 10 && scalar_match(t, "0000-00-00") == 10)
		return true;
	size_t i = scalar_match(t, "0000-01-01");
	if (i == 0 || i == t.n)
		return false;
	size_t from = t.p[i] == 'T' || t.p[i] == 't' ? i + 1 : span_skip_class(t, i, " \t");
	if (from == i)
		return false;
	t = span_from(t, from);
	size_t time = scalar_match(t, "01:00:00");
	if (time == 0)
		return false;
	t = span_from(t, time);
	if (t.n && t.p[0] == '.')
		t = span_from(t, span_skip_class(t, 1, "0-9"));
	return t.n == 0 || is_zone(t);
}

/* ---- scalars on which YAML 1.1 (PyYAML), YAML 1.2 and js-yaml 3 disagree ---- */

static enum spelling is_of_number(struct span t, double v)
{
	char text[NUMBER_MAX];
	size_t sign = t.n && (t.p[0] == '-' || t.p[0] == '+');
	struct span digits = span_from(t, sign);
	bool finite = isfinite(v);
	bool hex = t.n > 2 && (t.p[1] == 'x' || t.p[2] == 'x');
	bool exponent = !hex && (memchr(t.p, 'e', t.n) || memchr(t.p, 'E', t.n));
	if (digits.n > 1 && digits.p[0] == '0' && digits.p[1] >= '0' && digits.p[1] <= '7')
		return SPELT_OCTAL;
	if (memchr(t.p, ':', t.n))
		return SPELT_SIXTY;
	/* Unambiguous (1e3, .5), or written as the same text. */
	if (finite && (t.p[0] == '.' || exponent))
		return SPELT_PLAINLY;
	size_t n = number_text(text, v);
	if (finite && span_eq(t, (struct span){ text, n }))
		return SPELT_PLAINLY;
	return finite && fabs(v) >= 0x1p53 && !memchr(t.p, '.', t.n) ? SPELT_ROUNDED
	                                                             : SPELT_OTHERWISE;
}

void spelling_mark(struct node *n, struct span text)
{
	/* Booleans of PyYAML that are text here. */
	static const char *const BOOLEANS[] = { "yes", "Yes", "YES", "no",  "No",  "NO", "on",
		                                "On",  "ON",  "off", "Off", "OFF", NULL };
	enum spelling s = SPELT_PLAINLY;
	if (text.n == 0)
		return;
	if (node_is_number(n))
		s = is_of_number(text, node_number(n));
	else if (n->type == NODE_BOOL && text.p[0] < 'a')
		s = SPELT_OTHERWISE;
	else if (n->type == NODE_DATE)
		s = SPELT_DATE;
	else if (n->type == NODE_TEXT && text.n <= 3 && span_among(text, BOOLEANS))
		s = SPELT_BOOLEAN;
	else if (n->type == NODE_TEXT && text.n > 1 && text.p[0] == '0') {
		/* Numbers of YAML 1.2 that are text here: 0o17, 08. */
		bool octal = text.n > 2 && text.p[1] == 'o' && span_all(span_from(text, 2), "0-7");
		if (octal || span_digits(text))
			s = SPELT_NUMBER;
	}
	if (s != SPELT_PLAINLY)
		n->flags |= (uint8_t)(NODE_ODD | s << SPELLING_SHIFT);
}

/* ---- the type of a scalar ---- */

/* The possible types of an unquoted scalar, by its first character. */
enum plain_kind { TEXT, WORD, NUMBER, ELSEWHERE /* text; other readers differ */ };

static enum plain_kind plain_kind(struct span t)
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
	enum plain_kind g = t.n ? (enum plain_kind)FIRST[(unsigned char)t.p[0]] : WORD;
	return g != NUMBER && t.n > WORD_MAX ? TEXT : g;
}

void yaml_resolve_plain(struct node *n, struct span text, struct arena *a)
{
	enum plain_kind g = plain_kind(text);
	if (g == TEXT) {
		scalar_set_text(n, NODE_TEXT, text, a);
		return;
	}
	bool word = g == WORD && (plain_null(n, text) || plain_bool(n, text));
	bool number = g == NUMBER && (plain_int(n, text) || plain_float(n, text));
	if (!word && !number) {
		bool date = g == NUMBER && plain_is_date(text);
		scalar_set_text(n, date ? NODE_DATE : NODE_TEXT, text, a);
	}
	spelling_mark(n, text);
}

/* ---- tags ---- */

#define CORE "tag:yaml.org,2002:"

static bool tag_equals(const char *tag, const char *name)
{
	size_t n = strlen(CORE);
	return strncmp(tag, CORE, n) == 0 && strcmp(tag + n, name) == 0;
}

COLD static int unknown_tag(struct yaml_reader *y, const yaml_event_t *ev, const char *tag)
{
	char buf[4 * QUOTE_MAX] NOT_ZEROED;
	/* A password that begins with `!` is a tag, too. */
	if (build_sensitive(&y->b)) {
		return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
		              "this tag is not supported (text that begins with `!` needs quotes)");
	}
	if (strncmp(tag, CORE, strlen(CORE)) == 0) {
		return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
		              "the tag `!!%s` is not supported",
		              quote(buf, span_of(tag + strlen(CORE))));
	}
	return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
	              "unknown tag `%s` (text that begins with `!` needs quotes)",
	              quote(buf, span_of(tag)));
}

static bool tagged_date(struct node *n, struct span t)
{
	(void)n; /* the caller has set the text */
	return plain_is_date(t);
}

/* clang-format off */
static const struct scalar_tag {
	const char *name;
	bool (*resolve)(struct node *n, struct span t);
	const char *what;
} TAGS[] = {
	{ "int",       plain_int,   "an integer" },
	{ "float",     plain_float, "a number" },
	{ "bool",      plain_bool,  "true or false" },
	{ "null",      plain_null,  "null" },
	{ "timestamp", tagged_date, "a date" },
};
/* clang-format on */

/* Sets the value of a tagged scalar; `tag` is NULL for `!` without a name. */
COLD static int scalar_set_tagged(struct yaml_reader *y, const yaml_event_t *ev, const char *tag,
                                  struct node *n)
{
	struct span t = { (const char *)ev->data.scalar.value, ev->data.scalar.length };
	bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	scalar_set_text(n, NODE_TEXT, t, y->b.arena);
	if (tag == NULL && t.n == 0 && plain)
		n->type = NODE_NULL; /* `k: !`, as js-yaml has it */
	if (tag == NULL || tag_equals(tag, "str"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(TAGS); i++) {
		if (!tag_equals(tag, TAGS[i].name))
			continue;
		/* Empty text is null only if it is unquoted. */
		if ((t.n == 0 && !plain) || !TAGS[i].resolve(n, t)) {
			return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
			              "the tag `!!%s` says so, but this is not %s", TAGS[i].name,
			              TAGS[i].what);
		}
		if (tagged_date == TAGS[i].resolve)
			n->type = NODE_DATE;
		else
			n->n = 0;
		return 0;
	}
	return unknown_tag(y, ev, tag);
}

/* `! text`: libyaml hides a tag without a name before a plain scalar, js-yaml makes it text. */
static bool hidden_tag(struct yaml_reader *y, const yaml_event_t *ev)
{
	size_t i = yaml_byte(y, &ev->start_mark);
	size_t end = yaml_byte(y, &ev->end_mark);
	if (i < end && y->text.p[i] == '&') {
		struct span t = span_to(y->text, end);
		i = span_skip_class(t, span_skip_class(t, i, "^ \t\r\n"), " \t\r\n");
		/* Between anchor and tag there may be lines and comments. */
		while (i < end && t.p[i] == '#')
			i = span_skip_class(t, span_skip_class(t, i, "^\r\n"), " \t\r\n");
	}
	return i < end && y->text.p[i] == '!';
}

/* Refuses an escaped NUL, and line breaks on which readers disagree. */
static int scalar_check(struct yaml_reader *y, const yaml_event_t *ev)
{
	const char *value = (const char *)ev->data.scalar.value;
	if (ev->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE &&
	    memchr(value, '\0', ev->data.scalar.length)) {
		return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
		              "the character U+0000 (NUL) is not allowed in text");
	}
	if (!y->has_breaks)
		return 0;
	size_t from = yaml_byte(y, &ev->start_mark);
	size_t to = yaml_byte(y, &ev->end_mark);
	for (size_t i = from; i < to; i++) {
		const char *p = y->text.p + i;
		if ((to - i >= 2 && memcmp(p, "\xc2\x85", 2) == 0) ||
		    (to - i >= 3 &&
		     (memcmp(p, "\xe2\x80\xa8", 3) == 0 || memcmp(p, "\xe2\x80\xa9", 3) == 0))) {
			return err_at(y->b.e, INVALID_PROTOCOL, text_place(y->text, i),
			              "the line break U+%s is not allowed: readers of YAML do not "
			              "agree on it (in double quotes, write it as an escape)",
			              p[0] == '\xc2'   ? "0085"
			              : p[2] == '\xa8' ? "2028"
			                               : "2029");
		}
	}
	return 0;
}

/* Restores the tab at the start of a literal block scalar. */
COLD static int restore_tab(struct yaml_reader *y, const yaml_event_t *ev)
{
	size_t from = yaml_byte(y, &ev->start_mark);
	size_t to = yaml_byte(y, &ev->end_mark);
	while (from < to && (y->text.p[from] != '\t' ||
	                     (y->input[from] != TAB_MARK && y->input[from] != COMMENT_MARK)))
		from++;
	if (from == to)
		return 0;
	if (ev->data.scalar.style != YAML_LITERAL_SCALAR_STYLE || y->input[from] != TAB_MARK)
		return err_at(y->b.e, INVALID_PROTOCOL, text_place(y->text, from),
		              "a tab is not allowed here");
	ev->data.scalar.value[strspn((const char *)ev->data.scalar.value, "\n")] = '\t';
	return 0;
}

int yaml_scalar(struct yaml_reader *y, const yaml_event_t *ev, struct node *n)
{
	struct span t = { (const char *)ev->data.scalar.value, ev->data.scalar.length };
	const char *tag = (const char *)ev->data.scalar.tag;
	bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	*n = (struct node){ .line = mark_line(&ev->start_mark),
		            .column = mark_column(&ev->start_mark) };
	if (scalar_check(y, ev) < 0 || (y->has_tab_marks && restore_tab(y, ev) < 0))
		return -1;
	if (tag || (plain && y->has_bang && hidden_tag(y, ev)))
		return scalar_set_tagged(y, ev, tag && strcmp(tag, "!") != 0 ? tag : NULL, n);
	if (plain) {
		n->plain = true;
		if (plain_small_int(n, t))
			return 0;
		yaml_resolve_plain(n, t, y->b.arena);
		return 0;
	}
	scalar_set_text(n, NODE_TEXT, t, y->b.arena);
	return 0;
}

int yaml_collection_tag(struct yaml_reader *y, const yaml_event_t *ev)
{
	bool map = ev->type == YAML_MAPPING_START_EVENT;
	const char *tag =
	    (const char *)(map ? ev->data.mapping_start.tag : ev->data.sequence_start.tag);
	if (tag == NULL || strcmp(tag, "!") == 0 || tag_equals(tag, map ? "map" : "seq"))
		return 0;
	return unknown_tag(y, ev, tag);
}
