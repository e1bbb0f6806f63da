#pragma once
/*
 * Between cache.c and cache_inbox.c: who is told what has changed.
 */
#include <pthread.h>

#include "k8s/cache.h"
#include "k8s/cache_tree.h"

struct listeners {
	pthread_mutex_t lock; /* of the list; taken before that of an inbox */
	struct cache_inbox *first;
};

struct listeners *cache_listeners(struct cache *c);
/* Tell all of them.  `hash` is that of the name; now or before may be NULL. */
void listeners_tell(struct listeners *l, uint64_t hash, const struct cached *now,
                    const struct cached *before);
