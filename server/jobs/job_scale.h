#pragma once
/* How many instances a task role of a job may get, and the patch that gives them.  Pure. */
#include "base/arena.h"
#include "base/err.h"

struct scale {
	struct span doc; /* the Framework, as it is stored; known to be JSON */
	const char *uid;
	struct span role; /* by its converted name, or as it was submitted */
	int64_t n;        /* 1 or more */
	int64_t max_tasks;
	const char *device; /* the resource that a GPU is */
};

/* The patch (RFC 6902), in the arena; it is empty if there is nothing to change.  -1 and *e: 404
 * NoJobError: there is no such role; 400, 409: it cannot be. */
int scale_plan(const struct scale *s, struct arena *a, struct span *patch, struct err *e);
