/* Which text every match of a pattern contains: where it is not, nobody has to look. */
#include "base/regex/regex_inner.h"

enum { RUN_MAX = 64, FEW = 4 };

/* The best that is known: a tree that every match contains, and how many characters it has. */
struct demand {
	struct re *tree;
	size_t n;
};

static struct demand find_demand(const struct re *re, struct arena *a);

/* A letter in all its cases, say; not a class as \d. */
static bool few_runes(const struct re *re)
{
	return re->kind == RE_SET && re->set.n > 0 && runes_count(&re->set, FEW + 1) <= FEW;
}

static void put_last(struct re *list, struct re *item)
{
	item->prev = list->last;
	if (list->last)
		list->last->next = item;
	else
		list->first = item;
	list->last = item;
}

static struct re *run_of(struct re *first, struct re *last, struct arena *a)
{
	struct re *list = ARENA_NEW(a, struct re, 1);
	list->kind = RE_CONCAT;
	list->first = first;
	list->last = last;
	return list;
}

/* Of a sequence, the longest run, or what one of its parts demands. */
static struct demand of_concat(const struct re *re, struct arena *a)
{
	struct demand best = { 0 };
	struct re *run = NULL;
	struct re *run_last = NULL;
	size_t run_n = 0;
	struct re *c = re->first;
	while (c) {
		struct re *from = c;
		struct re *last = NULL;
		size_t n = 0;
		for (; c && n < RUN_MAX && few_runes(c); c = c->next, n++)
			last = c;
		if (n > run_n) {
			run = from;
			run_last = last;
			run_n = n;
		}
		if (n > 0)
			continue;
		struct demand part = find_demand(c, a);
		if (part.n > best.n)
			best = part;
		c = c->next;
	}
	if (run_n > best.n)
		best = (struct demand){ run_of(run, run_last, a), run_n };
	return best;
}

/* Of alternatives, one of what each of them demands. */
static struct demand of_alternate(const struct re *re, struct arena *a)
{
	struct demand all = { ARENA_NEW(a, struct re, 1), SIZE_MAX };
	all.tree->kind = RE_ALTERNATE;
	for (const struct re *c = re->first; c; c = c->next) {
		struct demand one = find_demand(c, a);
		if (one.n < 2)
			return (struct demand){ 0 };
		put_last(all.tree, one.tree);
		all.n = one.n < all.n ? one.n : all.n;
	}
	return all;
}

static struct demand find_demand(const struct re *re, struct arena *a)
{
	if (re->kind == RE_REPEAT && re->min > 0)
		return find_demand(re->first, a);
	if (re->kind == RE_CONCAT)
		return of_concat(re, a);
	if (re->kind == RE_ALTERNATE)
		return of_alternate(re, a);
	return (struct demand){ 0 };
}

const struct re *literal_run(const struct re *re, struct arena *a)
{
	struct demand d = find_demand(re, a);
	return d.n < 2 ? NULL : d.tree;
}
