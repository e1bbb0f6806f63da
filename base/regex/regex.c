/* Searches for regular expressions: runs their programs as nondeterministic automata. */
#include "base/regex/regex.h"

#include <stdlib.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "base/regex/regex_internal.h"

enum {
	EDGE = RUNE_MAX + 1, /* in place of a character, at both ends of the text */
	PATIENCE = 1 << 18,  /* instructions between readings of the clock */
};

/* The classes of characters that assertions distinguish. */
enum rune_kind { AT_EDGE, AT_NEWLINE, AT_WORD, AT_OTHER, RUNE_KINDS };

enum regex_prefix { UNKNOWN, NONE, SOME };

/* A match that began at `start` goes on with this instruction. */
struct thread {
	size_t start;
	const struct inst *in;
};

/* The threads after the characters read so far, in order of preference, each instruction once. */
struct pike {
	const struct regex *re;
	struct thread *now, *next;
	size_t n;              /* of `now` */
	uint32_t before, rune; /* the characters around the position */
	size_t at;             /* the position */
	uint32_t *seen, stamp; /* instructions followed at this position have its stamp */
	uint16_t *todo;        /* to be followed */
	uint64_t steps;        /* instructions followed since the last reading of the clock */
	bool found;
	struct match match;
	/* enum begins, by the kind of the character before and by the next character, if that is
	 * ASCII */
	uint8_t begins[RUNE_KINDS][128]; /* enum regex_prefix */
};

static struct span text_span_read(struct regex_text *t, size_t from)
{
	const struct text_span *s = (const struct text_span *)t;
	return (struct span){ s->span.p + from, s->span.n - from };
}

void regex_text_of(struct text_span *t, struct span span)
{
	*t = (struct text_span){ .text = { span.n, span.n, text_span_read }, .span = span };
}

static bool pike_assertion_holds(const struct pike *k, enum assertion what)
{
	bool edge = rune_is_word(k->before) != rune_is_word(k->rune);
	switch (what) {
	case BEGIN_TEXT:
		return k->before == EDGE;
	case END_TEXT:
		return k->rune == EDGE;
	case BEGIN_LINE:
		return k->before == EDGE || k->before == '\n';
	case END_LINE:
		return k->rune == EDGE || k->rune == '\n';
	case WORD_EDGE:
		return edge;
	case NO_WORD_EDGE:
		return !edge;
	}
	return false;
}

/* Follows a thread up to the instructions that consume the next character; those that can continue
 * behind it.  true: it matches here, so threads of lower preference end. */
static bool pike_follow(struct pike *k, struct thread t, size_t *n)
{
	const struct inst *in = t.in;
	for (size_t todo = 0;;) {
		uint32_t *seen = &k->seen[in - k->re->inst];
		bool first = *seen != k->stamp;
		*seen = k->stamp;
		k->steps++;
		if (first && in->op == OP_SPLIT) {
			k->todo[todo++] = (uint16_t)(in + in->y - k->re->inst);
			in += in->x;
			continue;
		}
		if (first && in->op == OP_ASSERT &&
		    pike_assertion_holds(k, (enum assertion)in->assertion)) {
			in += in->x;
			continue;
		}
		if (first && in->op == OP_MATCH) {
			k->found = true;
			k->match = (struct match){ t.start, k->at };
			return true;
		}
		if (first && in->op == OP_SET && runes_has(in->set, k->rune))
			k->next[(*n)++] = (struct thread){ t.start, in + in->x };
		if (!todo)
			return false;
		in = k->re->inst + k->todo[--todo];
	}
}

/* Returns true if a match can begin at this position.  Few characters begin one, so the answers are
 * kept. */
static bool pike_may_begin(struct pike *k)
{
	enum rune_kind before = k->before == EDGE         ? AT_EDGE
	                        : k->before == '\n'       ? AT_NEWLINE
	                        : rune_is_word(k->before) ? AT_WORD
	                                                  : AT_OTHER;
	if (k->rune > 0x7F)
		return true;
	uint8_t *begins = &k->begins[before][k->rune];
	if (*begins == UNKNOWN) {
		size_t n = 0;
		k->stamp++;
		*begins = pike_follow(k, (struct thread){ 0, k->re->inst }, &n) || n ? SOME : NONE;
		k->found = false;
	}
	return *begins == SOME;
}

/* Advances all threads by one character.  Until there is a match, one begins at each position. */
static void pike_step(struct pike *k)
{
	size_t n = 0;
	bool begin = !k->found && pike_may_begin(k);
	bool matched = false;
	k->stamp++;
	for (size_t i = 0; i < k->n && !matched; i++)
		matched = pike_follow(k, k->now[i], &n);
	if (begin && !matched)
		(void)pike_follow(k, (struct thread){ k->at, k->re->inst }, &n);
	struct thread *next = k->next;
	k->next = k->now;
	k->now = next;
	k->n = n;
}

/* Runs through the complete characters of a piece of text.  false: the deadline has passed. */
static bool pike_run(struct pike *k, const struct regex_text *t, struct span piece,
                     int64_t deadline_ms)
{
	const unsigned char *p = (const unsigned char *)piece.p;
	const unsigned char *end = p + piece.n;
	const unsigned char *safe = k->at + piece.n == t->size ? end : end - 3;
	while (p < safe && (k->n || !k->found)) {
		unsigned width = 1;
		k->rune = *p < 0x80 ? *p : utf8_decode(p, (size_t)(end - p), &width);
		pike_step(k);
		k->before = k->rune;
		k->at += width;
		p += width;
		if (k->steps > PATIENCE) {
			k->steps = 0;
			if (clock_ms() > deadline_ms)
				return false;
		}
	}
	return clock_ms() <= deadline_ms;
}

enum regex_found regex_search(const struct regex *re, struct regex_text *t, int64_t deadline_ms,
                              struct match *m)
{
	struct pike k = { .re = re, .before = EDGE };
	bool late = false;
	k.now = xmalloc(2 * re->n * sizeof(*k.now));
	k.next = k.now + re->n;
	k.todo = xmalloc((re->n + 1) * sizeof(*k.todo));
	k.seen = xcalloc(re->n, sizeof(*k.seen));
	struct thread *threads = k.now;
	while (k.at < t->size && (k.n || !k.found) && !late)
		late = !pike_run(&k, t, t->read(t, k.at), deadline_ms);
	if (!late && (k.n || !k.found)) {
		k.rune = EDGE;
		pike_step(&k);
	}
	free(threads);
	free(k.todo);
	free(k.seen);
	if (late)
		return REGEX_LATE;
	if (k.found)
		*m = k.match;
	return k.found ? REGEX_FOUND : REGEX_NONE;
}
