#pragma once
/*
 * Threads for work that would block a loop: an edit waits for the API server (edit.h), hashing a
 * password takes 7 ms.  The threads of a worker serve its bounded queue in order.  Each loop has an
 * inbox for results.
 *
 * Thread: loop
 */
#include <stdbool.h>

#include "base/posix/mailbox.h"
#include "jobs/store/call.h"

struct worker;
struct worker_inbox {
	struct worker *worker;
	struct mailbox box; /* readable when there are results */
};

enum { WORKER_THREADS = 4 };

/* queue: how much waits at most, and a quarter of that of one user, or of clients without one.
 * Thread: main. */
struct worker *worker_new(size_t queue);
/* Adds a thread; `run` may use its store, which is taken over.  -1, *e: 500.
 * Thread: main. */
int worker_add(struct worker *w, struct store *s, struct err *e);
/* All inboxes must have been freed; NULL is allowed.  Thread: main. */
void worker_free(struct worker *w);

/* Makes an inbox for the calling thread; the worker is borrowed.  NULL and *e: 500. */
struct worker_inbox *worker_inbox_new(struct worker *w, struct err *e);
/* Queued work is dropped: `done` is called with ran = false.  Work that runs is told to end, and
 * waited for: about CALL_END_MS at most. */
void worker_inbox_free(struct worker_inbox *in);
void worker_inbox_run_once(void *inbox); /* calls `done` on this thread */

/* Work on one of the threads. c: with the store of this thread.  Thread: worker. */
typedef void worker_run(struct caller *c, void *arg);
/* run(c, arg) on a thread of the worker, then done(arg, true) on the inbox's.  false: the queue is
 * full, or too much of this user (borrowed; NULL: none) waits in it, and nothing is called. */
bool worker_do(struct worker_inbox *in, const char *user, worker_run *run,
               void (*done)(void *arg, bool ran), void *arg);
