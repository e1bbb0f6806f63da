#pragma once
/*
 * Placeholders in commands and registry logins: `<% $parameters.batch[0] %>`. A name is looked up
 * once; placeholders in its value stay. An unknown name stays as written. Other tags of Mustache,
 * which OpenPAI used, do nothing, as there: comments, partials, `&` and `{` tags vanish, sections
 * with their content. Changing the delimiters is refused. Time is linear in the text, see
 * LOOKUPS_MAX.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/doc/tree.h"

/* The first name of a placeholder: `$parameters`. */
struct root {
	const char *name;
	const struct node *value; /* NULL: not there */
};

/* The limit of compared members per document, some 50 ms; beyond it, rendering fails. */
enum { LOOKUPS_MAX = 20000000, UNRESOLVED_MAX = 8 };

/* A placeholder that was kept as written. */
struct unresolved {
	struct span tag;  /* within the text: "<% $parameters.x %>" */
	struct span name; /* "$parameters.x" */
};

/* State and result. The caller initializes .roots and .n_roots; may be reused for more texts. */
struct render {
	const struct root *roots;
	size_t n_roots;
	struct render *later; /* names that are filled in later, or NULL */
	size_t lookups;
	/* result of the last text: */
	const char *problem;                          /* static text; NULL: none */
	size_t problem_at;                            /* offset of the tag */
	struct unresolved unresolved[UNRESOLVED_MAX]; /* the first ones */
	size_t n_unresolved;                          /* number of all */
	struct span taken_out; /* the first removed tag that is no comment; n is 0 if none */
	struct span inner;     /* the first placeholder whose value has a placeholder */
};

/* Appends the text with its placeholders filled in. -1 if r->problem is set. */
int render_text(struct render *r, struct span text, struct str *out);

/* The name, if the whole text is one placeholder, else n is 0. */
struct span render_only_name(struct span text);

/* The value of a name, or NULL; also NULL for the length of a text, which is no node. */
const struct node *render_find(struct render *r, struct span name);
