#pragma once
/*
 * base/ holds what all layers share: text (this file), arenas (arena.h), errors with places
 * (err.h), encodings (enc.h) and digests (hash.h); documents as trees (doc/tree.h), JSON, regular
 * expressions, image references, files and clocks (posix/) are in its folders.  Begin with this
 * file, err.h and doc/tree.h.
 *
 * Text with a length: `struct span` borrows, `struct str` owns and grows.
 *
 *	STR_AUTO out = STR_INIT(4096);
 *	str_puts(&out, "name: ");
 *	str_span(&out, span_trim(text));
 *	str_printf(&out, " (%zu bytes)", text.n);
 *	return out.full ? -1 : fd_write_all(fd, str_view(&out));
 *
 * A str has a maximum.  A write beyond it is dropped and sets `full`, which stays set: the caller
 * writes everything and checks `full` once.  Memory that runs out aborts.
 *
 * Thread: own
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Exempts a large local variable from -ftrivial-auto-var-init=zero, where clearing it costs time.
 */
#define NOT_ZEROED __attribute__((uninitialized))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Characters of ASCII, independent of the locale. */
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

static inline char to_lower(char c)
{
	return (char)(is_upper(c) ? c + 'a' - 'A' : c);
}

/* Blank, tab, CR, LF, VT, FF. */
static inline bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
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

/* Borrowed text; not necessarily NUL-terminated. */
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

/* Compares byte by byte; returns a number below 0, 0, or above 0.  A prefix comes before the longer
 * text. */
static inline int span_compare(struct span a, struct span b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;
	return c ? c : (a.n > b.n) - (a.n < b.n);
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

/* An empty span may have no address, and C does not allow adding 0 to that. */
static inline struct span span_from(struct span s, size_t start)
{
	return (struct span){ start ? s.p + start : s.p, s.n - start };
}

static inline struct span span_to(struct span s, size_t end)
{
	return (struct span){ s.p, end };
}

/* Offset of the first c, or s.n. */
static inline size_t span_chr(struct span s, char c)
{
	const char *p = s.n ? memchr(s.p, c, s.n) : NULL;
	return p ? (size_t)(p - s.p) : s.n;
}

/* Offset of a non-empty text at or after `from`; SIZE_MAX if it does not occur. */
size_t span_find(struct span s, size_t from, const char *needle);

/* Removes the text up to the separator from *rest and returns it without the separator. */
static inline struct span span_next(struct span *rest, char separator)
{
	struct span part = span_to(*rest, span_chr(*rest, separator));
	*rest = span_from(*rest, part.n < rest->n ? part.n + 1 : part.n);
	return part;
}

/* Equal, except for the case of ASCII letters. */
bool span_same(struct span a, struct span b);
/* Returns true if s is one of these texts; the list ends with NULL. */
bool span_among(struct span s, const char *const *texts);

/*
 * A class of bytes is written as between the brackets of a regular expression, without escapes:
 * "A-Za-z0-9_-" has ranges and single bytes, a `-` at its end is one; "^\r\n" has all others.  NUL
 * is in classes with `^` only.
 */
bool class_has_char(char c, const char *class);
/* Offset of the first byte at or after `from` that is not of the class, or s.n. */
size_t span_skip_class(struct span s, size_t from, const char *class);
/* All bytes are of the class; true if empty. */
static inline bool span_all(struct span s, const char *class)
{
	return span_skip_class(s, 0, class) == s.n;
}
/* Consists of ASCII letters, digits and the characters in `extra`; true if empty. */
bool span_only_alnum_or(struct span s, const char *extra);
/* A token of HTTP (RFC 9110, 5.6.2), as names of headers and methods are. */
static inline bool span_is_token(struct span s)
{
	return s.n > 0 && span_all(s, "A-Za-z0-9!#$%&'*+.^_`|~-");
}
/* Consists of one or more decimal digits. */
bool span_digits(struct span s);
/* Returns true if s has a control character of ASCII other than tab. */
bool span_has_control(struct span s);
/* Writes the letters and digits of ASCII to out (at most s.n bytes), letters in lower case, and
 * returns their number.  FrameworkController's names of task roles are made so. */
size_t span_lower_alnum(char *out, struct span s);

/* Returns true if these are the letters and digits of the name, as span_lower_alnum writes them. */
bool span_equals_lower_alnum(struct span name, struct span lower_alnum);

/* Returns the first max bytes at most, without a truncated UTF-8 character at the end. */
struct span span_cut(struct span s, size_t max);

/* Returns the text without white space (is_space) at both ends. */
struct span span_trim(struct span s);

struct str {
	char *p; /* NULL until something is written, then NUL-terminated */
	size_t n, cap, max;
	bool full;   /* a write did not fit */
	bool secret; /* wipe memory before it is freed, also when the text moves */
};

#define STR_AUTO __attribute__((cleanup(str_done))) struct str
/* STR_AUTO out = STR_INIT(max): at most `max` bytes, not counting the final NUL. */
#define STR_INIT(maximum) ((struct str){ .max = (maximum) })
/* A str for text with secrets, which is wiped. str_printf does not wipe its own buffer. */
#define STR_SECRET(maximum) ((struct str){ .max = (maximum), .secret = true })

/* Makes room for n more bytes.  Returns false and sets full if that exceeds the maximum. */
bool str_reserve_slow(struct str *s, size_t n);
static inline bool str_reserve(struct str *s, size_t n)
{
	return s->cap - s->n > n || str_reserve_slow(s, n);
}

/* memcpy; `from` can be NULL if n is 0. */
static inline void bytes_copy(char *to, const char *from, size_t n)
{
	if (n)
		memcpy(to, from, n);
}

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

/* Writes a number before `end`, with at least `least` digits; returns its first digit. */
char *decimal_before(char *end, uint64_t v, int least);
void str_int(struct str *s, int64_t v);
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text as the inside of a JSON string, without the quotes.  The text must be UTF-8. */
void str_json_text(struct str *s, struct span t);
/* Appends the text as JSON, with quotes. */
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

/* Moves the text out; the caller frees it.  Never NULL.  *s is empty afterwards. */
char *str_take(struct str *s);
void str_done(struct str *s);
/* Frees as str_done, and wipes the text before. */
void str_wipe(struct str *s);

/* printf into fresh memory; the caller frees it. */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));
/* These abort if memory runs out: callers limit sizes that come from outside. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);

/* The value of a pointer variable, which is NULL afterwards. */
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

/* Decimal text to number: the whole span must be `-?[0-9]+` within min..max.  0, or -1 and *out is
 * unchanged. */
int parse_i64(struct span t, int64_t min, int64_t max, int64_t *out);
