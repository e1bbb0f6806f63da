#pragma once
/*
 * The state of the rules, and their parts; private to this folder and its tests.  rules.c has the
 * entry points and the queue, known.c takes what the watches say, rules_sync.c runs the state
 * machine, rules_send.c writes requests, rules_answer.c takes their answers.
 */
#include <sys/queue.h>

#include "base/hash.h"
#include "base/heap.h"
#include "k8s/controller/rules/rules.h"

enum {
	RULES_BUCKETS = 1 << 14,
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
};
static const int64_t RULES_NEVER = INT64_MAX;

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
	enum { OP_UNSENT, OP_WAITING, OP_SENT, OP_ANSWERED } state;
	int64_t due_ms; /* OP_WAITING */
	unsigned tries; /* OP_WAITING: failures in a row */
	char *namespace_name, *name, *uid;
	struct framework_object object; /* OP_CREATE; its texts are `name`, `role`, `task_uid` */
	char *role, *task_uid;
	bool force, confirm; /* OP_DELETE: as in struct framework_delete */
	bool stray;          /* OP_DELETE: asked for by the sweep, not by the state machine */
	bool takes;          /* OP_STORE: it sets the annotation */
	bool deleted;        /* OP_DELETE, STAGE_LOOK: the DELETE was answered 2xx */
	int64_t begun_ms;    /* OP_STORE */
	unsigned list;       /* OP_CREATE: the last list of its kind when it was sent */
	enum framework_answer answer;
	char *made; /* uid; OP_READ: why the write before was refused */
	int http;
	json_t *status;
	struct str body;
};
TAILQ_HEAD(rules_ops, rules_op);

/* A Framework, or the name of one of which only ConfigMap or pods are known. */
struct rules_job {
	LIST_ENTRY(rules_job) same_hash;
	LIST_ENTRY(rules_job) quota;  /* of r->quota, if `over_quota` */
	TAILQ_ENTRY(rules_job) queue; /* of its user, if `is_queued` */
	struct heap_item due;
	struct rules *r;
	struct rules_user *user;
	bool is_queued, over_quota;
	char *namespace_name, *name;
	char *uid;         /* NULL: no Framework was seen */
	int64_t seen;      /* the newest resourceVersion */
	int64_t read;      /* that of the newest object; a write of ours may be newer */
	unsigned list;     /* the last one that had it */
	bool doubted;      /* a list did not have it */
	struct str packed; /* the object that the state machine was given */
	size_t packed_n;   /* its size before packing */
	struct str unread; /* one that it was not given yet */
	size_t unread_n;
	bool rebuild;       /* the unread object replaces the framework */
	uint64_t spec_hash; /* of the newest spec */
	bool annotated;     /* metadata.annotations exists */
	bool stops;         /* the newest spec says Stop */
	struct framework *framework;
	bool slim;     /* it has no templates */
	bool owned;    /* the annotation names this leader */
	bool complete; /* it has ended: no state machine; `due` is when it is deleted */
	int64_t ended_s;
	unsigned shown; /* its place in counts->frameworks */
	struct rules_object configmap;
	LIST_HEAD(rules_siblings, rules_object) pods;
	struct rules_ops ops;
	size_t n_ops, n_unsent;
	bool batched; /* a batch was answered: the window is larger */
	bool look;    /* to be synced */
	bool current; /* the known ConfigMap is that of the status */
	bool expired; /* it was Completed so long ago that it is to be deleted */
	bool unstored, urgent, wants, sweep, packs;
	int64_t sync_ms, hold_ms;   /* next sync; no write, or deletion after its end, before */
	int64_t unwatched_ms;       /* objects without the label are doubted then */
	int64_t wrote_ms, write_ms; /* start of the last write; its duration */
	int64_t foreign_ms;         /* the last status that another has written */
	unsigned sync_failures, store_failures, take_failures, foreign;
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
	unsigned lists[KIND_MAX]; /* begun so far */
	bool listed[KIND_MAX];
	size_t open;
	struct heap due;
	TAILQ_HEAD(rules_users, rules_user) users;
	LIST_HEAD(rules_alike_users, rules_user) user[RULES_USERS];
	LIST_HEAD(rules_over_quota, rules_job) quota;
	LIST_HEAD(rules_alike_jobs, rules_job) jobs[RULES_BUCKETS];
	LIST_HEAD(rules_alike_pods, rules_object) pods[RULES_BUCKETS];
	int64_t absent_ms;     /* RULES_ABSENCES are used up at this time */
	int64_t expire_ms;     /* no deletion of another expired Framework before */
	int64_t foreign_ms[2]; /* the last two writes of FrameworkController */
	int64_t passive_ms;    /* no request before */
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
/* Its state in the counts. */
void job_show_state(struct rules_job *job);
/* It has ended for good: only its name, uid and time remain. */
void job_end(struct rules_job *job, const struct rules_time *now, int64_t ended_s);
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
/* Drops those that are not sent. */
void job_drop_unsent(struct rules_job *job);

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
/* The state machine has its templates again. */
bool job_fatten(struct rules_job *job);

/* ---- rules_send.c, rules_answer.c ---- */

void op_write_request(struct rules_op *op, const struct rules_time *now, struct store_request *out);
void op_take_answer(struct rules_op *op, const struct rules_time *now,
                    const struct store_reply *reply);
