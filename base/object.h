#pragma once
/*
 * The Kubernetes objects of one job as JSON: translate/ writes them, k8s/ creates them.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/str.h"

enum object_kind {
	KIND_FRAMEWORK,
	KIND_SECRET,
	KIND_CONFIGMAP,
	KIND_PRIORITYCLASS,
	KIND_MADE, /* this program creates the kinds above and only reads the others */
	KIND_SERVICEACCOUNT = KIND_MADE,
	KIND_TOKENREVIEW, /* not stored by the API server */
	KIND_PODTEMPLATE, /* only checked, never stored */
	KIND_CLAIM,       /* PersistentVolumeClaim */
	KIND_VOLUME,      /* PersistentVolume */
	KIND_NODE,
	KIND_NAMESPACE,
	KIND_POD,
	KIND_EVENT,
	KIND_LEASE, /* created, too, but in a cluster only */
	KIND_STATEFULSET,
	KIND_ACCESS_REVIEW,     /* SelfSubjectAccessReview; not stored by the API server */
	KIND_VERSION,           /* a LIST gets /version */
	KIND_API_GROUP,         /* a GET gets the versions in which a group is served */
	KIND_WORKLOAD,          /* of Kueue: created, too, by the controller */
	KIND_FLAVOR,            /* of Kueue: ResourceFlavor */
	KIND_WORKLOAD_PRIORITY, /* of Kueue: WorkloadPriorityClass */
	KIND_LOCAL_QUEUE,       /* of Kueue */
	KIND_MAX
};

struct object {
	enum object_kind kind;
	const char *name; /* matches [a-z0-9][a-z0-9.-]*; in the arena */
	struct span body; /* JSON, one line, no final newline */
	/*
	 * Offset in body at which the uid of the owning Framework is inserted; 0 if the object has
	 * no ownerReferences (Framework, PriorityClass, output of `rest-lit translate`).
	 */
	size_t uid_at;
};

/* The objects in the order of output: dependents first, the Framework last. */
struct objects {
	struct object *v;
	size_t n;
	/* PodTemplates, by the names of their roles, of the roles whose pods are those of users:
	 * the API server must accept them before the Framework is created
	 * (jobs/submit/submission.h).
	 */
	struct object *check;
	size_t n_checks;
};

static inline struct object *objects_framework(const struct objects *o)
{
	return &o->v[o->n - 1];
}
