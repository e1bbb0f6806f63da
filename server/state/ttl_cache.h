#pragma once
/*
 * A cache of values by name, each with a time at which it expires.  Bounded by number and bytes;
 * the oldest entry is evicted first.
 *
 * Thread: own
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct ttl_cache;

struct ttl_cache_limits {
	size_t n, bytes; /* bytes: of all values together */
};

/* `drop` frees a value that leaves the cache. */
struct ttl_cache *ttl_cache_new(struct ttl_cache_limits limits, void (*drop)(void *value));
void ttl_cache_free(struct ttl_cache *c); /* NULL is allowed */

/* The value, or NULL if there is none or it has expired; borrowed until the next call.  *until_ms
 * (may be NULL) is its expiry. */
void *ttl_cache_get(struct ttl_cache *c, struct span name, int64_t now_ms, int64_t *until_ms);

struct ttl_cache_terms {
	int64_t until_ms;
	size_t bytes; /* approximate size of the value */
};

/* Takes the value over and replaces the old one of this name.  A value larger than the whole cache
 * is dropped at once. */
void ttl_cache_put(struct ttl_cache *c, struct span name, void *value,
                   struct ttl_cache_terms terms);

/* Removes all values for which `unwanted` returns true; NULL: all values. */
void ttl_cache_forget(struct ttl_cache *c, bool (*unwanted)(const void *value, const void *arg),
                      const void *arg);
