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

enum bound { AT_LEAST, AT_MOST, ABOVE, BELOW };

struct keyword {
	const char *name;
	unsigned applies; /* BIT_... of the types that it restricts */
	/* Compiles its value into the rule; NULL if the keyword does not restrict documents or
	 * another keyword reads it.  0, or -1 and the compiler's error. */
	int (*read)(struct schema_compiler *c, struct rule *r, const struct node *value,
	            const struct path *at);
	keyword_check *check;
	enum bound bound; /* of check_number and check_count */
};

/* One keyword of one subschema, with its value. */
struct test {
	const struct keyword *keyword;
	double number;                 /* minimum, maxLength, ... */
	const struct pattern *pattern; /* pattern */
	const struct node *values;     /* enum, const: the values */
	/* allOf, oneOf, ...; if: condition, then, else (or NULL) */
	const struct rule *const *rules;
	size_t n;                    /* values or rules */
	const struct choice *choice; /* oneOf, anyOf: selected by a member; or NULL */
};

/* A oneOf whose branches each require the same member with different values: the value selects the
 * only branch that can match. */
struct choice {
	struct span key;
	const struct test *const *tests; /* per branch: the values that the member may have */
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
	/* Open addressing: index of property + 1, 0 if free; the size is a power of two. */
	uint16_t *slot;
	size_t mask;
	uint32_t seed, shift; /* of the hash */
	struct pattern_property *patterns;
	size_t n_patterns;
	const struct rule *additional; /* NULL: anything */
};

/* The keywords about the items of a list. */
struct items {
	const struct rule *const *first; /* list form of `items` */
	size_t n_first;
	const struct rule *rest; /* of the other items; NULL: anything */
};

struct rule {
	uint16_t types; /* BIT_... */
	uint16_t n;
	bool never; /* the schema `false` */
	struct test *tests;
	struct rule_members *members;
	struct items *items;
	struct span hint; /* errorMessage, added if the type is wrong; or p is NULL */
};

struct schema {
	struct arena arena; /* of all its parts */
	struct doc doc;
	const struct rule *root;
};

/* NULL if the member is not described. */
const struct property *property_find(const struct rule_members *m, const char *key, size_t n);

/* The first test of the rule that has values (`const`, `enum`), or NULL. */
const struct test *rule_values(const struct rule *r);

/* The member by which a choice between the rules can be made; NULL if there is none. */
const struct choice *choice_find(struct arena *a, const struct rule *const *rules, size_t n);

/* ---- checking (schema.c) ---- */

struct schema_walk {
	struct err *e;
	const char *code;
	const char *const *secret;
	const struct node *root;
	struct arena *arena; /* of the places */
	bool quiet;          /* report nothing, stop at the first violation */
	bool lost;           /* the schema is circular: the document is refused */
	unsigned depth;
};

keyword_check check_values, check_number, check_multiple, check_count, check_pattern, check_all_of,
    check_any_of, check_one_of, check_not, check_if;

/* ---- reporting (report.c) ---- */

enum { SENTENCE_MAX = 600 };

/* The next violation will not be printed: the walk is quiet or lost, or the notes are full (then it
 * is counted).  Check this before composing a sentence. */
bool walk_is_mute(struct schema_walk *w);
/* Reports a violation at a value, or at the key of a member.  Returns false. */
bool walk_fail(struct schema_walk *w, const struct node *n, const struct path *at, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
bool walk_fail_key(struct schema_walk *w, const struct member *m, const struct path *map,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
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

/*
 * `^[class]+$` and `^[class][class]*$` become two bitmaps; all others are expressions of
 * base/regex/regex.h, which has what ECMAScript and RE2 share.
 */
struct pattern;

/* Compiles a pattern in the arena.  `words`: the message for text that does not match; NULL: made
 * from the pattern.  NULL and *e (500) if it is invalid. */
struct pattern *pattern_new(struct arena *a, struct span source, const char *words, struct err *e);

/* Any thread. */
bool pattern_matches(const struct pattern *p, struct span text);

/* The message for text that does not match, "may only have letters, digits, _ and -"; borrowed. */
const char *pattern_words(const struct pattern *p);
