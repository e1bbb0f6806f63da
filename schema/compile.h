#pragma once
/* What the keywords need to compile their values.  For schema/ only. */
#include "schema/check.h"
#include "schema/rule.h"

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
