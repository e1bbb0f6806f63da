#pragma once
/*
 * What is new waits in lanes, one for each user, and is taken from them in turn: who submits a
 * thousand jobs delays his own, not the single one of somebody else.  Private to k8s/.
 *
 * A request is in its lane's account from fair_queue_join to fair_queue_leave, also while it is
 * under way or waits to be tried again.
 */
#include "k8s/transport/pending.h"

enum { FAIR_QUEUE_BUCKETS = 256 };

struct fair_queue {
	struct user_queue *bucket[FAIR_QUEUE_BUCKETS]; /* all, by user */
	struct user_queue *first, *last;               /* those whose turn comes, in this order */
	size_t n;                                      /* requests waiting in all of them */
};

/* Requests of this user (NULL: nobody's) from join to leave. */
size_t fair_queue_held(const struct fair_queue *l, const char *user);

void fair_queue_join(struct fair_queue *l,
                     struct pending *p); /* sets p->lane; copies the user's name */
void fair_queue_leave(struct fair_queue *l,
                      struct pending *p); /* p waits in no lane; nothing if p->lane is NULL */

/* Put at the end of its lane. */
void fair_queue_append(struct fair_queue *l, struct pending *p);
/* The next one of the lane whose turn it is; NULL if all are empty. */
struct pending *fair_queue_take(struct fair_queue *l);
/* Those whose deadline has come, at the end of *out; the earliest deadline of the others
 * (INT64_MAX: none). */
int64_t fair_queue_expire(struct fair_queue *l, int64_t now_ms, struct pending_list *out);
