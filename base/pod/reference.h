#pragma once
/*
 * References into a document, `$word.key[0]`, as commands and plugins have them in `<% %>`: the
 * server, which fills in most of them, and pai-runtime must read them in the same way.  Pure.
 *
 * Thread: any
 */
#include "base/doc/tree.h"

/* Removes the first part of a name: `a.b[0].c` has the parts a, b, 0, c.  `x[0]y` is invalid; its
 * second part is "". */
struct span reference_part(struct span *name);
/* The member of a map, or the item of a list by its index, a decimal without zeros in front; NULL
 * if there is none. */
const struct node *reference_child(const struct node *n, struct span part);
