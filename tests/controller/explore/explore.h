#pragma once
/*
 * All that can happen to one Framework, explored state by state with the rules of the controller
 * themselves.  memory.c holds them in one area of memory, which is copied to go back; world.c is
 * the API server, the kubelets, the garbage collector and the users; status.c knows each status
 * that was written; digest.c tells which states are the same; search.c goes through the states;
 * explore.c has the spaces.
 */
#include "k8s/controller/rules/rules_internal.h"

/* ---- memory.c: while `area_inside`, malloc takes from the area ---- */

extern bool area_inside;
void area_begin(void);
/* A struct at the begin of the area. */
void *area_alloc_root(size_t size);
size_t area_used(void);
void area_save(void *to);
void area_restore(const void *from, size_t used);
/* Large blocks, which must be free again between two actions. */
size_t area_scratch_live(void);
/* Memory outside of the area, whatever area_inside is. */
void *outside_alloc(size_t n);
void outside_free(void *p);

/* ---- status.c: statuses by number; 0 is null ---- */

enum { TASKS_MOST = 8 };

/* A part of a status: of the Framework, or of a task.  attempt -1: it is not there. */
struct part {
	int8_t state, attempt;
	bool ended; /* the attempt has an outcome, with this code */
	int32_t code;
	int32_t retried;
	char uid[12];     /* of its ConfigMap or pod */
	char instance[9]; /* of a task: the begin of its uid */
};

struct status {
	char *text;
	uint64_t shape; /* a hash of it without times */
	struct part framework, task[TASKS_MOST];
};

void status_forget_all(void);
int status_number(struct span text);
const struct status *status_of(int number);

/* ---- world.c ---- */

enum { LEADERS = 2, WATCHES = 4, EVENTS_MOST = 20, OPEN_MOST = 12, LATE_MOST = 2, MADE_MOST = 64 };
enum { FRAMEWORKS, CONFIGMAPS, PODS, WORKLOADS };
enum phase { PENDING, RUNNING, SUCCEEDED, FAILED };
enum { BY_NOBODY = -1, BY_ANOTHER = 127 };

struct shown_framework {
	bool there, dying, stop;
	int8_t leader; /* in the annotation: identity of a leader, BY_NOBODY, BY_ANOTHER */
	int8_t number; /* of tasks */
	int8_t waits;  /* RULES_WAITING: its number, 0 none */
	int status, version;
};

/* With Kueue.  Each condition: -1 it is not there, 0 False, 1 True. */
struct shown_workload {
	bool there, dying, guarded, admission;
	int8_t reserved, admitted, evicted, finished, ready, made;
	int version;
};

struct shown_configmap {
	bool there, dying;
	int8_t made, attempt; /* its place among all that were made; of the Framework */
	int version;
};

struct shown_pod {
	bool there, dying;
	bool asked; /* somebody has deleted it */
	bool lost;  /* its node does not answer: it goes by force only */
	int8_t index, made, configmap, attempt;
	enum phase phase;
	int version;
	int64_t deletion_ms;
	char task_uid[40];
};

struct event {
	bool gone;
	union {
		struct shown_framework framework;
		struct shown_configmap configmap;
		struct shown_pod pod;
		struct shown_workload workload;
	};
};

/* A request with what the API server needs of its body, and, when it is executed, with its answer.
 */
struct request {
	void *arg;
	int8_t leader, identity;
	enum store_verb verb;
	enum object_kind kind;
	int8_t index; /* of a pod */
	char uid[12];
	bool force;
	/* CREATE */
	struct shown_configmap configmap;
	struct shown_pod pod;
	/* PATCH */
	bool takes, writes; /* sets the annotation; the status */
	bool tests_leader;
	int tests_version; /* 0: it does not */
	int status;
	int8_t waits; /* RULES_WAITING: -1 it is left as it is */
	bool of_status;
	/* CREATE and PATCH of a Workload: what it is to be; -2: as it is; and its answer. */
	struct shown_workload workload;
	/* The answer.  Its object is in `framework`, `configmap` or `pod`. */
	bool executed, denied; /* a review: the account lacks the right */
	enum store_outcome outcome;
	int8_t refusal; /* of STORE_REFUSED */
	struct shown_framework framework;
};

/* Why the API server refuses; what is said of a PATCH whose test fails; the quota. */
enum { REFUSED_TEST, REFUSED_FORBIDDEN, REFUSED_INVALID, REFUSED_TOKEN, REFUSED_QUOTA, REFUSALS };

/* What may still happen. */
struct allowance {
	int8_t faults, failures, stops, scales, deletions, kills, leaders, foreign;
	int8_t pod_deletions, relists, old_lists, nodes;
	int8_t refusals, quotas; /* the quota is full, and is not */
	int8_t evictions;        /* by Kueue */
};

struct space {
	const char *name;
	int tasks, retries, task_retries;
	struct allowance budget;
	int grace_s;   /* podGracefulDeletionTimeoutSec */
	bool stale;    /* time goes on while events are under way */
	bool split;    /* DELETEs are executed before they are answered */
	bool wild;     /* all requests are; GETs fail, admission changes pods */
	bool large;    /* not in `make check` */
	bool queue;    /* the Framework is in a queue of Kueue */
	size_t states; /* at most */
};

struct world {
	struct rules *rules[LEADERS]; /* NULL: it does not run */
	struct rules_counts counts[LEADERS];
	struct rules_time now;
	int leaders;           /* that have begun */
	int identity[LEADERS]; /* the number of the process */
	bool lapsed[LEADERS];  /* its Lease is over, so it sends nothing */
	char name[4];
	struct shown_framework told[LEADERS]; /* with the spec that it has got last */
	int version;
	struct shown_framework framework;
	struct shown_configmap configmap;
	struct shown_pod pod[TASKS_MOST];
	struct shown_workload workload;
	struct event events[LEADERS][WATCHES][EVENTS_MOST];
	int8_t n_events[LEADERS][WATCHES];
	struct request open[OPEN_MOST], late[LATE_MOST];
	int8_t n_open, n_late;
	struct allowance left;
	bool full; /* the quota */
	/* What has been: for the invariants. */
	int8_t made[WATCHES][TASKS_MOST];       /* objects of each name */
	bool took[LEADERS];                     /* it has been in the annotation */
	int8_t attempts[TASKS_MOST][MADE_MOST]; /* for which pods were made */
	uint8_t ended[TASKS_MOST][MADE_MOST];   /* phases in which pods have ended */
	int before;                             /* the status before this one */
	bool refused;                           /* a pod was, for good */
	bool replaced;                          /* the status, by another */
	size_t requests;
	const char *bad;
};

/* One for each Framework, and that of the present move.  Leaders and clock are the same in all. */
extern struct world *worlds, *world;
extern int n_worlds;
extern const struct space *space;
extern const enum object_kind KINDS[WATCHES];

/* One world, in the area; and so many, of their names, in the memory of malloc. */
void world_begin(const struct space *of, const struct framework_config *config);
void worlds_begin(int n, const struct space *of, const struct framework_config *config);
void worlds_end(void);
/* Another process leads, too, with a number of its own; one ends. */
void leader_end(int leader);
void worlds_wait(int64_t ms);
/* The clock of the controllers is set; it is so much before that of the API server. */
void worlds_set_clock(int64_t off_ms);
/* Takes all that the rules want to send now. */
void world_pull(void);
int kind_watch(enum object_kind kind);

/* The number at the begin of a text; 0: there is none. */
int number_at(const char *text);

/* Texts are borrowed until the next one. */
struct span event_text(int watch, const struct event *e);
/* The object has changed: watches get it. */
void framework_show(void);
void pod_show(struct shown_pod *p);
void pod_delete(struct shown_pod *p, bool force);
void configmap_delete(void);
void workload_show(void);
void workload_delete(void);
bool workload_holds(void);
/* Watches in this space. */
int watches(void);

/* A list of one kind; events that did not come are lost.  An old list has not the newest object. */
void leader_list(int leader, int watch, bool old);
/* old: a watch whose first list is old; 0: none. */
void leader_begin(int old);

struct request request_remove(struct request *list, int8_t *n, int i);
/* Executes it, unless that was done, and keeps the answer. */
void execute(struct request *q);
/* Gives the rules its answer. */
void request_answer(const struct request *q);

/* ---- invariants.c ---- */

void blame(const char *why);
void request_check(const struct request *q);
/* The quota is given back. */
void release_check(void);
/* A pod is made. */
void quota_check(const struct shown_pod *p);
/* A status replaces another. */
void status_check(int before, int after);
/* When nothing is under way: what is left over. */
void rest_check(void);
/* When no event and no request is: what a leader takes for stored. */
void stored_check(void);

/* ---- moves.c ---- */

/* A move: what, and two numbers (of a leader, an object, a request). */
enum move_kind {
	MOVE_EVENT,
	MOVE_ANSWER,
	MOVE_EXECUTE,
	MOVE_LOST,
	MOVE_LATE,
	MOVE_BUSY,
	MOVE_CONFLICT,
	MOVE_REFUSE,
	MOVE_VOID,
	MOVE_LATER,
	MOVE_PHASE,
	MOVE_FAIL,
	MOVE_REMOVE,
	MOVE_COLLECT,
	MOVE_TIME,
	MOVE_STOP,
	MOVE_SCALE,
	MOVE_DELETE,
	MOVE_DELETE_POD,
	MOVE_LEAD,
	MOVE_KILL,
	MOVE_FOREIGN,
	MOVE_RELIST,
	MOVE_NODE,
	MOVE_QUOTA,
	MOVE_ADMIT,
	MOVE_EVICT,
	MOVES
};
struct move {
	uint8_t kind, a, b;
};
/* All that can happen now. */
enum { MOVES_MOST = 240 };
size_t world_moves(struct move *out);
void world_move(struct move m);
int64_t world_wake_ms(void);
bool world_has_events(void);
bool move_is_fault(struct move m);
/* It comes by itself: no fault, no user, no other leader. */
bool move_is_progress(struct move m);
void move_tell(struct move m, char *out, size_t size);
/* The Framework is stopped, so its end must not depend on that of its pods. */
bool world_is_stopped(void);
/* The Framework has ended or is gone, and nothing of it is left. */
bool world_is_done(void);

/* ---- digest.c ---- */

/* If users and faults are all that can come: what must hold then. */
void world_check_rest(const struct move *moves, size_t n);

uint64_t world_digest(void);

/* ---- search.c ---- */

struct result {
	size_t states, steps, ends, peak; /* peak: bytes of states in memory at once */
	double seconds;                   /* of CPU */
	bool whole;
	const char *bad; /* NULL: nothing was found */
};
struct result search(const struct space *of, const struct framework_config *config);

/* ---- walk.c ---- */

/* So many random walks with many Frameworks, from this seed on; the number of those that failed.
 * One walk tells its moves.  stops: after the first that has failed. */
size_t walks(uint64_t seed, size_t n, const struct framework_config *config, bool stops);
