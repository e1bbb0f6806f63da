#pragma once
/*
 * What every pod of a job refers to, seen to when the server starts, and in the background: the
 * start waits for none of it, nor for an API server that is not there yet.
 *
 * - The service account and the ConfigMap with the exit specification are looked for once.  What is
 *   missing is logged, with the command that mends it.  Not being allowed to look is no fault.
 *   SIGHUP looks again.
 * - So are a PriorityClass that all pods name, and, if they are for nodes with a label, such nodes
 *   and each device that pods ask for on them.
 * - If the configuration of FrameworkController can be read, exit codes that it lacks are logged.
 * - With --runtime=configmap the ConfigMap with pai-runtime is made.  Until it is there,
 *   no job is taken: its pods could not start.  This is tried for as long as it takes.
 *
 * - With --output-url the ConfigMap is made that says which server pods trust with their output. No
 *   job waits for it: pods run without, and upload nothing.
 *
 * It has a store of its own, so that it cannot be in the way of jobs.  All of it on one thread, but
 * for delivery_problem.
 */
#include "server/server.h"

struct delivery;

/* Begin; server->delivery says from now on how it goes.  NULL and *e (500). */
struct delivery *delivery_start(struct server *s, struct err *e);
/* Go on.  To be called when the descriptor is readable, or after the time. */
void delivery_turn(struct delivery *d);
int delivery_fd(const struct delivery *d);
int delivery_timeout_ms(const struct delivery *d); /* -1: no limit */
/* Look for it all once more, and make what is no longer there; jobs are taken meanwhile.  false,
 * and nothing is done, while that is under way anyway. */
bool delivery_again(struct delivery *d);
/* Give up what is under way, silently. */
void delivery_free(struct delivery *d);

/* Why no job can be taken now, for people; NULL if jobs can.  Any thread. */
const char *delivery_problem(const struct server *s);
