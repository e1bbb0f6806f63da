#include "tests/lib/secrets.h"

#include "base/doc/tree.h"

enum { RECOGNISABLE = 6, OUTSIDE_MAX = 16 << 20 };

static bool contains(struct span text, const struct node *n)
{
	return memmem(text.p, text.n, n->text, n->n) != NULL;
}

static unsigned search(const struct node *n, struct span outside, struct span out)
{
	unsigned line = 0;
	if (node_is(n, NODE_MAP)) {
		for (uint32_t i = 0; i < n->n && !line; i++)
			line = search(&n->member[i].value, outside, out);
	} else if (node_is(n, NODE_LIST)) {
		for (uint32_t i = 0; i < n->n && !line; i++)
			line = search(&n->item[i], outside, out);
	} else if (node_is(n, NODE_TEXT) && n->n >= RECOGNISABLE && contains(out, n) &&
	           !contains(outside, n)) {
		line = n->line;
	}
	return line;
}

unsigned secret_found(struct span job, struct span out)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct doc doc = { 0 };
	if (doc_read(job, &BUDGET_DEFAULT, &a, &doc, &warnings, &e))
		return 0;
	const struct node *secrets = node_get(&doc.root, "secrets");
	if (!secrets)
		return 0;
	STR_AUTO outside = STR_INIT(OUTSIDE_MAX);
	struct span cut = doc.secrets;
	if (cut.n) {
		str_put(&outside, job.p, (size_t)(cut.p - job.p));
		str_put(&outside, cut.p + cut.n,
		        (size_t)(job.p + job.n - cut.p - (ptrdiff_t)cut.n));
	}
	return search(secrets, str_view(&outside), out);
}
