#pragma once
/* The recorded cases of tests/data/runtime/registry, for tests of names and of dialogues. */
#include <stdio.h>

#include "base/tree.h"
#include "tests/unit/base/cmocka.h"

#define REGISTRY_FOLDER "tests/data/runtime/registry/"

enum { FILE_LIMIT = 1 << 20 };

struct vectors {
	struct arena a;
	struct doc recorded, expected;
};

static inline void load(const char *path, struct arena *a, struct doc *doc)
{
	char *text = xmalloc(FILE_LIMIT);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(text, 1, FILE_LIMIT, f);
	(void)fclose(f); /* it was only read */
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	assert_int_equal(doc_read((struct span){ text, n }, &BUDGET_DEFAULT, a, doc, &warnings, &e),
	                 0);
	free_cleanup(&text);
}

static inline int set_up(void **state)
{
	struct vectors *v = xcalloc(1, sizeof(*v));
	load(REGISTRY_FOLDER "registry.json", &v->a, &v->recorded);
	load(REGISTRY_FOLDER "expected.json", &v->a, &v->expected);
	*state = v;
	return 0;
}

static inline int tear_down(void **state)
{
	struct vectors *v = *state;
	arena_done(&v->a);
	free_cleanup(state);
	return 0;
}

static inline struct span text_of(const struct node *n, const char *key)
{
	const struct node *t = node_get(n, key);
	return node_is(t, NODE_TEXT) ? node_span(t) : SPAN("");
}

/* The entry of this list with the same text under `key`, as it must be here; or as recorded. */
static inline const struct node *wanted(const struct vectors *v, const char *list, const char *key,
                                        const struct node *recorded)
{
	const struct node *all = node_get(&v->expected.root, list);
	for (uint32_t i = 0; i < all->n; i++) {
		if (span_eq(text_of(&all->item[i], key), text_of(recorded, key)))
			return &all->item[i];
	}
	return recorded;
}

static inline const struct node *recorded_list(const struct vectors *v, const char *name)
{
	return node_get(&v->recorded.root, name);
}

static inline void assert_text(struct span got, struct span want)
{
	if (!span_eq(got, want))
		fail_msg("\"%.*s\" instead of \"%.*s\"", (int)got.n, got.p, (int)want.n, want.p);
}
