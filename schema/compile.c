/* From the text of a schema to rules. */
#include "schema/compile.h"

#include <stdlib.h>

#include "base/enc.h"
#include "base/json/json.h"
#include "schema/keywords.h"

enum { REF_CHAIN_MAX = 32, COMPILE_DEPTH_MAX = 200, PROPERTIES_MAX = 4096 };

static const struct rule ANYTHING = { .types = BIT_ALL };
static const struct rule NOTHING = { .types = 0, .never = true };

int compile_fail(struct compiler *c, const struct path *at, const struct node *n, const char *text)
{
	return err_at(c->e, UNKNOWN_ERROR, path_place(&c->s->arena, at, n), "schema: %s", text);
}

struct test *compile_test(struct compiler *c, struct rule *r, const struct keyword *k)
{
	/* Each keyword adds one test at most. */
	if (r->tests == NULL)
		r->tests = ARENA_NEW(&c->s->arena, struct test, c->schema->n);
	struct test *t = &r->tests[r->n++];
	t->keyword = k;
	return t;
}

struct pattern *compile_pattern(struct compiler *c, struct span source, const struct path *at)
{
	ERR_AUTO why = { 0 };
	struct pattern *p = pattern_new(&c->s->arena, source, c->s->patterns, &why);
	if (p == NULL) {
		(void)compile_fail(c, at, c->schema, err_msg(&why));
		return NULL;
	}
	c->s->patterns = p;
	return p;
}

/* ---- look-up of members ------------------------------------------------------------- */

/* Three characters and the length tell the keys of a mapping apart well enough. */
static uint32_t key_bits(const char *key, size_t n)
{
	const unsigned char *k = (const unsigned char *)key;
	if (n == 0)
		return 0;
	return (uint32_t)n << 24 | (uint32_t)k[0] << 16 | (uint32_t)k[n / 2] << 8 | k[n - 1];
}

static size_t first_slot(const struct members *m, struct span key)
{
	return (key_bits(key.p, key.n) * m->seed) >> m->shift;
}

const struct property *property_find(const struct members *m, const char *key, size_t n)
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

/* Put all members into the table; how many did not get the first slot. */
static size_t fill_slots(struct members *m)
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

/* All members are known: build the table that property_find looks into, with a seed
 * that gives each a slot of its own, if one is found. */
static void index_members(struct arena *a, struct members *m)
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

/* ---- one subschema ------------------------------------------------------------------ */

static int read_keyword(struct compiler *c, struct rule *r, const struct member *m,
                        const struct path *at)
{
	const struct path here = PATH_KEY(at, member_key(m));
	const struct keyword *k = keyword_find(member_key(m));
	if (k == NULL)
		return compile_fail(c, &here, &m->value, "the keyword is not supported");
	return k->read ? k->read(c, r, k, &m->value, &here) : 0;
}

/* Fill in the rule of a mapping without $ref. */
static int fill_rule(struct compiler *c, struct rule *r, const struct node *n,
                     const struct path *at)
{
	r->types = n->n ? BIT_ANY : BIT_ALL;
	for (uint32_t i = 0; i < n->n; i++) {
		c->schema = n; /* subschemas have changed it */
		if (read_keyword(c, r, &n->member[i], at) < 0)
			return -1;
	}
	if (r->members) {
		if (r->members->n > PROPERTIES_MAX)
			return compile_fail(c, at, n, "too many properties");
		index_members(&c->s->arena, r->members);
	}
	return 0;
}

/* One token of a pointer in a URI fragment, its %XX and ~0 ~1 undone. */
static void unescape_token(struct str *out, struct span t)
{
	STR_AUTO plain = STR_INIT(t.n);
	for (size_t i = 0; i < t.n; i++) {
		int byte = percent_byte(t, i);
		if (byte >= 0)
			i += 2;
		char c = t.p[i];
		if (byte >= 0)
			c = (char)byte;
		str_char(&plain, c);
	}
	for (size_t i = 0; i < plain.n; i++) {
		char c = plain.p[i];
		if (c == '~' && i + 1 < plain.n) {
			i++;
			c = '~';
			if (plain.p[i] == '1')
				c = '/';
		}
		str_char(out, c);
	}
}

static const struct node *child_of(const struct node *n, struct span token)
{
	STR_AUTO key = STR_INIT(token.n);
	unescape_token(&key, token);
	if (node_is(n, NODE_MAP)) {
		const struct member *m = node_member(n, str_view(&key));
		return m ? &m->value : NULL;
	}
	int64_t i = 0;
	if (!node_is(n, NODE_LIST) || n->n == 0 || parse_i64(str_view(&key), 0, n->n - 1, &i))
		return NULL;
	return &n->item[i];
}

/* The subschema that "#/a/b" names, or NULL. */
static const struct node *find_target(const struct node *root, const char *ref)
{
	if (*ref++ != '#')
		return NULL;
	const struct node *n = root;
	while (n && *ref == '/') {
		ref++;
		size_t len = strcspn(ref, "/");
		n = child_of(n, (struct span){ ref, len });
		ref += len;
	}
	return *ref == '\0' ? n : NULL;
}

/* Follow $ref, and the $ref that may stand there. */
static const struct node *follow(struct compiler *c, const struct node *n, const struct path *at)
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

/* The rule of a subschema that is referred to: made once, and known before it is
 * filled in, since it may refer to itself. */
static struct rule *target_rule(struct compiler *c, const struct node *n, bool *is_new,
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
	c->targets[c->n_targets++] = (struct target){ n, r };
	*is_new = true;
	return r;
}

static const struct rule *compile_map(struct compiler *c, const struct node *n, bool shared,
                                      const struct path *at)
{
	bool is_new = !shared;
	struct rule *r =
	    shared ? target_rule(c, n, &is_new, at) : ARENA_NEW(&c->s->arena, struct rule, 1);
	if (r && is_new && fill_rule(c, r, n, at) < 0)
		return NULL;
	return r;
}

const struct rule *compile_rule(struct compiler *c, const struct node *n, const struct path *at)
{
	const struct node *from = n;
	const struct node *outer = c->schema;
	const struct rule *r = NULL;
	n = follow(c, n, at);
	if (n == NULL)
		return NULL;
	if (node_is(n, NODE_BOOL))
		return n->boolean ? &ANYTHING : &NOTHING;
	if (!node_is(n, NODE_MAP) || c->depth == COMPILE_DEPTH_MAX) {
		(void)compile_fail(c, at, n, "a schema must be a mapping or a boolean");
		return NULL;
	}
	c->depth++;
	r = compile_map(c, n, n != from || at == NULL, at);
	c->depth--;
	c->schema = outer;
	return r;
}

static struct schema *compile_doc(struct schema *s, struct span text, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	bool syntax = false;
	if (utf8_check(text) != text.n) {
		(void)err_set(e, UNKNOWN_ERROR, "schema: not UTF-8");
		return NULL;
	}
	const struct budget budget = BUDGET_DEFAULT;
	if (json_read(text, &budget, &s->arena, &s->doc, &warnings, &syntax, e) < 0) {
		e->http = 500; /* our own text is wrong, not that of a user */
		return NULL;
	}
	struct compiler c = { .s = s, .e = e };
	s->root = compile_rule(&c, &s->doc.root, NULL);
	return s->root ? s : NULL;
}

struct schema *schema_compile(struct span text, struct err *e)
{
	struct schema *s = xcalloc(1, sizeof(*s));
	if (compile_doc(s, text, e))
		return s;
	schema_free(s);
	return NULL;
}

void schema_free(struct schema *s)
{
	if (s == NULL)
		return;
	for (struct pattern *p = s->patterns; p; p = pattern_next(p))
		pattern_done(p);
	arena_done(&s->arena);
	free(s);
}
