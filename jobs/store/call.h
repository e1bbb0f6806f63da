#pragma once
/*
 * Requests that wait for their answer, so that work in the background reads forwards.  The thread
 * owns the store, and no other thread calls it.
 *
 * Thread: worker
 */
#include <pthread.h>

#include "base/arena.h"
#include "jobs/store/store.h"

struct caller {
	struct store *store; /* owned; NULL after the end */
	pthread_t thread;
	bool running;
	int stop_fd; /* readable when the thread shall end */
	bool stopped;
	int64_t end_ms; /* if stopped: no request goes on after that, by clock_ms */
};

/* Begins run(arg) on a thread, which calls this store.  0, or -1 and *e (500).  In both cases, and
 * without this call if *c is zero, caller_end ends and frees all.  Thread: own. */
int caller_start(struct caller *c, struct store *s, void *(*run)(void *), void *arg, struct err *e);
/* Tells the thread to end.  With several, all are told before one is waited for.  Thread: any. */
void caller_stop(struct caller *c);
/* The same, and waits for it: about CALL_END_MS at most.  Thread: own. */
void caller_end(struct caller *c);

/*
 * Sends the request and waits for its outcome, which is also in *reply; texts of the reply live in
 * the arena.  deadline_ms is required; done and arg are not used.  When the thread shall end, this
 * call and all later ones have CALL_END_MS more, together; then the store is freed, and they are
 * STORE_AMBIGUOUS or STORE_BUSY: the caller needs no check but that of the outcome.
 */
enum { CALL_END_MS = 500 };
enum store_outcome store_call(struct caller *c, const struct store_request *r, struct arena *a,
                              struct store_reply *reply);

/* Waits until this descriptor (-1: none) is readable, or for this time (-1: no limit).  false: the
 * thread shall end. */
bool caller_wait(struct caller *c, int fd, int64_t ms);
