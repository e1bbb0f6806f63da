#pragma once
/*
 * The rules of the controller: what it knows of Frameworks, their ConfigMaps and pods, and which
 * request is next.  It drives the state machine of jobs/framework/ between watch events and
 * requests, and is pure: no I/O, no clock, no threads.  The shell (k8s/controller/) and the tests
 * feed it.
 *
 *	struct rules *r = rules_new(&settings);
 *	rules_list_begin(r, KIND_POD);           (likewise the two other kinds; then events)
 *	rules_put(r, &now, KIND_POD, object);
 *	rules_list_end(r, &now, KIND_POD);
 *	while (rules_next(r, &now, &request))    (send it)
 *	rules_answer(r, &now, request.arg, reply);
 *	wait until rules_wake_ms(r)
 *
 * No request leaves before all three kinds were listed.  It is meant for one leader: a new leader
 * begins with new rules.  Bounds: one status write per Framework at a time, RULES_WINDOW requests
 * of one Framework, and RULES_OBJECT_MAX for an object.
 *
 * Rules that hold for each Framework:
 *
 * - Nothing is created or deleted before the state that announces it is stored.
 * - While requests are unanswered, its state machine is neither synced nor given a new spec; then
 *   one sync takes all answers, and one write stores the result.
 * - An object is gone only after a DELETED event for its uid, or a GET with 404 or another uid.
 * - A status write tests the uid, the resourceVersion of the newest object that was seen or
 *answered, and the annotation rest-lit/controller, which names the leader that has taken the
 *Framework over; the first write sets it.  So a write that is executed late replaces nothing: an
 *end is final. After a refusal the Framework is read, and the write repeated if another version was
 *stored.
 * - DELETE carries the uid.  A POST whose answer was lost is settled by a GET before anything else.
 * - A DELETE that was answered 2xx is repeated, later each time, while the object is there and not
 *   dying.  One with force is a request of its own.
 * - Frameworks whose retention is over are deleted one a second.
 * - Of a Framework in a queue of Kueue nothing is created unless its Workload is admitted, and the
 *   quota is given back when none of its pods is left (workload.h).
 *
 * Thread: own
 */
#include "base/counter.h"
#include "jobs/framework/framework.h"
#include "jobs/store/store.h"

struct rules;

enum {
	RULES_WINDOW_FIRST = 16, /* requests of one Framework under way, in its first batch */
	RULES_WINDOW = 64,       /* in the others */
	RULES_OBJECT_MAX = 4 << 20,
};

#define RULES_ANNOTATION "rest-lit/controller"
/* Why a Framework waits, for people; not there if it does not. */
#define RULES_WAITING "rest-lit/waiting"

/* Two clocks: `ms` never goes back; `wall_ms` is milliseconds since 1970. */
struct rules_time {
	int64_t ms, wall_ms;
};

/* Something for people, as an Event on that Framework.  Texts are borrowed during the call. */
struct rules_notice {
	const char *namespace_name, *name, *uid; /* of the Framework */
	const char *reason; /* in CamelCase, from a fixed list: docs/CONTROLLER.md */
	const char *message;
};

/* Numbers for metrics, written by the thread of the rules. */
struct rules_counts {
	atomic_ullong
	    frameworks[10];          /* now, by state: FW_STATES, and last those without a status */
	atomic_ullong pods;          /* known now */
	atomic_ullong queued;        /* Frameworks with unsent requests, now */
	atomic_ullong oldest_due_ms; /* since when (ms) the oldest Framework is due; 0: none is */
	atomic_ullong frozen;        /* Frameworks with unanswered requests, now */
	struct histogram sync;       /* duration of a sync: the shell's clock, see `clock_us` */
	atomic_ullong syncs, writes; /* of statuses */
	atomic_ullong taken;         /* Frameworks that were taken over */
	atomic_ullong fenced;        /* writes that the annotation refused */
	atomic_ullong foreign;       /* statuses that others have written */
	atomic_ullong unreadable, unstorable, forbidden; /* Frameworks, each time */
	atomic_ullong strays;                            /* pods of no task, deleted */
	atomic_ullong absences;                          /* objects found gone by a GET */
	atomic_ullong adopted; /* objects whose POST had lost its answer */
	atomic_ullong passive; /* 1: another controller writes, so nothing is sent */
};

struct rules_settings {
	const struct framework_config *config; /* borrowed */
	const char *identity;                  /* of this leader, as in its Lease; borrowed */
	struct rules_counts *counts;           /* borrowed */
	uint64_t (*random)(void *arg);
	int64_t (*clock_us)(void *arg); /* for `sync`; NULL: not measured */
	void (*notice)(void *arg, const struct rules_notice *n);
	void *arg;
};

struct rules *rules_new(const struct rules_settings *s);
/* All requests must have been answered.  Accepts NULL. */
void rules_free(struct rules *r);

/* A Framework waits in a queue of Kueue, so Workloads must be followed, too. */
bool rules_wants_workloads(const struct rules *r);
/* They cannot be, for this reason; static text; NULL: they can. */
void rules_no_workloads(struct rules *r, const struct rules_time *now, const char *why);

/* ---- what the watches say; kind: KIND_FRAMEWORK, KIND_CONFIGMAP, KIND_POD, KIND_WORKLOAD ---- */

/* Around a list, whose objects come by rules_put; also each time that a watch begins anew. */
void rules_list_begin(struct rules *r, enum object_kind kind);
void rules_list_end(struct rules *r, const struct rules_time *now, enum object_kind kind);
/* ADDED and MODIFIED, or DELETED.  object: valid JSON, which may have text after its end. */
void rules_put(struct rules *r, const struct rules_time *now, enum object_kind kind,
               struct span object);
void rules_gone(struct rules *r, const struct rules_time *now, enum object_kind kind,
                struct span object);

/* ---- requests ---- */

/* The next request to be sent at once; false: none now.  Its `arg` is for rules_answer, which must
 * follow exactly once; `done` and `deadline_ms` are the caller's; texts are borrowed until the
 * answer.  It syncs what is due first. */
bool rules_next(struct rules *r, const struct rules_time *now, struct store_request *out);
/* The answer, STORE_BUSY and STORE_AMBIGUOUS included. */
void rules_answer(struct rules *r, const struct rules_time *now, void *request,
                  const struct store_reply *reply);
/* rules_next is called again then at the latest (ms), or after an event or an answer; INT64_MAX:
 * no need. */
int64_t rules_wake_ms(const struct rules *r);
/* Requests that rules_next has returned and rules_answer has not got. */
size_t rules_open(const struct rules *r);
