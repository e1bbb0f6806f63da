#pragma once
/*
 * Placeholders in commands and registry logins: `<% $parameters.batch[0] %>`.
 *
 * A name is looked up once; what it gives is not looked at again.  What is not
 * found stays exactly as written.  The other tags of the language that OpenPAI used
 * (Mustache) do what they did there, nothing: comments, partials, `&` and `{` tags
 * vanish, sections with all that is in them.  Changing the delimiters is refused.
 *
 * Time is linear in the text, whatever the tags say: see LOOKUPS_MAX.
 */
#include "base/arena.h"
#include "base/tree.h"

/* A name that may stand first in a placeholder: `$parameters`. */
struct root {
	const char *name;
	const struct node *value; /* NULL: not there */
};

/* Members compared for one document; beyond, render fails.  Some 50 ms. */
enum { LOOKUPS_MAX = 20000000, UNRESOLVED_MAX = 8 };

enum render_problem {
	RENDER_OK,
	RENDER_UNCLOSED,  /* `<%` without `%>` */
	RENDER_DELIMITER, /* `<%= ... =%>` */
	RENDER_SECTION,   /* a section that is not opened or not closed, or not in order */
	RENDER_LOOKUPS    /* too many look-ups */
};

/* A placeholder that was kept as written. */
struct unresolved {
	struct span tag;  /* within the text: "<% $parameters.x %>" */
	struct span name; /* "$parameters.x" */
};

/* What happened.  Start with { .roots = ..., .n_roots = ... }; reused from text to text. */
struct render {
	const struct root *roots;
	size_t n_roots;
	struct render *later; /* NULL, or: what its names lead to is filled in later */
	size_t lookups;       /* spent so far */
	/* of the last text: */
	enum render_problem problem;
	size_t problem_at;                            /* offset of the tag */
	struct unresolved unresolved[UNRESOLVED_MAX]; /* the first ones */
	size_t n_unresolved;                          /* of all */
	struct span taken_out; /* the first tag that vanished and was no comment; n is 0 if none */
	struct span inner;     /* the first placeholder whose value has one that nobody fills in */
};

/* Append the text with its placeholders filled in.  -1 if r->problem is set. */
int render_text(struct render *r, struct span text, struct str *out);

/* A placeholder that is the whole text, but for white space?  Its name, else n is 0. */
struct span render_only_name(struct span text);

/* What to tell people about a problem. */
const char *render_problem_text(enum render_problem p);

/* The value that a name leads to, or NULL (also for the length of a text, which is no node). */
const struct node *render_find(struct render *r, struct span name);
