#pragma once
/*
 * Reads YAML into trees with positions, and writes it; doc_read (tree.h) also takes JSON.  libyaml
 * parses; yaml.c builds the tree from its events, yaml_parser.c prepares the text and explains
 * syntax errors, yaml_scalar.c has the scalar rules of js-yaml 3.13.
 *
 *	struct doc doc;
 *	if (yaml_read(text, &BUDGET_DEFAULT, a, &doc, warnings, e) < 0)
 *		return -1;
 *	STR_AUTO out = STR_INIT(1 << 20);
 *	yaml_write(&out, &doc.root);
 *
 * Trees live in the arena.  Errors are 400 with line and column.  Pure.
 *
 * Thread: any
 */
#include "base/doc/tree.h"

/* See doc_read.  The text must be UTF-8.  doc->syntax is set if it is not YAML at all, and left
 * false for YAML that is refused: budgets, duplicate keys, unknown aliases, tags. */
int yaml_read(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
              struct notes *warnings, struct err *e);

/* Resolves an untagged, unquoted scalar as js-yaml 3.13 does; sets type, value and spelling. */
void yaml_resolve_plain(struct node *n, struct span text, struct arena *a);

/*
 * Writes a tree as a YAML document in block style, from which js-yaml, PyYAML (YAML 1.1) and
 * YAML 1.2 readers get the same values: ambiguous text is quoted, text of several lines is a
 * literal block. Ends with a newline.
 */
void yaml_write(struct str *out, const struct node *n);
