#pragma once
/*
 * Starts held jobs (jobs/cache/hold.h) when what they wait for has come true, and stops those for
 * which it never will: in the thread of rounds.c, at each change of a job.  Any number of servers
 * does this at once: a PATCH has uid and resourceVersion, so a stop, a release or another server
 * wins or loses as a whole, and what a server that was killed has not started, another one or the
 * next one does.
 *
 * Of the jobs with `max` of one user and tag, a server starts the first only, in the order of the
 * annotation rest-lit/order, and only while fewer than `max` are started and have not ended.  So
 * two servers whose views differ try the same object:
 *
 *   - Who sees a job complete, by the watch, sees all those that are before it: an order lies
 *     between the resourceVersions of the creation and the completion.  (A view can have objects of
 *     this server too early; cache_heard_version tells.)
 *   - A job whose completion is under way may get any order, so it is waited for.
 *   - A job that is not held is never held again, so the first one in a view is not before the
 *     first one in a newer view; if it is not the same, its resourceVersion has changed.
 *   - All started ones that are before it are in the view, until they have ended or are gone.
 *
 * tests/unit/jobs/test_order_model.c tries all interleavings of this.  On one machine the view is
 * exact.
 *
 * Thread: main
 */
#include "jobs/store/store.h"
#include "server/state/server.h"

struct order;

/* store: of the thread, borrowed.  NULL and *e: 500. */
struct order *order_new(struct server *s, struct store *store, struct err *e);
int order_fd(const struct order *o); /* readable when jobs have changed */
int order_timeout_ms(const struct order *o);
void order_run_once(struct order *o);
/* The store must have been freed before; NULL is allowed. */
void order_free(struct order *o);
