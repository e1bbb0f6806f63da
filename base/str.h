#pragma once
/*
 * Text with a length: `struct span` borrows, `struct str` owns and grows.
 * A str has a maximum from birth.  What would exceed it is not written and
 * sets `full`, for good: write all, then look once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of a large local variable that is written before it is read: the compiler, which is told to clear
 * all others, leaves it alone.  Where a function is called for every role, clearing is what costs.
 */
#define NOT_ZEROED __attribute__((uninitialized))

/* Borrowed text; need not end in NUL. */
struct span {
	const char *p;
	size_t n;
};

#define SPAN(literal) ((struct span){ (literal), sizeof(literal) - 1 })

static inline struct span span_of(const char *s)
{
	return (struct span){ s, strlen(s) };
}

static inline bool span_eq(struct span a, struct span b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool span_is(struct span a, const char *s)
{
	return span_eq(a, span_of(s));
}

static inline bool span_starts(struct span a, const char *s)
{
	size_t n = strlen(s);
	return a.n >= n && memcmp(a.p, s, n) == 0;
}

/* Offset of a text, which is not empty, at or behind `from`; SIZE_MAX if it is not there. */
size_t span_find(struct span s, size_t from, const char *needle);

/* At most max bytes of a text (UTF-8): a character is whole or left out. */
struct span span_cut(struct span s, size_t max);

/* Without the white space (blank, tab, CR, LF, VT, FF) at both ends. */
struct span span_trim(struct span s);

struct str {
	char *p; /* always NUL-terminated once something was written; NULL before */
	size_t n, cap, max;
	bool full;   /* something did not fit */
	bool secret; /* wipe what is given back, also when the text moves as it grows */
};

#define STR_AUTO __attribute__((cleanup(str_done))) struct str
/* STR_AUTO out = STR_INIT(max): at most `max` bytes, not counting the final NUL. */
#define STR_INIT(maximum) ((struct str){ .max = (maximum) })
/* For text with secrets in it (but not through str_printf, which has memory of its own). */
#define STR_SECRET(maximum) ((struct str){ .max = (maximum), .secret = true })

/* Make room for n more bytes.  false, and full, if that exceeds the maximum. */
bool str_reserve_slow(struct str *s, size_t n);
static inline bool str_reserve(struct str *s, size_t n)
{
	return s->cap - s->n > n || str_reserve_slow(s, n);
}

/* memcpy for what is mostly a few bytes: that of some C libraries takes longer to start than
 * these to copy. */
void bytes_copy(char *to, const char *from, size_t n);

static inline void str_put(struct str *s, const char *p, size_t n)
{
	if (str_reserve(s, n)) {
		bytes_copy(s->p + s->n, p, n);
		s->n += n;
		s->p[s->n] = '\0';
	}
}

static inline void str_span(struct str *s, struct span t)
{
	if (t.n)
		str_put(s, t.p, t.n);
}

static inline void str_char(struct str *s, char c)
{
	if (str_reserve(s, 1)) {
		s->p[s->n++] = c;
		s->p[s->n] = '\0';
	}
}

static inline void str_puts(struct str *s, const char *text)
{
	str_put(s, text, strlen(text));
}

void str_int(struct str *s, int64_t v);
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text as the inside of a JSON string (no quotes around it): escapes `"`, `\` and
 * control characters.  The text must be UTF-8. */
void str_json_text(struct str *s, struct span t);
/* The same with quotes around it. */
void str_json(struct str *s, struct span t);

static inline struct span str_view(const struct str *s)
{
	return (struct span){ s->p ? s->p : "", s->n };
}

/* The text as a C string, "" if nothing was written; borrowed. */
static inline const char *str_c(const struct str *s)
{
	return s->p ? s->p : "";
}

/* Move the text out: free() it.  Never NULL.  Leaves *s empty. */
char *str_take(struct str *s);
void str_done(struct str *s);
/* Like str_done, and wipes what was in it. */
void str_wipe(struct str *s);

/* printf into fresh memory; free() it. */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* These abort when memory runs out: sizes from outside are capped before. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);

/* Give the pointer away: the variable is NULL afterwards. */
#define TAKE(p)                                                                                    \
	({                                                                                         \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})

static inline void free_cleanup(void *p)
{
	extern void free(void *);
	free(*(void **)p);
}
#define FREE_AUTO __attribute__((cleanup(free_cleanup)))

/* Decimal text to number: the whole span must be `-?[0-9]+` within min..max.
 * 0, or -1 (then *out is untouched). */
int parse_i64(struct span t, int64_t min, int64_t max, int64_t *out);

/* Characters of ASCII, whatever the locale says.  Pure. */
static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static inline bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static inline bool is_alnum(char c)
{
	return is_digit(c) || is_lower(c) || is_upper(c);
}

static inline bool is_lower_alnum(char c)
{
	return is_digit(c) || is_lower(c);
}

/* The value of a hexadecimal digit of either case, or -1. */
static inline int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
