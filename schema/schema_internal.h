#pragma once
/*
 * A compiled schema.  Every subschema becomes a rule; what it says about types,
 * members and items stands in the rule itself, everything else in a list of
 * tests, one per keyword.  `$ref` is gone: whoever refers points to the rule.
 * For schema/ only.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/tree.h"
#include "schema/check.h"

/* Types of values as bits.  A date and a number that is not finite have a type of
 * their own, which no `type` allows. */
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
	BIT_ANY = BIT_INFINITE - 1, /* no `type`, but some other keyword */
	BIT_ALL = BIT_ANY | BIT_INFINITE,
};

/* The bits of a value; an integer is a number as well. */
unsigned node_bits(const struct node *n);
static inline bool node_is_number(const struct node *n)
{
	return n->type == NODE_INT || n->type == NODE_REAL;
}
static inline double node_number(const struct node *n)
{
	return n->type == NODE_INT ? (double)n->integer : n->real;
}

struct keyword;
struct rule;

/* One keyword of one subschema, with its value. */
struct test {
	const struct keyword *keyword;
	double number;                 /* minimum, maxLength, ... */
	const struct pattern *pattern; /* pattern */
	const struct node *values;     /* enum, const: the values */
	const struct rule *const
	    *rules;                  /* allOf, oneOf, ...; if: condition, then, else (or NULL) */
	size_t n;                    /* values or rules */
	const struct choice *choice; /* oneOf, anyOf: told apart by a member; or NULL */
};

/* A oneOf whose branches each require a member with other values: exactly one branch
 * can fit, and which one is said by that member. */
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

/* What a rule says about the members of a mapping. */
struct members {
	struct property *property;
	size_t n, n_required;
	/* Open addressing, index + 1 of property, 0 for free; the size is a power of two. */
	uint16_t *slot;
	size_t mask;
	uint32_t seed, shift; /* of the hash */
	struct pattern_property *patterns;
	size_t n_patterns;
	const struct rule *additional; /* NULL: anything */
};

/* What a rule says about the items of a list. */
struct items {
	const struct rule *const *first; /* list form of `items` */
	size_t n_first;
	const struct rule *rest; /* all others, NULL: anything */
};

struct rule {
	uint16_t types; /* BIT_... */
	uint16_t n;
	bool never; /* the schema `false` */
	struct test *tests;
	struct members *members;
	struct items *items;
	struct span hint; /* errorMessage: added when the type is wrong; p is NULL without */
};

struct schema {
	struct arena arena; /* all of it lives here */
	struct doc doc;
	const struct rule *root;
	struct pattern *patterns; /* linked, for schema_free */
};

/* NULL if no such member is described. */
const struct property *property_find(const struct members *m, const char *key, size_t n);

/* Values of a `const` or `enum` among the tests of a rule, or NULL. */
const struct test *rule_values(const struct rule *r);

/*
 * Checking a document: the walk through rules and values, and how violations are
 * reported.  For schema/ only.
 */
struct walk {
	struct err *e;
	const char *code;
	const char *const *secret;
	const struct node *root;
	struct arena *arena; /* of the places */
	bool quiet; /* only the verdict is wanted: stop at the first violation, report nothing */
	bool lost;  /* the schema leads in circles: the document is refused, no more is reported */
	unsigned depth;
};

/* Check a value against a rule; `at` is NULL for the root.  false: violated, and
 * reported unless w->quiet. */
bool rule_check(struct walk *w, const struct rule *r, const struct node *n, const struct path *at);
/* Only the verdict. */
bool rule_accepts(struct walk *w, const struct rule *r, const struct node *n,
                  const struct path *at);

/* What a rule says about members (map) and items (list). */
bool members_check(struct walk *w, const struct members *m, const struct node *map,
                   const struct path *at);

/* Nobody will read the next violation: only the verdict is wanted, the schema leads in
 * circles, or the notes are full, and then it is counted.  Look here before making up a sentence.
 */
bool walk_is_mute(struct walk *w);
/* Report one violation at a value, at a member's key; always false. */
bool walk_fail(struct walk *w, const struct node *n, const struct path *at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool walk_fail_key(struct walk *w, const struct member *m, const struct path *map, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));
/* The type is not among those allowed. */
bool walk_fail_type(struct walk *w, const struct rule *r, const struct node *n,
                    const struct path *at);
/* The value is none of those allowed. */
bool walk_fail_values(struct walk *w, const struct test *t, const struct node *n,
                      const struct path *at);

/* The value as it may be shown: `"abc"`, `5`, `a list`; never a hidden one. */
void value_text(struct str *out, const struct walk *w, const struct node *n, const struct path *at);

enum { SENTENCE_MAX = 600 };

/*
 * The keywords of JSON Schema that we know, one table: how each is read when a
 * schema is compiled, and how it is tested when a document is checked.
 * For schema/ only.
 */
struct compiler;
struct walk;

struct keyword {
	const char *name;
	unsigned applies; /* to which types of values it says anything; BIT_... */
	/* Read its value into the rule; NULL for what says nothing about documents, or
	 * is read together with another keyword.  0, or -1 and the compiler's error. */
	int (*read)(struct compiler *c, struct rule *r, const struct keyword *k,
	            const struct node *value, const struct path *at);
	/* Test a value; false, and the violation reported. */
	bool (*check)(struct walk *w, const struct test *t, const struct node *n,
	              const struct path *at);
};

/* NULL if there is no such keyword. */
const struct keyword *keyword_find(struct span name);

/* Tests of one keyword each; see struct keyword.  For schema/ only. */
struct walk;

bool check_values(struct walk *w, const struct test *t, const struct node *n,
                  const struct path *at);
bool check_minimum(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at);
bool check_maximum(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at);
bool check_above(struct walk *w, const struct test *t, const struct node *n, const struct path *at);
bool check_below(struct walk *w, const struct test *t, const struct node *n, const struct path *at);
bool check_multiple(struct walk *w, const struct test *t, const struct node *n,
                    const struct path *at);
bool check_min_length(struct walk *w, const struct test *t, const struct node *n,
                      const struct path *at);
bool check_max_length(struct walk *w, const struct test *t, const struct node *n,
                      const struct path *at);
bool check_min_count(struct walk *w, const struct test *t, const struct node *n,
                     const struct path *at);
bool check_max_count(struct walk *w, const struct test *t, const struct node *n,
                     const struct path *at);
bool check_pattern(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at);

/* allOf, anyOf, oneOf, not, if.  For schema/ only. */
/* Are the rules told apart by a member that each of them requires, with values of
 * its own?  NULL if not. */
const struct choice *choice_find(struct arena *a, const struct rule *const *rules, size_t n);

bool check_all_of(struct walk *w, const struct test *t, const struct node *n,
                  const struct path *at);
bool check_any_of(struct walk *w, const struct test *t, const struct node *n,
                  const struct path *at);
bool check_one_of(struct walk *w, const struct test *t, const struct node *n,
                  const struct path *at);
bool check_not(struct walk *w, const struct test *t, const struct node *n, const struct path *at);
bool check_if(struct walk *w, const struct test *t, const struct node *n, const struct path *at);

/* What the keywords need to compile their values.  For schema/ only. */
enum { REFS_MAX = 256 };

/* A subschema that was referred to. */
struct target {
	const struct node *node;
	struct rule *rule;
};

struct compiler {
	struct schema *s;
	struct err *e;
	const struct node *schema; /* the subschema that is being compiled */
	struct target targets[REFS_MAX];
	size_t n_targets;
	unsigned depth;
};

/* The schema is wrong here.  Returns -1. */
int compile_fail(struct compiler *c, const struct path *at, const struct node *n, const char *text);

/* The rule of a subschema; NULL and the compiler's error. */
const struct rule *compile_rule(struct compiler *c, const struct node *n, const struct path *at);

/* One more test of the rule, for its keyword. */
struct test *compile_test(struct compiler *c, struct rule *r, const struct keyword *k);

/* A compiled pattern that is freed with the schema; NULL and the compiler's error. */
struct pattern *compile_pattern(struct compiler *c, struct span source, const struct path *at);

/*
 * Regular expressions of schemas.  What schemas mostly have, `^[class]+$` and
 * `^[class][class]*$`, is two bitmaps; the rest is a POSIX extended regular
 * expression over bytes of UTF-8.  `$` is the very end of the text, never the place before
 * a final line break; no locale plays a part.  A backslash is for punctuation, outside
 * brackets: what ECMAScript knows beyond that (`\d`, `[\]]`) is refused.  `.` and
 * `[^a]` stand for characters of UTF-8; `[é]` and `é+`, of which a part is a single byte, are
 * refused.
 */
struct pattern;

/* Compile a pattern; it lives in the arena, but must be given to pattern_done.  `next`
 * becomes pattern_next().  NULL and *e (500) if it is none. */
struct pattern *pattern_new(struct arena *a, struct span source, struct pattern *next,
                            struct err *e);
struct pattern *pattern_next(const struct pattern *p);
void pattern_done(struct pattern *p);

/* The text ends in NUL and has none inside. */
bool pattern_matches(const struct pattern *p, struct span text);

/* Words for people, to be used when a text does not match: "may only have letters,
 * digits, _ and -".  Borrowed from the pattern. */
const char *pattern_words(const struct pattern *p);
/* Replace the words. */
void pattern_say(struct pattern *p, const char *words);
