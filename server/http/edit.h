#pragma once
/*
 * Edits: requests that take several steps at the API server, as changes of users and tokens do. A
 * thread of a few (worker.h) goes through the steps and waits for each answer.  The request waits:
 * its members and its body do not change, and the thread only reads them.  An edit that the thread
 * begins after its deadline, because others took as long, fails at its first step; so the client
 * has an answer soon after the deadline.
 *
 * Thread: worker
 */
#include "jobs/store/call.h"
#include "server/http/request.h"

struct edit {
	struct request *r; /* read-only on the thread */
	void *arg;
	struct caller *caller;
	int64_t deadline_ms; /* by clock_ms */
	struct arena arena;  /* the thread's; wiped at the end */
	struct str body;     /* the answer; wiped at the end */
	struct err e;        /* http 0: success */
	const char *why;     /* for the log; in the arena, or static */
	bool unknown;        /* a write has no answer; until one is done, or `run` knows better */
	void (*run)(struct edit *t);
	void (*done)(struct edit *t);
};

/* Suspends r, and calls run on a thread; then done on the loop: r->reply.body has the body, and is
 * to be sent.  If run has set t->e, that is answered instead.  503: too many edits wait.
 * Thread: loop. */
void edit_start(struct request *r, void (*run)(struct edit *t), void (*done)(struct edit *t),
                void *arg);

/* Sends one request about Secrets, for run; its outcome is also in *reply, whose texts live in the
 * arena.  Sets kind, deadline, and that a whole object is read. */
enum store_outcome edit_call(struct edit *t, struct store_request r, struct arena *a,
                             struct store_reply *reply);
/* The store has not done it: 503 with this message, or 504 OutcomeUnknown.  -1. */
int edit_fail(struct edit *t, const char *message, struct span why);
