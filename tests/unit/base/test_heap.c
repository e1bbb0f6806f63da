/* A heap of due times, compared with a linear search. */

#include "tests/unit/base/cmocka.h"
#include <stdlib.h>

#include "base/heap.h"

enum { ITEMS = 300, TURNS = 20000 };

static int64_t earliest(const struct heap_item *v)
{
	int64_t at_ms = INT64_MAX;
	for (size_t i = 0; i < ITEMS; i++)
		if (v[i].place && v[i].at_ms < at_ms)
			at_ms = v[i].at_ms;
	return at_ms;
}

/* Items are added, moved to earlier and later times, and removed from any place. */
TEST(test_heap_gives_the_earliest_first)
{
	static struct heap_item v[ITEMS];
	struct heap h = { 0 };
	uint32_t random = 1;
	assert_null(heap_first(&h));
	heap_remove(&h, &v[0]); /* it is in no heap */
	for (int i = 0; i < TURNS; i++) {
		random = random * 1664525 + 1013904223;
		struct heap_item *item = &v[(random >> 8) % ITEMS];
		if (random >> 28 < 5)
			heap_remove(&h, item);
		else
			heap_put(&h, item, random >> 20 & 0xff);
		int64_t at_ms = earliest(v);
		assert_true(heap_first(&h) ? heap_first(&h)->at_ms == at_ms : at_ms == INT64_MAX);
	}
	int64_t last = INT64_MIN;
	for (struct heap_item *item; (item = heap_first(&h)) != NULL; last = item->at_ms) {
		assert_true(item->at_ms >= last);
		heap_remove(&h, item);
		assert_int_equal(item->place, 0);
	}
	free(h.v);
}
