/* Compares texts with the patterns of schemas, simple ones byte by byte, and describes them. */
#include "schema/schema_internal.h"

#include "base/regex/regex.h"
#include "base/str.h"

enum { WORDS_MAX = 500 };

struct class
{
	uint64_t bits[2]; /* of ASCII */
};

struct pattern {
	const char *words;
	const struct regex *regex; /* NULL: simple, that is first, then any number of rest */
	bool one;                  /* simple: first alone */
	struct class first, rest;
};

static bool class_has(const struct class *c, unsigned char b)
{
	return b < 128 && (c->bits[b >> 6] >> (b & 63) & 1);
}

static void class_add(struct class *c, unsigned char from, unsigned char to)
{
	for (unsigned b = from; b <= to; b++)
		c->bits[b >> 6] |= (uint64_t)1 << (b & 63);
}

/* An ASCII character without a special meaning inside of brackets. */
static bool plain_in_class(char c)
{
	return c != '\0' && !class_has_char(c, "\\[]^\x80-\xff");
}

/* Parses `[A-Za-z_]` at *s, without negation and escapes; false for anything else. */
static bool pattern_read_class(const char **s, struct class *c)
{
	const char *p = *s;
	*c = (struct class){ { 0, 0 } };
	if (*p++ != '[' || *p == ']')
		return false;
	while (*p != ']') {
		if (!plain_in_class(*p))
			return false;
		if (p[1] == '-' && p[2] != ']') {
			if (!plain_in_class(p[2]) || p[2] < p[0])
				return false;
			class_add(c, (unsigned char)p[0], (unsigned char)p[2]);
			p += 3;
		} else {
			class_add(c, (unsigned char)*p, (unsigned char)*p);
			p++;
		}
	}
	*s = p + 1;
	return true;
}

/* ^[A]+$, ^[A]$ or ^[A][B]*$ */
static bool read_simple(struct pattern *p, const char *s)
{
	if (*s++ != '^' || !pattern_read_class(&s, &p->first))
		return false;
	p->rest = p->first;
	if (*s == '[') {
		if (!pattern_read_class(&s, &p->rest) || *s++ != '*')
			return false;
	} else if (*s == '+') {
		s++;
	} else {
		p->one = true;
	}
	return strcmp(s, "$") == 0;
}

bool pattern_matches(const struct pattern *p, struct span text)
{
	if (!p->regex) {
		bool good = text.n > 0 && class_has(&p->first, (unsigned char)text.p[0]) &&
		            (!p->one || text.n == 1);
		for (size_t i = 1; good && i < text.n; i++)
			good = class_has(&p->rest, (unsigned char)text.p[i]);
		return good;
	}
	struct text_span t;
	struct match m;
	regex_text_of(&t, text);
	return regex_search(p->regex, &t.text, INT64_MAX, &m) == REGEX_FOUND;
}

/* A range of characters, and its name in messages. */
struct pattern_range {
	unsigned char from, to;
	const char *many, *one;
};

static const struct pattern_range RANGES[] = {
	{ 'A', 'Z', "capital letters", "a capital letter" },
	{ 'a', 'z', "small letters", "a small letter" },
	{ '0', '9', "digits", "a digit" },
};

static bool class_has_range(const struct class *c, const struct pattern_range *r)
{
	for (unsigned b = r->from; b <= r->to; b++) {
		if (!class_has(c, (unsigned char)b))
			return false;
	}
	return true;
}

enum { ITEMS_MAX = 128 };

/* The names of the parts of a class: ranges, then single characters. */
static size_t class_items(const struct class *c, bool one, char buf[ITEMS_MAX][2],
                          const char *items[ITEMS_MAX])
{
	struct class left = *c;
	size_t n = 0;
	bool letters = class_has_range(c, &RANGES[0]) && class_has_range(c, &RANGES[1]);
	if (letters)
		items[n++] = one ? "a letter" : "letters";
	for (size_t i = 0; i < ARRAY_SIZE(RANGES); i++) {
		if (!class_has_range(c, &RANGES[i]))
			continue;
		if (!letters || i == 2)
			items[n++] = one ? RANGES[i].one : RANGES[i].many;
		for (unsigned b = RANGES[i].from; b <= RANGES[i].to; b++)
			left.bits[b >> 6] &= ~((uint64_t)1 << (b & 63));
	}
	for (unsigned b = 1; b < 128 && n < ITEMS_MAX; b++) {
		if (!class_has(&left, (unsigned char)b))
			continue;
		buf[n][0] = (char)b;
		buf[n][1] = '\0';
		items[n] = buf[n];
		n++;
	}
	return n;
}

/* "letters, digits and _", or "a letter, a digit or _". */
static void put_class(struct str *out, const struct class *c, bool one)
{
	char buf[ITEMS_MAX][2];
	const char *items[ITEMS_MAX];
	size_t n = class_items(c, one, buf, items);
	for (size_t i = 0; i < n; i++) {
		if (i)
			str_puts(out, i + 1 < n ? ", " : one ? " or " : " and ");
		str_puts(out, items[i]);
	}
}

static char *pattern_describe(struct arena *a, const struct pattern *p, struct span source)
{
	STR_AUTO out = STR_INIT(WORDS_MAX);
	if (p->regex) {
		str_puts(&out, "must match the pattern ");
		str_span(&out, source);
	} else {
		str_puts(&out, p->one ? "must be " : "may only have ");
		put_class(&out, &p->rest, p->one);
		if (memcmp(&p->first, &p->rest, sizeof(p->rest)) != 0) {
			str_puts(&out, ", and must begin with ");
			put_class(&out, &p->first, true);
		}
	}
	return arena_dup(a, str_view(&out));
}

struct pattern *pattern_new(struct arena *a, struct span source, const char *words, struct err *e)
{
	struct pattern *p = ARENA_NEW(a, struct pattern, 1);
	ERR_AUTO why = { 0 };
	if (!read_simple(p, arena_dup(a, source)) && !(p->regex = regex_compile(source, a, &why))) {
		char buf[4 * QUOTE_MAX];
		err_set(e, UNKNOWN_ERROR, "no regular expression: %s: %s", quote(buf, source),
		        err_msg(&why));
		return NULL;
	}
	p->words = words ?: pattern_describe(a, p, source);
	return p;
}

const char *pattern_words(const struct pattern *p)
{
	return p->words;
}
