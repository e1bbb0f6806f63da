/* Regular expressions: searching, and the automaton; see regex.h. */
#include "base/regex/regex.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/regex/regex_internal.h"

static struct span read_span(struct text *t, size_t from)
{
	const struct text_span *s = (const struct text_span *)t;
	return (struct span){ s->span.p + from, s->span.n - from };
}

void text_of(struct text_span *t, struct span span)
{
	*t = (struct text_span){ .text = { .size = span.n, .window = span.n, .read = read_span },
		                 .span = span };
}

const struct program *regex_forwards(struct regex *re)
{
	if (!re->forwards)
		re->forwards = program_new(&re->tree, 1, FIRST, false, re->arena);
	return re->forwards;
}

struct regex *regex_compile(struct span pattern, struct arena *a, struct err *e)
{
	const struct re *tree = regex_parse(pattern, a, e);
	if (!tree)
		return NULL;
	struct regex *re = ARENA_NEW(a, struct regex, 1);
	re->tree = tree;
	re->arena = a;
	if (!program_fits(tree) && !regex_forwards(re)) {
		err_set(e, REGEX_ERROR, "the pattern is too large");
		return NULL;
	}
	return re;
}

/* The start of the match that ends at m->end. */
static enum regex_found find_start(const struct regex *re, struct run *r, struct match *m)
{
	ARENA_AUTO a = { 0 };
	/* The backward program is not larger than the forward program. */
	const struct program *backwards = program_new(&re->tree, 1, LONGEST, true, &a);
	assert(backwards);
	return run_backwards(backwards, r, m->end, &m->start);
}

enum regex_found regex_search(struct regex *re, struct text *t, int64_t deadline_ms,
                              struct match *m)
{
	struct run r = { .text = t, .deadline_ms = deadline_ms };
	struct match found = { 0 };
	enum regex_found how = run_forwards(regex_forwards(re), &r, &found.end);
	if (how == REGEX_FOUND)
		how = find_start(re, &r, &found);
	if (how == REGEX_FOUND)
		*m = found;
	return how;
}

struct regex_set {
	size_t n;
	const struct re **literal; /* NULL where there is none */
	const struct program *program;
	struct regex *const *re;
};

struct regex_set *regex_set_new(struct regex *const *re, size_t n, struct arena *a)
{
	struct regex_set *s = ARENA_NEW(a, struct regex_set, 1);
	s->n = n;
	s->re = re;
	s->literal = ARENA_NEW(a, const struct re *, n);
	bool any = false;
	for (size_t i = 0; i < n; i++) {
		s->literal[i] = re[i] ? literal_run(re[i]->tree, a) : NULL;
		any = any || s->literal[i];
	}
	if (any && n < UINT16_MAX)
		s->program = program_new(s->literal, n, ALL, false, a);
	return s;
}

enum regex_found regex_set_scan(const struct regex_set *s, struct text *t, int64_t deadline_ms,
                                bool *possible)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->re[i] && (!s->literal[i] || !s->program))
			possible[i] = true;
	}
	if (!s->program)
		return REGEX_NONE;
	struct run r = { .text = t, .deadline_ms = deadline_ms, .seen = possible };
	size_t end;
	return run_forwards(s->program, &r, &end) == REGEX_LATE ? REGEX_LATE : REGEX_NONE;
}

/*
 * ---- the automaton ----
 *
 * Programs run as deterministic automata whose states are made on demand.  A state is the list of
 * instructions that are active after the last character, in order of preference, and the kind of
 * that character.  Assertions also depend on the next character, so they and all other instructions
 * that consume nothing are followed when that character is known; hence a match is noticed one
 * character late, and the end of the text is a character of its own.
 *
 * The table has a row for each state.  An entry is the next row; SPECIAL marks entries that need
 * more work.  A full table is cleared and the search continues from its current state: in the worst
 * case each character costs one look at each instruction.
 */

enum {
	TABLE_MAX = 1 << 18, /* entries in all rows */
	STATES_MAX = 1 << 13,
	SLOTS = 2 * STATES_MAX, /* of the hash */
	LISTS_MAX = 1 << 18,    /* instructions in all lists */
	PATIENCE = 1 << 16      /* steps, or bytes, between readings of the clock */
};

#define SPECIAL 0x80000000u
#define MATCHED 0x40000000u
#define UNKNOWN 0xFFFFFFFFu
#define ROW     0x3FFFFFFFu

struct state {
	uint32_t list; /* index of its instructions in `lists` */
	uint16_t n;
	uint8_t before; /* enum neighbour */
};

struct dfa {
	const struct program *p;
	struct run *run;
	uint32_t width; /* of a row */
	uint32_t *table;
	size_t table_cap;
	struct state *state;
	size_t n, states_max;
	uint16_t *lists;
	size_t lists_n, lists_cap;
	uint16_t *hash; /* SLOTS entries: number of a state + 1 */
	/* Of a step: instructions seen (by stamp), instructions to follow, the next list. */
	uint32_t *seen, *listed, stamp;
	uint16_t *stack, *next;
	size_t next_n;
	uint64_t looked_at; /* steps at the last reading of the clock */
	bool late;
};

static void dfa_forget(struct dfa *d)
{
	/* State 0 has no instructions. */
	if (d->n > 0)
		memset(d->hash, 0, SLOTS * sizeof(*d->hash));
	d->state[0] = (struct state){ 0 };
	d->n = 1;
	d->lists_n = 0;
	for (size_t i = 0; i < d->width; i++)
		d->table[i] = SPECIAL;
}

static void dfa_init(struct dfa *d, const struct program *p, struct run *r)
{
	*d = (struct dfa){ .p = p, .run = r, .width = p->n_classes + 2u };
	d->states_max = TABLE_MAX / d->width;
	if (d->states_max > STATES_MAX)
		d->states_max = STATES_MAX;
	if (d->states_max < 16)
		d->states_max = 16;
	d->table_cap = (size_t)16 * d->width;
	d->table = xmalloc(d->table_cap * sizeof(*d->table));
	d->state = xmalloc(d->states_max * sizeof(*d->state));
	d->lists_cap = 2 * p->n;
	d->lists = xmalloc(d->lists_cap * sizeof(*d->lists));
	d->hash = xcalloc(SLOTS, sizeof(*d->hash));
	d->seen = xcalloc(p->n, sizeof(*d->seen));
	d->listed = xcalloc(p->n, sizeof(*d->listed));
	d->stack = xmalloc((2 * p->n + 2) * sizeof(*d->stack));
	d->next = xmalloc(p->n * sizeof(*d->next));
	dfa_forget(d);
}

static void dfa_done(struct dfa *d)
{
	free(d->table);
	free(d->state);
	free(d->lists);
	free(d->hash);
	free(d->seen);
	free(d->listed);
	free(d->stack);
	free(d->next);
}

/* ---- a step ---- */

struct step {
	enum neighbour before, after; /* in the order of the text */
	bool edge;                    /* the end of the text, not a character */
	uint32_t rune;
	bool matched;
};

static void add_next(struct dfa *d, uint16_t pc)
{
	if (d->listed[pc] != d->stamp) {
		d->listed[pc] = d->stamp;
		d->next[d->next_n++] = pc;
	}
}

/* Follows one instruction to those that consume a character.  true: a match ends the step. */
static bool dfa_follow(struct dfa *d, struct step *s, uint16_t from)
{
	size_t n = 0;
	d->stack[n++] = from;
	while (n) {
		uint16_t pc = d->stack[--n];
		if (d->seen[pc] == d->stamp)
			continue;
		d->seen[pc] = d->stamp;
		d->run->steps++;
		const struct inst *in = &d->p->inst[pc];
		switch ((enum op)in->op) {
		case OP_SET:
			if (!s->edge && runes_has(&d->p->sets[in->arg], s->rune))
				add_next(d, in->x);
			break;
		case OP_SPLIT:
			d->stack[n++] = in->y;
			d->stack[n++] = in->x;
			break;
		case OP_ASSERT:
			if (assertion_holds((enum assertion)in->arg, s->before, s->after))
				d->stack[n++] = in->x;
			break;
		case OP_MATCH:
			s->matched = true;
			if (d->p->semantics == FIRST)
				return true;
			if (d->p->semantics == ALL)
				d->run->seen[in->x] = true;
			break;
		}
	}
	return false;
}

/* If their order does not matter, equal sets of instructions are one state. */
static void sort_list(uint16_t *v, size_t n)
{
	for (size_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
		for (size_t i = gap; i < n; i++) {
			uint16_t x = v[i];
			size_t k = i;
			for (; k >= gap && v[k - gap] > x; k -= gap)
				v[k] = v[k - gap];
			v[k] = x;
		}
	}
}

/* The kind of a character as far as later assertions depend on it. */
static enum neighbour remembered(const struct program *p, enum neighbour n)
{
	if ((n == AT_EDGE && (p->asks_text || p->asks_line)) || (n == AT_NEWLINE && p->asks_line) ||
	    (n == AT_WORD && p->asks_word))
		return n;
	return AT_OTHER;
}

/* ---- states ---- */

static void room_for_row(struct dfa *d)
{
	if ((d->n + 1) * d->width <= d->table_cap)
		return;
	d->table_cap *= 2;
	d->table = xrealloc(d->table, d->table_cap * sizeof(*d->table));
}

static void room_for_list(struct dfa *d, size_t n)
{
	while (d->lists_n + n > d->lists_cap) {
		d->lists_cap *= 2;
		d->lists = xrealloc(d->lists, d->lists_cap * sizeof(*d->lists));
	}
}

static uint32_t dfa_hash_of(const uint16_t *list, size_t n, uint8_t before)
{
	uint32_t h = 2166136261u + before;
	for (size_t i = 0; i < n; i++)
		h = (h ^ list[i]) * 16777619u;
	return h ^ (h >> 15);
}

static bool is_state(const struct dfa *d, size_t number, uint8_t before)
{
	const struct state *s = &d->state[number];
	return s->before == before && s->n == d->next_n &&
	       memcmp(d->lists + s->list, d->next, d->next_n * sizeof(*d->next)) == 0;
}

/* The row of the state whose list is d->next. */
static uint32_t intern(struct dfa *d, enum neighbour neighbour)
{
	uint8_t before = (uint8_t)neighbour;
	if (d->next_n == 0)
		return 0;
	if (d->n >= d->states_max || (d->lists_n && d->lists_n + d->next_n > LISTS_MAX))
		dfa_forget(d);
	size_t slot = dfa_hash_of(d->next, d->next_n, before) % SLOTS;
	for (; d->hash[slot]; slot = (slot + 1) % SLOTS) {
		if (is_state(d, d->hash[slot] - 1u, before))
			return (d->hash[slot] - 1u) * d->width;
	}
	room_for_row(d);
	room_for_list(d, d->next_n);
	d->hash[slot] = (uint16_t)(d->n + 1);
	d->state[d->n] = (struct state){ (uint32_t)d->lists_n, (uint16_t)d->next_n, before };
	memcpy(d->lists + d->lists_n, d->next, d->next_n * sizeof(*d->next));
	d->lists_n += d->next_n;
	uint32_t row = (uint32_t)(d->n++ * d->width);
	for (size_t i = 0; i < d->width; i++)
		d->table[row + i] = UNKNOWN;
	return row;
}

static void watch_clock(struct dfa *d)
{
	if (d->run->steps - d->looked_at < PATIENCE)
		return;
	d->looked_at = d->run->steps;
	d->late = clock_ms() > d->run->deadline_ms;
}

/* Makes the entry of a row for a class. */
static uint32_t make_entry(struct dfa *d, uint32_t row, uint32_t class)
{
	const struct program *p = d->p;
	size_t number = row / d->width;
	struct state from = d->state[number];
	struct step s = { .edge = class > p->n_classes };
	s.rune = s.edge ? 0 : p->sample[class];
	enum neighbour next = s.edge ? AT_EDGE : neighbour_of(s.rune);
	s.before = p->backwards ? next : (enum neighbour)from.before;
	s.after = p->backwards ? (enum neighbour)from.before : next;
	d->next_n = 0;
	d->stamp++;
	for (size_t i = 0; i < from.n; i++) {
		if (dfa_follow(d, &s, d->lists[from.list + i]))
			break;
	}
	if (p->semantics != FIRST)
		sort_list(d->next, d->next_n);
	size_t states = d->n;
	uint32_t entry = intern(d, remembered(p, next));
	if (entry == 0)
		entry |= SPECIAL;
	if (s.matched)
		entry |= SPECIAL | MATCHED;
	if (d->n >= states) /* the table was not cleared: the row still exists */
		d->table[row + class] = entry;
	watch_clock(d);
	return entry;
}

/* ---- texts ---- */

static uint32_t dfa_begin(struct dfa *d, enum neighbour before)
{
	d->next[0] = (uint16_t)d->p->start;
	d->next_n = 1;
	return intern(d, remembered(d->p, before));
}

static inline uint32_t dfa_entry_of(struct dfa *d, uint32_t row, uint32_t class)
{
	uint32_t entry = d->table[row + class];
	return entry == UNKNOWN ? make_entry(d, row, class) : entry;
}

struct place_in_text {
	size_t at;
	uint32_t row;
	bool found;
	size_t match; /* the end of the match; backwards, its start */
};

/* Runs through the complete characters of a piece of text.  true: the search is complete. */
static bool piece_forwards(struct dfa *d, struct place_in_text *at, struct span piece, size_t from)
{
	const unsigned char *p = (const unsigned char *)piece.p + (at->at - from);
	const unsigned char *end = (const unsigned char *)piece.p + piece.n;
	const unsigned char *safe = from + piece.n == d->run->text->size ? end : end - 3;
	const uint16_t *byte_class = d->p->byte_class;
	uint32_t row = at->row;
	bool done = false;
	while (p < safe) {
		uint32_t entry = d->table[row + byte_class[*p]];
		if (!(entry & SPECIAL)) {
			row = entry;
			p++;
			continue;
		}
		uint32_t class = byte_class[*p];
		unsigned width = 1;
		if (class == 0)
			class = program_class(d->p, utf8_decode(p, (size_t)(end - p), &width));
		entry = dfa_entry_of(d, row, class);
		if (entry & MATCHED) {
			at->found = true;
			at->match = from + (size_t)(p - (const unsigned char *)piece.p);
		}
		p += width;
		row = entry & ROW;
		if (row == 0 || d->late) {
			done = true;
			break;
		}
	}
	at->at = from + (size_t)(p - (const unsigned char *)piece.p);
	at->row = row;
	return done;
}

static bool past_deadline(struct run *r)
{
	return clock_ms() > r->deadline_ms;
}

static enum regex_found dfa_verdict(const struct dfa *d, const struct place_in_text *at)
{
	if (d->late)
		return REGEX_LATE;
	return at->found ? REGEX_FOUND : REGEX_NONE;
}

enum regex_found run_forwards(const struct program *p, struct run *r, size_t *end)
{
	struct dfa d;
	dfa_init(&d, p, r);
	struct place_in_text at = { .row = dfa_begin(&d, AT_EDGE) };
	bool done = false;
	while (at.at < r->text->size && !done && !d.late) {
		struct span piece = r->text->read(r->text, at.at);
		done = piece_forwards(&d, &at, piece, at.at);
		d.late = d.late || past_deadline(r);
	}
	if (!done && !d.late && (dfa_entry_of(&d, at.row, p->n_classes + 1u) & MATCHED)) {
		at.found = true;
		at.match = r->text->size;
	}
	enum regex_found found = dfa_verdict(&d, &at);
	if (found == REGEX_FOUND)
		*end = at.match;
	dfa_done(&d);
	return found;
}

/* The same backwards: the piece begins at `from` and contains at->at. */
static bool piece_backwards(struct dfa *d, struct place_in_text *at, struct span piece, size_t from)
{
	const unsigned char *begin = (const unsigned char *)piece.p;
	const unsigned char *p = begin + (at->at - from);
	const unsigned char *safe = from == 0 ? begin : begin + 3;
	bool done = false;
	while (p > safe && !done) {
		unsigned width = 1;
		uint32_t class = d->p->byte_class[p[-1]];
		if (class == 0)
			class = program_class(d->p,
			                      utf8_decode_last(begin, (size_t)(p - begin), &width));
		uint32_t entry = dfa_entry_of(d, at->row, class);
		if (entry & MATCHED) {
			at->found = true;
			at->match = from + (size_t)(p - begin);
		}
		p -= width;
		at->row = entry & ROW;
		done = at->row == 0 || d->late;
	}
	at->at = from + (size_t)(p - begin);
	return done;
}

/* The neighbour after a position. */
static enum neighbour dfa_behind(struct text *t, size_t at)
{
	if (at == t->size)
		return AT_EDGE;
	struct span s = t->read(t, at);
	unsigned width;
	return neighbour_of(utf8_decode((const unsigned char *)s.p, s.n, &width));
}

enum regex_found run_backwards(const struct program *p, struct run *r, size_t end, size_t *start)
{
	struct dfa d;
	dfa_init(&d, p, r);
	struct place_in_text at = { .at = end, .row = dfa_begin(&d, dfa_behind(r->text, end)) };
	bool done = false;
	while (at.at > 0 && !done && !d.late) {
		size_t from = at.at > r->text->window ? at.at - r->text->window : 0;
		struct span piece = r->text->read(r->text, from);
		done = piece_backwards(&d, &at, piece, from);
		d.late = d.late || past_deadline(r);
	}
	if (!done && !d.late && (dfa_entry_of(&d, at.row, p->n_classes + 1u) & MATCHED)) {
		at.found = true;
		at.match = 0;
	}
	enum regex_found found = dfa_verdict(&d, &at);
	if (found == REGEX_FOUND)
		*start = at.match;
	dfa_done(&d);
	return found;
}
