#pragma once
/*
 * The keywords of JSON Schema that we know, one table: how each is read when a
 * schema is compiled, and how it is tested when a document is checked.
 * For schema/ only.
 */
#include "schema/rule.h"

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
