#pragma once
/*
 * Kubernetes rewrites the value of an environment variable: `$$` becomes `$`, and
 * `$(NAME)` the value of NAME.  So that a program sees what its author wrote, a run
 * of n dollars becomes 2n where n > 1 or `(` follows, and stays as it is otherwise.
 */
#include "base/arena.h"

/* The text as it must stand in an env value; the very same span if nothing changes. */
struct span dollar_escape(struct arena *a, struct span t);
/* Its length, without making it. */
size_t dollar_escaped_size(struct span t);
