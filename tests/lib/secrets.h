#pragma once
/* Does a text show a secret of a job, and does the stored job say the same but for them? */
#include "base/str.h"

/*
 * The line of a value below the job's `secrets` that occurs in `out`; 0 if none occurs.  Values
 * shorter than six bytes and values that also occur elsewhere in the job are ignored.
 */
unsigned secret_found(struct span job, struct span out);

/* NULL, or a difference between the values of a job and those that are stored of it, other than
 * hidden secrets. */
const char *stored_fault(struct span job, struct span stored);
