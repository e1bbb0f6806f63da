#pragma once
/*
 * Times at which something is due, the earliest first: a binary heap of items that are members of
 * what is due.
 *
 *	heap_put(&timers, &job->due, now_ms + 1000);
 *	while ((item = heap_first(&timers)) && item->at_ms <= now_ms)
 *		heap_remove(&timers, item);
 *
 * All costs are logarithmic.  An item of zeroes is in no heap.
 *
 * Thread: own
 */
#include <stddef.h>
#include <stdint.h>

struct heap_item {
	int64_t at_ms;
	size_t place; /* from 1; 0: in no heap */
};

struct heap {
	struct heap_item **v; /* owned: the owner of the heap frees it; zeroes are an empty heap */
	size_t n, room;
};

/* Adds an item, or moves it to another time. */
void heap_put(struct heap *h, struct heap_item *item, int64_t at_ms);
/* Removes an item; does nothing if it is in no heap. */
void heap_remove(struct heap *h, struct heap_item *item);
/* The earliest item; NULL: there is none. */
static inline struct heap_item *heap_first(const struct heap *h)
{
	return h->n ? h->v[0] : NULL;
}
