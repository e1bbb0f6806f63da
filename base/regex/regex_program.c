/*
 * Compiles trees to programs.  Instructions are emitted from the end: program_emit() receives the
 * next instruction and returns the first one, so only loops are patched.  A backward program has
 * its sequences in reverse order; assertions do not change.
 */
#include <assert.h>

#include "base/regex/regex_internal.h"

enum {
	SETS_MAX = 4096,
	RANGES_MAX = 65536,
	WORK_MAX = 50 * RANGES_MAX,
	FITS_MAX = 1200, /* instructions and ranges that surely fit: 2 * FITS_MAX^2 < WORK_MAX */
	LISTS = 128
};

struct builder {
	struct program *p;
	struct arena *a;
	size_t cap;
	size_t sets_cap, ranges;
	uint16_t list[LISTS]; /* last set + 1, by its first character modulo LISTS */
	uint16_t *set_before; /* the set before it in the list, + 1 */
	bool full;
};

static uint16_t inst(struct builder *b, struct inst in)
{
	struct program *p = b->p;
	if (p->n >= REGEX_PROGRAM_MAX) {
		b->full = true;
		return 0;
	}
	if (p->n == b->cap) {
		size_t cap = b->cap ? 2 * b->cap : 32;
		struct inst *v = ARENA_NEW(b->a, struct inst, cap);
		if (p->n)
			memcpy(v, p->inst, p->n * sizeof(*v));
		p->inst = v;
		b->cap = cap;
	}
	p->inst[p->n] = in;
	return (uint16_t)p->n++;
}

static void room_for_set(struct builder *b)
{
	struct program *p = b->p;
	if (p->n_sets < b->sets_cap)
		return;
	size_t cap = b->sets_cap ? 2 * b->sets_cap : 16;
	struct runes *v = ARENA_NEW(b->a, struct runes, cap);
	uint16_t *before = ARENA_NEW(b->a, uint16_t, cap);
	if (b->set_before) {
		memcpy(v, p->sets, p->n_sets * sizeof(*v));
		memcpy(before, b->set_before, p->n_sets * sizeof(*before));
	}
	p->sets = v;
	b->set_before = before;
	b->sets_cap = cap;
}

/* The number of an equal set. */
static uint16_t set_number(struct builder *b, const struct runes *set)
{
	struct program *p = b->p;
	uint16_t *list = &b->list[set->n ? set->v[0].lo % LISTS : 0];
	for (size_t i = *list; i > 0; i = b->set_before[i - 1]) {
		assert(b->set_before); /* a list has sets only if there are any */
		if (p->sets[i - 1].v == set->v || runes_equal(&p->sets[i - 1], set))
			return (uint16_t)(i - 1);
	}
	b->ranges += set->n;
	if (p->n_sets >= SETS_MAX || b->ranges > RANGES_MAX) {
		b->full = true;
		return 0;
	}
	room_for_set(b);
	p->sets[p->n_sets] = *set;
	b->set_before[p->n_sets] = *list;
	*list = (uint16_t)(p->n_sets + 1);
	return (uint16_t)p->n_sets++;
}

static uint16_t program_split(struct builder *b, uint16_t first, uint16_t second)
{
	return inst(b, (struct inst){ .op = OP_SPLIT, .x = first, .y = second });
}

static uint16_t program_choose(struct builder *b, bool lazy, uint16_t more, uint16_t enough)
{
	return lazy ? program_split(b, enough, more) : program_split(b, more, enough);
}

static bool nullable(const struct re *re)
{
	bool all = true, any = false;
	switch (re->kind) {
	case RE_SET:
		return false;
	case RE_EMPTY:
	case RE_ASSERT:
		return true;
	case RE_REPEAT:
		return re->min == 0 || nullable(re->first);
	case RE_CONCAT:
	case RE_ALTERNATE:
		for (const struct re *c = re->first; c; c = c->next) {
			bool is = nullable(c);
			all = all && is;
			any = any || is;
		}
		return re->kind == RE_CONCAT ? all : any;
	}
	return false;
}

static uint16_t program_emit(struct builder *b, const struct re *re, uint16_t next);

/* A choice between x, which leads back to it, and next. */
static uint16_t emit_loop(struct builder *b, const struct re *re, uint16_t next, uint16_t *body)
{
	uint16_t loop = program_split(b, 0, 0);
	*body = program_emit(b, re->first, loop);
	if (!b->full) {
		b->p->inst[loop].x = re->lazy ? next : *body;
		b->p->inst[loop].y = re->lazy ? *body : next;
	}
	return loop;
}

/* x+: x, then the choice. */
static uint16_t emit_plus(struct builder *b, const struct re *re, uint16_t next)
{
	uint16_t body;
	(void)emit_loop(b, re, next, &body);
	return body;
}

/* x*: if x can be empty, (x+)?, which keeps the order of preference. */
static uint16_t emit_star(struct builder *b, const struct re *re, uint16_t next)
{
	uint16_t body;
	if (nullable(re->first))
		return program_choose(b, re->lazy, emit_plus(b, re, next), next);
	return emit_loop(b, re, next, &body);
}

static uint16_t emit_repeat(struct builder *b, const struct re *re, uint16_t next)
{
	uint16_t at = next;
	int copies = re->min;
	if (re->max < 0) {
		at = copies ? emit_plus(b, re, next) : emit_star(b, re, next);
		copies = copies ? copies - 1 : 0;
	}
	/* x{2,4} is xx(x(x)?)? */
	for (int i = re->min; i < re->max && !b->full; i++)
		at = program_choose(b, re->lazy, program_emit(b, re->first, at), next);
	for (int i = 0; i < copies && !b->full; i++)
		at = program_emit(b, re->first, at);
	return at;
}

static uint16_t emit_concat(struct builder *b, const struct re *re, uint16_t next)
{
	bool backwards = b->p->backwards;
	const struct re *end = backwards ? re->last : re->first;
	const struct re *c = backwards ? re->first : re->last;
	for (; c && !b->full; c = backwards ? c->next : c->prev) {
		next = program_emit(b, c, next);
		if (c == end)
			break;
	}
	return next;
}

static uint16_t emit_alternate(struct builder *b, const struct re *re, uint16_t next)
{
	uint16_t at = program_emit(b, re->last, next);
	for (const struct re *c = re->last->prev; c && !b->full; c = c->prev)
		at = program_split(b, program_emit(b, c, next), at);
	return at;
}

static uint16_t emit_assertion(struct builder *b, const struct re *re, uint16_t next)
{
	enum assertion what = re->assertion;
	b->p->asks_text |= what == BEGIN_TEXT || what == END_TEXT;
	b->p->asks_line |= what == BEGIN_LINE || what == END_LINE;
	b->p->asks_word |= what == WORD_EDGE || what == NO_WORD_EDGE;
	return inst(b, (struct inst){ .op = OP_ASSERT, .arg = (uint16_t)what, .x = next });
}

static uint16_t emit_set(struct builder *b, const struct runes *set, uint16_t next)
{
	return inst(b, (struct inst){ .op = OP_SET, .arg = set_number(b, set), .x = next });
}

static uint16_t program_emit(struct builder *b, const struct re *re, uint16_t next)
{
	if (b->full)
		return 0;
	switch (re->kind) {
	case RE_EMPTY:
		return next;
	case RE_SET:
		return emit_set(b, &re->set, next);
	case RE_ASSERT:
		return emit_assertion(b, re, next);
	case RE_CONCAT:
		return emit_concat(b, re, next);
	case RE_ALTERNATE:
		return emit_alternate(b, re, next);
	case RE_REPEAT:
		return emit_repeat(b, re, next);
	}
	return next;
}

/* Before a search: any characters, with the lowest priority. */
static void emit_search(struct builder *b, struct program *p)
{
	static const struct range ALL_RUNES = { 0, RUNE_MAX };
	struct runes all = { 0 };
	runes_add(&all, b->a, ALL_RUNES.lo, ALL_RUNES.hi);
	uint16_t start = program_split(b, (uint16_t)p->start, 0);
	uint16_t any = emit_set(b, &all, start);
	if (!b->full)
		p->inst[start].y = any;
	p->start = start;
}

/* ---- classes of characters ---- */

/* Shell sort. */
static void sort_numbers(uint32_t *v, size_t n)
{
	for (size_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
		for (size_t i = gap; i < n; i++) {
			uint32_t x = v[i];
			size_t k = i;
			for (; k >= gap && v[k - gap] > x; k -= gap)
				v[k] = v[k - gap];
			v[k] = x;
		}
	}
}

/* The starts of the intervals that no set divides; the first is 0. */
static void find_bounds(struct program *p, struct arena *a)
{
	size_t n = 1;
	for (size_t i = 0; i < p->n_sets; i++)
		n += (size_t)2 * p->sets[i].n;
	p->bound = ARENA_NEW(a, uint32_t, n);
	n = 1;
	for (size_t i = 0; i < p->n_sets; i++) {
		for (size_t k = 0; k < p->sets[i].n; k++) {
			p->bound[n++] = p->sets[i].v[k].lo;
			if (p->sets[i].v[k].hi < RUNE_MAX)
				p->bound[n++] = p->sets[i].v[k].hi + 1;
		}
	}
	sort_numbers(p->bound, n);
	size_t kept = 1;
	for (size_t i = 1; i < n; i++) {
		if (p->bound[i] != p->bound[kept - 1])
			p->bound[kept++] = p->bound[i];
	}
	p->n_bounds = kept;
}

static size_t interval_of(const struct program *p, uint32_t rune)
{
	size_t lo = 0;
	size_t hi = p->n_bounds;
	while (hi - lo > 1) {
		size_t mid = (lo + hi) / 2;
		if (p->bound[mid] <= rune)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static uint64_t program_mix(uint64_t x)
{
	x += 0x9E3779B97F4A7C15u;
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
	return x ^ (x >> 31);
}

/* A hash of the sets that contain each interval.  false: too much work. */
static bool sign_intervals(const struct program *p, uint64_t *signature)
{
	size_t work = 0;
	for (size_t s = 0; s < p->n_sets; s++) {
		for (size_t k = 0; k < p->sets[s].n; k++) {
			size_t i = interval_of(p, p->sets[s].v[k].lo);
			for (; i < p->n_bounds && p->bound[i] <= p->sets[s].v[k].hi; i++, work++)
				signature[i] += program_mix(s);
			if (work > WORK_MAX)
				return false;
		}
	}
	return true;
}

/* Intervals in the same sets are one class. */
static bool make_classes(struct builder *b)
{
	struct program *p = b->p;
	find_bounds(p, b->a);
	size_t slots = 16;
	while (slots < 2 * p->n_bounds)
		slots *= 2;
	uint64_t *signature = ARENA_NEW(b->a, uint64_t, p->n_bounds);
	uint32_t *table = ARENA_NEW(b->a, uint32_t, slots); /* numbers of intervals, + 1 */
	p->bound_class = ARENA_NEW(b->a, uint16_t, p->n_bounds);
	p->sample = ARENA_NEW(b->a, uint32_t, p->n_bounds + 1);
	if (!sign_intervals(p, signature))
		return false;
	for (size_t i = 0; i < p->n_bounds; i++) {
		size_t slot = program_mix(signature[i]) & (slots - 1);
		while (table[slot] && signature[table[slot] - 1] != signature[i])
			slot = (slot + 1) & (slots - 1);
		if (!table[slot]) {
			if (p->n_classes >= SETS_MAX)
				return false;
			table[slot] = (uint32_t)i + 1;
			p->sample[++p->n_classes] = p->bound[i];
			p->bound_class[i] = p->n_classes;
		}
		p->bound_class[i] = p->bound_class[table[slot] - 1];
	}
	for (size_t c = 0, i = 0; c < 128; c++) {
		while (i + 1 < p->n_bounds && p->bound[i + 1] <= c)
			i++;
		p->byte_class[c] = p->bound_class[i];
	}
	return true;
}

/* Assertions distinguish line ends and letters. */
static void add_asked_sets(struct builder *b)
{
	struct runes newline = { 0 };
	struct runes word = { 0 };
	if (b->p->asks_line) {
		runes_add(&newline, b->a, '\n', '\n');
		set_number(b, &newline);
	}
	if (b->p->asks_word) {
		runes_add_class(&word, b->a, SPAN("w"), false, false);
		set_number(b, &word);
	}
}

struct program *program_new(const struct re *const *re, size_t n, enum semantics semantics,
                            bool backwards, struct arena *a)
{
	struct program *p = ARENA_NEW(a, struct program, 1);
	struct builder b = { .p = p, .a = a };
	p->semantics = semantics;
	p->backwards = backwards;
	bool first = true;
	for (size_t i = 0; i < n && !b.full; i++) {
		if (!re[i])
			continue;
		uint16_t match = inst(&b, (struct inst){ .op = OP_MATCH, .x = (uint16_t)i });
		uint16_t at = program_emit(&b, re[i], match);
		p->start = first ? at : program_split(&b, (uint16_t)p->start, at);
		first = false;
	}
	if (!backwards)
		emit_search(&b, p);
	add_asked_sets(&b);
	return !b.full && make_classes(&b) ? p : NULL;
}

/* An upper bound of instructions and ranges; above FITS_MAX, any number above it. */
static size_t size_bound(const struct re *re)
{
	size_t n = 2;
	if (re->kind == RE_SET)
		return re->set.n ? re->set.n : 1;
	for (const struct re *c = re->first; c && n <= FITS_MAX; c = c->next)
		n += size_bound(c) + (re->kind == RE_ALTERNATE);
	if (re->kind != RE_REPEAT)
		return n;
	int copies = re->max > re->min ? re->max : re->min;
	return copies > 1 ? n * (size_t)copies : n;
}

bool program_fits(const struct re *re)
{
	return size_bound(re) <= FITS_MAX;
}

uint16_t program_class(const struct program *p, uint32_t rune)
{
	return p->bound_class[interval_of(p, rune)];
}

enum neighbour neighbour_of(uint32_t rune)
{
	if (rune == '\n')
		return AT_NEWLINE;
	return rune_is_word(rune) ? AT_WORD : AT_OTHER;
}

bool assertion_holds(enum assertion what, enum neighbour before, enum neighbour after)
{
	switch (what) {
	case BEGIN_TEXT:
		return before == AT_EDGE;
	case END_TEXT:
		return after == AT_EDGE;
	case BEGIN_LINE:
		return before == AT_EDGE || before == AT_NEWLINE;
	case END_LINE:
		return after == AT_EDGE || after == AT_NEWLINE;
	case WORD_EDGE:
		return (before == AT_WORD) != (after == AT_WORD);
	case NO_WORD_EDGE:
		return (before == AT_WORD) == (after == AT_WORD);
	}
	return false;
}

/* ---- the literal text that every match contains ---- */

enum { RUN_MAX = 64, FEW = 4 };

/* A tree that every match contains, and its number of characters. */
struct demand {
	struct re *tree;
	size_t n;
};

static struct demand find_demand(const struct re *re, struct arena *a);

/* For instance a letter in both cases, not a class like \d. */
static bool few_runes(const struct re *re)
{
	return re->kind == RE_SET && re->set.n > 0 && runes_count(&re->set, FEW + 1) <= FEW;
}

static void program_put_last(struct re *list, struct re *item)
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

/* Of a sequence: its longest run, or the demand of a part. */
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

/* Of alternatives: one of their demands. */
static struct demand of_alternate(const struct re *re, struct arena *a)
{
	struct demand all = { ARENA_NEW(a, struct re, 1), SIZE_MAX };
	all.tree->kind = RE_ALTERNATE;
	for (const struct re *c = re->first; c; c = c->next) {
		struct demand one = find_demand(c, a);
		if (one.n < 2)
			return (struct demand){ 0 };
		program_put_last(all.tree, one.tree);
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
