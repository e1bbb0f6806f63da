/* JSON Schema: the walk through a document; see check.h. */
#include "schema/check.h"

#include <math.h>

#include "schema/keywords.h"
#include "schema/walk.h"

/* The reader bounds documents to 64 levels; a level may pass through several rules. */
enum { WALK_DEPTH_MAX = 1000 };

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

/* Everything but types.  A scalar is told one thing at a time. */
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

/* Said in any case: a condition or a `not` that leads in circles has no verdict either. */
static bool fail_circle(struct walk *w, const struct node *n, const struct path *at)
{
	w->quiet = false;
	(void)walk_fail(w, n, at, "cannot be checked: the schema leads in circles");
	w->lost = true;
	return false;
}

bool rule_check(struct walk *w, const struct rule *r, const struct node *n, const struct path *at)
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

bool rule_accepts(struct walk *w, const struct rule *r, const struct node *n, const struct path *at)
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
	struct walk w = { .e = e, .root = doc, .code = code, .secret = secret, .arena = &places };
	bool ok = rule_check(&w, s->root, doc, NULL);
	return ok && !w.lost ? 0 : -1;
}
