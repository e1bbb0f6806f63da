#pragma once
/*
 * Kueue's admission of a Framework: what its Workload allows, the bodies of requests about it, and
 * what the pods get of it.  Pure; the rules call it.
 *
 * A Framework with the label ADMISSION_QUEUE has one Workload of its name, for its whole life, so a
 * job that is tried again keeps its place and its quota.  Nothing of it runs unless the Workload is
 * admitted.  What Kueue answers is recorded in tests/controller/kueue/.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/json/scan.h"
#include "base/str.h"
#include "jobs/framework/framework.h"

#define ADMISSION_QUEUE    "kueue.x-k8s.io/queue-name"     /* label of a Framework */
#define ADMISSION_PRIORITY "kueue.x-k8s.io/priority-class" /* likewise; may be absent */
/* Kueue gives this gate to pods that it admits one by one. */
#define ADMISSION_GATE "kueue.x-k8s.io/admission"
/* Keeps a deleted Workload, and its quota, until no pod of the Framework is left. */
#define ADMISSION_GUARD "rest-lit/pods"

enum { ADMISSION_TEXT_MAX = 1 << 20 };

enum admission_condition_type {
	QUOTA_RESERVED,
	ADMITTED,
	EVICTED,
	FINISHED,
	PODS_READY,
	REQUEUED,
	ADMISSION_CONDITIONS
};

struct admission_condition {
	bool is_true;
	struct span reason, message; /* p NULL: it is not there */
	struct span raw;             /* JSON */
};

/* A Workload.  Texts are borrowed from it, or in the arena. */
struct admission {
	struct admission_condition is[ADMISSION_CONDITIONS];
	bool inactive, dying, guarded; /* guarded: it has the finalizer ADMISSION_GUARD */
	bool holds;                    /* quota, or what is left of an admission */
	struct span name, queue, version, finalizers, pod_sets, status;
	int64_t generation;
};

/* Writes the parts of a Workload that admission_read reads, since its templates may be large. */
void admission_reduce(struct span workload, struct str *out);
void admission_read(struct span workload, struct arena *a, struct admission *out);

/* The needs of the Framework. */
struct admission_wish {
	bool ended;  /* it has come to its end, or is gone */
	bool lives;  /* a pod is there, or its attempt is not over */
	bool starts; /* it waits to create something */
};

enum admission_step {
	ADMISSION_REST,    /* nothing is to be done; what wants to start waits */
	ADMISSION_MAKE,    /* POST the Workload */
	ADMISSION_GO,      /* ConfigMap and pods may be created */
	ADMISSION_EVICT,   /* the attempt must end */
	ADMISSION_RELEASE, /* nothing runs: give the quota back, and wait again */
	ADMISSION_FINISH,  /* the same for good */
	ADMISSION_DELETE,  /* a Workload that was finished by others does not come back */
	ADMISSION_UNGUARD, /* remove the finalizer */
};

/* w NULL: there is none. */
enum admission_step admission_decide(const struct admission *w, const struct admission_wish *wish);

/* Why it waits, or was evicted: Kueue's sentence. */
const char *admission_reason(const struct admission *w, struct arena *a);

/* The priority of a job. */
struct admission_priority {
	bool known;
	int64_t value;
	bool of_kueue;    /* a WorkloadPriorityClass, not a PriorityClass */
	const char *name; /* of the class; NULL: none */
};

struct admission_job {
	const char *namespace_name, *name, *uid, *queue;
	struct admission_priority priority;
};

/* ---- bodies: the Workload; then JSON merge patches, which test the version of w ---- */

/* The templates must be there. */
void admission_put_workload(struct str *out, const struct framework *f,
                            const struct admission_job *job);
void admission_put_release(struct str *out, const struct admission *w, int64_t wall_ms);
/* reason: Succeeded, Failed, FailedToStart. */
void admission_put_finish(struct str *out, const struct admission *w, const char *reason,
                          int64_t wall_ms);
/* Tells if the pods run, and how many are not needed any more.  false, and nothing is written:
 * Kueue knows. */
bool admission_put_progress(struct str *out, const struct admission *w, const struct framework *f,
                            int64_t wall_ms);
void admission_put_unguarded(struct str *out, const struct admission *w);

/* ---- pods ---- */

/* How many tasks of the role may have pods; -1: of this role none was asked for. */
int64_t admission_allows(const struct admission *w, const char *role);
/* A ResourceFlavor that is not a member of `flavors` yet, a JSON object of their specs by name; p
 * NULL: there is none. */
struct span admission_missing_flavor(const struct admission *w, struct span flavors,
                                     struct arena *a);
/* The additions to the template of the pods of a role, as JSON in the form of a pod; nothing: p
 * NULL. conflict: appended to, if a label, an annotation or a node label contradicts another. */
struct span admission_additions(const struct admission *w, struct span flavors,
                                const struct framework_role *role, struct arena *a,
                                struct str *conflict);
