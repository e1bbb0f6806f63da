#pragma once
/*
 * A stand-in for what a cluster has beside its API server: scheduler, kubelets and garbage
 *collector.
 *
 *	stand.c        options, the watches, the loop
 *	stand_world.c  what is known, and which request an object wants next
 *	stand_send.c   requests
 */
#include <sys/queue.h>

#include "base/heap.h"
#include "base/posix/mailbox.h"
#include "k8s/http/curl.h"
#include "k8s/transport/login.h"

enum { THING_BUCKETS = 1 << 16, SEND_AT_ONCE = 32 };

enum stand_action {
	STAND_NOTHING,
	STAND_BIND,    /* the scheduler: a node */
	STAND_RUN,     /* the kubelet: phase Running */
	STAND_END,     /* ... Succeeded or Failed */
	STAND_REMOVE,  /* ... a dying pod is gone: DELETE with grace 0 */
	STAND_ASK,     /* the garbage collector: GET the owner that the watch does not have */
	STAND_DELETE,  /* ... a dependent */
	STAND_RELEASE, /* ... takes off the finalizer foregroundDeletion */
	STAND_ACTIONS
};

enum pod_stage { POD_NONE, POD_NEW, POD_BOUND, POD_RUNNING, POD_ENDED, POD_DYING };

struct milliseconds {
	int64_t least, most;
};

/* A Framework, ConfigMap or pod, or the owner of one that was not seen yet, by uid. */
struct thing {
	struct heap_item due; /* first: its next action */
	struct thing *chain;  /* the next of its bucket */
	LIST_ENTRY(thing) sibling;
	LIST_HEAD(things, thing) dependents;
	struct thing *owner;
	char *uid;
	bool known, stale; /* the watch has it; a list under way has not had it yet */
	bool busy;         /* a request is under way */
	bool heard;        /* an event came since */
	enum stand_action action;
	int64_t not_before_ms;
	/* The rest is of the latest event. */
	enum object_kind kind;
	char *name, *version, *owner_name;
	bool dying, foreground; /* it has the finalizer foregroundDeletion */
	bool orphan;            /* its owner was found gone by a GET */
	char *finalizers;       /* the others, as a JSON list */
	enum pod_stage stage;
	int64_t stage_ms; /* the end of this stage; INT64_MAX: never */
	char *containers; /* names as a JSON list */
	int64_t exit_code;
	char *reason; /* of a failure without containers; "" for none */
	char *node;   /* which it has or, as its annotation says, is to get; "" for any */
};

struct stand {
	struct login *login;
	const char *namespace_name;
	struct milliseconds bind_ms, start_ms, run_ms, linger_ms;
	uint64_t random;
	struct mailbox box;
	struct thing *bucket[THING_BUCKETS];
	struct heap due;
	unsigned listed; /* bits of kinds whose list is complete */
	unsigned addresses;
	bool lost; /* node0 does not answer, and gets no pod */
	struct sender *sender;
	unsigned long done[STAND_ACTIONS], failed; /* requests */
};

/* ---- stand_world.c ---- */
void world_put(struct stand *s, enum object_kind kind, struct span object);
void world_gone(struct stand *s, struct span object);
void world_list(struct stand *s, enum object_kind kind, bool begin);
/* The next thing whose action is due, which is then busy; NULL: none. */
struct thing *world_take(struct stand *s);
void world_answer(struct stand *s, struct thing *t, int status, struct span body);
bool world_complete(const struct stand *s); /* all kinds were listed */
void world_lose(struct stand *s, bool lost);

/* ---- stand_send.c ---- */
struct sender *sender_new(struct stand *s, struct err *e);
bool sender_is_free(const struct sender *q);
void sender_send(struct sender *q, struct thing *t);
void sender_run_once(struct sender *q);
int sender_fd(const struct sender *q);
int sender_timeout_ms(const struct sender *q);
void sender_free(struct sender *q); /* accepts NULL */
