#pragma once
/*
 * The state of the rules, and their parts; private to this folder and its tests.  rules.c has the
 * entry points and the queue, known.c takes what the watches say, rules_sync.c runs the state
 * machine, rules_send.c writes requests, rules_answer.c takes their answers.  rules_admission.c
 * drives the Workloads of Kueue, of which workload.c knows the contents.
 */
#include <sys/queue.h>

#include "base/hash.h"
#include "base/heap.h"
#include "k8s/controller/rules/rules.h"
#include "k8s/controller/rules/workload.h"

#ifndef RULES_BUCKETS /* the tests that copy the rules have few */
#define RULES_BUCKETS (1 << 14)
#endif
enum {
	RULES_USERS = 256,
	RULES_FRAMEWORK_STATES = 10,
	RULES_BACKOFF_MS = 60000,
	/* An annotation that names another leader: the Lease is read again before that is over. */
	RULES_FENCED_MS = 5000,
	RULES_QUOTA_MS = 30000,
	RULES_UNWATCHED_MS = 30000, /* between looks at an object that has not the label */
	RULES_PASSIVE_MS = 300000,
	/* Objects that GETs find gone: so many at once, then one in this time. */
	RULES_ABSENCES = 20,
	RULES_ABSENCE_MS = 500,
	RULES_EXPIRE_MS = 1000, /* between deletions of expired Frameworks, of all */
	RULES_TEXT_MAX = 2 * RULES_OBJECT_MAX,
	RULES_PACE_MS = 1000,      /* between writes of addresses and of Running */
	RULES_ENDED_MS = 1000,     /* until an ended pod that was deleted is gone; then a GET */
	RULES_REMOVED_MS = 300000, /* between removals without effect, at most */
	RULES_TOLD_MS = 5000,      /* between writes of RULES_WAITING */
	RULES_WAITS_MS = 1000,     /* until the first one */
};

#define RULES_GATED                                                                                \
	"Kueue has taken a pod of this job for a job of its own, so it does not start: the "       \
	"administrator sets managedJobsNamespaceSelector, or leaves the pod integration off"

static const int64_t RULES_NEVER = INT64_MAX;
static const int64_t RULES_AT_ONCE = 0;

/* metadata of any object; absent texts have p NULL, absent numbers are -1. */
struct rules_metadata {
	struct span uid, name, namespace_name, version, owners, annotations, labels, managers;
	int64_t deletion_ms, grace_s;
};

/* The name of a ConfigMap or a pod, with all that is known of it. */
struct rules_object {
	LIST_ENTRY(rules_object) same_hash, siblings; /* of a pod: by hash; of the job */
	struct rules_job *job;
	char *name; /* of a pod */
	enum {
		OBJECT_NONE,
		OBJECT_LIVE,
		OBJECT_DOUBTED /* a list did not have it, or it has lost its label: a GET decides */
	} state;
	bool alien;     /* a GET has told that it is not the one that a POST would make now */
	bool unwatched; /* it has no label: no event comes any more */
	bool gated;     /* a pod that waits for Kueue alone */
	unsigned list;  /* the last one that had it */
	int64_t version;
	int64_t retry_ms;          /* no POST before */
	int64_t remove_ms;         /* the sweep asks for no removal before */
	unsigned removals;         /* that were answered 2xx */
	char *gone;                /* uid of the latest one of this name that is gone; NULL */
	struct framework_pod view; /* unless OBJECT_NONE; of a ConfigMap: uid, owner_uid, dying */
	void *texts;               /* of `view` */
};

enum rules_verb {
	OP_CREATE,
	OP_DELETE, /* also of a Framework after its retention */
	OP_LOOK,   /* GET of an object that may be gone */
	OP_STORE,  /* PATCH of the status, of the annotation, or of both */
	OP_READ,   /* GET of the Framework */
	OP_ADMIT,  /* of the Workload: a GET, or what the step says */
	OP_FETCH,  /* GET of an object of the cluster; LIST without a name */
};

enum rules_stage {
	STAGE_FIRST,  /* the request that the verb names */
	STAGE_SETTLE, /* OP_CREATE: a GET tells whether the POST was executed */
	STAGE_REVIEW, /* OP_CREATE: after 403: may this account create? */
	STAGE_LOOK,   /* OP_DELETE: a GET before or after it */
};

/* One open request: what the state machine has asked for, until its answer is taken. */
struct rules_op {
	TAILQ_ENTRY(rules_op) next;
	struct rules_job *job; /* NULL: nobody wants the answer */
	enum object_kind kind;
	enum rules_verb verb;
	enum rules_stage stage;
	enum rules_op_state { OP_UNSENT, OP_WAITING, OP_SENT, OP_ANSWERED } state;
	int64_t due_ms; /* OP_WAITING */
	unsigned tries; /* OP_WAITING: failures in a row */
	char *namespace_name, *name, *uid;
	struct framework_object object; /* OP_CREATE; its texts are `name`, `role`, `task_uid` */
	char *role, *task_uid;
	bool force, confirm;      /* OP_DELETE: as in struct framework_delete */
	bool stray;               /* OP_DELETE: asked for by the sweep, not by the state machine */
	bool takes;               /* OP_STORE: it sets the annotation */
	bool deleted;             /* OP_DELETE, STAGE_LOOK: the DELETE was answered 2xx */
	enum admission_step step; /* OP_ADMIT; ADMISSION_REST: a GET */
	char *told;               /* OP_STORE: RULES_WAITING; NULL: it is not to be there */
	int64_t begun_ms;         /* OP_STORE */
	int64_t version; /* OP_STORE: which it tests; OP_READ: which the refused write tested */
	unsigned list;   /* the last one of its kind when it was sent */
	enum framework_answer answer;
	char *made; /* uid; OP_READ: why the write before was refused */
	int http;
	json_t *status;
	struct str body;
};
TAILQ_HEAD(rules_ops, rules_op);

/*
 * The state of a Framework: what is known of it, and how far its status is stored.
 *
 *	ABSENT -> SEEN -> STORED -> CHANGED -> URGENT -> STORED ... STORED -> ENDED
 *
 * - ABSENT: only a ConfigMap or pods of its name were seen.
 * - SEEN: the Framework was seen, but no state machine drives it yet, or it cannot be read.
 * - STORED: the API server has the status of its state machine.  Only now, and if RULES_ANNOTATION
 *   names this leader (FENCE_OURS), are ConfigMap and pods created and deleted.
 * - CHANGED: the state machine has gone on, and nothing hurries: the status is written together
 *   with what the next second brings; at once, if the state machine waits (ASKS_REQUESTS).
 * - URGENT: it is written at once: it has the uid of a new object, or more follows from it, or
 *   something else has overwritten it.  That remains so until it is written.
 * - ENDED: Completed is stored.  Only name, uid and time are left, until the retention is over.
 *
 * If another leader has written, its status is read again (UNREAD_WHOLE): STORED, or SEEN if that
 * cannot be read.  After DELETED, or a GET with 404 or another uid, it is ABSENT.  FOLLOWS in
 * rules.c has all that may follow.
 *
 * Two things beside the state make a Framework wait: `write.hold_ms`, a pause after a failed write
 * or a rival's, in which no status is written and that of another leader is not read; and a list
 * that did not have it, after which a GET comes first.
 *
 * JOB_NONE is no state: what cannot follow.
 */
enum rules_state { JOB_ABSENT, JOB_SEEN, JOB_STORED, JOB_CHANGED, JOB_URGENT, JOB_ENDED, JOB_NONE };

/*
 * ON_SIGHT: it is there; or, after its end, with a status that is not Completed.  ON_READ: a new
 * state machine has its object.  ON_ODD: no state machine takes its object.  ON_CHANGE: its state
 * machine has another status.  ON_HURRY: the same, or another has overwritten it; see URGENT.
 * ON_WRITTEN: a write of this leader was answered 200.  ON_END: the stored status is Completed.
 * ON_GONE: it is not there, or forgotten.
 */
enum rules_event { ON_SIGHT, ON_READ, ON_ODD, ON_CHANGE, ON_HURRY, ON_WRITTEN, ON_END, ON_GONE };

/* The state machine was not given yet: nothing; the spec, while it keeps its status; or the whole
 * object, for a new state machine, as there is none, or its status is not the newest. */
enum rules_unread { UNREAD_NOTHING, UNREAD_SPEC, UNREAD_WHOLE };
/* The Framework has no annotations; RULES_ANNOTATION is not there, or not what this leader wrote;
 * it is, so this leader may send requests. */
enum rules_fence { FENCE_NONE, FENCE_OTHERS, FENCE_OURS };
/* The state machine asked in the last sync for: REQUESTS, or answers, for which it waits; or the
 * DELETION of the Framework, which has been Completed for longer than the retention. */
enum rules_asks { ASKS_NOTHING, ASKS_REQUESTS, ASKS_DELETION };

/* An object of the Framework, packed. */
struct rules_packed {
	struct str text;
	size_t n; /* its size before packing */
};

/* The part of a Framework that was read. */
struct rules_read {
	int64_t version; /* the newest resourceVersion, of an object or of a write */
	/* The last list that had it.  If r->listed is newer it is doubted: a GET comes first. */
	unsigned list;
	uint64_t spec_hash; /* of the newest spec */
	bool stops;         /* the newest spec says Stop */
	enum rules_unread unread;
	struct rules_packed next;  /* not given to the state machine yet; unless UNREAD_NOTHING */
	struct rules_packed given; /* with the templates; empty: the state machine has them */
};

/* The writes of its status and of RULES_ANNOTATION. */
struct rules_write {
	enum rules_fence fence;
	bool packs;                /* the status was too large, so it is compressed */
	int64_t hold_ms;           /* not before */
	int64_t begun_ms, took_ms; /* start of the last write; its duration */
	int64_t foreign_ms;        /* the last status that another has written */
	unsigned store_failures, take_failures, foreign;
};

/* The next steps (job_step_once). */
struct rules_step {
	int64_t sync_ms;      /* next sync; RULES_AT_ONCE: something is new */
	int64_t unwatched_ms; /* objects without the label are doubted then */
	size_t window;        /* so many requests are open at most */
	unsigned sync_failures;
	enum rules_asks asks;
	bool current; /* the ConfigMap was that of the status in the last sync */
	bool sweep;   /* pods may be in no task, or a removal without effect */
};

/* The admission of a Framework: of those with a queue, or a Workload, or a gated pod. */
struct rules_admission {
	LIST_ENTRY(rules_admission) all;
	struct rules_job *job;
	struct rules_object workload;
	char *text;          /* of the Workload, by admission_reduce */
	char *queue, *class; /* labels of the Framework; NULL: none */
	struct admission_priority priority;
	char *class_name; /* of `priority` */
	char *flavors;    /* specs of ResourceFlavors by name, JSON; NULL: none was read */
	json_t *conflict; /* a Status: why its pods cannot be; NULL: none is known */
	bool checked;     /* `conflict` is that of this Workload and these flavors */
	bool look;        /* a GET of the Workload comes first */
	bool absent;      /* a GET has told so */
	bool starts;      /* the last sync wants to create what is not admitted */
	bool exceeds;     /* it wants more pods than were admitted */
	bool succeeded;   /* when it has ended */
	int64_t fresh;    /* the version that an answer had */
	char *why;        /* the last failure; NULL: none since */
	unsigned failures;
	int64_t retry_ms;    /* no request before */
	int64_t progress_ms; /* likewise, of what is not urgent */
	char *told;          /* RULES_WAITING of the stored Framework; NULL: none */
	int64_t told_ms;
};

/* A Framework, or the name of one of which only ConfigMap or pods are known. */
struct rules_job {
	LIST_ENTRY(rules_job) same_hash;
	LIST_ENTRY(rules_job) quota;  /* of r->quota, if `over_quota` */
	TAILQ_ENTRY(rules_job) queue; /* of its user, while it has unsent requests */
	struct heap_item due;
	struct rules *r;
	struct rules_user *user;
	char *namespace_name, *name;
	char *uid; /* NULL: JOB_ABSENT */
	enum rules_state state;
	unsigned shown;              /* its place in counts->frameworks */
	bool over_quota;             /* the quota of the namespace has refused its pods */
	struct framework *framework; /* JOB_STORED, JOB_CHANGED, JOB_URGENT; else NULL */
	int64_t ended_s, delete_ms; /* JOB_ENDED: since when; its turn to be deleted, 0: none yet */
	struct rules_object configmap;
	LIST_HEAD(rules_siblings, rules_object) pods;
	struct rules_admission *admission; /* NULL: Kueue has nothing to do with it */
	struct rules_ops ops;              /* open requests */
	size_t n_ops, n_unsent;
	struct rules_read read;
	struct rules_write write;
	struct rules_step step;
};

struct rules_user {
	LIST_ENTRY(rules_user) same_hash;
	TAILQ_ENTRY(rules_user) queue; /* of r->users, while it has jobs there */
	TAILQ_HEAD(rules_queue, rules_job) jobs;
	size_t held;
	char name[];
};

struct rules {
	struct rules_settings set;
	struct hash_key key;
	unsigned lists[KIND_MAX];  /* begun so far */
	unsigned listed[KIND_MAX]; /* the last one that has ended; 0: none */
	size_t open;
	struct heap due;
	TAILQ_HEAD(rules_users, rules_user) users;
	LIST_HEAD(rules_alike_users, rules_user) user[RULES_USERS];
	LIST_HEAD(rules_over_quota, rules_job) quota;
	LIST_HEAD(rules_alike_jobs, rules_job) jobs[RULES_BUCKETS];
	LIST_HEAD(rules_alike_pods, rules_object) pods[RULES_BUCKETS];
	LIST_HEAD(rules_admissions, rules_admission) admissions;
	bool wants_workloads;     /* a Framework with a queue was seen */
	const char *no_workloads; /* why they cannot be followed; NULL */
	int64_t absent_ms;        /* RULES_ABSENCES are used up at this time */
	int64_t expire_ms;        /* no deletion of another expired Framework before */
	int64_t foreign_ms[2];    /* the last two writes of FrameworkController */
	int64_t passive_ms;       /* no request before */
};

/* ---- rules.c: jobs and their turns ---- */

struct rules_job *job_of_name(struct rules *r, struct span namespace_name, struct span name,
                              bool make);
void job_set_user(struct rules_job *job, struct span user);
/* Forgets the Framework, its state machine and requests, but not its name, ConfigMap and pods. */
void job_forget(struct rules_job *job);
/* Frees it if nothing is known under its name. */
void job_free_unused(struct rules_job *job);
/* The job is stepped at this time at the latest. */
void job_step_at(struct rules_job *job, int64_t ms);
/* Goes to the state that follows, and shows it in the counts. */
void job_move(struct rules_job *job, enum rules_event event);
/* It has ended for good: only its name, uid and time remain. */
void job_end(struct rules_job *job, const struct rules_time *now, int64_t ended_s);
/* It has ended, and this ConfigMap of it is there, made by a late request: it is removed. */
void job_remove_late(struct rules_job *job, const char *uid);
void job_tell(const struct rules_job *job, const char *reason, const char *message);
/* The same of a ConfigMap or pod that cannot be created, unless that may pass soon. */
void job_tell_failure(const struct rules_job *job, const char *name, struct span why);
int64_t rules_backoff(struct rules *r, unsigned failures);
/* One less of what there is now. */
void counter_subtract(atomic_ullong *c);

struct rules_op *op_new(struct rules_job *job, enum rules_verb verb, enum object_kind kind,
                        const char *name);
/* To be sent; at once, or after a pause that grows with op->tries. */
void op_send(struct rules_op *op);
void op_send_later(struct rules_op *op, const struct rules_time *now);
void op_drop(struct rules_op *op);
void job_drop_all_ops(struct rules_job *job);
/* Drops those in this state; of unsent ones not what settles an earlier request. */
void job_drop_ops(struct rules_job *job, enum rules_op_state state);

/* ---- known.c: events and answers ---- */

void rules_read_metadata(struct span object, struct arena *a, struct rules_metadata *out);
/* The resourceVersion as a number; 0: it is none. */
int64_t rules_version(const struct rules_metadata *m);
/* uid of the controlling owner; p NULL: none. */
struct span rules_read_owner(const struct rules_metadata *m, struct arena *a);
struct rules_object *object_find_known(struct rules_job *job, enum object_kind kind,
                                       const char *name, bool make);
/* It has succeeded or failed. */
bool pod_is_over(const struct framework_pod *pod);
/* An object as an event or an answer shows it; older ones than the known one are ignored. */
void object_note(struct rules_object *o, const struct rules_time *now, struct span object,
                 enum object_kind kind);
/* The object with this uid is gone for sure. */
void object_note_gone(struct rules_object *o, const struct rules_time *now, const char *uid);
void object_free_known(struct rules_object *o);
/* asked: an answer, of the same version as known perhaps. */
void job_note(struct rules *r, const struct rules_time *now, struct span object, bool asked);
/* The Framework does not exist. */
void job_note_gone(struct rules_job *job);

/* ---- rules_sync.c ---- */

/* Takes the unread object, syncs, and decides about the next write. */
void job_step_once(struct rules_job *job, const struct rules_time *now);
/* The removal of an object that the state machine does not ask for. */
struct rules_op *op_new_removal(struct rules_job *job, enum object_kind kind, const char *name,
                                const char *uid);
/* The state machine has its templates again. */
bool job_fatten(struct rules_job *job);

/* ---- rules_admission.c ---- */

/* Makes it if there is none. */
struct rules_admission *job_admission(struct rules_job *job);
void job_admission_free(struct rules_job *job);
/* Takes the labels and RULES_WAITING of the Framework. */
void job_note_queue(struct rules_job *job, const struct rules_metadata *m);
/* The Workload, after object_note. */
void workload_note(struct rules_object *o, struct span object);
/* A Workload that its Framework has finished with. */
bool workload_is_settled(struct span object);
/* Without open requests: sends what its Workload needs. */
void job_admit(struct rules_job *job, const struct rules_time *now);
/* Why the attempt must end, or NULL. */
const char *job_eviction(const struct rules_job *job, struct arena *a);
/* May this object be created?  DONE: yes. */
enum framework_answer job_admits(struct rules_job *job, const struct framework_object *o,
                                 struct framework_created *out);
/* The additions to the template of a pod of this role, JSON; p NULL: none. */
struct span job_pod_additions(const struct rules_job *job, const char *name, struct arena *a);
/* Why it waits, for RULES_WAITING; NULL: it does not. */
const char *job_wait_text(const struct rules_job *job, struct arena *a);
/* Of OP_ADMIT and OP_FETCH. */
void admission_write_request(struct rules_op *op, const struct rules_time *now,
                             struct store_request *out);
void admission_answer(struct rules_op *op, const struct rules_time *now,
                      const struct store_reply *reply);
void fetch_answer(struct rules_op *op, const struct rules_time *now,
                  const struct store_reply *reply);

/* ---- rules_send.c, rules_answer.c ---- */

void op_write_request(struct rules_op *op, const struct rules_time *now, struct store_request *out);
void op_take_answer(struct rules_op *op, const struct rules_time *now,
                    const struct store_reply *reply);
