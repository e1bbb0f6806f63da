#pragma once
/* What was just made is known at once, on all loops: the next request may ask for it, and the watch
 * (follow.h) may be later. */
#include "base/object.h"
#include "k8s/submit/submission.h"
#include "server/server.h"

void submit_note(const struct server *s, const struct object *framework,
                 const struct submission_made *made);
