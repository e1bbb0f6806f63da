#pragma once
/*
 * The results of jobs on this machine: the files that they have left in DIR/results/UID, which a
 * job may change while they are read.  results_routes.c has the routes, results_walk.c reads the
 * tree, results_send.c has a thread for each answer, so that no loop waits for a disk:
 *
 *	request -> results_take, a place -> edit (http/edit.h): the file or directory is opened
 *	        -> results_send: a thread writes into a pipe, which the stream of the answer reads
 *
 * This header is for other folders.
 *
 * Thread: loop
 */
#include "server/http/query.h"
#include "server/http/route.h"

/* Handlers, and the parameters of their routes. */
handler results_get, result_get;
extern const struct parameter RESULTS_LIST[], RESULT_FILE[];

/* The places for answers that are being sent, of all loops.  Thread: main. */
struct results_slots;
struct results_slots *results_slots_new(void);
/* Waits for their threads: no request is left.  NULL is allowed.  Thread: main. */
void results_slots_free(struct results_slots *all);
