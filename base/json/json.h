#pragma once
/* JSON with positions, into the same tree as YAML.  Strict RFC 8259, but for
 * comments (line and block) between tokens, which are reported as a warning. */
#include "base/tree.h"

/* See doc_read.  The text must be UTF-8.  *syntax is set if the text is no JSON at
 * all (so that YAML may be tried), and left false for what JSON forbids us to
 * take in any syntax: duplicate keys, NUL, lone surrogates, budgets. */
int json_read(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
              struct notes *warnings, bool *syntax, struct err *e);
