/* Rules made of rules; see combine.h.  Of several that could fit, one is picked
 * for the report where that can be known: one mistake, one sentence. */
#include "schema/combine.h"

/* ---- oneOf whose branches are told apart by a member -------------------------------------- */

static const struct property *find_linear(const struct members *m, struct span key)
{
	for (size_t i = 0; m && i < m->n; i++) {
		if (span_eq(m->property[i].key, key))
			return &m->property[i];
	}
	return NULL;
}

/* The values to which the rule ties a member that it requires, or NULL. */
static const struct test *tied_values(const struct rule *r, struct span key)
{
	const struct property *p = find_linear(r->members, key);
	return p && p->required && p->rule ? rule_values(p->rule) : NULL;
}

static bool share_value(const struct test *a, const struct test *b)
{
	for (size_t i = 0; i < a->n; i++) {
		for (size_t j = 0; j < b->n; j++) {
			if (node_equal(&a->values[i], &b->values[j]))
				return true;
		}
	}
	return false;
}

static bool tells_apart(const struct rule *const *rules, size_t n, struct span key)
{
	for (size_t i = 0; i < n; i++) {
		const struct test *mine = tied_values(rules[i], key);
		if (mine == NULL)
			return false;
		for (size_t j = 0; j < i; j++) {
			if (share_value(mine, tied_values(rules[j], key)))
				return false;
		}
	}
	return true;
}

static const struct choice *choice_new(struct arena *a, const struct rule *const *rules, size_t n,
                                       struct span key)
{
	struct choice *c = ARENA_NEW(a, struct choice, 1);
	const struct test **tests = ARENA_NEW(a, const struct test *, n);
	for (size_t i = 0; i < n; i++)
		tests[i] = tied_values(rules[i], key);
	c->key = key;
	c->tests = tests;
	return c;
}

const struct choice *choice_find(struct arena *a, const struct rule *const *rules, size_t n)
{
	const struct members *m = n > 1 ? rules[0]->members : NULL;
	for (size_t i = 0; m && i < m->n; i++) {
		if (tells_apart(rules, n, m->property[i].key))
			return choice_new(a, rules, n, m->property[i].key);
	}
	return NULL;
}

static bool has_value(const struct test *t, const struct node *n)
{
	for (size_t i = 0; i < t->n; i++) {
		if (node_equal(&t->values[i], n))
			return true;
	}
	return false;
}

/* The member fits no branch: say what all of them take. */
static bool fail_choice(struct walk *w, const struct test *t, const struct node *v,
                        const struct path *at)
{
	if (walk_is_mute(w))
		return false;
	size_t total = 0;
	for (size_t i = 0; i < t->n; i++)
		total += t->choice->tests[i]->n;
	struct node *all = ARENA_NEW(w->arena, struct node, total);
	struct test sum = { .values = all };
	for (size_t i = 0; i < t->n; i++) {
		const struct test *branch = t->choice->tests[i];
		memcpy(all + sum.n, branch->values, branch->n * sizeof(*all));
		sum.n += branch->n;
	}
	return walk_fail_values(w, &sum, v, at);
}

static bool check_choice(struct walk *w, const struct test *t, const struct node *n,
                         const struct path *at)
{
	const struct member *m = node_member(n, t->choice->key);
	if (m == NULL)
		return walk_fail(w, n, at, "misses the key `%s`", t->choice->key.p);
	for (size_t i = 0; i < t->n; i++) {
		if (has_value(t->choice->tests[i], &m->value))
			return rule_check(w, t->rules[i], n, at);
	}
	const struct path here = PATH_KEY(at, member_key(m));
	return fail_choice(w, t, &m->value, &here);
}

/* ---- anyOf, oneOf ---------------------------------------------------------------------------- */

/* No branch fits.  If only one takes values of this type, what it says is what counts. */
static bool fail_branches(struct walk *w, const struct test *t, const struct node *n,
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
	return walk_fail(w, n, at, "fits none of the forms that are possible here");
}

/* How many branches fit; counts no further than `enough`. */
static size_t count_fits(struct walk *w, const struct test *t, const struct node *n,
                         const struct path *at, size_t enough)
{
	size_t fits = 0;
	for (size_t i = 0; i < t->n && fits < enough; i++)
		fits += rule_accepts(w, t->rules[i], n, at);
	return fits;
}

bool check_any_of(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	if (t->choice && n->type == NODE_MAP)
		return check_choice(w, t, n, at);
	return count_fits(w, t, n, at, 1) == 1 || fail_branches(w, t, n, at);
}

bool check_one_of(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	if (t->choice && n->type == NODE_MAP)
		return check_choice(w, t, n, at);
	size_t fits = count_fits(w, t, n, at, 2);
	if (fits == 1)
		return true;
	if (fits == 0)
		return fail_branches(w, t, n, at);
	return walk_fail(w, n, at, "fits more than one of the forms that are possible here");
}

/* ---- allOf, not, if ----------------------------------------------------------------------------
 */

bool check_all_of(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	bool ok = true;
	for (size_t i = 0; i < t->n && (ok || !w->quiet); i++)
		ok &= rule_check(w, t->rules[i], n, at);
	return ok;
}

bool check_not(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	if (!rule_accepts(w, t->rules[0], n, at))
		return !w->lost;
	const struct test *values = rule_values(t->rules[0]);
	if (values == NULL)
		return walk_fail(w, n, at, "is not allowed here");
	if (walk_is_mute(w))
		return false;
	STR_AUTO text = STR_INIT(SENTENCE_MAX);
	value_text(&text, w, n, at);
	return walk_fail(w, n, at, "must not be %s", str_c(&text));
}

bool check_if(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	const struct rule *then = t->rules[rule_accepts(w, t->rules[0], n, at) ? 1 : 2];
	return then == NULL || rule_check(w, then, n, at);
}
