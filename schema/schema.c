/* Checks a document against rules; see check.h. */
#include "schema/schema.h"

#include <assert.h>
#include <math.h>

#include "base/enc.h"
#include "base/err.h"
#include "schema/schema_internal.h"

/* Documents have at most 64 levels; several rules can apply to a level. */
enum { WALK_DEPTH_MAX = 1000 };

/* Checks a value against a rule; `at` is NULL for the root.  false: violated, and reported unless
 * w->quiet. */
static bool rule_check(struct schema_walk *w, const struct rule *r, const struct node *n,
                       const struct path *at);
static bool members_check(struct schema_walk *w, const struct rule_members *m,
                          const struct node *map, const struct path *at);

const struct test *rule_values(const struct rule *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->tests[i].values)
			return &r->tests[i];
	}
	return NULL;
}

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
	const struct items *items = n->type == NODE_LIST ? r->items : NULL;
	for (uint32_t i = 0; items && i < n->n && (ok || !w->quiet); i++) {
		const struct path here = PATH_INDEX(at, i);
		const struct rule *item = i < items->n_first ? items->first[i] : items->rest;
		if (item)
			ok &= rule_check(w, item, &n->item[i], &here);
	}
	return ok;
}

static bool rule_check(struct schema_walk *w, const struct rule *r, const struct node *n,
                       const struct path *at)
{
	unsigned bits = node_bits(n);
	if (w->lost)
		return false;
	if (!(r->types & bits))
		return r->never ? walk_fail(w, n, at, "is not allowed here")
		                : walk_fail_type(w, r, n, at);
	if (r->n == 0 && !(bits & (BIT_LIST | BIT_MAP)))
		return true;
	if (w->depth == WALK_DEPTH_MAX) {
		/* Reported even if the walk is quiet: a condition or `not` has no verdict. */
		w->quiet = false;
		(void)walk_fail(w, n, at, "cannot be checked: the schema is circular");
		w->lost = true;
		return false;
	}
	w->depth++;
	bool ok = check_tests(w, r, bits, n, at);
	w->depth--;
	return ok;
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

static int check_walk(struct schema_walk *w, const struct schema *s, const struct path *at)
{
	bool ok = rule_check(w, s->root, w->root, at);
	return ok && !w->lost ? 0 : -1;
}

int schema_check(const struct schema *s, const struct node *doc, const char *code,
                 const char *const *secret, struct err *e)
{
	ARENA_AUTO places = { 0 };
	struct schema_walk w = {
		.e = e, .root = doc, .arena = &places, .code = code, .secret = secret
	};
	return check_walk(&w, s, NULL);
}

/* Hides that a part of a document has no secret members at its top. */
int schema_check_at(const struct schema *s, const struct node *part, const struct path *at,
                    const char *code, struct err *e)
{
	ARENA_AUTO places = { 0 };
	struct schema_walk w = { .e = e, .root = part, .arena = &places, .code = code };
	return check_walk(&w, s, at);
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
	quote(shown, name);
	if (v->m->n == 0 && v->m->n_patterns == 1)
		return walk_fail_key(w, key, v->at, "bad name \"%s\": %s", shown,
		                     pattern_words(v->m->patterns[0].pattern));
	/* In `{cpu:1}` and `-echo: x`, a blank is missing. */
	size_t colon = span_chr(name, ':');
	const struct property *meant = colon < name.n ? property_find(v->m, name.p, colon) : NULL;
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
		return walk_fail_key(w, key, v->at,
		                     "unknown key `%s`: a blank is missing behind the `%c`", shown,
		                     tight ? ':' : '-');
	if (meant)
		return walk_fail_key(w, key, v->at, "unknown key `%s`, did you mean `%s`?", shown,
		                     meant->key.p);
	STR_AUTO list = STR_INIT(SENTENCE_MAX);
	list_keys(&list, v->m);
	return walk_fail_key(w, key, v->at, "unknown key `%s`%s", shown, str_c(&list));
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
	if (m->additional->never)
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
		const struct property *p = property_find(m, member->key, member->key_n);
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

/* ---- oneOf and anyOf whose branches differ in a member ---- */

/* The values that the rule allows for a member that it requires, or NULL. */
static const struct test *tied_values(const struct rule *r, struct span key)
{
	const struct rule_members *m = r->members;
	size_t i = 0;
	while (m && i < m->n && !span_eq(m->property[i].key, key))
		i++;
	bool tied = m && i < m->n && m->property[i].required && m->property[i].rule;
	return tied ? rule_values(m->property[i].rule) : NULL;
}

static bool has_value(const struct test *t, const struct node *n)
{
	for (size_t i = 0; i < t->n; i++) {
		if (node_equal(&t->values[i], n))
			return true;
	}
	return false;
}

/* Each rule requires the member, and no two allow the same value. */
static bool choice_tells_apart(const struct rule *const *rules, size_t n, struct span key)
{
	for (size_t i = 0; i < n; i++) {
		const struct test *mine = tied_values(rules[i], key);
		if (mine == NULL)
			return false;
		for (size_t j = 0; j < i; j++) {
			const struct test *other = tied_values(rules[j], key);
			for (size_t k = 0; k < mine->n; k++)
				if (has_value(other, &mine->values[k]))
					return false;
		}
	}
	return true;
}

const struct choice *choice_find(struct arena *a, const struct rule *const *rules, size_t n)
{
	const struct rule_members *m = n > 1 ? rules[0]->members : NULL;
	size_t i = 0;
	while (m && i < m->n && !choice_tells_apart(rules, n, m->property[i].key))
		i++;
	if (m == NULL || i == m->n)
		return NULL;
	struct choice *c = ARENA_NEW(a, struct choice, 1);
	const struct test **tests = ARENA_NEW(a, const struct test *, n);
	*c = (struct choice){ .key = m->property[i].key, .tests = tests };
	for (size_t k = 0; k < n; k++)
		tests[k] = tied_values(rules[k], c->key);
	return c;
}

/* No branch allows the value of the member: report the values of all branches. */
static bool fail_choice(struct schema_walk *w, const struct test *t, const struct node *v,
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

static bool check_choice(struct schema_walk *w, const struct test *t, const struct node *n,
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

/* ---- anyOf, oneOf ---- */

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

/* The number of branches that match; counts no further than `enough`. */
static size_t count_fits(struct schema_walk *w, const struct test *t, const struct node *n,
                         const struct path *at, size_t enough)
{
	size_t fits = 0;
	for (size_t i = 0; i < t->n && fits < enough; i++)
		fits += rule_accepts(w, t->rules[i], n, at);
	return fits;
}

bool check_any_of(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	if (t->choice && n->type == NODE_MAP)
		return check_choice(w, t, n, at);
	return count_fits(w, t, n, at, 1) == 1 || fail_branches(w, t, n, at);
}

bool check_one_of(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	if (t->choice && n->type == NODE_MAP)
		return check_choice(w, t, n, at);
	size_t fits = count_fits(w, t, n, at, 2);
	if (fits == 1)
		return true;
	if (fits == 0)
		return fail_branches(w, t, n, at);
	return walk_fail(w, n, at, "matches more than one of the forms that are allowed here");
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
		return !w->lost;
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

/* ---- enum, bounds, lengths, patterns ---- */

bool check_values(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	return has_value(t, n) || walk_fail_values(w, t, n, at);
}

/* `what`: the bound in words. */
static bool fail_bound(struct schema_walk *w, const struct test *t, const struct node *n,
                       const struct path *at, const char *what)
{
	if (walk_is_mute(w))
		return false;
	char bound[NUMBER_MAX];
	STR_AUTO value = STR_INIT(SENTENCE_MAX);
	number_text(bound, t->number);
	value_text(&value, w, n, at, false);
	return walk_fail(w, n, at, "must be %s %s, is %s", what, bound, str_c(&value));
}

static const char *const BOUNDS[] = { "at least", "at most", "more than", "less than" };

static bool is_within(double v, const struct test *t)
{
	switch (t->keyword->bound) {
	case AT_LEAST:
		return v >= t->number;
	case AT_MOST:
		return v <= t->number;
	case ABOVE:
		return v > t->number;
	case BELOW:
		return v < t->number;
	}
	return false;
}

bool check_number(struct schema_walk *w, const struct test *t, const struct node *n,
                  const struct path *at)
{
	return is_within(node_number(n), t) || fail_bound(w, t, n, at, BOUNDS[t->keyword->bound]);
}

/* The absolute value of a number in decimal: digits x 10^exponent. */
struct decimal {
	uint64_t digits;
	int exponent;
};

static struct decimal decimal_of(double v)
{
	char text[NUMBER_MAX];
	struct decimal d = { 0, 0 };
	int zeros = 0; /* counted until a digit follows */
	bool fraction = false;
	number_text(text, v);
	const char *p = text + (text[0] == '-');
	for (; *p != '\0' && *p != 'e'; p++) {
		if (*p == '.') {
			fraction = true;
			continue;
		}
		zeros++;
		d.exponent -= fraction;
		if (*p == '0')
			continue;
		for (; zeros; zeros--)
			d.digits *= 10;
		d.digits += (unsigned)(*p - '0');
	}
	int64_t e = 0;
	if (*p == 'e')
		(void)parse_i64(span_of(p + 1 + (p[1] == '+')), -400, 400, &e);
	d.exponent += zeros + (int)e;
	return d;
}

/* Exact, in decimal: in binary, 0.0075 is not a multiple of 0.0001, and a tolerance is wrong for
 * large quotients. */
static bool is_multiple(struct decimal v, struct decimal of)
{
	assert(of.digits > 0); /* a schema with another divisor does not compile */
	int shift = v.exponent - of.exponent;
	for (; shift < 0 && v.digits; shift++) {
		if (v.digits % 10)
			return false;
		v.digits /= 10;
	}
	/* A divisor has at most 17 digits, so the product does not overflow. */
	uint64_t rest = v.digits % of.digits;
	for (; shift > 0 && rest; shift--)
		rest = rest * 10 % of.digits;
	return rest == 0;
}

bool check_multiple(struct schema_walk *w, const struct test *t, const struct node *n,
                    const struct path *at)
{
	return is_multiple(decimal_of(node_number(n)), decimal_of(t->number)) ||
	       fail_bound(w, t, n, at, "a multiple of");
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
	const char *bound = BOUNDS[t->keyword->bound];
	char limit[NUMBER_MAX];
	size_t count = n->n;
	for (uint32_t i = 0; n->type == NODE_TEXT && i < n->n; i++)
		count -= ((unsigned char)n->text[i] & 0xc0) == 0x80;
	if (is_within((double)count, t))
		return true;
	if (n->type == NODE_TEXT && count == 0)
		return walk_fail(w, n, at, "must not be empty");
	if (t->number == 1)
		return walk_fail(w, n, at, "must have %s one %s", bound, THINGS[n->type][0]);
	number_text(limit, t->number);
	return walk_fail(w, n, at, "must have %s %s %s, has %zu", bound, limit, THINGS[n->type][1],
	                 count);
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
	return walk_fail(w, n, at, "%s, is %s", pattern_words(t->pattern), str_c(&value));
}
