#pragma once
/* "Did you mean ...?"  Also for a query that looks like another one. */
#include "base/str.h"

/* How many letters must be inserted, deleted, replaced or swapped with their
 * neighbour to turn a into b; `limit` + 1 if more than limit.  Case counts half:
 * returned are halves of such steps. */
unsigned edit_distance(struct span a, struct span b, unsigned limit);

/* The largest distance at which a key of n bytes is taken for a misspelt one. */
unsigned edit_limit(size_t n);

/* The candidate that was probably meant by a name, which may also be its beginning only: best is
 * NULL if none is near. */
struct guess {
	struct span name;
	const char *best;
	unsigned distance;
};
void guess_try(struct guess *g, const char *candidate);
