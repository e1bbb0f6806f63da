#pragma once
/*
 * The needs of the pods of every job in the cluster: objects that they refer to, a label of nodes,
 * devices.  They are found by translating a small job; the server checks it at start, and so does
 * `rest-lit check`.
 *
 * Thread: any
 */
#include "server/state/server.h"

enum { POD_NEEDS_DEVICES = 8, POD_OBJECTS = 3 };

struct pod_object {
	enum object_kind kind;
	const char *name;
	const char *means; /* the effect on pods if it is missing */
	const char *mend;
	bool optional; /* pods run without it */
};

struct pod_needs {
	struct pod_object object[POD_OBJECTS];
	size_t n;
	const char *priority_class;            /* NULL: none, or one per job */
	const char *node_key, *node_value;     /* label of the nodes; NULL: any node */
	const char *node_query;                /* of a LIST of these nodes; NULL: any node */
	const char *device[POD_NEEDS_DEVICES]; /* of a task with one GPU; NULL ends them */
	const char *gpu;                       /* the name of the device that is a GPU */
};

/* Reads the needs by options, translator and namespace of the server.  Texts live in the arena or
 * are borrowed from the options. */
void pod_needs_read(const struct server *s, struct arena *a, struct pod_needs *out);

/* Gets a defect of these nodes; device: the missing one, or NULL if no node has the label. */
typedef void pod_needs_callback(void *arg, const char *event, const char *device,
                                const char *means);
/* `list`: the answer to node_query, valid JSON.  `say` is not called if all is well. */
void pod_needs_nodes(const struct pod_needs *needs, struct span list, pod_needs_callback *say,
                     void *arg);

/* "kubectl apply" of a manifest of this project (k8s/deploy/...), by sed if it has another
 * namespace, service account or instance than the options.  The text lives in the arena. */
const char *pod_needs_apply(const struct server *s, struct arena *a, const char *manifest);
