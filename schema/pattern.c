/* Regular expressions of schemas; see schema_internal.h. */
#include "schema/schema_internal.h"

#include <regex.h>

#include "base/str.h"

enum { WORDS_MAX = 500, SOURCE_MAX = 1000 };

struct class
{
	uint64_t bits[2]; /* of ASCII */
};

struct pattern {
	struct pattern *next;
	const char *words;
	bool simple; /* first, then any number of rest */
	bool one;    /* simple: first alone */
	struct class first, rest;
	regex_t regex;
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
	return (unsigned char)c < 128 && c != '\0' && strchr("\\[]^", c) == NULL;
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

static bool matches_simple(const struct pattern *p, struct span t)
{
	if (t.n == 0 || !class_has(&p->first, (unsigned char)t.p[0]) || (p->one && t.n > 1))
		return false;
	for (size_t i = 1; i < t.n; i++) {
		if (!class_has(&p->rest, (unsigned char)t.p[i]))
			return false;
	}
	return true;
}

bool pattern_matches(const struct pattern *p, struct span text)
{
	if (p->simple)
		return matches_simple(p, text);
	return regexec(&p->regex, text.p, 0, NULL, 0) == 0;
}

/* A range of characters, and its name in messages. */
struct range {
	unsigned char from, to;
	const char *many, *one;
};

static const struct range RANGES[] = {
	{ 'A', 'Z', "capital letters", "a capital letter" },
	{ 'a', 'z', "small letters", "a small letter" },
	{ '0', '9', "digits", "a digit" },
};

static bool class_has_range(const struct class *c, const struct range *r)
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

static bool class_eq(const struct class *a, const struct class *b)
{
	return a->bits[0] == b->bits[0] && a->bits[1] == b->bits[1];
}

static char *pattern_describe(struct arena *a, const struct pattern *p, struct span source)
{
	STR_AUTO out = STR_INIT(WORDS_MAX);
	if (!p->simple) {
		str_puts(&out, "must match the pattern ");
		str_span(&out, source);
	} else {
		str_puts(&out, p->one ? "must be " : "may only have ");
		put_class(&out, &p->rest, p->one);
		if (!class_eq(&p->first, &p->rest)) {
			str_puts(&out, ", and must begin with ");
			put_class(&out, &p->first, true);
		}
	}
	return arena_dup(a, str_view(&out));
}

/* Skips the start of a class: `[`, `[^`, and a `]` as the first item. */
static const char *pattern_open_class(const char *s)
{
	s += s[1] == '^';
	s += s[1] == ']';
	return s;
}

/* `\d`, `\p{L}`, `[\w-]`, `[é]` and `é+` have another meaning in POSIX, or for bytes. */
static bool has_foreign_part(const char *s)
{
	bool in_class = false;
	for (; *s != '\0'; s++) {
		bool wide = (unsigned char)*s >= 128;
		if (wide && (in_class || (s[1] && strchr("*+?{", s[1]))))
			return true;
		if (*s == '\\') {
			s++;
			if (in_class || *s == '\0' || is_alnum(*s))
				return true;
		} else if (in_class) {
			in_class = *s != ']';
		} else if (*s == '[') {
			in_class = true;
			s = pattern_open_class(s);
		}
	}
	return false;
}

/* regcomp works on bytes: rewrites `.` and `[^a]` to match whole characters of UTF-8. */
static void put_bytes_pattern(struct str *out, const char *s)
{
	static const char WIDE[] = "\x80-\xff";
	static const char OR_WIDE[] = "]|[\xc2-\xf4][\x80-\xbf]+)";
	bool negated = false;
	for (bool in_class = false; *s != '\0'; s++) {
		if (!in_class && *s == '\\') {
			str_char(out, *s++);
			str_char(out, *s);
		} else if (!in_class && *s == '.') {
			str_printf(out, "([^%s%s", WIDE, OR_WIDE);
		} else if (!in_class && *s == '[') {
			const char *end = pattern_open_class(s);
			in_class = true;
			negated = s[1] == '^';
			str_puts(out, negated ? "(" : "");
			str_put(out, s, (size_t)(end + 1 - s));
			str_puts(out, negated ? WIDE : "");
			s = end;
		} else if (in_class && negated && *s == ']') {
			in_class = negated = false;
			str_puts(out, OR_WIDE);
		} else {
			in_class = in_class && *s != ']';
			str_char(out, *s);
		}
	}
}

static int compile_regex(struct pattern *p, const char *text, size_t n)
{
	STR_AUTO bytes = STR_INIT((size_t)SOURCE_MAX * 40);
	if (n > SOURCE_MAX || has_foreign_part(text) || strstr(text, "[^-"))
		return -1; /* `[^-a]`: no range can precede the `-` */
	put_bytes_pattern(&bytes, text);
	return regcomp(&p->regex, str_c(&bytes), REG_EXTENDED | REG_NOSUB) ? -1 : 0;
}

struct pattern *pattern_new(struct arena *a, struct span source, struct pattern *next,
                            struct err *e)
{
	struct pattern *p = ARENA_NEW(a, struct pattern, 1);
	const char *text = arena_dup(a, source);
	p->simple = read_simple(p, text);
	if (!p->simple && compile_regex(p, text, source.n) < 0) {
		char buf[4 * QUOTE_MAX];
		err_set(e, UNKNOWN_ERROR, "no regular expression: %s", quote(buf, source));
		return NULL;
	}
	p->words = pattern_describe(a, p, source);
	p->next = next;
	return p;
}

struct pattern *pattern_next(const struct pattern *p)
{
	return p->next;
}

void pattern_done(struct pattern *p)
{
	if (!p->simple)
		regfree(&p->regex);
}

const char *pattern_words(const struct pattern *p)
{
	return p->words;
}

void pattern_say(struct pattern *p, const char *words)
{
	p->words = words;
}
