#include "server/state/counts.h"

#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"

const short CODES[CODES_N] = { 0,   200, 201, 202, 204, 206, 304, 400, 401, 403,
	                       404, 405, 406, 408, 409, 411, 413, 414, 415, 416,
	                       422, 429, 431, 500, 501, 502, 503, 504, 505 };

/* Each loop has its own block, so that threads share no cache line. */
void counts_free(struct counts *c)
{
	for (size_t i = 0; c && i < c->n_loops; i++)
		free(c->loop[i]);
	free(c);
}

struct loop_counts *counts_loop(struct counts *c, const struct route *routes, size_t n)
{
	assert(c->n_loops < COUNTED_LOOPS);
	struct loop_counts *l = xcalloc(1, sizeof(*l) + (n + 1) * sizeof(l->route[0]));
	c->loop[c->n_loops++] = l;
	l->routes = routes;
	l->n_routes = n;
	return l;
}

/* The bound of further stores. */
struct store_counts *counts_store(struct counts *c)
{
	assert(c->n_stores < COUNTED_STORES);
	return &c->store[c->n_stores++];
}

void counts_request(struct loop_counts *c, size_t route, int status, int64_t us)
{
	size_t code = CODES_N - 1;
	while (code && CODES[code] != status)
		code--;
	counter_add(&c->route[route].answers[code], 1);
	if (us >= 0)
		histogram_add(&c->route[route].latency, us);
}
