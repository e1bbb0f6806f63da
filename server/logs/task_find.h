#pragma once
/* One task in the document of a Framework, as its status has it.  Pure; any thread. */
#include "k8s/cache/job_entry.h"

struct task_found {
	int64_t attempt;     /* of the job, the latest */
	int64_t retry;       /* the latest attempt of the task */
	const char *pod_uid; /* of that; "" if it has none yet */
	bool runs;           /* by the status its pod is there */
};

/* The task of this role and index, with texts in the arena.  false: there is none, or none yet. */
bool task_find(struct span doc, struct span role, struct span index, struct arena *a,
               struct task_found *out);
