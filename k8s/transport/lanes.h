#pragma once
/*
 * What is new waits in lanes, one for each user, and is taken from them in turn: who submits a
 * thousand jobs delays his own, not the single one of somebody else.  Private to k8s/.
 *
 * A request is in its lane's account from lanes_join to lanes_leave, also while it is under way or
 * waits to be tried again.
 */
#include "k8s/transport/pending.h"

enum { LANE_BUCKETS = 256 };

struct lanes {
	struct lane *bucket[LANE_BUCKETS]; /* all, by user */
	struct lane *first, *last;         /* those whose turn comes, in this order */
	size_t n;                          /* requests waiting in all of them */
};

/* Requests of this user (NULL: nobody's) from join to leave. */
size_t lanes_held(const struct lanes *l, const char *user);

void lanes_join(struct lanes *l, struct pending *p); /* sets p->lane; copies the user's name */
void lanes_leave(struct lanes *l,
                 struct pending *p); /* p waits in no lane; nothing if p->lane is NULL */

/* Put at the end of its lane. */
void lanes_append(struct lanes *l, struct pending *p);
/* The next one of the lane whose turn it is; NULL if all are empty. */
struct pending *lanes_take(struct lanes *l);
/* Those whose deadline has come, at the end of *out; the earliest deadline of the others
 * (INT64_MAX: none). */
int64_t lanes_expire(struct lanes *l, int64_t now_ms, struct pending_list *out);
