#pragma once
/*
 * What was read and is believed for a while, by name.  Bounded: the oldest goes.  One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct memo;

struct memo_limits {
	size_t n, bytes; /* of all values together */
};

/* `drop` is called with each value that goes. */
struct memo *memo_new(struct memo_limits limits, void (*drop)(void *value));
void memo_free(struct memo *m); /* NULL is nothing */

/* The value, or NULL if there is none or its time is over; borrowed until the memo is touched
 * again.  *until_ms (or NULL) is when its time will be over. */
void *memo_get(struct memo *m, struct span name, int64_t now_ms, int64_t *until_ms);

/* How long a value is kept, and how much memory it is, about. */
struct memo_terms {
	int64_t until_ms;
	size_t bytes;
};

/* Keep a value, which is taken over, instead of what was kept by that name.  One that is larger
 * than all that may be kept is dropped at once. */
void memo_put(struct memo *m, struct span name, void *value, struct memo_terms terms);

/* Forget all values of which that is true. */
void memo_forget(struct memo *m, bool (*unwanted)(const void *value, const void *arg),
                 const void *arg);
void memo_clear(struct memo *m);
size_t memo_count(const struct memo *m);
