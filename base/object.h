#pragma once
/*
 * The Kubernetes objects of one job, as text ready to be sent: translate/ writes
 * them, k8s/ makes them.
 */
#include "base/arena.h"
#include "base/str.h"

enum object_kind {
	KIND_FRAMEWORK,
	KIND_SECRET,
	KIND_CONFIGMAP,
	KIND_PRIORITYCLASS,
	KIND_MADE, /* those above are made by us, the others only looked for */
	KIND_SERVICEACCOUNT = KIND_MADE,
	KIND_TOKENREVIEW, /* only asked: nothing is kept */
	KIND_CLAIM,       /* PersistentVolumeClaim */
	KIND_VOLUME,      /* PersistentVolume */
	KIND_NODE,
	KIND_POD,
	KIND_EVENT,
	KIND_MAX
};

struct object {
	enum object_kind kind;
	const char *name; /* matches [a-z0-9][a-z0-9.-]*; in the arena */
	struct span body; /* JSON, one line, no final newline */
	/*
	 * Where the uid of the owning Framework belongs: an offset into body at which
	 * it is to be inserted.  0 if the object has no ownerReferences (Framework,
	 * PriorityClass, and everything that `rest-lit translate` prints).
	 */
	size_t uid_at;
};

/* In the order in which they print: dependents first, the Framework last. */
struct objects {
	struct object *v;
	size_t n;
};

static inline struct object *objects_framework(const struct objects *o)
{
	return &o->v[o->n - 1];
}
