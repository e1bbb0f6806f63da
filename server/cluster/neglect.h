#pragma once
/* Jobs that wait because nothing in the cluster looks at them.  Pure. */
#include "k8s/cache/job_entry.h"

/* That nobody will run a job, as far as one can tell. */
enum neglect {
	NEGLECT_NONE,
	NEGLECT_DIRECTORY,  /* --standalone: objects are kept, and nothing works on them */
	NEGLECT_CONTROLLER, /* for half a minute FrameworkController has not looked at it */
};
enum { NEGLECT_MS = 30000 };
/* now_ms since 1970, in_directory: --standalone. */
enum neglect job_neglect(const struct job_entry *job, bool in_directory, int64_t now_ms);
