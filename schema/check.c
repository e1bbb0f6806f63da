/* Checks a document against rules; see check.h. */
#include "schema/check.h"

#include <assert.h>
#include <math.h>

#include "base/enc.h"
#include "base/err.h"
#include "schema/schema_internal.h"

/* Documents have at most 64 levels; several rules can apply to a level. */
enum { WALK_DEPTH_MAX = 1000 };

/* Check a value against a rule; `at` is NULL for the root.  false: violated, and reported unless
 * w->quiet. */
static bool rule_check(struct walk *w, const struct rule *r, const struct node *n,
                       const struct path *at);
static bool members_check(struct walk *w, const struct members *m, const struct node *map,
                          const struct path *at);

const struct test *rule_values(const struct rule *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->tests[i].values)
			return &r->tests[i];
	}
	return NULL;
}

static unsigned real_bits(double v)
{
	if (!isfinite(v))
		return BIT_INFINITE;
	return v == floor(v) ? BIT_NUMBER | BIT_INTEGER : BIT_NUMBER;
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
	return n->type == NODE_REAL ? real_bits(n->real) : BITS[n->type];
}

static bool check_items(struct walk *w, const struct items *items, const struct node *list,
                        const struct path *at)
{
	bool ok = true;
	for (uint32_t i = 0; i < list->n && (ok || !w->quiet); i++) {
		const struct path here = PATH_INDEX(at, i);
		const struct rule *r = i < items->n_first ? items->first[i] : items->rest;
		if (r)
			ok &= rule_check(w, r, &list->item[i], &here);
	}
	return ok;
}

/* Everything except types.  Only the first violation of a scalar is reported. */
static bool check_tests(struct walk *w, const struct rule *r, unsigned bits, const struct node *n,
                        const struct path *at)
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
	if (n->type == NODE_LIST && r->items)
		ok &= check_items(w, r->items, n, at);
	return ok;
}

/* Reported even if the walk is quiet: a circular condition or `not` has no verdict. */
static bool fail_circle(struct walk *w, const struct node *n, const struct path *at)
{
	w->quiet = false;
	(void)walk_fail(w, n, at, "cannot be checked: the schema is circular");
	w->lost = true;
	return false;
}

static bool rule_check(struct walk *w, const struct rule *r, const struct node *n,
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
	if (w->depth == WALK_DEPTH_MAX)
		return fail_circle(w, n, at);
	w->depth++;
	bool ok = check_tests(w, r, bits, n, at);
	w->depth--;
	return ok;
}

/* Only the verdict. */
static bool rule_accepts(struct walk *w, const struct rule *r, const struct node *n,
                         const struct path *at)
{
	bool outer = w->quiet;
	w->quiet = true;
	bool ok = rule_check(w, r, n, at);
	w->quiet = outer;
	return ok;
}

static int check_walk(struct walk *w, const struct schema *s, const struct path *at)
{
	bool ok = rule_check(w, s->root, w->root, at);
	return ok && !w->lost ? 0 : -1;
}

int schema_check(const struct schema *s, const struct node *doc, const char *code,
                 const char *const *secret, struct err *e)
{
	ARENA_AUTO places = { 0 };
	struct walk w = { .e = e, .root = doc, .arena = &places, .code = code, .secret = secret };
	return check_walk(&w, s, NULL);
}

int schema_check_at(const struct schema *s, const struct node *part, const struct path *at,
                    const char *code, struct err *e)
{
	ARENA_AUTO places = { 0 };
	struct walk w = { .e = e, .root = part, .arena = &places, .code = code };
	return check_walk(&w, s, at);
}

/* ---- members of mappings ---- */

enum { LIST_MAX = 8 }; /* more allowed keys are not listed */

/* The mapping that is being checked. */
struct visit {
	struct walk *w;
	const struct members *m;
	const struct node *map;
	const struct path *at;
	/* Suggested keys are not reported as missing. */
	const struct property **suggested; /* NOTES_MAX of them; NULL before the first */
	size_t n_suggested;
};

static bool has_key(const struct node *map, struct span key)
{
	return node_member(map, key) != NULL;
}

/* The nearest described key that the mapping does not have, or NULL. */
static const struct property *nearest(const struct visit *v, struct span key)
{
	const struct members *m = v->m;
	const struct property *best = NULL;
	unsigned limit = edit_limit(key.n);
	for (size_t i = 0; i < m->n && limit; i++) {
		const struct property *p = &m->property[i];
		unsigned d = p->rule ? edit_distance(key, p->key, limit) : limit + 1;
		if (d <= limit && !has_key(v->map, p->key)) {
			best = p;
			limit = d - 1; /* the next must be nearer */
		}
	}
	return best;
}

static void list_keys(struct str *out, const struct members *m)
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

/* The key is present, but misspelt. */
static void members_suggest(struct visit *v, const struct property *meant)
{
	if (v->suggested == NULL)
		v->suggested = ARENA_NEW(v->w->arena, const struct property *, NOTES_MAX);
	v->suggested[v->n_suggested++] = meant; /* one for each note at most */
}

/* In `{cpu:1}` and `-echo: x`, the character after which a blank is missing; else NUL. */
static char lacks_blank(struct visit *v, struct span key)
{
	const char *colon = memchr(key.p, ':', key.n);
	const struct property *p =
	    colon ? property_find(v->m, key.p, (size_t)(colon - key.p)) : NULL;
	if (p && p->rule) {
		members_suggest(v, p);
		return ':';
	}
	if (key.n > 1 && key.p[0] == '-')
		return '-';
	return '\0';
}

/* A key that is not allowed. */
static bool check_fail_unknown(struct visit *v, const struct member *key)
{
	struct walk *w = v->w;
	if (walk_is_mute(w))
		return false;
	char shown[4 * QUOTE_MAX] NOT_ZEROED;
	quote(shown, member_key(key));
	if (v->m->n == 0 && v->m->n_patterns == 1)
		return walk_fail_key(w, key, v->at, "bad name \"%s\": %s", shown,
		                     pattern_words(v->m->patterns[0].pattern));
	char blank = lacks_blank(v, member_key(key));
	if (blank)
		return walk_fail_key(w, key, v->at,
		                     "unknown key `%s`: a blank is missing behind the `%c`", shown,
		                     blank);
	const struct property *meant = nearest(v, member_key(key));
	if (meant) {
		members_suggest(v, meant);
		return walk_fail_key(w, key, v->at, "unknown key `%s`, did you mean `%s`?", shown,
		                     meant->key.p);
	}
	STR_AUTO list = STR_INIT(SENTENCE_MAX);
	list_keys(&list, v->m);
	return walk_fail_key(w, key, v->at, "unknown key `%s`%s", shown, str_c(&list));
}

static bool was_suggested(const struct visit *v, const struct property *p)
{
	for (size_t i = 0; i < v->n_suggested; i++) {
		if (v->suggested[i] == p)
			return true;
	}
	return false;
}

static bool fail_missing(const struct visit *v)
{
	for (size_t i = 0; i < v->m->n && !v->w->quiet; i++) {
		const struct property *p = &v->m->property[i];
		if (p->required && !has_key(v->map, p->key) && !was_suggested(v, p))
			walk_fail(v->w, v->map, v->at, "misses the key `%s`", p->key.p);
	}
	return false;
}

/* Checks the member against all patterns that match its key; *known is set if one does. */
static bool check_patterns(const struct visit *v, const struct member *member,
                           const struct path *here, bool *known)
{
	bool ok = true;
	for (size_t i = 0; i < v->m->n_patterns; i++) {
		if (!pattern_matches(v->m->patterns[i].pattern, member_key(member)))
			continue;
		*known = true;
		ok &= rule_check(v->w, v->m->patterns[i].rule, &member->value, here);
	}
	return ok;
}

static bool check_member(struct visit *v, const struct property *p, const struct member *member)
{
	const struct members *m = v->m;
	const struct path here = PATH_KEY(v->at, member_key(member));
	bool known = p && p->rule;
	bool ok = !known || rule_check(v->w, p->rule, &member->value, &here);
	if (m->n_patterns)
		ok &= check_patterns(v, member, &here, &known);
	if (known || m->additional == NULL)
		return ok;
	if (m->additional->never)
		return check_fail_unknown(v, member);
	return ok & rule_check(v->w, m->additional, &member->value, &here);
}

static bool members_check(struct walk *w, const struct members *m, const struct node *map,
                          const struct path *at)
{
	struct visit v = { .w = w, .m = m, .map = map, .at = at };
	size_t required = 0;
	bool ok = true;
	for (uint32_t i = 0; i < map->n && (ok || !w->quiet); i++) {
		const struct member *member = &map->member[i];
		const struct property *p = property_find(m, member->key, member->key_n);
		required += p && p->required;
		ok &= check_member(&v, p, member);
	}
	if (required < m->n_required)
		ok = fail_missing(&v);
	return ok;
}

/* ---- oneOf and anyOf whose branches differ in a member ---- */

static const struct property *find_linear(const struct members *m, struct span key)
{
	for (size_t i = 0; m && i < m->n; i++) {
		if (span_eq(m->property[i].key, key))
			return &m->property[i];
	}
	return NULL;
}

/* The values that the rule allows for a member that it requires, or NULL. */
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

/* No branch allows the value of the member: report the values of all branches. */
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

/* ---- anyOf, oneOf ---- */

/* No branch matches.  If only one allows this type, its violations are reported. */
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
	return walk_fail(w, n, at, "matches none of the forms that are allowed here");
}

/* The number of branches that match; counts no further than `enough`. */
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
	return walk_fail(w, n, at, "matches more than one of the forms that are allowed here");
}

/* ---- allOf, not, if ---- */

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

/* ---- enum, bounds, lengths, patterns ---- */

bool check_values(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	for (size_t i = 0; i < t->n; i++) {
		if (node_equal(&t->values[i], n))
			return true;
	}
	return walk_fail_values(w, t, n, at);
}

/* `what`: the bound in words. */
static bool fail_bound(struct walk *w, const struct test *t, const struct node *n,
                       const struct path *at, const char *what)
{
	if (walk_is_mute(w))
		return false;
	char bound[NUMBER_MAX];
	STR_AUTO value = STR_INIT(SENTENCE_MAX);
	number_text(bound, t->number);
	value_text(&value, w, n, at);
	return walk_fail(w, n, at, "must be %s %s, is %s", what, bound, str_c(&value));
}

bool check_minimum(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at)
{
	return node_number(n) >= t->number || fail_bound(w, t, n, at, "at least");
}

bool check_maximum(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at)
{
	return node_number(n) <= t->number || fail_bound(w, t, n, at, "at most");
}

bool check_above(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	return node_number(n) > t->number || fail_bound(w, t, n, at, "more than");
}

bool check_below(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	return node_number(n) < t->number || fail_bound(w, t, n, at, "less than");
}

/* The absolute value of a number in decimal: digits x 10^exponent. */
struct decimal {
	uint64_t digits;
	int exponent;
};

static struct decimal decimal_of_text(const char *text)
{
	struct decimal d = { 0, 0 };
	int zeros = 0; /* counted until a digit follows */
	bool fraction = false;
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

static struct decimal decimal_of(double v)
{
	char text[NUMBER_MAX];
	number_text(text, v);
	return decimal_of_text(text);
}

static struct decimal decimal_of_node(const struct node *n)
{
	if (n->type != NODE_INT)
		return decimal_of(n->real);
	uint64_t digits = (uint64_t)n->integer;
	return (struct decimal){ n->integer < 0 ? -digits : digits, 0 };
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

bool check_multiple(struct walk *w, const struct test *t, const struct node *n,
                    const struct path *at)
{
	return is_multiple(decimal_of_node(n), decimal_of(t->number)) ||
	       fail_bound(w, t, n, at, "a multiple of");
}

static size_t characters(const struct node *n)
{
	size_t count = 0;
	for (uint32_t i = 0; i < n->n; i++)
		count += ((unsigned char)n->text[i] & 0xc0) != 0x80;
	return count;
}

static bool fail_count(struct walk *w, const struct test *t, const struct node *n,
                       const struct path *at, const char *bound)
{
	static const char *const THINGS[][2] = {
		[NODE_TEXT] = { "character", "characters" },
		[NODE_LIST] = { "item", "items" },
		[NODE_MAP] = { "member", "members" },
	};
	char limit[NUMBER_MAX];
	if (t->number == 1)
		return walk_fail(w, n, at, "must have %s one %s", bound, THINGS[n->type][0]);
	number_text(limit, t->number);
	return walk_fail(w, n, at, "must have %s %s %s, has %zu", bound, limit, THINGS[n->type][1],
	                 n->type == NODE_TEXT ? characters(n) : n->n);
}

bool check_min_length(struct walk *w, const struct test *t, const struct node *n,
                      const struct path *at)
{
	if (n->n >= t->number && (double)characters(n) >= t->number)
		return true;
	return n->n ? fail_count(w, t, n, at, "at least")
	            : walk_fail(w, n, at, "must not be empty");
}

bool check_max_length(struct walk *w, const struct test *t, const struct node *n,
                      const struct path *at)
{
	return n->n <= t->number || (double)characters(n) <= t->number ||
	       fail_count(w, t, n, at, "at most");
}

bool check_min_count(struct walk *w, const struct test *t, const struct node *n,
                     const struct path *at)
{
	return n->n >= t->number || fail_count(w, t, n, at, "at least");
}

bool check_max_count(struct walk *w, const struct test *t, const struct node *n,
                     const struct path *at)
{
	return n->n <= t->number || fail_count(w, t, n, at, "at most");
}

bool check_pattern(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at)
{
	if (pattern_matches(t->pattern, node_span(n)))
		return true;
	if (walk_is_mute(w))
		return false;
	if (n->n == 0)
		return walk_fail(w, n, at, "must not be empty");
	STR_AUTO value = STR_INIT(SENTENCE_MAX);
	value_text(&value, w, n, at);
	return walk_fail(w, n, at, "%s, is %s", pattern_words(t->pattern), str_c(&value));
}
