#pragma once
/*
 * The recorded traces against the rules of the controller, in virtual time.  server.c executes the
 * requests of the rules on the objects of a scene (tests/machine/scene.c) and has the watches,
 * play.c is the process of the controller that stands between them, with its faults, ends.c says
 * what "the same end" is, traces.c is the program.
 */
#include <sys/queue.h>

#include "k8s/controller/rules/rules.h"
#include "tests/machine/replay.h"

/* ---- server.c ---- */

enum { WATCH_FRAMEWORKS, WATCH_CONFIGMAPS, WATCH_PODS, WATCHES };

struct event {
	TAILQ_ENTRY(event) next;
	bool gone;
	char *text;
};
TAILQ_HEAD(events, event);

/* A request with its own texts, as it may be executed after its process has gone. */
struct request {
	TAILQ_ENTRY(request) next;
	void *arg; /* of the rules */
	char *leader;
	enum store_verb verb;
	enum object_kind kind;
	char *name, *uid, *body; /* NULL: none */
	bool whole, force, foreground, json_patch;
	bool executed, late;
	int delay; /* it is executed after so many others */
	/* The answer. */
	enum store_outcome outcome;
	int status, retry_after_s;
	char *text, *made, *version;
};
TAILQ_HEAD(requests, request);

struct server {
	struct scene *scene;
	struct events events[WATCHES]; /* not delivered yet */
	size_t waiting[WATCHES];       /* their number */
	json_t *named;      /* uids of ConfigMaps and pods that any status had, as members */
	json_t *configmaps; /* uids of all that the Framework has had */
	/* Nothing has gone wrong that leaves objects without a task; nobody else has put an old
	 * status over a newer one. */
	bool keeps, announces;
	char *broken; /* an invariant that did not hold; NULL: none */
};

void server_begin(struct server *s, struct scene *scene);
void server_end(struct server *s);
enum object_kind server_kind(int watch);
struct request *request_new(const struct store_request *r, const char *leader);
void request_free(struct request *q);
/* Executes it, and makes its answer. */
void server_execute(struct server *s, struct request *q);
/* Makes an answer without that. */
void request_answer(struct request *q, enum store_outcome outcome, int status);
/* The rules list all objects of a kind; events that were not delivered are lost.  old: the list
 * does not have the newest object, which comes as an event. */
void server_list(struct server *s, int watch, bool old, struct rules *r,
                 const struct rules_time *now);
/* Delivers the next event of a kind. */
void server_deliver(struct server *s, int watch, struct rules *r, const struct rules_time *now);
/* The annotation of the Framework is set to this by somebody. */
void server_annotate(struct server *s, const char *leader);
/* The user scales all roles down to nothing. */
void server_shrink(struct server *s);
/* Plays garbage collector and kubelet for what no status has ever had, which the recorder did not
 * know; true: something has changed. */
bool server_tidy(struct server *s);
/* The first live pod of the living ConfigMap that is in no task; NULL: none. */
const char *server_stray(const struct server *s);

/* ---- play.c ---- */

/* What goes wrong at a request of a step; play.c has their meaning. */
enum fault_kind {
	FAULT_NONE,
	FAULT_LOST,        /* executed, no answer */
	FAULT_UNSENT,      /* not executed, no answer */
	FAULT_VOID,        /* not executed, answered 200 */
	FAULT_LATE,        /* no answer, executed `extra` requests later */
	FAULT_KILL_BEFORE, /* the process is killed, the request not executed */
	FAULT_KILL_AFTER,  /* executed */
	FAULT_KILL_LATE,   /* executed `extra` requests later, when the next process runs */
	FAULT_KILL_OLD,    /* executed; the next process gets old lists */
	FAULT_CONFLICT,    /* 409 */
	FAULT_TAKEN,       /* the annotation names another */
	FAULT_RETAKEN,     /* and ours again, after the request */
	FAULT_429,
	FAULT_503,
	FAULT_500,     /* not executed */
	FAULT_FULL,    /* the queue of the store is full */
	FAULT_FOREIGN, /* executed; then somebody puts back the status before */
	FAULT_EARLY, /* the next stimulus, a patch of the Framework, comes before it is executed */
	/* All roles are scaled down to nothing before it is executed; it gets no answer, and is
	 * executed later.  The trace ends with that step. */
	FAULT_SHRINK,
	FAULT_RELIST, /* of the watch `extra`, after so many requests */
	FAULT_RELIST_OLD,
	FAULT_STALE, /* watches of the mask `extra` are late by n events, in this step */
	FAULT_MAX
};

struct fault {
	enum fault_kind kind;
	size_t step, n; /* from 0; of the request, from 1 */
	int extra;
};

struct play {
	struct scene scene;
	struct server server;
	const struct framework_config *config;
	struct rules *rules; /* NULL: the controller does not run */
	struct rules_counts counts;
	struct rules_time now;
	char identity[32];
	unsigned starts;
	uint64_t random;
	uint64_t order; /* not 0: events, requests and answers come in a random order */
	struct requests open, late;
	struct fault fault;
	bool faulted;     /* it has happened */
	bool ahead;       /* the stimulus of the next step was played */
	size_t step;      /* from 0 */
	struct str verbs; /* of the requests of this step: a letter of VERB_LETTERS each */
	bool tells;       /* prints what happens */
};

#define LEADER       "leader-"
#define VERB_LETTERS "CGLPDR" /* by enum store_verb; R is a SelfSubjectAccessReview */

void play_begin(struct play *p, const struct framework_config *config, const json_t *trace);
void play_end(struct play *p);
/* The stimulus of a step is a patch of the Framework. */
bool step_is_patch(const json_t *step);
/* Plays one step until the rules have nothing left to do. */
int play_step(struct play *p, const json_t *step, struct err *e);

/* ---- ends.c ---- */

/* What must be the same at the end, of `after`; new reference. */
json_t *end_of(json_t *after);
/* If `got` was triggered by another task that ended in the same step as the one of the record, and
 * has its code, it gets that of the record. */
void end_allow_trigger(const json_t *recorded, json_t *got);
/* Takes the end of the record for `got`, unless the Framework was to stop and goes on. */
void end_allow_early(json_t *recorded, json_t *got, const json_t *patch);
