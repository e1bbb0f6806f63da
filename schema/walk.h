#pragma once
/*
 * Checking a document: the walk through rules and values, and how violations are
 * reported.  For schema/ only.
 */
#include "schema/rule.h"

struct walk {
	struct err *e;
	const char *code;
	const char *const *secret;
	const struct node *root;
	struct arena *arena; /* of the places */
	bool quiet; /* only the verdict is wanted: stop at the first violation, report nothing */
	bool lost;  /* the schema leads in circles: the document is refused, no more is reported */
	unsigned depth;
};

/* Check a value against a rule; `at` is NULL for the root.  false: violated, and
 * reported unless w->quiet. */
bool rule_check(struct walk *w, const struct rule *r, const struct node *n, const struct path *at);
/* Only the verdict. */
bool rule_accepts(struct walk *w, const struct rule *r, const struct node *n,
                  const struct path *at);

/* What a rule says about members (map) and items (list). */
bool members_check(struct walk *w, const struct members *m, const struct node *map,
                   const struct path *at);

/* Nobody will read the next violation: only the verdict is wanted, the schema leads in
 * circles, or the notes are full, and then it is counted.  Look here before making up a sentence.
 */
bool walk_is_mute(struct walk *w);
/* Report one violation at a value, at a member's key; always false. */
bool walk_fail(struct walk *w, const struct node *n, const struct path *at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool walk_fail_key(struct walk *w, const struct member *m, const struct path *map, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));
/* The type is not among those allowed. */
bool walk_fail_type(struct walk *w, const struct rule *r, const struct node *n,
                    const struct path *at);
/* The value is none of those allowed. */
bool walk_fail_values(struct walk *w, const struct test *t, const struct node *n,
                      const struct path *at);

/* The value as it may be shown: `"abc"`, `5`, `a list`; never a hidden one. */
void value_text(struct str *out, const struct walk *w, const struct node *n, const struct path *at);

enum { SENTENCE_MAX = 600 };
