/* The keywords of JSON Schema; see keywords.h. */
#include "schema/keywords.h"

#include <math.h>

#include "schema/combine.h"
#include "schema/compile.h"
#include "schema/values.h"
#include "schema/walk.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- reading keywords ------------------------------------------------------------------ */

struct type_name {
	const char *name;
	uint16_t bits;
};

static const struct type_name TYPES[] = {
	{ "null", BIT_NULL },     { "boolean", BIT_BOOL }, { "integer", BIT_INTEGER },
	{ "number", BIT_NUMBER }, { "string", BIT_TEXT },  { "array", BIT_LIST },
	{ "object", BIT_MAP },
};

static int add_type(struct compiler *c, struct rule *r, const struct node *n, const struct path *at)
{
	for (size_t i = 0; i < COUNT(TYPES) && n->type == NODE_TEXT; i++) {
		if (span_is(node_span(n), TYPES[i].name)) {
			r->types |= TYPES[i].bits;
			return 0;
		}
	}
	return compile_fail(c, at, n, "no type");
}

static int read_type(struct compiler *c, struct rule *r, const struct keyword *k,
                     const struct node *v, const struct path *at)
{
	(void)k;
	r->types = 0;
	if (v->type != NODE_LIST)
		return add_type(c, r, v, at);
	for (uint32_t i = 0; i < v->n; i++) {
		if (add_type(c, r, &v->item[i], at) < 0)
			return -1;
	}
	return 0;
}

static int read_values(struct compiler *c, struct rule *r, const struct keyword *k,
                       const struct node *v, const struct path *at)
{
	if (v->type != NODE_LIST)
		return compile_fail(c, at, v, "enum must be a list");
	struct test *t = compile_test(c, r, k);
	t->values = v->item;
	t->n = v->n;
	return 0;
}

static int read_const(struct compiler *c, struct rule *r, const struct keyword *k,
                      const struct node *v, const struct path *at)
{
	(void)at;
	struct test *t = compile_test(c, r, k);
	t->values = v;
	t->n = 1;
	return 0;
}

static int read_number(struct compiler *c, struct rule *r, const struct keyword *k,
                       const struct node *v, const struct path *at)
{
	if (!node_is_number(v) || !isfinite(node_number(v)))
		return compile_fail(c, at, v, "must be a number");
	compile_test(c, r, k)->number = node_number(v);
	return 0;
}

static int read_divisor(struct compiler *c, struct rule *r, const struct keyword *k,
                        const struct node *v, const struct path *at)
{
	if (!node_is_number(v) || !(node_number(v) > 0))
		return compile_fail(c, at, v, "must be a number above 0");
	return read_number(c, r, k, v, at);
}

static int read_count(struct compiler *c, struct rule *r, const struct keyword *k,
                      const struct node *v, const struct path *at)
{
	double d = node_is_number(v) ? node_number(v) : -1;
	if (!(d >= 0) || d != floor(d))
		return compile_fail(c, at, v, "must be a count");
	return read_number(c, r, k, v, at);
}

/* Sentences for people stand in the schema, where our own would be poor. */
static void use_words(struct compiler *c, struct pattern *p)
{
	const struct node *words = node_get(c->schema, "patternErrorMessage");
	if (node_is(words, NODE_TEXT))
		pattern_say(p, words->text);
}

static int read_pattern(struct compiler *c, struct rule *r, const struct keyword *k,
                        const struct node *v, const struct path *at)
{
	struct pattern *p = NULL;
	if (v->type != NODE_TEXT)
		return compile_fail(c, at, v, "a pattern must be text");
	p = compile_pattern(c, node_span(v), at);
	if (p == NULL)
		return -1;
	use_words(c, p);
	compile_test(c, r, k)->pattern = p;
	return 0;
}

static int read_hint(struct compiler *c, struct rule *r, const struct keyword *k,
                     const struct node *v, const struct path *at)
{
	(void)k;
	if (v->type != NODE_TEXT)
		return compile_fail(c, at, v, "must be text");
	r->hint = node_span(v);
	return 0;
}

/* ---- members: four keywords, one walk ------------------------------------------------------ */

static struct members *members_of(struct compiler *c, struct rule *r)
{
	if (r->members == NULL)
		r->members = ARENA_NEW(&c->s->arena, struct members, 1);
	return r->members;
}

/* The property of this name; a new one if there is none yet. */
static struct property *property_of(struct compiler *c, struct members *m, struct span key)
{
	for (size_t i = 0; i < m->n; i++) {
		if (span_eq(m->property[i].key, key))
			return &m->property[i];
	}
	if (m->property == NULL) {
		/* Only two keywords of a schema name members. */
		const struct node *described = node_get(c->schema, "properties");
		const struct node *required = node_get(c->schema, "required");
		size_t n = (described ? described->n : 0) + (required ? required->n : 0);
		m->property = ARENA_NEW(&c->s->arena, struct property, n);
	}
	m->property[m->n].key = key;
	return &m->property[m->n++];
}

static int read_properties(struct compiler *c, struct rule *r, const struct keyword *k,
                           const struct node *v, const struct path *at)
{
	(void)k;
	struct members *m = members_of(c, r);
	if (v->type != NODE_MAP)
		return compile_fail(c, at, v, "must be a mapping");
	for (uint32_t i = 0; i < v->n; i++) {
		const struct path here = PATH_KEY(at, member_key(&v->member[i]));
		const struct rule *sub = compile_rule(c, &v->member[i].value, &here);
		if (sub == NULL)
			return -1;
		property_of(c, m, member_key(&v->member[i]))->rule = sub;
	}
	return 0;
}

static int read_required(struct compiler *c, struct rule *r, const struct keyword *k,
                         const struct node *v, const struct path *at)
{
	(void)k;
	struct members *m = members_of(c, r);
	if (v->type != NODE_LIST)
		return compile_fail(c, at, v, "must be a list");
	for (uint32_t i = 0; i < v->n; i++) {
		if (v->item[i].type != NODE_TEXT)
			return compile_fail(c, at, v, "must be a list of text");
		struct property *p = property_of(c, m, node_span(&v->item[i]));
		m->n_required += !p->required;
		p->required = true;
	}
	return 0;
}

static int read_patterns(struct compiler *c, struct rule *r, const struct keyword *k,
                         const struct node *v, const struct path *at)
{
	(void)k;
	struct members *m = members_of(c, r);
	if (v->type != NODE_MAP)
		return compile_fail(c, at, v, "must be a mapping");
	m->patterns = ARENA_NEW(&c->s->arena, struct pattern_property, v->n);
	for (uint32_t i = 0; i < v->n; i++) {
		const struct path here = PATH_KEY(at, member_key(&v->member[i]));
		struct pattern_property *p = &m->patterns[m->n_patterns++];
		struct pattern *compiled = compile_pattern(c, member_key(&v->member[i]), &here);
		if (compiled)
			use_words(c, compiled);
		p->pattern = compiled;
		p->rule = compiled ? compile_rule(c, &v->member[i].value, &here) : NULL;
		if (p->rule == NULL)
			return -1;
	}
	return 0;
}

static int read_additional(struct compiler *c, struct rule *r, const struct keyword *k,
                           const struct node *v, const struct path *at)
{
	(void)k;
	struct members *m = members_of(c, r);
	const struct rule *rule = compile_rule(c, v, at);
	/* `true` is the same as nothing, and quicker. */
	m->additional = rule && rule->types == BIT_ALL && !rule->never ? NULL : rule;
	return rule ? 0 : -1;
}

/* ---- items ------------------------------------------------------------------------------------
 */

/* The rules of a list of schemas. */
static const struct rule **read_rules(struct compiler *c, const struct node *v,
                                      const struct path *at)
{
	if (v->type != NODE_LIST) {
		(void)compile_fail(c, at, v, "must be a list of schemas");
		return NULL;
	}
	const struct rule **rules = ARENA_NEW(&c->s->arena, const struct rule *, v->n + 1);
	for (uint32_t i = 0; i < v->n; i++) {
		const struct path here = PATH_INDEX(at, i);
		rules[i] = compile_rule(c, &v->item[i], &here);
		if (rules[i] == NULL)
			return NULL;
	}
	return rules;
}

static int read_items(struct compiler *c, struct rule *r, const struct keyword *k,
                      const struct node *v, const struct path *at)
{
	(void)k;
	r->items = ARENA_NEW(&c->s->arena, struct items, 1);
	if (v->type != NODE_LIST) {
		r->items->rest = compile_rule(c, v, at);
		return r->items->rest ? 0 : -1;
	}
	const struct node *rest = node_get(c->schema, "additionalItems");
	r->items->n_first = v->n;
	r->items->first = read_rules(c, v, at);
	if (r->items->first == NULL || rest == NULL)
		return r->items->first ? 0 : -1;
	r->items->rest = compile_rule(c, rest, at);
	return r->items->rest ? 0 : -1;
}

/* ---- combinations --------------------------------------------------------------------------- */

static int read_combination(struct compiler *c, struct rule *r, const struct keyword *k,
                            const struct node *v, const struct path *at)
{
	const struct rule **rules = read_rules(c, v, at);
	if (rules == NULL)
		return -1;
	struct test *t = compile_test(c, r, k);
	t->rules = rules;
	t->n = v->n;
	t->choice = choice_find(&c->s->arena, rules, v->n);
	return 0;
}

static int read_not(struct compiler *c, struct rule *r, const struct keyword *k,
                    const struct node *v, const struct path *at)
{
	const struct rule **rules = ARENA_NEW(&c->s->arena, const struct rule *, 1);
	rules[0] = compile_rule(c, v, at);
	if (rules[0] == NULL)
		return -1;
	struct test *t = compile_test(c, r, k);
	t->rules = rules;
	t->n = 1;
	return 0;
}

static int read_if(struct compiler *c, struct rule *r, const struct keyword *k,
                   const struct node *v, const struct path *at)
{
	static const char *const PARTS[] = { "if", "then", "else" };
	const struct rule **rules = ARENA_NEW(&c->s->arena, const struct rule *, COUNT(PARTS));
	(void)v;
	for (size_t i = 0; i < COUNT(PARTS); i++) {
		const struct node *part = node_get(c->schema, PARTS[i]);
		rules[i] = part ? compile_rule(c, part, at) : NULL;
		if (part && rules[i] == NULL)
			return -1;
	}
	struct test *t = compile_test(c, r, k);
	t->rules = rules;
	t->n = COUNT(PARTS);
	return 0;
}

/* ---- the table
 * ------------------------------------------------------------------------------------ */

/* clang-format off */
static const struct keyword KEYWORDS[] = {
	{ "type",                 0,        read_type,        NULL },
	{ "enum",                 BIT_ANY,  read_values,      check_values },
	{ "const",                BIT_ANY,  read_const,       check_values },
	{ "minLength",            BIT_TEXT, read_count,       check_min_length },
	{ "maxLength",            BIT_TEXT, read_count,       check_max_length },
	{ "pattern",              BIT_TEXT, read_pattern,     check_pattern },
	{ "minimum",              BIT_NUMBER, read_number,    check_minimum },
	{ "maximum",              BIT_NUMBER, read_number,    check_maximum },
	{ "exclusiveMinimum",     BIT_NUMBER, read_number,    check_above },
	{ "exclusiveMaximum",     BIT_NUMBER, read_number,    check_below },
	{ "multipleOf",           BIT_NUMBER, read_divisor,   check_multiple },
	{ "properties",           0,        read_properties,  NULL },
	{ "patternProperties",    0,        read_patterns,    NULL },
	{ "additionalProperties", 0,        read_additional,  NULL },
	{ "required",             0,        read_required,    NULL },
	{ "minProperties",        BIT_MAP,  read_count,       check_min_count },
	{ "maxProperties",        BIT_MAP,  read_count,       check_max_count },
	{ "items",                0,        read_items,       NULL },
	{ "minItems",             BIT_LIST, read_count,       check_min_count },
	{ "maxItems",             BIT_LIST, read_count,       check_max_count },
	{ "oneOf",                BIT_ANY,  read_combination, check_one_of },
	{ "anyOf",                BIT_ANY,  read_combination, check_any_of },
	{ "allOf",                BIT_ANY,  read_combination, check_all_of },
	{ "not",                  BIT_ANY,  read_not,         check_not },
	{ "if",                   BIT_ANY,  read_if,          check_if },
	/* What editors show for a wrong type, and for a pattern that does not match. */
	{ "errorMessage",         0,        read_hint,        NULL },
	{ "patternErrorMessage",  0,        NULL,             NULL }, /* with pattern, patternProperties */
	{ "then",                 0,        NULL,             NULL }, /* with if */
	{ "else",                 0,        NULL,             NULL },
	{ "additionalItems",      0,        NULL,             NULL }, /* with items */
	/* These say nothing about documents. */
	{ "definitions",          0,        NULL,             NULL },
	{ "$schema",              0,        NULL,             NULL },
	{ "$id",                  0,        NULL,             NULL },
	{ "$ref",                 0,        NULL,             NULL }, /* only where it is no text */
	{ "$comment",             0,        NULL,             NULL },
	{ "title",                0,        NULL,             NULL },
	{ "description",          0,        NULL,             NULL },
	{ "default",              0,        NULL,             NULL },
	{ "examples",             0,        NULL,             NULL },
};
/* clang-format on */

const struct keyword *keyword_find(struct span name)
{
	for (size_t i = 0; i < COUNT(KEYWORDS); i++) {
		if (span_is(name, KEYWORDS[i].name))
			return &KEYWORDS[i];
	}
	return NULL;
}
