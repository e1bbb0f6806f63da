#pragma once
/* A job as it was submitted, for whoever may see it. */
#include "base/arena.h"
#include "base/str.h"

/*
 * The text of an annotation `config` (YAML or JSON, which whoever stored it has or has not masked)
 * as JSON: `secrets`, and what stands literally in `auth` of prerequisites, is "******".  Appends.
 * false: it is no job.  Pure.
 */
bool config_json(struct str *out, struct span text, struct arena *a);
