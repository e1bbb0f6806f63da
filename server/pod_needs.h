#pragma once
/*
 * What pods of this server's templates need of a cluster, whatever the job: found by translating a
 * small job.  Pure.
 */
#include "translate/translate.h"

struct pod_needs {
	const char *priority_class;        /* NULL: none, or each job makes its own */
	const char *node_key, *node_value; /* label of the nodes that they are for; NULL: any */
};

/* Texts live in the arena.  What cannot be found out is NULL. */
void pod_needs_read(const struct translator *t, struct arena *a, struct pod_needs *out);
/* Of a list of nodes (JSON, valid): how many there are, and whether one of them has the device. */
size_t pod_needs_nodes(struct span list, const char *device, bool *has_device);
