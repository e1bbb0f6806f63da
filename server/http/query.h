#pragma once
/* The query of a request: what follows the `?`. */
#include <stdbool.h>

#include "base/arena.h"

/*
 * Take the next parameter off *rest; false at the end.  Name and value are decoded, once (`+` is a
 * blank; a broken escape stays as it is), and live in the arena; they may hold any byte.  value->p
 * is NULL if there is no `=`.
 */
bool query_next(struct span *rest, struct arena *a, struct span *name, struct span *value);
/* The first parameter of this name, as query_next has it; false if there is none. */
bool query_find(struct span query, const char *name, struct arena *a, struct span *value);
