#pragma once
/* YAML with positions, by the events of libyaml; the scalar rules of js-yaml 3.13. */
#include "base/tree.h"

/* See doc_read.  The text must be UTF-8. */
int yaml_read(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
              struct notes *warnings, struct err *e);

/* The same; *syntax is set if the text is no YAML at all, and left false for YAML that
 * may not be: budgets, duplicate keys, unknown aliases, tags. */
int yaml_try(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
             struct notes *warnings, bool *syntax, struct err *e);

/* Values of a document that others are not to see. */
struct hidden {
	const struct node *const *v; /* in the order of the text */
	size_t n;
	const char *as; /* what stands in their place, in quotes */
};

/*
 * Is the text surely the document that was read before, but for those values?  Much faster
 * than to read it again: only where the answer is "perhaps not" (as to all with anchors or
 * tags) one must do that.  The tree must come from YAML; the arena gets little.
 */
bool yaml_same(struct span text, const struct node *was, const struct hidden *hidden,
               struct arena *a);

/* Resolve a plain scalar (untagged, unquoted) as js-yaml 3.13 does; sets type, value and
 * spelling. */
void yaml_resolve_plain(struct node *n, struct span text, struct arena *a);

/*
 * Write a tree as a YAML document in block style, such that js-yaml, PyYAML (YAML 1.1)
 * and YAML 1.2 readers all get the same values back: text that any of them would
 * read as something else is quoted; text of several lines is a literal block.
 * Ends in a newline.
 */
void yaml_write(struct str *out, const struct node *n);
