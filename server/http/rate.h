#pragma once
/*
 * Token buckets by key: so many at once, then so many per time.  One bounded table with room for
 * `entries` keys; who was not seen for longest gives way.  Memory is touched only as keys come. Any
 * thread; the lock is held for nanoseconds.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct rate;

enum { RATE_KEY = 64 }; /* bytes of a key that count; two keys that begin so are one */

/* `count` per `period_s`, and as many at once.  count 0: no limit. */
struct rate *rate_new(int64_t count, int64_t period_s, size_t entries);
void rate_free(struct rate *r); /* NULL is nothing */
/* Take one.  0, or the seconds (at least 1) after which there is one again. */
int64_t rate_take(struct rate *r, struct span key, int64_t now_ms);
