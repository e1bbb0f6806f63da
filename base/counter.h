#pragma once
/*
 * Numbers that one thread counts and any thread reads.  There are no locks: with one writing
 * thread, an addition is a load and a store.
 *
 * Thread: own
 */
#include <stdatomic.h>
#include <stdint.h>

/* Thread: any. */
static inline uint64_t counter_get(const atomic_ullong *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

static inline void counter_set(atomic_ullong *c, uint64_t value)
{
	atomic_store_explicit(c, value, memory_order_relaxed);
}

static inline void counter_add(atomic_ullong *c, uint64_t n)
{
	counter_set(c, counter_get(c) + n);
}

/* Durations, counted by upper bound. */
enum { HISTOGRAM_BOUNDS = 17 };

struct histogram_bound {
	int64_t us;       /* a duration of exactly so many microseconds is within */
	const char *text; /* the same in seconds */
};
extern const struct histogram_bound HISTOGRAM_BOUND[HISTOGRAM_BOUNDS];

struct histogram {
	atomic_ullong bucket[HISTOGRAM_BOUNDS + 1]; /* not cumulative; the last has no bound */
	atomic_ullong sum_us;
};

void histogram_add(struct histogram *h, int64_t us);
