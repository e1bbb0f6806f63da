#pragma once
/*
 * A compiled schema.  Every subschema becomes a rule; what it says about types,
 * members and items stands in the rule itself, everything else in a list of
 * tests, one per keyword.  `$ref` is gone: whoever refers points to the rule.
 * For schema/ only.
 */
#include "base/tree.h"
#include "schema/pattern.h"

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
