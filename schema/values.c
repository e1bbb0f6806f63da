/* Keywords that look at one value alone: enum, bounds, lengths, patterns. */
#include "schema/values.h"

#include <math.h>

#include "base/enc.h"
#include "schema/walk.h"

bool check_values(struct walk *w, const struct test *t, const struct node *n, const struct path *at)
{
	for (size_t i = 0; i < t->n; i++) {
		if (node_equal(&t->values[i], n))
			return true;
	}
	return walk_fail_values(w, t, n, at);
}

/* A number outside its bounds; `what` has the bound in words. */
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

bool check_multiple(struct walk *w, const struct test *t, const struct node *n,
                    const struct path *at)
{
	double v = node_number(n);
	/* 0.0075 is a multiple of 0.0001, though computed not quite. */
	double slack = fmin(t->number * 1e-6, fmax(t->number * 1e-9, fabs(v) * 1e-15));
	bool whole = fabs(remainder(v, t->number)) <= slack;
	return whole || fail_bound(w, t, n, at, "a multiple of");
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
