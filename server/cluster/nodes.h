#pragma once
/*
 * The GPUs of the nodes that pods ask for, and how many of them tasks use: by the Frameworks in the
 * cache, whose documents name the node of each task.  Counted every half minute, in slices, because
 * documents are compressed, by the thread of upkeep.c.
 *
 * Thread: own
 */
#include "server/state/server.h"

enum { NODES_MAX = 500, NODE_NAME_MAX = 253 };

struct node_gpus {
	char name[NODE_NAME_MAX + 1];
	int64_t total, used; /* used may exceed total */
	int64_t available;   /* total without those that our jobs use, or may use */
	bool closed;         /* no pod is scheduled there now */
};

/* No list yet; the server is borrowed until nodes_free. */
struct nodes *nodes_new(struct server *s);
void nodes_free(struct nodes *n); /* accepts NULL */

/* The API server should be asked for a list now: ten minutes after the last one.  This counts as
 * having asked. */
bool nodes_wanted(struct nodes *n);
/* Takes the answer, valid JSON; the first NODES_MAX count.  Empty: the right to list is missing.
 * Sets server->node_gpus. */
void nodes_list(struct nodes *n, struct span list);
/* Goes on with counting, for a tenth of a second at most. */
void nodes_run_once(struct nodes *n);

/* The last complete count, sorted by name, in the arena.  0: nodes are unknown; then *out is
 * unchanged.  n may be NULL.  Does not block.  Thread: any. */
size_t nodes_copy(struct nodes *n, struct arena *a, struct node_gpus **out);
