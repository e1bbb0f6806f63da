/* Compiles the text of a schema to rules. */
#include <math.h>
#include <stdlib.h>

#include "base/doc/tree.h"
#include "base/embed.h"
#include "base/enc.h"
#include "schema/schema.h"
#include "schema/schema_internal.h"

enum { REFS_MAX = 256, REF_CHAIN_MAX = 32, COMPILE_DEPTH_MAX = 200, PROPERTIES_MAX = 4096 };

/* A subschema to which a $ref points. */
struct reference_target {
	const struct node *node;
	struct rule *rule;
};

struct schema_compiler {
	struct schema *s;
	struct err *e;
	const struct node *schema;     /* the subschema that is being compiled, */
	const struct keyword *keyword; /* and its keyword */
	struct reference_target targets[REFS_MAX];
	size_t n_targets;
	unsigned depth;
};

static const struct rule ANYTHING = { .types = BIT_ALL };
static const struct rule NOTHING = { .types = 0, .never = true };

enum { N_KEYWORDS = 39 };
static const struct keyword KEYWORDS[N_KEYWORDS];

/* The schema is wrong at this place.  Returns -1. */
static int compile_fail(struct schema_compiler *c, const struct path *at, const struct node *n,
                        const char *text)
{
	return err_at(c->e, UNKNOWN_ERROR, path_place(&c->s->arena, at, n), "schema: %s", text);
}

/* Adds a test of the present keyword to the rule. */
static struct test *compile_test(struct schema_compiler *c, struct rule *r)
{
	/* Each keyword adds one test at most. */
	if (r->tests == NULL)
		r->tests = ARENA_NEW(&c->s->arena, struct test, c->schema->n);
	struct test *t = &r->tests[r->n++];
	t->keyword = c->keyword;
	return t;
}

/* NULL and the compiler's error if the pattern is invalid.  The schema can have its message. */
static struct pattern *compile_pattern(struct schema_compiler *c, struct span source,
                                       const struct path *at)
{
	ERR_AUTO why = { 0 };
	const struct node *words = node_get(c->schema, "patternErrorMessage");
	struct pattern *p =
	    pattern_new(&c->s->arena, source, node_is(words, NODE_TEXT) ? words->text : NULL, &why);
	if (p == NULL)
		(void)compile_fail(c, at, c->schema, err_msg(&why));
	return p;
}

/* ---- look-up of members ---- */

/* Hashes by the length and three characters: enough to distinguish the keys of a mapping. */
static size_t first_slot(const struct rule_members *m, struct span key)
{
	const unsigned char *k = (const unsigned char *)key.p;
	size_t n = key.n;
	uint32_t bits =
	    n == 0 ? 0
		   : (uint32_t)n << 24 | (uint32_t)k[0] << 16 | (uint32_t)k[n / 2] << 8 | k[n - 1];
	return (bits * m->seed) >> m->shift;
}

const struct property *property_find(const struct rule_members *m, const char *key, size_t n)
{
	if (m->n == 0)
		return NULL;
	const struct span wanted = { key, n };
	for (size_t i = first_slot(m, wanted); m->slot[i]; i = (i + 1) & m->mask) {
		const struct property *p = &m->property[m->slot[i] - 1];
		if (p->key.n == n && memcmp(p->key.p, key, n) == 0)
			return p;
	}
	return NULL;
}

/* Puts all members into the table; returns how many are not in their first slot. */
static size_t fill_slots(struct rule_members *m)
{
	size_t moved = 0;
	memset(m->slot, 0, (m->mask + 1) * sizeof(*m->slot));
	for (size_t i = 0; i < m->n; i++) {
		size_t at = first_slot(m, m->property[i].key);
		moved += m->slot[at] != 0;
		while (m->slot[at])
			at = (at + 1) & m->mask;
		m->slot[at] = (uint16_t)(i + 1);
	}
	return moved;
}

/* Builds the table of property_find, if possible with a seed without collisions. */
static void index_members(struct arena *a, struct rule_members *m)
{
	size_t size = 4;
	m->shift = 30;
	for (; size < 2 * m->n; size *= 2)
		m->shift--;
	m->mask = size - 1;
	m->slot = ARENA_NEW(a, uint16_t, size);
	uint32_t seed = 0x9e3779b1; /* 2^32 divided by the golden ratio */
	for (int tries = 0; tries < 1000; tries++, seed += 0x7f4a7c16) {
		m->seed = seed | 1;
		if (fill_slots(m) == 0)
			break;
	}
}

/* ---- one subschema ---- */

/* Fills the rule of a mapping without $ref. */
static int fill_rule(struct schema_compiler *c, struct rule *r, const struct node *n,
                     const struct path *at)
{
	r->types = n->n ? BIT_ANY : BIT_ALL;
	for (uint32_t i = 0; i < n->n; i++) {
		const struct member *m = &n->member[i];
		const struct path here = PATH_KEY(at, member_key(m));
		size_t k = 0;
		while (k < N_KEYWORDS && !span_is(member_key(m), KEYWORDS[k].name))
			k++;
		if (k == N_KEYWORDS)
			return compile_fail(c, &here, &m->value, "the keyword is not supported");
		c->schema = n;
		c->keyword = &KEYWORDS[k];
		if (KEYWORDS[k].read && KEYWORDS[k].read(c, r, &m->value, &here) < 0)
			return -1;
	}
	if (r->members) {
		if (r->members->n > PROPERTIES_MAX)
			return compile_fail(c, at, n, "too many properties");
		index_members(&c->s->arena, r->members);
	}
	return 0;
}

/* The subschema that "#/a/b" names, or NULL: a pointer in a fragment of a URI. */
static const struct node *find_target(const struct node *root, const char *ref)
{
	struct span rest = span_of(ref);
	if (!span_starts(rest, "#"))
		return NULL;
	rest = span_from(rest, 1);
	const struct node *n = root;
	while (n && rest.n) {
		if (rest.p[0] != '/')
			return NULL;
		rest = span_from(rest, 1);
		struct span token = span_to(rest, span_chr(rest, '/'));
		rest = span_from(rest, token.n);
		STR_AUTO plain = STR_INIT(token.n);
		for (size_t i = 0; i < token.n; i++) {
			char c = token.p[i];
			int byte = percent_byte(token, i);
			if (byte >= 0) {
				c = (char)byte;
				i += 2;
			}
			str_char(&plain, c);
		}
		STR_AUTO key = STR_INIT(token.n);
		place_token(&key, str_view(&plain));
		int64_t i = 0;
		const struct member *m = node_member(n, str_view(&key));
		if (m)
			n = &m->value;
		else if (node_is(n, NODE_LIST) && n->n > 0 &&
		         parse_i64(str_view(&key), 0, n->n - 1, &i) == 0)
			n = &n->item[i];
		else
			n = NULL;
	}
	return n;
}

/* Follows a chain of $ref. */
static const struct node *compile_follow(struct schema_compiler *c, const struct node *n,
                                         const struct path *at)
{
	const struct node *ref = node_get(n, "$ref");
	for (int i = 0; node_is(ref, NODE_TEXT); i++) {
		n = i < REF_CHAIN_MAX ? find_target(&c->s->doc.root, ref->text) : NULL;
		if (n == NULL) {
			(void)compile_fail(c, at, ref, "$ref leads nowhere");
			return NULL;
		}
		ref = node_get(n, "$ref");
	}
	return n;
}

/* The rule of the target of a $ref: created once, and registered before it is filled, because it
 * can refer to itself. */
static struct rule *target_rule(struct schema_compiler *c, const struct node *n, bool *is_new,
                                const struct path *at)
{
	for (size_t i = 0; i < c->n_targets; i++) {
		if (c->targets[i].node == n)
			return c->targets[i].rule;
	}
	if (c->n_targets == REFS_MAX) {
		(void)compile_fail(c, at, n, "too many different $ref");
		return NULL;
	}
	struct rule *r = ARENA_NEW(&c->s->arena, struct rule, 1);
	c->targets[c->n_targets++] = (struct reference_target){ n, r };
	*is_new = true;
	return r;
}

/* The rule of a subschema; NULL and the compiler's error. */
static const struct rule *compile_rule(struct schema_compiler *c, const struct node *from,
                                       const struct path *at)
{
	const struct node *outer = c->schema;
	const struct keyword *keyword = c->keyword;
	const struct node *n = compile_follow(c, from, at);
	if (n == NULL)
		return NULL;
	if (node_is(n, NODE_BOOL))
		return n->boolean ? &ANYTHING : &NOTHING;
	if (!node_is(n, NODE_MAP) || c->depth == COMPILE_DEPTH_MAX) {
		(void)compile_fail(c, at, n, "a schema must be a mapping or a boolean");
		return NULL;
	}
	bool shared = n != from || at == NULL;
	bool is_new = !shared;
	struct rule *r =
	    shared ? target_rule(c, n, &is_new, at) : ARENA_NEW(&c->s->arena, struct rule, 1);
	c->depth++;
	if (r && is_new && fill_rule(c, r, n, at) < 0)
		r = NULL;
	c->depth--;
	c->schema = outer;
	c->keyword = keyword;
	return r;
}

struct schema *schema_compile(struct span text, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	bool syntax = false;
	const struct budget budget = BUDGET_DEFAULT;
	struct schema *s = xcalloc(1, sizeof(*s));
	struct schema_compiler c = { .s = s, .e = e };
	if (utf8_check(text) != text.n)
		(void)err_set(e, UNKNOWN_ERROR, "schema: not UTF-8");
	else if (json_read(text, &budget, &s->arena, &s->doc, &warnings, &syntax, e) < 0)
		e->http = 500; /* the schema is wrong, not a document */
	else
		s->root = compile_rule(&c, &s->doc.root, NULL);
	if (s->root == NULL)
		schema_free(TAKE(s));
	return s;
}

void schema_free(struct schema *s)
{
	if (s == NULL)
		return;
	arena_done(&s->arena);
	free(s);
}

/* ---- reading keywords ---- */

struct type_name {
	const char *name;
	uint16_t bits;
};

static const struct type_name TYPES[] = {
	{ "null", BIT_NULL },     { "boolean", BIT_BOOL }, { "integer", BIT_INTEGER },
	{ "number", BIT_NUMBER }, { "string", BIT_TEXT },  { "array", BIT_LIST },
	{ "object", BIT_MAP },
};

static int add_type(struct schema_compiler *c, struct rule *r, const struct node *n,
                    const struct path *at)
{
	for (size_t i = 0; i < ARRAY_SIZE(TYPES) && n->type == NODE_TEXT; i++) {
		if (span_is(node_span(n), TYPES[i].name)) {
			r->types |= TYPES[i].bits;
			return 0;
		}
	}
	return compile_fail(c, at, n, "unknown type");
}

static int read_type(struct schema_compiler *c, struct rule *r, const struct node *v,
                     const struct path *at)
{
	r->types = 0;
	if (v->type != NODE_LIST)
		return add_type(c, r, v, at);
	for (uint32_t i = 0; i < v->n; i++) {
		if (add_type(c, r, &v->item[i], at) < 0)
			return -1;
	}
	return 0;
}

/* `enum`: a list of values; `const`: one. */
static int read_values(struct schema_compiler *c, struct rule *r, const struct node *v,
                       const struct path *at)
{
	bool one = strcmp(c->keyword->name, "const") == 0;
	if (!one && v->type != NODE_LIST)
		return compile_fail(c, at, v, "enum must be a list");
	struct test *t = compile_test(c, r);
	t->values = one ? v : v->item;
	t->n = one ? 1 : v->n;
	return 0;
}

static int compile_read_number(struct schema_compiler *c, struct rule *r, const struct node *v,
                               const struct path *at)
{
	if (!node_is_number(v) || !isfinite(node_number(v)))
		return compile_fail(c, at, v, "must be a number");
	compile_test(c, r)->number = node_number(v);
	return 0;
}

static int read_divisor(struct schema_compiler *c, struct rule *r, const struct node *v,
                        const struct path *at)
{
	if (!node_is_number(v) || !(node_number(v) > 0))
		return compile_fail(c, at, v, "must be a number above 0");
	return compile_read_number(c, r, v, at);
}

static int read_count(struct schema_compiler *c, struct rule *r, const struct node *v,
                      const struct path *at)
{
	double d = node_is_number(v) ? node_number(v) : -1;
	if (!(d >= 0) || d != floor(d))
		return compile_fail(c, at, v, "must be a count");
	return compile_read_number(c, r, v, at);
}

static int compile_read_pattern(struct schema_compiler *c, struct rule *r, const struct node *v,
                                const struct path *at)
{
	if (v->type != NODE_TEXT)
		return compile_fail(c, at, v, "a pattern must be text");
	const struct pattern *p = compile_pattern(c, node_span(v), at);
	if (p)
		compile_test(c, r)->pattern = p;
	return p ? 0 : -1;
}

static int read_hint(struct schema_compiler *c, struct rule *r, const struct node *v,
                     const struct path *at)
{
	if (v->type != NODE_TEXT)
		return compile_fail(c, at, v, "must be text");
	r->hint = node_span(v);
	return 0;
}

/* ---- members: four keywords, one walk ---- */

static struct rule_members *members_of(struct schema_compiler *c, struct rule *r)
{
	if (r->members == NULL)
		r->members = ARENA_NEW(&c->s->arena, struct rule_members, 1);
	return r->members;
}

/* The property of this name; a new one if there is none yet. */
static struct property *property_of(struct schema_compiler *c, struct rule_members *m,
                                    struct span key)
{
	for (size_t i = 0; i < m->n; i++) {
		if (span_eq(m->property[i].key, key))
			return &m->property[i];
	}
	if (m->property == NULL) {
		/* Only these two keywords name members. */
		const struct node *described = node_get(c->schema, "properties");
		const struct node *required = node_get(c->schema, "required");
		size_t n = (described ? described->n : 0) + (required ? required->n : 0);
		m->property = ARENA_NEW(&c->s->arena, struct property, n);
	}
	m->property[m->n].key = key;
	return &m->property[m->n++];
}

static int read_properties(struct schema_compiler *c, struct rule *r, const struct node *v,
                           const struct path *at)
{
	struct rule_members *m = members_of(c, r);
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

static int read_required(struct schema_compiler *c, struct rule *r, const struct node *v,
                         const struct path *at)
{
	struct rule_members *m = members_of(c, r);
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

static int read_patterns(struct schema_compiler *c, struct rule *r, const struct node *v,
                         const struct path *at)
{
	struct rule_members *m = members_of(c, r);
	if (v->type != NODE_MAP)
		return compile_fail(c, at, v, "must be a mapping");
	m->patterns = ARENA_NEW(&c->s->arena, struct pattern_property, v->n);
	for (uint32_t i = 0; i < v->n; i++) {
		const struct path here = PATH_KEY(at, member_key(&v->member[i]));
		struct pattern_property *p = &m->patterns[m->n_patterns++];
		p->pattern = compile_pattern(c, member_key(&v->member[i]), &here);
		p->rule = p->pattern ? compile_rule(c, &v->member[i].value, &here) : NULL;
		if (p->rule == NULL)
			return -1;
	}
	return 0;
}

static int read_additional(struct schema_compiler *c, struct rule *r, const struct node *v,
                           const struct path *at)
{
	struct rule_members *m = members_of(c, r);
	const struct rule *rule = compile_rule(c, v, at);
	/* `true` is the same as nothing, and quicker. */
	m->additional = rule && rule->types == BIT_ALL && !rule->never ? NULL : rule;
	return rule ? 0 : -1;
}

/* ---- items ---- */

/* The rules of a list of schemas. */
static const struct rule **read_rules(struct schema_compiler *c, const struct node *v,
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

static int read_items(struct schema_compiler *c, struct rule *r, const struct node *v,
                      const struct path *at)
{
	r->items = ARENA_NEW(&c->s->arena, struct items, 1);
	if (v->type != NODE_LIST) {
		r->items->rest = compile_rule(c, v, at);
		return r->items->rest ? 0 : -1;
	}
	const struct node *rest = node_get(c->schema, "additionalItems");
	r->items->n_first = v->n;
	r->items->first = read_rules(c, v, at);
	if (r->items->first && rest)
		r->items->rest = compile_rule(c, rest, at);
	return r->items->first && (!rest || r->items->rest) ? 0 : -1;
}

/* ---- combinations ---- */

static int read_combination(struct schema_compiler *c, struct rule *r, const struct node *v,
                            const struct path *at)
{
	const struct rule **rules = read_rules(c, v, at);
	if (rules == NULL)
		return -1;
	struct test *t = compile_test(c, r);
	t->rules = rules;
	t->n = v->n;
	t->choice = choice_find(&c->s->arena, rules, v->n);
	return 0;
}

static int read_not(struct schema_compiler *c, struct rule *r, const struct node *v,
                    const struct path *at)
{
	const struct rule **rules = ARENA_NEW(&c->s->arena, const struct rule *, 1);
	rules[0] = compile_rule(c, v, at);
	if (rules[0] == NULL)
		return -1;
	struct test *t = compile_test(c, r);
	t->rules = rules;
	t->n = 1;
	return 0;
}

static int read_if(struct schema_compiler *c, struct rule *r, const struct node *v,
                   const struct path *at)
{
	static const char *const PARTS[] = { "if", "then", "else" };
	const struct rule **rules = ARENA_NEW(&c->s->arena, const struct rule *, ARRAY_SIZE(PARTS));
	(void)v;
	for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++) {
		const struct node *part = node_get(c->schema, PARTS[i]);
		rules[i] = part ? compile_rule(c, part, at) : NULL;
		if (part && rules[i] == NULL)
			return -1;
	}
	struct test *t = compile_test(c, r);
	t->rules = rules;
	t->n = ARRAY_SIZE(PARTS);
	return 0;
}

/* ---- the table ---- */

/* clang-format off */
static const struct keyword KEYWORDS[N_KEYWORDS] = {
	{ "type",                   0,          read_type,            NULL, 0 },
	{ "enum",                   BIT_ANY,    read_values,          check_values, 0 },
	{ "const",                  BIT_ANY,    read_values,          check_values, 0 },
	{ "minLength",              BIT_TEXT,   read_count,           check_count, AT_LEAST },
	{ "maxLength",              BIT_TEXT,   read_count,           check_count, AT_MOST },
	{ "pattern",                BIT_TEXT,   compile_read_pattern, check_pattern, 0 },
	{ "minimum",                BIT_NUMBER, compile_read_number,  check_number, AT_LEAST },
	{ "maximum",                BIT_NUMBER, compile_read_number,  check_number, AT_MOST },
	{ "exclusiveMinimum",       BIT_NUMBER, compile_read_number,  check_number, ABOVE },
	{ "exclusiveMaximum",       BIT_NUMBER, compile_read_number,  check_number, BELOW },
	{ "multipleOf",             BIT_NUMBER, read_divisor,         check_multiple, 0 },
	{ "properties",             0,          read_properties,      NULL, 0 },
	{ "patternProperties",      0,          read_patterns,        NULL, 0 },
	{ "additionalProperties",   0,          read_additional,      NULL, 0 },
	{ "required",               0,          read_required,        NULL, 0 },
	{ "minProperties",          BIT_MAP,    read_count,           check_count, AT_LEAST },
	{ "maxProperties",          BIT_MAP,    read_count,           check_count, AT_MOST },
	{ "items",                  0,          read_items,           NULL, 0 },
	{ "minItems",               BIT_LIST,   read_count,           check_count, AT_LEAST },
	{ "maxItems",               BIT_LIST,   read_count,           check_count, AT_MOST },
	{ "oneOf",                  BIT_ANY,    read_combination,     check_one_of, 0 },
	{ "anyOf",                  BIT_ANY,    read_combination,     check_any_of, 0 },
	{ "allOf",                  BIT_ANY,    read_combination,     check_all_of, 0 },
	{ "not",                    BIT_ANY,    read_not,             check_not, 0 },
	{ "if",                     BIT_ANY,    read_if,              check_if, 0 },
	/* Messages for a wrong type, and for text that does not match a pattern. */
	{ "errorMessage",           0,          read_hint,            NULL, 0 },
	{ "patternErrorMessage",    0,          NULL,                 NULL, 0 }, /* with pattern, patternProperties */
	{ "then",                   0,          NULL,                 NULL, 0 }, /* with if */
	{ "else",                   0,          NULL,                 NULL, 0 },
	{ "additionalItems",        0,          NULL,                 NULL, 0 }, /* with items */
	/* Keywords without effect on documents. */
	{ "definitions",            0,          NULL,                 NULL, 0 },
	{ "$schema",                0,          NULL,                 NULL, 0 },
	{ "$id",                    0,          NULL,                 NULL, 0 },
	{ "$ref",                   0,          NULL,                 NULL, 0 }, /* only if it is not text */
	{ "$comment",               0,          NULL,                 NULL, 0 },
	{ "title",                  0,          NULL,                 NULL, 0 },
	{ "description",            0,          NULL,                 NULL, 0 },
	{ "default",                0,          NULL,                 NULL, 0 },
	{ "examples",               0,          NULL,                 NULL, 0 },
};
/* clang-format on */

#define SCHEMA_EMBED(id, name, file) EMBED(schema_##id, file);
SCHEMAS(SCHEMA_EMBED)

#define SCHEMA_NAME(id, name, file) name,
const char *const SCHEMA_NAMES[SCHEMA_NAME_MAX] = { SCHEMAS(SCHEMA_NAME) };

/* Filled once, before threads start, and only read from then on. */
static struct schema *compiled[SCHEMA_NAME_MAX];

struct span schema_text(enum schema_name name)
{
#define SCHEMA_TEXT(id, name, file) EMBEDDED(schema_##id),
	const struct span texts[SCHEMA_NAME_MAX + 1] = { SCHEMAS(SCHEMA_TEXT) };
	return texts[name];
}

const struct schema *schema_get(enum schema_name name)
{
	ERR_AUTO e = { 0 };
	if (compiled[name] == NULL)
		compiled[name] = schema_compile(schema_text(name), &e);
	if (compiled[name] == NULL)
		abort();
	return compiled[name];
}

void schema_init(void)
{
	for (int i = 0; i < SCHEMA_NAME_MAX; i++)
		(void)schema_get((enum schema_name)i);
}
