#pragma once
/* What people probably meant.  For translate/ only. */
#include "translate/reading.h"
#include "translate/render.h"

/* A placeholder's name that leads somewhere and is nearly the same; p is NULL if there is none.
 * Lives in the arena. */
struct span hint_placeholder(struct render *r, struct arena *a, struct span name);

/* Warn of members of an open mapping (anything may stand there) that look like one of those
 * that are known.  p leads to the mapping; `known` ends with NULL. */
extern const char *const EXTRAS_KNOWN[]; /* members of `extras` that something is made of */
void hint_members(struct reading *r, const struct path *p, const struct node *map,
                  const char *const *known);
