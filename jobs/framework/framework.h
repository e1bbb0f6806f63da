#pragma once
/*
 * framework/ is FrameworkController 1.0.1 as a pure state machine: from a Framework, its ConfigMap
 * and pods as they were last seen, and the time, to the next status, the requests, and the time of
 * the next look.  It has no I/O, no clock, no threads, and knows nothing of processes.
 * sync.c is one look at a Framework, complete.c has the rules of completion and retries, failure.c
 * explains failed pods, objects.c makes ConfigMaps and pods, object.c reads the Framework, status.c
 * is its status as JSON, drive.c tells when the next sync is due.  Begin with sync.c.
 *
 * A configuration does not change after its setters, and can be shared.  Times are seconds of Unix.
 *
 * Thread: own
 */
#include <jansson.h>

#include "base/doc/tree.h"
#include "base/err.h"
#include "base/str.h"
#include "jobs/framework/view.h"

/* ---- frameworkcontroller.yaml ---- */

struct framework_config;

/* Reads podFailureSpec, the delays and largeFrameworkCompression; other members are ignored, as
 * they are about the controller as a program.  Empty text: the defaults.  NULL and *e with places.
 */
struct framework_config *framework_config_read(struct span yaml, struct err *e);
/* The keys that it reads; NULL-terminated. */
extern const char *const FRAMEWORK_CONFIG_KEYS[];
void framework_config_free(struct framework_config *c);
/* From now on nothing is tried again, whatever the retry policies say. */
void framework_config_set_once(struct framework_config *c);
/* From now on the status has two members more in retryPolicyStatus: how the attempt before this one
 * ended, and how many in a row ended alike.  alike: the default of maxAlikeAttempts; 0: no bound.
 */
void framework_config_keep_last(struct framework_config *c, int64_t alike);
/* frameworkCompletedRetainSec. */
int64_t framework_config_retain_s(const struct framework_config *c);

/* ---- a Framework ---- */

/* An object larger than this is refused. */
enum { FRAMEWORK_OBJECT_MAX = 64 << 20 };

struct framework;

/* The configuration is borrowed for the life of the result. */
struct framework *framework_new(const struct framework_config *c);
void framework_free(struct framework *f);

/*
 * The object as JSON, first and after each change of it by others.  The first time its status is
 * read as well; it is input like any other, and must be one that the controller could have written.
 * Later only metadata and spec are read: the state machine's copy of the status is the truth.
 * 0, or -1 and *e: nothing has changed then.  An object whose first put failed must not be synced.
 */
int framework_put(struct framework *f, struct span object, struct err *e);

/* A role of the spec, and its tasks that have not ended for good. */
struct framework_role {
	const char *name;
	struct span pod; /* the template, JSON; p NULL after framework_slim */
	int64_t number;  /* of tasks, in the spec */
	int64_t left;    /* of tasks in the status, with those that are to be scaled away */
	bool runs;       /* all of them that are wanted run */
};
/* The i-th one; false: there are not so many. */
bool framework_role_at(const struct framework *f, size_t i, struct framework_role *out);
/* How many tasks of this role that come before this one have not ended for good. */
int64_t framework_tasks_before(const struct framework *f, const char *role, int64_t index);

/* Forgets the templates of pods, to save memory.  A put must come before the next call of
 * framework_object, or a sync whose `create` needs them. */
void framework_slim(struct framework *f);

/* The state of the Framework ("AttemptRunning", "Completed", ...); "" before there is a status.
 * Static text. */
const char *framework_state(const struct framework *f);
/* The same as a number in the order of the states; FRAMEWORK_STATES before there is a status. */
enum { FRAMEWORK_STATE_COMPLETED = 8, FRAMEWORK_STATES = 9 };
extern const char *const FW_STATES[FRAMEWORK_STATES]; /* their names */
unsigned framework_state_index(const struct framework *f);
/* The podUID of a task in the status; "": one is to be created; NULL: none is to be there, as there
 * is no such task, its removal was asked for, or it has ended without a pod. */
const char *framework_task_pod(const struct framework *f, const char *role, int64_t index);

/* The status as JSON text, in the form that FrameworkController stores: `null` before there is one.
 * Compressed above the controller's limit if its configuration says so. */
void framework_status_write(const struct framework *f, struct str *out);
/* The members of it that lists show; texts are static. */
void framework_summary(const struct framework *f, struct fw_summary *out);
/* Compressed, whatever its size and configuration. */
void framework_status_write_packed(const struct framework *f, struct str *out);

/* ---- ConfigMap and pods, as the caller sees them ---- */

enum framework_kind { FRAMEWORK_CONFIGMAP, FRAMEWORK_POD };

enum framework_presence {
	FRAMEWORK_ABSENT,
	FRAMEWORK_THERE,
	FRAMEWORK_UNKNOWN /* no answer yet: the next sync asks again */
};

/* Texts are borrowed until the callback is called again; NULL is the same as "". */
struct framework_configmap {
	const char *uid, *owner_uid; /* of its controlling owner */
	bool dying;                  /* metadata.deletionTimestamp is set */
};

struct framework_container {
	const char *name;
	const char *reason, *message; /* of the state, waiting or terminated */
	bool terminated;
	int32_t code, signal;
	int64_t finished_s; /* 0: unknown */
};

struct framework_pod {
	const char *uid, *owner_uid;
	bool dying;
	int64_t deletion_s,
	    grace_s;       /* deletionTimestamp (that includes the grace), and the grace */
	const char *phase; /* Pending, Running, Succeeded, Failed, Unknown */
	const char *reason, *message;
	const char *node, *ip, *host_ip;
	/* Numbers that its containers were given, with commas; NULL: none, or not known. */
	const char *ports, *gpus;
	const struct framework_container *containers; /* init containers first */
	size_t n_containers;
};

struct framework_delete {
	enum framework_kind kind;
	const char *name, *uid; /* uid is a precondition; it may be one that a callback returned */
	bool force;             /* gracePeriodSeconds 0 */
	bool confirm;           /* done only when the object is gone */
};

enum framework_answer {
	FRAMEWORK_DONE,    /* created, deleted; also: there was nothing to delete */
	FRAMEWORK_PENDING, /* no answer yet: the next sync asks again */
	FRAMEWORK_REFUSED, /* creation only: an answer 4xx, with its Status */
	FRAMEWORK_FAILED   /* anything else; also 409 and 429.  The next sync asks again */
};

/* An object that is to be created, or was created. */
struct framework_object {
	enum framework_kind kind;
	const char *name;
	/* Members of a pod: */
	const char *role;
	int64_t index;          /* of its task */
	int64_t attempt, retry; /* of the Framework, and of the task; from 0 */
	const char *task_uid;
	/* JSON in the form of a pod, which is merged into the template; p NULL: nothing. */
	struct span more;
};
/* The body of the request that creates it: for a pod the template with what FrameworkController
 * adds.  All else of the template is copied as it is written: null, numbers of any size, members
 * that are not known here.  A pod is found by role and index; nothing is written if there is no
 * such task.  Between a put and the next sync it is that of the new spec.  f must have a status. */
void framework_object_write(const struct framework *f, const struct framework_object *o,
                            struct str *out);
/* The same as a tree in the arena; NULL: there is no such task. */
const struct node *framework_object(const struct framework *f, const struct framework_object *o,
                                    struct arena *a);

struct framework_created {
	const char *uid;      /* of FRAMEWORK_DONE; borrowed until the callback is called again */
	int http;             /* of FRAMEWORK_REFUSED */
	const json_t *status; /* the API server's Status; borrowed likewise */
};

struct framework_client {
	void *arg;
	/* The status before this sync is not stored yet: no attempt that has ended is replaced (the
	 * result is `pending`). */
	bool unstored;
	/* Why the present attempt must give its resources back, or NULL: it is ended as by a stop,
	 * and tried again, which does not count. */
	const char *evicted;
	/* The object of this name; uid: of the one in the status, or NULL. */
	enum framework_presence (*configmap)(void *arg, const char *name, const char *uid,
	                                     struct framework_configmap *out);
	enum framework_presence (*pod)(void *arg, const char *name, const char *uid,
	                               struct framework_pod *out);
	/* framework_object_write makes its text, at once or later. */
	enum framework_answer (*create)(void *arg, const struct framework_object *object,
	                                struct framework_created *out);
	enum framework_answer (*remove)(void *arg, const struct framework_delete *what);
	/* Each change of a state, also those that are never stored; role NULL: the Framework's. Can
	 * be NULL. */
	void (*transition)(void *arg, const char *role, int index, const char *from,
	                   const char *to);
};

struct framework_result {
	bool status_changed; /* to be stored before the next sync, also if `failed` */
	bool again;          /* sync again at once (after the status is stored) */
	bool failed;         /* a request failed: sync again after 5 ms, 10, 20, ... up to 1000 s */
	bool pending; /* some answer was FRAMEWORK_PENDING or _UNKNOWN: sync again when it is there
	               */
	bool delete_framework; /* DELETE it, in the foreground, with its uid; sync again as `failed`
	                        */
	int64_t wake_s;        /* sync again at this time at the latest; INT64_MAX: no need */
};

/* One sync.  It is needed after framework_put, after each change of the ConfigMap or a pod of this
 * Framework, and as the result says.  random: new for each call; uids and delays are made of it. */
void framework_sync(struct framework *f, const struct framework_client *w, int64_t now_s,
                    uint64_t random, struct framework_result *result);
