#pragma once
/*
 * What pods of this server's templates need of a cluster, whatever the job: found by translating a
 * small job.  Pure.
 */
#include "translate/translate.h"

enum { POD_NEEDS_DEVICES = 8 };

struct pod_needs {
	const char *priority_class;            /* NULL: none, or each job makes its own */
	const char *node_key, *node_value;     /* label of the nodes that they are for; NULL: any */
	const char *device[POD_NEEDS_DEVICES]; /* of a task that asks for one GPU; NULL ends them */
};

/* Texts live in the arena.  What cannot be found out is NULL. */
void pod_needs_read(const struct translator *t, struct arena *a, struct pod_needs *out);
/* Of a list of nodes (JSON, valid): how many there are, and which devices at least one of them has.
 */
size_t pod_needs_nodes(const struct pod_needs *needs, struct span list,
                       bool has[POD_NEEDS_DEVICES]);
