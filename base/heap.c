#include "base/heap.h"

#include "base/str.h"

static void heap_set(struct heap *h, size_t at, struct heap_item *item)
{
	h->v[at] = item;
	item->place = at + 1;
}

/* Puts an item where it belongs, on the way up or down from a place that is free. */
static void heap_settle(struct heap *h, size_t at, struct heap_item *item)
{
	while (at > 0 && h->v[(at - 1) / 2]->at_ms > item->at_ms) {
		heap_set(h, at, h->v[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (size_t below; (below = 2 * at + 1) < h->n; at = below) {
		if (below + 1 < h->n && h->v[below + 1]->at_ms < h->v[below]->at_ms)
			below++;
		if (h->v[below]->at_ms >= item->at_ms)
			break;
		heap_set(h, at, h->v[below]);
	}
	heap_set(h, at, item);
}

void heap_put(struct heap *h, struct heap_item *item, int64_t at_ms)
{
	item->at_ms = at_ms;
	if (item->place == 0 && h->n == h->room) {
		h->room = h->room ? 2 * h->room : 64;
		h->v = xrealloc(h->v, h->room * sizeof(struct heap_item *));
	}
	heap_settle(h, item->place ? item->place - 1 : h->n++, item);
}

void heap_remove(struct heap *h, struct heap_item *item)
{
	if (item->place == 0)
		return;
	size_t at = item->place - 1;
	struct heap_item *last = h->v[--h->n];
	item->place = 0;
	if (last != item)
		heap_settle(h, at, last);
}
