#pragma once
/* Does a text show a secret of a job? */
#include "base/str.h"

/*
 * The line of a value below the job's `secrets` that occurs in `out`; 0 if none occurs.  Values
 * shorter than six bytes and values that also occur elsewhere in the job are ignored.
 */
unsigned secret_found(struct span job, struct span out);
