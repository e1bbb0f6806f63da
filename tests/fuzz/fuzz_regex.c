/*
 * Any pattern (the first line) on any text (the rest): a search finds what a search finds that goes
 * back, also when the text comes in pieces; and where there is a match, the literal text that it
 * demands was seen.
 */
#include "runtime-assets/net/http.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/backtrack.h"

enum { SOON_MS = 60000, TEXT_MAX = 4096, SLOW_PROGRAM = 2000 };

static bool same(enum regex_found a, const struct match *x, enum regex_found b,
                 const struct match *y)
{
	return a == b && (a != REGEX_FOUND || (x->start == y->start && x->end == y->end));
}

static void check_search(struct regex *re, struct span text, struct arena *a)
{
	struct text_span whole;
	struct narrow pieces = narrow_of(text);
	struct match m = { 0 };
	struct match n = { 0 };
	bool possible = false;
	regex_text_of(&whole, text);
	enum regex_found found = regex_search(re, &whole.text, clock_ms() + SOON_MS, &m);
	assert(found != REGEX_FOUND || (m.start <= m.end && m.end <= text.n));
	enum regex_found in_pieces = regex_search(re, &pieces.text, clock_ms() + SOON_MS, &n);
	assert(same(found, &m, in_pieces, &n));
	if (re->n <= SLOW_PROGRAM) {
		enum regex_found back = back_search(re, text, &n);
		assert(same(found, &m, back, &n));
	}
	const struct regex_set *set = regex_set_new(&re, 1, a);
	(void)regex_set_scan(set, &whole.text, clock_ms() + SOON_MS, &possible);
	assert(possible || found == REGEX_NONE);
}

FUZZ(all)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct span text = all;
	struct span pattern = span_next(&text, '\n');
	if (text.n > TEXT_MAX)
		return;
	struct regex *re = regex_compile(pattern, &a, &e);
	assert((re == NULL) == (e.notes.n > 0));
	if (!re)
		return;
	check_search(re, text, &a);
}
