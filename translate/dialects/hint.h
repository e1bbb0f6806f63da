#pragma once
/* What people probably meant.  For translate/ only. */
#include "translate/dialects/reading.h"
#include "translate/dialects/render.h"

/* A placeholder's name that leads somewhere and is nearly the same; p is NULL if there is none.
 * Lives in the arena. */
struct span hint_placeholder(struct render *r, struct arena *a, struct span name);

/* Warn of members of an open mapping (anything may stand there) that look like one of those
 * that are known.  p leads to the mapping; `known` ends with NULL. */
extern const char *const EXTRAS_KNOWN[]; /* members of `extras` that something is made of */
void hint_members(struct reading *r, const struct path *p, const struct node *map,
                  const char *const *known);

/* The nearest name among the keys of a mapping, or the members `name` of a list (of those of that
 * type, if it is not NULL); n is 0 if none is near, or nobody would hear of it any more. */
struct span hint_name(const struct reading *r, const struct node *all, const char *type,
                      struct span wanted);
/* Is there no such member in the document, but one that is called nearly so? */
bool hint_misspelt(const struct reading *r, const char *key);
/* Keys of v1 jobs in a v2 job (or, with a path, in its role): what they are called there. */
void hint_old_keys(struct reading *r, const struct path *role, const struct node *map);
/* Names of roles below `p`, a list or a mapping, that the job does not have. */
void hint_roles(struct reading *r, const struct path *p, const struct node *names);
