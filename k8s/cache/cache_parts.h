#pragma once
/*
 * The listeners of a cache: the inboxes that hear of changes.  Private to cache.c.
 */
#include <pthread.h>

#include "k8s/cache/cache.h"

struct listeners {
	pthread_mutex_t lock; /* of the list; taken before that of an inbox */
	struct change_queue *first;
	bool told; /* since the last listeners_wake; of the thread that writes */
};

struct listeners *cache_listeners(struct cache *c);
/* Adds a change to all inboxes.  `hash` is that of the name; now or before may be NULL. */
void listeners_tell(struct listeners *l, uint64_t hash, const struct job_entry *now,
                    const struct job_entry *before);
/* Wakes the threads of the inboxes that have changes: after cache_heard() counts them, so that a
 * thread that is woken knows the version up to which it has all. */
void listeners_wake(struct listeners *l);
