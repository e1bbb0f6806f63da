/* Checks a document against the rules of a schema. */
#include "schema/schema.h"

#include <math.h>

#include "base/enc.h"
#include "base/err.h"
#include "schema/schema_internal.h"

/* Checks a value against a rule; `at` is NULL for the root.  false: violated, and reported unless
 * w->quiet. */
static bool rule_check(struct schema_walk *w, const struct rule *r, const struct node *n,
                       const struct path *at);
static bool members_check(struct schema_walk *w, const struct rule_members *m,
                          const struct node *map, const struct path *at);

unsigned node_bits(const struct node *n)
{
	static const uint16_t BITS[NODE_TYPE_MAX] = {
		[NODE_NULL] = BIT_NULL,
		[NODE_BOOL] = BIT_BOOL,
		[NODE_INT] = BIT_INTEGER | BIT_NUMBER,
		[NODE_TEXT] = BIT_TEXT,
		[NODE_DATE] = BIT_DATE,
		[NODE_LIST] = BIT_LIST,
		[NODE_MAP] = BIT_MAP,
	};
	if (n->type != NODE_REAL)
		return BITS[n->type];
	if (!isfinite(n->real))
		return BIT_INFINITE;
	return n->real == floor(n->real) ? BIT_NUMBER | BIT_INTEGER : BIT_NUMBER;
}

/* Everything except types.  Only the first violation of a scalar is reported. */
static bool check_tests(struct schema_walk *w, const struct rule *r, unsigned bits,
                        const struct node *n, const struct path *at)
{
	bool ok = true;
	for (size_t i = 0; i < r->n; i++) {
		const struct test *t = &r->tests[i];
		if (t->keyword->applies & bits)
			ok &= t->keyword->check(w, t, n, at);
		if (!ok && (w->quiet || !(bits & (BIT_LIST | BIT_MAP))))
			return false;
	}
	if (n->type == NODE_MAP && r->members)
		ok &= members_check(w, r->members, n, at);
	const struct rule *items = n->type == NODE_LIST ? r->items : NULL;
	for (uint32_t i = 0; items && i < n->n && (ok || !w->quiet); i++) {
		const struct path here = PATH_INDEX(at, i);
		ok &= rule_check(w, items, &n->item[i], &here);
	}
	return ok;
}

static bool rule_check(struct schema_walk *w, const struct rule *r, const struct node *n,
                       const struct path *at)
{
	unsigned bits = node_bits(n);
	if (!(r->types & bits))
		return r->types == 0 ? walk_fail(w, n, at, "is not allowed here")
		                     : walk_fail_type(w, r, n, at);
	if (r->n == 0 && !(bits & (BIT_LIST | BIT_MAP)))
		return true;
	return check_tests(w, r, bits, n, at);
}

/* Returns the verdict without a report. */
static bool rule_accepts(struct schema_walk *w, const struct rule *r, const struct node *n,
                         const struct path *at)
{
	bool outer = w->quiet;
	w->quiet = true;
	bool ok = rule_check(w, r, n, at);
	w->quiet = outer;
	return ok;
}

int schema_check(const struct schema *s, const struct node *doc, const char *code,
                 const char *const *secret, struct err *e)
{
	ARENA_AUTO places = { 0 };
	struct schema_walk w = {
		.e = e, .root = doc, .arena = &places, .code = code, .secret = secret
	};
	return rule_check(&w, s->root, doc, NULL) ? 0 : -1;
}

/* Hides that a part of a document has no secret members at its top. */
int schema_check_at(const struct schema *s, const struct node *part, const struct path *at,
                    const char *code, struct err *e)
{
	ARENA_AUTO places = { 0 };
	struct schema_walk w = { .e = e, .root = part, .arena = &places, .code = code };
	return rule_check(&w, s->root, part, at) ? 0 : -1;
}

/* ---- members of mappings ---- */

enum { LIST_MAX = 8 }; /* more allowed keys are not listed */

/* The mapping that is being checked. */
struct map_visit {
	struct schema_walk *w;
	const struct rule_members *m;
	const struct node *map;
	const struct path *at;
	/* Suggested keys are not reported as missing. */
	const struct property **suggested; /* NOTES_MAX of them; NULL before the first */
	size_t n_suggested;
};

/* The nearest described key that the mapping does not have, or NULL. */
static const struct property *property_nearest(const struct map_visit *v, struct span key)
{
	const struct property *best = NULL;
	struct guess guess = { .name = key, .whole = true };
	for (size_t i = 0; i < v->m->n; i++) {
		const struct property *p = &v->m->property[i];
		if (p->rule == NULL || node_member(v->map, p->key))
			continue;
		guess_try(&guess, p->key.p);
		best = guess.best == p->key.p ? p : best;
	}
	return best;
}

static void list_keys(struct str *out, const struct rule_members *m)
{
	size_t described = 0;
	size_t listed = 0;
	for (size_t i = 0; i < m->n; i++)
		described += m->property[i].rule != NULL;
	if (described == 0 || described > LIST_MAX)
		return;
	str_puts(out, described == 1 ? "; the only one allowed is " : "; allowed are ");
	for (size_t i = 0; i < m->n; i++) {
		if (m->property[i].rule == NULL)
			continue;
		listed++;
		str_puts(out, listed == 1 ? "" : listed == described ? " and " : ", ");
		str_printf(out, "`%s`", m->property[i].key.p);
	}
}

/* A key that is not allowed. */
static bool check_fail_unknown(struct map_visit *v, const struct member *key)
{
	struct schema_walk *w = v->w;
	if (walk_is_mute(w))
		return false;
	char shown[4 * QUOTE_MAX] NOT_ZEROED;
	struct span name = member_key(key);
	struct place where = path_place_key(w->arena, v->at, key);
	quote(shown, name);
	if (v->m->n == 0 && v->m->n_patterns == 1)
		return walk_fail_at(w, where, "bad name \"%s\": %s", shown,
		                    v->m->patterns[0].pattern->words);
	/* In `{cpu:1}` and `-echo: x`, a blank is missing. */
	size_t colon = span_chr(name, ':');
	const struct property *meant =
	    colon < name.n ? property_find(v->m, span_to(name, colon)) : NULL;
	bool tight = meant && meant->rule;
	bool dash = !tight && name.n > 1 && name.p[0] == '-';
	if (!tight)
		meant = dash ? NULL : property_nearest(v, name);
	if (meant) { /* present, but misspelt */
		if (v->suggested == NULL)
			v->suggested = ARENA_NEW(w->arena, const struct property *, NOTES_MAX);
		v->suggested[v->n_suggested++] = meant; /* one for each note at most */
	}
	if (tight || dash)
		return walk_fail_at(w, where,
		                    "unknown key `%s`: a blank is missing behind the `%c`", shown,
		                    tight ? ':' : '-');
	if (meant)
		return walk_fail_at(w, where, "unknown key `%s`, did you mean `%s`?", shown,
		                    meant->key.p);
	STR_AUTO list = STR_INIT(SENTENCE_MAX);
	list_keys(&list, v->m);
	return walk_fail_at(w, where, "unknown key `%s`%s", shown, str_c(&list));
}

static bool check_member(struct map_visit *v, const struct property *p, const struct member *member)
{
	const struct rule_members *m = v->m;
	const struct path here = PATH_KEY(v->at, member_key(member));
	bool known = p && p->rule;
	bool ok = !known || rule_check(v->w, p->rule, &member->value, &here);
	for (size_t i = 0; i < m->n_patterns; i++) {
		if (!pattern_matches(m->patterns[i].pattern, member_key(member)))
			continue;
		known = true;
		ok &= rule_check(v->w, m->patterns[i].rule, &member->value, &here);
	}
	if (known || m->additional == NULL)
		return ok;
	if (m->additional->types == 0)
		return check_fail_unknown(v, member);
	return ok & rule_check(v->w, m->additional, &member->value, &here);
}

static bool members_check(struct schema_walk *w, const struct rule_members *m,
                          const struct node *map, const struct path *at)
{
	struct map_visit v = { .w = w, .m = m, .map = map, .at = at };
	size_t required = 0;
	bool ok = true;
	for (uint32_t i = 0; i < map->n && (ok || !w->quiet); i++) {
		const struct member *member = &map->member[i];
		const struct property *p = property_find(m, member_key(member));
		required += p && p->required;
		ok &= check_member(&v, p, member);
	}
	if (required == m->n_required)
		return ok;
	for (size_t i = 0; i < m->n && !w->quiet; i++) {
		const struct property *p = &m->property[i];
		bool suggested = false;
		for (size_t k = 0; k < v.n_suggested; k++)
			suggested = suggested || v.suggested[k] == p;
		if (p->required && !suggested && !node_member(map, p->key))
			walk_fail(w, map, at, "misses the key `%s`", p->key.p);
	}
	return false;
}

/* ---- enum, const ---- */

static bool has_value(const struct test *t, const struct node *n)
{
	for (size_t i = 0; i < t->n; i++) {
		if (node_equal(&t->values[i], n))
			return true;
	}
	return false;
}

bool check_values(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	return has_value(t, n) || walk_fail_values(w, t, n, at);
}

/* The first test of the rule that has values, or NULL. */
static const struct test *rule_values(const struct rule *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->tests[i].values)
			return &r->tests[i];
	}
	return NULL;
}

/* ---- oneOf: mappings that differ in the values of their member `type` ---- */

static const struct test *type_values(const struct rule *branch)
{
	return rule_values(property_find(branch->members, SPAN("type"))->rule);
}

/* No branch allows the type: reports the types of all branches. */
static bool fail_choice(struct schema_walk *w, const struct test *t, const struct node *v,
                        const struct path *at)
{
	size_t total = 0;
	for (size_t i = 0; i < t->n; i++)
		total += type_values(t->rules[i])->n;
	struct node *all = ARENA_NEW(w->arena, struct node, total);
	struct test sum = { .values = all };
	for (size_t i = 0; i < t->n; i++) {
		const struct test *branch = type_values(t->rules[i]);
		memcpy(all + sum.n, branch->values, branch->n * sizeof(*all));
		sum.n += branch->n;
	}
	return walk_fail_values(w, &sum, v, at);
}

bool check_one_of(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	const struct member *m = node_member(n, SPAN("type"));
	if (m == NULL)
		return walk_fail(w, n, at, "misses the key `type`");
	for (size_t i = 0; i < t->n; i++) {
		if (has_value(type_values(t->rules[i]), &m->value))
			return rule_check(w, t->rules[i], n, at);
	}
	const struct path here = PATH_KEY(at, member_key(m));
	return fail_choice(w, t, &m->value, &here);
}

/* ---- anyOf ---- */

/* No branch matches.  If only one allows this type, its violations are reported. */
static bool fail_branches(struct schema_walk *w, const struct test *t, const struct node *n,
                          const struct path *at)
{
	if (w->quiet)
		return false;
	const struct rule *candidate = NULL;
	struct rule types = { .types = 0 };
	size_t candidates = 0;
	for (size_t i = 0; i < t->n; i++) {
		types.types |= t->rules[i]->types;
		if (t->rules[i]->types & node_bits(n)) {
			candidate = t->rules[i];
			candidates++;
		}
	}
	if (candidates == 1)
		return rule_check(w, candidate, n, at);
	if (candidates == 0 && types.types)
		return walk_fail_type(w, &types, n, at);
	return walk_fail(w, n, at, "matches none of the forms that are allowed here");
}

bool check_any_of(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	for (size_t i = 0; i < t->n; i++) {
		if (rule_accepts(w, t->rules[i], n, at))
			return true;
	}
	return fail_branches(w, t, n, at);
}

/* ---- allOf, not, if ---- */

bool check_all_of(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	bool ok = true;
	for (size_t i = 0; i < t->n && (ok || !w->quiet); i++)
		ok &= rule_check(w, t->rules[i], n, at);
	return ok;
}

bool check_not(struct schema_walk *w, const struct test *t, const struct node *n,
               const struct path *at)
{
	if (!rule_accepts(w, t->rules[0], n, at))
		return true;
	const struct test *values = rule_values(t->rules[0]);
	if (values == NULL)
		return walk_fail(w, n, at, "is not allowed here");
	if (walk_is_mute(w))
		return false;
	STR_AUTO text = STR_INIT(SENTENCE_MAX);
	value_text(&text, w, n, at, false);
	return walk_fail(w, n, at, "must not be %s", str_c(&text));
}

bool check_if(struct schema_walk *w, const struct test *t, const struct node *n,
              const struct path *at)
{
	const struct rule *then = t->rules[rule_accepts(w, t->rules[0], n, at) ? 1 : 2];
	return then == NULL || rule_check(w, then, n, at);
}

/* ---- bounds, lengths, patterns ---- */

static const char *bound_words(const struct test *t)
{
	return t->keyword->most ? "at most" : "at least";
}

static bool is_within(double v, const struct test *t)
{
	return t->keyword->most ? v <= t->number : v >= t->number;
}

bool check_number(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	if (is_within(node_number(n), t))
		return true;
	if (walk_is_mute(w))
		return false;
	char bound[NUMBER_MAX];
	STR_AUTO value = STR_INIT(SENTENCE_MAX);
	number_text(bound, t->number);
	value_text(&value, w, n, at, false);
	return walk_fail(w, n, at, "must be %s %s, is %s", bound_words(t), bound, str_c(&value));
}

/* The number of characters, items or members. */
bool check_count(struct schema_walk *w, const struct test *t, const struct node *n,
                 const struct path *at)
{
	static const char *const THINGS[][2] = {
		[NODE_TEXT] = { "character", "characters" },
		[NODE_LIST] = { "item", "items" },
		[NODE_MAP] = { "member", "members" },
	};
	char limit[NUMBER_MAX];
	size_t count = n->n;
	for (uint32_t i = 0; n->type == NODE_TEXT && i < n->n; i++)
		count -= ((unsigned char)n->text[i] & 0xc0) == 0x80;
	if (is_within((double)count, t))
		return true;
	if (n->type == NODE_TEXT && count == 0)
		return walk_fail(w, n, at, "must not be empty");
	if (t->number == 1)
		return walk_fail(w, n, at, "must have %s one %s", bound_words(t),
		                 THINGS[n->type][0]);
	number_text(limit, t->number);
	return walk_fail(w, n, at, "must have %s %s %s, has %zu", bound_words(t), limit,
	                 THINGS[n->type][1], count);
}

bool check_pattern(struct schema_walk *w, const struct test *t, const struct node *n,
                   const struct path *at)
{
	if (pattern_matches(t->pattern, node_span(n)))
		return true;
	if (walk_is_mute(w))
		return false;
	if (n->n == 0)
		return walk_fail(w, n, at, "must not be empty");
	STR_AUTO value = STR_INIT(SENTENCE_MAX);
	value_text(&value, w, n, at, false);
	return walk_fail(w, n, at, "%s, is %s", t->pattern->words, str_c(&value));
}
