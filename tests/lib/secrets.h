#pragma once
/* Does a text show a secret of a job? */
#include "base/str.h"

/*
 * The line of a value below the job's `secrets` that occurs in `out`, 0 if none does.  Texts of
 * less than six bytes, and those that stand elsewhere in the job as well, do not count.
 */
unsigned secret_found(struct span job, struct span out);
