/* Compiles the text of a schema to rules. */
#include <stdlib.h>

#include "base/doc/tree.h"
#include "base/embed.h"
#include "schema/schema.h"
#include "schema/schema_internal.h"

enum { REFS_MAX = 256 };

struct schema_compiler {
	struct arena *arena;
	const struct node *root;
	const struct node *schema;     /* the subschema that is being compiled, */
	const struct keyword *keyword; /* and its keyword */
	/* Subschemas to which a $ref points. */
	struct {
		const struct node *node;
		struct rule *rule;
	} targets[REFS_MAX];
	size_t n_targets;
};

static const struct rule ANYTHING = { .types = BIT_ALL };
static const struct rule NOTHING = { .types = 0 };

enum { N_KEYWORDS = 34 };
static const struct keyword KEYWORDS[N_KEYWORDS];

/* The schema is wrong at this place, which a unit test excludes for those of this program; a
 * debugger shows the line and the text. */
_Noreturn static void compile_fail(const struct node *n, const char *text)
{
	(void)n;
	(void)text;
	abort();
}

/* Adds a test of the present keyword to the rule. */
static struct test *compile_test(struct schema_compiler *c, struct rule *r)
{
	/* Each keyword adds one test at most. */
	if (r->tests == NULL)
		r->tests = ARENA_NEW(c->arena, struct test, c->schema->n);
	struct test *t = &r->tests[r->n++];
	t->keyword = c->keyword;
	return t;
}

/* The schema can have its message. */
static struct pattern *compile_pattern(struct schema_compiler *c, struct span source)
{
	ERR_AUTO why = { 0 };
	const struct node *words = node_get(c->schema, "patternErrorMessage");
	struct pattern *p = pattern_new(c->arena, source, words ? words->text : NULL, &why);
	if (p == NULL)
		compile_fail(c->schema, err_msg(&why));
	return p;
}

struct property *property_find(const struct rule_members *m, struct span key)
{
	for (size_t i = 0; i < m->n; i++) {
		if (span_eq(m->property[i].key, key))
			return &m->property[i];
	}
	return NULL;
}

/* ---- one subschema ---- */

/* Fills the rule of a mapping without $ref. */
static void fill_rule(struct schema_compiler *c, struct rule *r, const struct node *n)
{
	r->types = n->n ? BIT_ANY : BIT_ALL;
	for (uint32_t i = 0; i < n->n; i++) {
		const struct member *m = &n->member[i];
		size_t k = 0;
		while (k < N_KEYWORDS && !span_is(member_key(m), KEYWORDS[k].name))
			k++;
		if (k == N_KEYWORDS)
			compile_fail(&m->value, "the keyword is not supported");
		c->schema = n;
		c->keyword = &KEYWORDS[k];
		if (KEYWORDS[k].read)
			KEYWORDS[k].read(c, r, &m->value);
	}
}

/* The subschema that a $ref names: "#", or "#/definitions/NAME". */
static const struct node *find_target(const struct node *root, struct span ref)
{
	(void)span_next(&ref, '/');
	while (root && ref.n) {
		const struct member *m = node_member(root, span_next(&ref, '/'));
		root = m ? &m->value : NULL;
	}
	return root;
}

/* The rule of the target of a $ref: created once, and registered before it is filled, because it
 * can refer to itself. */
static struct rule *target_rule(struct schema_compiler *c, const struct node *n, bool *is_new)
{
	for (size_t i = 0; i < c->n_targets; i++) {
		if (c->targets[i].node == n)
			return c->targets[i].rule;
	}
	if (c->n_targets == REFS_MAX)
		compile_fail(n, "too many different $ref");
	struct rule *r = ARENA_NEW(c->arena, struct rule, 1);
	c->targets[c->n_targets].node = n;
	c->targets[c->n_targets++].rule = r;
	*is_new = true;
	return r;
}

static const struct rule *compile_rule(struct schema_compiler *c, const struct node *n)
{
	const struct node *outer = c->schema;
	const struct keyword *keyword = c->keyword;
	bool shared = n == c->root;
	for (const struct node *ref; (ref = node_get(n, "$ref")) != NULL; shared = true) {
		n = find_target(c->root, node_span(ref));
		if (n == NULL)
			compile_fail(ref, "$ref leads nowhere");
	}
	if (node_is(n, NODE_BOOL))
		return n->boolean ? &ANYTHING : &NOTHING;
	if (!node_is(n, NODE_MAP))
		compile_fail(n, "a schema must be a mapping or a boolean");
	bool is_new = !shared;
	struct rule *r = shared ? target_rule(c, n, &is_new) : ARENA_NEW(c->arena, struct rule, 1);
	if (is_new)
		fill_rule(c, r, n);
	c->schema = outer;
	c->keyword = keyword;
	return r;
}

const struct schema *schema_compile(struct span text, struct arena *a)
{
	ERR_AUTO e = { 0 };
	struct doc doc = { 0 };
	const struct budget budget = BUDGET_DEFAULT;
	struct schema *s = ARENA_NEW(a, struct schema, 1);
	struct schema_compiler c = { .arena = a, .root = &doc.root };
	if (json_read(text, &budget, a, &doc, NULL, &e) < 0)
		compile_fail(&doc.root, err_msg(&e));
	s->root = compile_rule(&c, &doc.root);
	return s;
}

/* ---- reading keywords ---- */

const struct schema_type SCHEMA_TYPE[SCHEMA_TYPES] = {
	{ "string", BIT_TEXT, "text" },       { "boolean", BIT_BOOL, "a boolean" },
	{ "number", BIT_NUMBER, "a number" }, { "integer", BIT_INTEGER, "an integer" },
	{ "array", BIT_LIST, "a list" },      { "object", BIT_MAP, "a mapping" },
	{ "null", BIT_NULL, "null" },
};

static void add_type(struct rule *r, const struct node *n)
{
	size_t i = 0;
	while (i < SCHEMA_TYPES && !span_is(node_span(n), SCHEMA_TYPE[i].name))
		i++;
	if (i == SCHEMA_TYPES)
		compile_fail(n, "unknown type");
	r->types |= SCHEMA_TYPE[i].bit;
}

static void read_type(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	(void)c;
	r->types = 0;
	if (v->type != NODE_LIST)
		add_type(r, v);
	for (uint32_t i = 0; v->type == NODE_LIST && i < v->n; i++)
		add_type(r, &v->item[i]);
}

/* `enum`: a list of values; `const`: one. */
static void read_values(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	bool one = strcmp(c->keyword->name, "const") == 0;
	struct test *t = compile_test(c, r);
	t->values = one ? v : v->item;
	t->n = one ? 1 : v->n;
}

static void compile_read_number(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	compile_test(c, r)->number = node_number(v);
}

static void compile_read_pattern(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	compile_test(c, r)->pattern = compile_pattern(c, node_span(v));
}

static void read_hint(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	(void)c;
	r->hint = node_span(v);
}

/* ---- members: four keywords, one walk ---- */

static struct rule_members *members_of(struct schema_compiler *c, struct rule *r)
{
	if (r->members == NULL)
		r->members = ARENA_NEW(c->arena, struct rule_members, 1);
	return r->members;
}

/* The property of this name; a new one if there is none yet. */
static struct property *property_of(struct schema_compiler *c, struct rule_members *m,
                                    struct span key)
{
	struct property *found = property_find(m, key);
	if (found)
		return found;
	/* Only these two keywords name members. */
	if (m->property == NULL)
		m->property = ARENA_NEW(c->arena, struct property,
		                        node_items(node_get(c->schema, "properties")) +
		                            node_items(node_get(c->schema, "required")));
	m->property[m->n].key = key;
	return &m->property[m->n++];
}

static void read_properties(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	struct rule_members *m = members_of(c, r);
	for (uint32_t i = 0; i < v->n; i++)
		property_of(c, m, member_key(&v->member[i]))->rule =
		    compile_rule(c, &v->member[i].value);
}

static void read_required(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	struct rule_members *m = members_of(c, r);
	for (uint32_t i = 0; i < v->n; i++) {
		struct property *p = property_of(c, m, node_span(&v->item[i]));
		m->n_required += !p->required;
		p->required = true;
	}
}

static void read_patterns(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	struct rule_members *m = members_of(c, r);
	m->patterns = ARENA_NEW(c->arena, struct pattern_property, v->n);
	for (; m->n_patterns < v->n; m->n_patterns++) {
		const struct member *one = &v->member[m->n_patterns];
		m->patterns[m->n_patterns].pattern = compile_pattern(c, member_key(one));
		m->patterns[m->n_patterns].rule = compile_rule(c, &one->value);
	}
}

static void read_additional(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	const struct rule *rule = compile_rule(c, v);
	/* `true` is the same as nothing, and quicker. */
	members_of(c, r)->additional = rule->types == BIT_ALL ? NULL : rule;
}

static void read_items(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	r->items = compile_rule(c, v);
}

/* ---- combinations ---- */

/* Adds a test with the rules of n subschemas, of which some can be NULL. */
static void compile_rules(struct schema_compiler *c, struct rule *r, const struct node *const *v,
                          size_t n)
{
	const struct rule **rules = ARENA_NEW(c->arena, const struct rule *, n);
	for (size_t i = 0; i < n; i++)
		rules[i] = v[i] ? compile_rule(c, v[i]) : NULL;
	struct test *t = compile_test(c, r);
	t->rules = rules;
	t->n = n;
}

static void read_combination(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	const struct node **all = ARENA_NEW(c->arena, const struct node *, v->n);
	for (uint32_t i = 0; i < v->n; i++)
		all[i] = &v->item[i];
	compile_rules(c, r, all, v->n);
}

static void read_not(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	compile_rules(c, r, &v, 1);
}

static void read_if(struct schema_compiler *c, struct rule *r, const struct node *v)
{
	const struct node *const parts[] = { v, node_get(c->schema, "then"),
		                             node_get(c->schema, "else") };
	compile_rules(c, r, parts, ARRAY_SIZE(parts));
}

/* ---- the table ---- */

/* clang-format off */
static const struct keyword KEYWORDS[N_KEYWORDS] = {
	{ "type",                 0,          read_type,            NULL, false },
	{ "enum",                 BIT_ANY,    read_values,          check_values, false },
	{ "const",                BIT_ANY,    read_values,          check_values, false },
	{ "minLength",            BIT_TEXT,   compile_read_number,  check_count, false },
	{ "maxLength",            BIT_TEXT,   compile_read_number,  check_count, true },
	{ "pattern",              BIT_TEXT,   compile_read_pattern, check_pattern, false },
	{ "minimum",              BIT_NUMBER, compile_read_number,  check_number, false },
	{ "maximum",              BIT_NUMBER, compile_read_number,  check_number, true },
	{ "properties",           0,          read_properties,      NULL, false },
	{ "patternProperties",    0,          read_patterns,        NULL, false },
	{ "additionalProperties", 0,          read_additional,      NULL, false },
	{ "required",             0,          read_required,        NULL, false },
	{ "minProperties",        BIT_MAP,    compile_read_number,  check_count, false },
	{ "maxProperties",        BIT_MAP,    compile_read_number,  check_count, true },
	{ "items",                0,          read_items,           NULL, false },
	{ "minItems",             BIT_LIST,   compile_read_number,  check_count, false },
	{ "maxItems",             BIT_LIST,   compile_read_number,  check_count, true },
	{ "oneOf",                BIT_MAP,    read_combination,     check_one_of, false },
	{ "anyOf",                BIT_ANY,    read_combination,     check_any_of, false },
	{ "allOf",                BIT_ANY,    read_combination,     check_all_of, false },
	{ "not",                  BIT_ANY,    read_not,             check_not, false },
	{ "if",                   BIT_ANY,    read_if,              check_if, false },
	/* Messages for a wrong type, and for text that does not match a pattern. */
	{ "errorMessage",         0,          read_hint,            NULL, false },
	{ "patternErrorMessage",  0,          NULL,                 NULL, false }, /* with pattern, patternProperties */
	{ "then",                 0,          NULL,                 NULL, false }, /* with if */
	{ "else",                 0,          NULL,                 NULL, false },
	/* Keywords without effect on documents. */
	{ "definitions",          0,          NULL,                 NULL, false },
	{ "$schema",              0,          NULL,                 NULL, false },
	{ "$id",                  0,          NULL,                 NULL, false },
	{ "$comment",             0,          NULL,                 NULL, false },
	{ "title",                0,          NULL,                 NULL, false },
	{ "description",          0,          NULL,                 NULL, false },
	{ "default",              0,          NULL,                 NULL, false },
	{ "examples",             0,          NULL,                 NULL, false },
};
/* clang-format on */

#define SCHEMA_EMBED(id, name, file) EMBED(schema_##id, file);
SCHEMAS(SCHEMA_EMBED)

#define SCHEMA_NAME(id, name, file) name,
const char *const SCHEMA_NAMES[SCHEMA_NAME_MAX] = { SCHEMAS(SCHEMA_NAME) };

/* Filled once, before threads start, and only read from then on. */
static const struct schema *compiled[SCHEMA_NAME_MAX];
static struct arena compiled_arena;

struct span schema_text(enum schema_name name)
{
#define SCHEMA_TEXT(id, name, file) EMBEDDED(schema_##id),
	const struct span texts[SCHEMA_NAME_MAX + 1] = { SCHEMAS(SCHEMA_TEXT) };
	return texts[name];
}

const struct schema *schema_get(enum schema_name name)
{
	if (compiled[name] == NULL)
		compiled[name] = schema_compile(schema_text(name), &compiled_arena);
	return compiled[name];
}

void schema_init(void)
{
	for (int i = 0; i < SCHEMA_NAME_MAX; i++)
		(void)schema_get((enum schema_name)i);
}
