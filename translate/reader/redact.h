#pragma once
/*
 * Jobs without their secrets.  Pure.
 *
 * Thread: any
 */
#include "base/doc/tree.h"

#define REDACTED "******"

/*
 * The job as all users may read it: `root`, or, if there are secrets, a copy in the arena with
 * REDACTED in their places, which shares the other values.  *shared: the place of the first secret
 * that has an anchor or comes from an alias, so that other parts of the job may show it; `at` is
 * NULL if there is none.
 */
const struct node *redact_tree(const struct node *root, struct arena *a, struct place *shared);
