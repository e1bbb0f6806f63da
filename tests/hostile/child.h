#pragma once
/* Jobs in another process, so that time and memory can be measured and bounded, and so that a job
 * that kills the process is a result like others. */
#include <jansson.h>

#include "tests/lib/setting.h"

struct measured {
	json_t *outcome; /* NULL if the process died */
	int signal;      /* that killed it, or 0 */
	double cpu_s;
	long peak_kb; /* of the whole process, earlier jobs and the test program included */
};

/* One job, in a process that some dozens of jobs share: under sanitizers a fork takes longer than a
 * job. */
struct measured child_run(const struct setting *s, struct span text);

/* End the process.  The next job, which may be in another setting, gets a new one. */
void child_end(void);
