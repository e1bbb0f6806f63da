/*
 * The first line of the input is YAML, the value of $parameters; the rest is a text with
 * placeholders.  It renders to the same twice, keeps what it cannot fill in, and leaves
 * text without tags alone.
 */
#include "tests/fuzz/fuzz.h"
#include "translate/reader/placeholders.h"

enum { OUT_MAX = 1 << 20 };

static void check(struct render *r, struct span text, int failed, struct span out)
{
	if (failed) {
		assert(r->problem && *r->problem && r->problem_at < text.n);
		return;
	}
	assert(!r->problem);
	if (span_find(text, 0, "<%") == SIZE_MAX)
		assert(span_eq(out, text) && r->n_unresolved == 0);
	for (size_t i = 0; i < r->n_unresolved && i < UNRESOLVED_MAX; i++) {
		const struct unresolved *u = &r->unresolved[i];
		assert(u->tag.p >= text.p && u->tag.p + u->tag.n <= text.p + text.n);
		assert(u->tag.n == 0 || memmem(out.p, out.n, u->tag.p, u->tag.n));
	}
}

FUZZ(all)
{
	size_t line = span_find(all, 0, "\n");
	if (line == SIZE_MAX)
		return;
	struct span text = { all.p + line + 1, all.n - line - 1 };
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc = { 0 };
	if (doc_read((struct span){ all.p, line }, &BUDGET_DEFAULT, &a, &doc, NULL, &e))
		return;
	struct root root = { "$parameters", &doc.root };
	struct render r = { .roots = &root, .n_roots = 1 };
	STR_AUTO one = STR_INIT(OUT_MAX);
	STR_AUTO two = STR_INIT(OUT_MAX);
	int failed = render_text(&r, text, &one);
	if (!one.full)
		check(&r, text, failed, str_view(&one));
	r.lookups = 0;
	assert(render_text(&r, text, &two) == failed);
	assert(span_eq(str_view(&one), str_view(&two)));
	(void)render_only_name(text); /* whatever it says, it must not crash */
}
