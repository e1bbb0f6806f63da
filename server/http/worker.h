#pragma once
/*
 * A thread for work that would block a loop (hashing a password takes 7 ms): one per process, with
 * a bounded queue.  Each loop has an inbox for results.
 */
#include <stdbool.h>

#include "base/mailbox.h"

struct worker;
struct worker_inbox {
	struct worker *worker;
	struct mailbox box; /* readable when there are results */
};

enum { WORKER_QUEUE = 16 };

/* NULL and *e: 500. */
struct worker *worker_new(struct err *e);
void worker_free(struct worker *w); /* all inboxes must have been freed */

/* For the calling thread; the worker is borrowed.  NULL and *e: 500. */
struct worker_inbox *worker_inbox_new(struct worker *w, struct err *e);
/* Queued work is dropped: `done` is called with ran = false. */
void worker_inbox_free(struct worker_inbox *in);
void worker_inbox_run_once(struct worker_inbox *in); /* calls `done` on this thread */

/* run(arg) on the worker's thread, then done(arg, true) on the inbox's.  false: the queue is full,
 * and nothing is called. */
bool worker_do(struct worker_inbox *in, void (*run)(void *arg), void (*done)(void *arg, bool ran),
               void *arg);
