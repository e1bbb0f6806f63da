#pragma once
/*
 * A simple, slow interpreter (Pike VM) for the programs of regex.c.  Tests compare its results with
 * those of the automata.
 */
#include <stdlib.h>

#include "base/enc.h"
#include "base/regex/regex_internal.h"

struct pike_list {
	uint16_t *pc;
	size_t *start;
	size_t n;
	bool *in;
};

struct pike {
	const struct program *p;
	struct pike_list now, next;
	enum neighbour before, after;
	size_t at;
	bool found;
	struct match best;
};

static void pike_list_init(struct pike_list *l, size_t n)
{
	l->pc = xcalloc(n, sizeof(*l->pc));
	l->start = xcalloc(n, sizeof(*l->start));
	l->in = xcalloc(n, sizeof(*l->in));
	l->n = 0;
}

static void pike_list_done(struct pike_list *l)
{
	free(l->pc);
	free(l->start);
	free(l->in);
}

/* Follow the instructions that consume no character, in order of preference.  `start` is SIZE_MAX
 * while a thread is in the leading search loop. */
static void pike_add(struct pike *k, uint16_t pc, size_t start)
{
	const struct inst *in = &k->p->inst[pc];
	if (k->now.in[pc])
		return;
	k->now.in[pc] = true;
	if (in->op == OP_SPLIT) {
		bool search = pc == k->p->start;
		pike_add(k, in->x, search ? k->at : start);
		pike_add(k, in->y, start);
	} else if (in->op == OP_ASSERT) {
		if (assertion_holds((enum assertion)in->arg, k->before, k->after))
			pike_add(k, in->x, start);
	} else {
		k->now.pc[k->now.n] = pc;
		k->now.start[k->now.n++] = start;
	}
}

/* Advance all threads by one character, or to the end of the text. */
static void pike_step(struct pike *k, bool edge, uint32_t rune)
{
	struct pike_list waiting = k->next;
	k->next = k->now;
	k->now = waiting;
	size_t n = k->now.n;
	uint16_t *pc = xcalloc(n + 1, sizeof(*pc));
	size_t *start = xcalloc(n + 1, sizeof(*start));
	memcpy(pc, k->now.pc, n * sizeof(*pc));
	memcpy(start, k->now.start, n * sizeof(*start));
	k->now.n = 0;
	memset(k->now.in, 0, k->p->n);
	for (size_t i = 0; i < n; i++)
		pike_add(k, pc[i], start[i]);
	free(pc);
	free(start);
	k->next.n = 0;
	for (size_t i = 0; i < k->now.n; i++) {
		const struct inst *in = &k->p->inst[k->now.pc[i]];
		if (in->op == OP_MATCH) {
			k->found = true;
			k->best = (struct match){ k->now.start[i], k->at };
			break;
		}
		if (!edge && runes_has(&k->p->sets[in->arg], rune)) {
			k->next.pc[k->next.n] = in->x;
			k->next.start[k->next.n++] = k->now.start[i];
		}
	}
}

static enum regex_found pike_search(const struct program *p, struct span text, struct match *m)
{
	struct pike k = { .p = p, .before = AT_EDGE };
	pike_list_init(&k.now, p->n);
	pike_list_init(&k.next, p->n);
	k.next.pc[0] = (uint16_t)p->start;
	k.next.start[0] = SIZE_MAX;
	k.next.n = 1;
	for (bool edge = false; !edge && k.next.n;) {
		unsigned width = 0;
		uint32_t rune = 0;
		edge = k.at >= text.n;
		if (!edge)
			rune = utf8_decode((const unsigned char *)text.p + k.at, text.n - k.at,
			                   &width);
		k.after = edge ? AT_EDGE : neighbour_of(rune);
		pike_step(&k, edge, rune);
		k.before = k.after;
		k.at += width;
	}
	pike_list_done(&k.now);
	pike_list_done(&k.next);
	if (k.found)
		*m = k.best;
	return k.found ? REGEX_FOUND : REGEX_NONE;
}
