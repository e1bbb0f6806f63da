/* Keywords that look at one value alone: enum, bounds, lengths, patterns. */
#include "schema/values.h"

#include <assert.h>

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

/* The amount of a number as it was written: digits x 10^exponent. */
struct decimal {
	uint64_t digits;
	int exponent;
};

static struct decimal decimal_of_text(const char *text)
{
	struct decimal d = { 0, 0 };
	int zeros = 0; /* not known yet whether they stand at the end */
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

/* Exactly, in decimal: binary fractions make 0.0075 no multiple of 0.0001, and a
 * tolerance fails as soon as the quotient is large. */
static bool is_multiple(struct decimal v, struct decimal of)
{
	assert(of.digits > 0); /* a schema with another divisor does not compile */
	int shift = v.exponent - of.exponent;
	for (; shift < 0 && v.digits; shift++) {
		if (v.digits % 10)
			return false;
		v.digits /= 10;
	}
	/* A divisor has 17 digits at most: ten times the rest fits. */
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
