/* Regular expressions: the door, see regex.h. */
#include "base/regex/regex.h"

#include <assert.h>

#include "base/regex/regex_inner.h"

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

/* Where the match that ends there begins. */
static enum regex_found find_start(const struct regex *re, struct run *r, struct match *m)
{
	ARENA_AUTO a = { 0 };
	/* It is no larger than the one forwards. */
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
