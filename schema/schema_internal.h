#pragma once
/*
 * A compiled schema, and the check of a document against it.  Every subschema becomes a rule:
 * types, members and items are fields of the rule, every other keyword is a test in a list.  `$ref`
 * is resolved to a pointer.
 */
#include "base/arena.h"
#include "base/doc/tree.h"
#include "base/err.h"
#include "base/str.h"
#include "schema/schema.h"

/* Types of values.  A date and a number that is not finite have types of their own, which `type`
 * never allows. */
enum {
	BIT_NULL = 1,
	BIT_BOOL = 2,
	BIT_INTEGER = 4,
	BIT_NUMBER = 8,
	BIT_TEXT = 16,
	BIT_LIST = 32,
	BIT_MAP = 64,
	BIT_DATE = 128,
	BIT_INFINITE = 256,
	BIT_ANY = BIT_INFINITE - 1, /* no `type`, but another keyword */
	BIT_ALL = BIT_ANY | BIT_INFINITE,
};

/* The bits of a value; an integer is a number as well. */
unsigned node_bits(const struct node *n);

struct rule;
struct schema_compiler;
struct schema_walk;
struct test;

/* Checks a value; false if it violates the test, which is then reported. */
typedef bool keyword_check(struct schema_walk *w, const struct test *t, const struct node *n,
                           const struct path *at);

struct keyword {
	const char *name;
	unsigned applies; /* BIT_... of the types that it restricts */
	/* Compiles its value into the rule; NULL if the keyword does not restrict documents or
	 * another keyword reads it. */
	void (*read)(struct schema_compiler *c, struct rule *r, const struct node *value);
	keyword_check *check;
	bool most; /* of check_number and check_count: the bound is the greatest, not the least */
};

/* One keyword of one subschema, with its value. */
struct test {
	const struct keyword *keyword;
	double number;                 /* minimum, maxLength, ... */
	const struct pattern *pattern; /* pattern */
	const struct node *values;     /* enum, const: the values */
	/* allOf, oneOf, ...; if: condition, then, else (or NULL) */
	const struct rule *const *rules;
	size_t n; /* values or rules */
};

struct property {
	struct span key;
	const struct rule *rule; /* NULL: only required, not described */
	bool required;
};

struct pattern_property {
	const struct pattern *pattern;
	const struct rule *rule;
};

/* The keywords about the members of a mapping. */
struct rule_members {
	struct property *property;
	size_t n, n_required;
	struct pattern_property *patterns;
	size_t n_patterns;
	const struct rule *additional; /* NULL: anything */
};

struct rule {
	uint16_t types; /* BIT_...; 0: the schema `false` */
	uint16_t n;
	struct test *tests;
	struct rule_members *members;
	const struct rule *items; /* of a list; NULL: anything */
	struct span hint;         /* errorMessage, added if the type is wrong; or p is NULL */
};

/* The names of types in schemas, their bits, and their words in messages. */
struct schema_type {
	const char *name;
	uint16_t bit;
	const char *words;
};
enum { SCHEMA_TYPES = 7 };
extern const struct schema_type SCHEMA_TYPE[SCHEMA_TYPES];

struct schema {
	const struct rule *root;
};

/* NULL if the member is not described. */
struct property *property_find(const struct rule_members *m, struct span key);

/* ---- checking (schema.c) ---- */

struct schema_walk {
	struct err *e;
	const char *code;
	const char *const *secret;
	const struct node *root;
	struct arena *arena; /* of the places */
	bool quiet;          /* report nothing, stop at the first violation */
};

keyword_check check_values, check_number, check_count, check_pattern, check_all_of, check_any_of,
    check_one_of, check_not, check_if;

/* ---- reporting (report.c) ---- */

enum { SENTENCE_MAX = 600 };

/* The next violation will not be printed: the walk is quiet, or the notes are full (then it
 * is counted).  Check this before composing a sentence. */
bool walk_is_mute(struct schema_walk *w);
/* Reports a violation at a value, or if the walk is not mute, at another place.  Returns false. */
bool walk_fail(struct schema_walk *w, const struct node *n, const struct path *at, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
bool walk_fail_at(struct schema_walk *w, struct place where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The type is not allowed.  Returns false. */
bool walk_fail_type(struct schema_walk *w, const struct rule *r, const struct node *n,
                    const struct path *at);
/* The value is not among those allowed.  Returns false. */
bool walk_fail_values(struct schema_walk *w, const struct test *t, const struct node *n,
                      const struct path *at);

/* The value for a message: `"abc"`, `5`, `a list`, or typed `text "abc"`, `the number 5`; only its
 * type if it is secret. */
void value_text(struct str *out, const struct schema_walk *w, const struct node *n,
                const struct path *at, bool typed);

/* ---- regular expressions of schemas (pattern.c) ---- */

/* `^[REST]+$` and `^[FIRST][REST]*$`, with classes of class_has_char, are compared byte by byte;
 * all others are expressions of base/regex/regex.h, which has what ECMAScript and RE2 share. */
struct pattern {
	const char *words; /* the message for text that does not match */
	const struct regex *regex;
	const char *first, *rest; /* without regex */
};

/* Compiles a pattern in the arena.  `words` can be NULL: made from the pattern.  NULL and *e (500)
 * if it is invalid. */
struct pattern *pattern_new(struct arena *a, struct span source, const char *words, struct err *e);

bool pattern_matches(const struct pattern *p, struct span text);
