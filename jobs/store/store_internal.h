#pragma once
/* Shared by the files of jobs/store/: the queue of each user, served in turn. */
#include "jobs/store/store_backend.h"

/* Requests of this user (NULL: no user) between join and leave. */
size_t fair_queue_held(const struct fair_queue *q, const char *user);
/* Sets p->queue; copies the name.  waits: it is to be taken in turn. */
void fair_queue_join(struct fair_queue *q, struct pending *p, bool waits);
/* p must not be waiting; no effect if p->queue is NULL. */
void fair_queue_leave(struct fair_queue *q, struct pending *p);
/* The next request of the user whose turn it is; NULL if nothing waits. */
struct pending *fair_queue_take(struct fair_queue *q);
/* Moves requests whose deadline has passed to the end of *out.  Returns the earliest deadline of
 * the others; INT64_MAX: none. */
int64_t fair_queue_expire(struct fair_queue *q, int64_t now_ms, struct pending_list *out);
