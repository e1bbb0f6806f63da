#pragma once
/*
 * A search that goes back: it runs the programs of regex.c one thread after another, in order of
 * preference, and never enters a state twice.  Tests compare its results with those of regex.c,
 * which runs all threads at once.
 */
#include <stdlib.h>

#include "base/enc.h"
#include "base/regex/regex_internal.h"

/* Text of which no more than nine bytes are in memory. */
struct narrow {
	struct regex_text text;
	struct span span;
	char window[9];
};

static struct span narrow_read(struct regex_text *t, size_t from)
{
	struct narrow *n = (struct narrow *)t;
	size_t size = n->span.n - from < t->window ? n->span.n - from : t->window;
	memcpy(n->window, n->span.p + from, size);
	return (struct span){ n->window, size };
}

static struct narrow narrow_of(struct span text)
{
	return (struct narrow){
		.text = { text.n, sizeof(((struct narrow *)0)->window), narrow_read }, .span = text
	};
}

struct back_state {
	size_t pc, at;
};

struct back {
	const struct regex *re;
	struct span text;
	bool *seen; /* by position and instruction */
	struct back_state *todo;
	size_t n, cap;
};

static void back_push(struct back *b, size_t pc, size_t at)
{
	if (b->n == b->cap) {
		b->cap = b->cap ? 2 * b->cap : 64;
		b->todo = xrealloc(b->todo, b->cap * sizeof(*b->todo));
	}
	b->todo[b->n++] = (struct back_state){ pc, at };
}

static bool back_word(const struct back *b, size_t at)
{
	return at < b->text.n && rune_is_word((unsigned char)b->text.p[at]);
}

static bool back_holds(const struct back *b, enum assertion what, size_t at)
{
	bool begin = at == 0;
	bool end = at == b->text.n;
	bool edge = back_word(b, at) != (!begin && back_word(b, at - 1));
	bool holds[] = { [BEGIN_TEXT] = begin,
		         [END_TEXT] = end,
		         [BEGIN_LINE] = begin || b->text.p[at - 1] == '\n',
		         [END_LINE] = end || b->text.p[at] == '\n',
		         [WORD_EDGE] = edge,
		         [NO_WORD_EDGE] = !edge };
	return holds[what];
}

/* The end of the match that begins at `from`, or SIZE_MAX. */
static size_t back_from(struct back *b, size_t from)
{
	for (back_push(b, 0, from); b->n;) {
		struct back_state s = b->todo[--b->n];
		const struct inst *in = &b->re->inst[s.pc];
		bool *seen = &b->seen[s.at * b->re->n + s.pc];
		unsigned width;
		if (*seen)
			continue;
		*seen = true;
		if (in->op == OP_MATCH)
			return s.at;
		if (in->op == OP_SPLIT)
			back_push(b, s.pc + in->y, s.at);
		if (in->op == OP_SET) {
			if (s.at == b->text.n ||
			    !runes_has(in->set, utf8_decode((const unsigned char *)b->text.p + s.at,
			                                    b->text.n - s.at, &width)))
				continue;
			s.at += width;
		}
		if (in->op != OP_ASSERT || back_holds(b, (enum assertion)in->assertion, s.at))
			back_push(b, s.pc + in->x, s.at);
	}
	return SIZE_MAX;
}

static enum regex_found back_search(const struct regex *re, struct span text, struct match *m)
{
	struct back b = { .re = re, .text = text };
	b.seen = xcalloc((text.n + 1) * re->n, sizeof(*b.seen));
	size_t end = SIZE_MAX;
	unsigned width;
	for (size_t at = 0; at <= text.n && end == SIZE_MAX; at += width) {
		width = 1;
		end = back_from(&b, at);
		if (end != SIZE_MAX)
			*m = (struct match){ at, end };
		else if (at < text.n)
			(void)utf8_decode((const unsigned char *)text.p + at, text.n - at, &width);
	}
	free(b.seen);
	free(b.todo);
	return end == SIZE_MAX ? REGEX_NONE : REGEX_FOUND;
}
