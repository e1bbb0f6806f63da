#pragma once
/*
 * Starts held jobs (jobs/cache/hold.h) when their conditions have come true, and stops those whose
 * conditions never will: in the thread of rounds.c, after each change of a job.  Any number of
 * servers may do this at once: a PATCH has uid and resourceVersion, so a stop, a release or another
 * server wins or loses as a whole, and a start that a killed server has missed is made by another
 * one or by the next one.
 *
 * Of the jobs with `max` of one user and tag, a server starts the first only, in the order of the
 * annotation rest-lit/order, and only while fewer than `max` are started and have not ended.  So
 * two servers with different views try the same object:
 *
 *   - An order lies between the resourceVersions of the creation and of the completion.  So a view
 *     that has heard of the completion of a job has all jobs before it.  (It can have objects of
 *     its own server earlier; cache_heard_version tells.)
 *   - A job whose completion is under way may get any order, so it is waited for.
 *   - A job that is not held is never held again, so the first job of a view is not behind the
 *     first job of a newer view; if they differ, its resourceVersion has changed.
 *   - All started jobs before it are in the view, until they have ended or are gone.
 *
 * A model in the unit tests tries all interleavings.  On one machine the view is exact.
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
