#pragma once
/*
 * Runs the janitor (k8s/gc/janitor.h) in the main thread, from the start of the server on: what was
 * killed has left nothing to do for people.  It has a store of its own, so that it cannot be in
 * the way of jobs.  A line of the log for each round that removed something, and when its trouble
 * begins, changes or ends.
 */
#include "server/server.h"

struct gc_thread;

/* Begin.  NULL and *e (500). */
struct gc_thread *gc_thread_start(struct server *s, struct err *e);
/* Go on.  To be called when the descriptor is readable, or after the time. */
void gc_thread_run_once(struct gc_thread *w);
int gc_thread_fd(const struct gc_thread *w);
int gc_thread_timeout_ms(const struct gc_thread *w); /* -1: no limit */
/* Give up what is under way, silently. */
void gc_thread_free(struct gc_thread *w);
