/* Goes through all states, and looks for what may never happen, for ends that cannot be reached,
 * and for steps that go on for ever without time. */
#include "tests/controller/explore/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A state.  Its memory is there until all moves from it were tried. */
struct vertex {
	void *memory;
	uint32_t size;
	bool done, stopped;
	uint32_t first_edge, edges;
};

struct edge {
	uint32_t to;
	struct move by;
};

struct graph {
	const struct space *space;
	const struct framework_config *config;
	bool breadth; /* the nearest state first, else the newest one, which needs less memory */
	struct vertex *v;
	uint32_t n, room;
	struct edge *edges;
	size_t n_edges, room_edges;
	uint32_t *waiting; /* states whose moves were not tried */
	uint32_t first, last;
	struct slot {
		uint64_t digest;
		uint32_t vertex; /* from 1; 0: free */
	} * slots;
	size_t mask;
	size_t bytes, peak; /* of states in memory */
};

static double seconds(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *checked(void *p)
{
	if (!p)
		abort();
	return p;
}

/* Room for all states from the begin. */
static void graph_begin(struct graph *g, const struct space *of,
                        const struct framework_config *config, bool breadth)
{
	*g = (struct graph){ .space = of, .config = config, .breadth = breadth, .mask = 1 };
	g->room = (uint32_t)of->states + MOVES_MOST;
	while (g->mask < 2 * (size_t)g->room)
		g->mask *= 2;
	g->slots = checked(calloc(g->mask--, sizeof(*g->slots)));
	g->v = checked(calloc(g->room, sizeof(*g->v)));
	g->waiting = checked(calloc(g->room, sizeof(*g->waiting)));
}

static void graph_end(struct graph *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		outside_free(g->v[i].memory);
	free(g->v);
	free(g->edges);
	free(g->waiting);
	free(g->slots);
}

/* The number of the state that is in the area. */
static uint32_t graph_state(struct graph *g)
{
	uint64_t digest = world_digest();
	size_t at = digest & g->mask;
	for (; g->slots[at].vertex; at = (at + 1) & g->mask)
		if (g->slots[at].digest == digest)
			return g->slots[at].vertex - 1;
	size_t size = area_used();
	struct vertex *v = &g->v[g->n];
	*v = (struct vertex){ .memory = outside_alloc(size),
		              .size = (uint32_t)size,
		              .done = world_is_done(),
		              .stopped = world_is_stopped() };
	area_save(v->memory);
	g->bytes += size;
	g->peak = g->bytes > g->peak ? g->bytes : g->peak;
	g->waiting[g->last++] = g->n;
	g->slots[at] = (struct slot){ digest, ++g->n };
	return g->n - 1;
}

static void graph_edge(struct graph *g, uint32_t from, uint32_t to, struct move by)
{
	if (g->n_edges == g->room_edges) {
		g->room_edges = g->room_edges ? 2 * g->room_edges : 1 << 18;
		g->edges = checked(realloc(g->edges, g->room_edges * sizeof(*g->edges)));
	}
	g->edges[g->n_edges++] = (struct edge){ to, by };
	g->v[from].edges++;
}

static const struct edge *graph_edges(const struct graph *g, uint32_t v)
{
	return &g->edges[g->v[v].first_edge];
}

/* ---- the moves that lead to a state ------------------------------------------------------------
 */

static void world_enter(const struct graph *g)
{
	area_inside = true;
	world_begin(g->space, g->config);
	area_inside = false;
}

static void play(struct move m)
{
	area_inside = true;
	world_move(m);
	area_inside = false;
	if (area_scratch_live())
		abort();
}

/* Prints the shortest way to a state by what is known, and one move more. */
static void path_tell(const struct graph *g, uint32_t to, const struct move *more)
{
	char text[160];
	uint32_t *queue = checked(calloc(g->n, sizeof(*queue)));
	uint32_t *parent = checked(calloc(g->n, sizeof(*parent)));
	struct move *by = checked(calloc(g->n, sizeof(*by)));
	uint32_t *path = checked(calloc(g->n, sizeof(*path)));
	uint32_t last = 1;
	uint32_t n = 0;
	for (uint32_t at = 0; at < last && queue[at] != to; at++)
		for (uint32_t i = 0; i < g->v[queue[at]].edges; i++) {
			const struct edge *e = &graph_edges(g, queue[at])[i];
			if (e->to == 0 || parent[e->to] || by[e->to].kind)
				continue;
			parent[e->to] = queue[at];
			by[e->to] = e->by;
			by[e->to].kind++; /* so that it is not 0 */
			queue[last++] = e->to;
		}
	for (uint32_t at = to; at; at = parent[at])
		path[n++] = at;
	world_enter(g);
	for (uint32_t i = 1; i <= n + (more != NULL); i++) {
		struct move m = i <= n ? by[path[n - i]] : *more;
		m.kind = (uint8_t)(m.kind - (i <= n));
		move_tell(m, text, sizeof(text));
		printf("  %3u %s\n", i, text);
		play(m);
	}
	free(queue);
	free(parent);
	free(by);
	free(path);
}

/* ---- the graph as a whole ----------------------------------------------------------------------
 */

/* The end must not wait for this: a fault, or, once the Framework is stopped, the end of a pod. */
static bool edge_is_luck(const struct vertex *from, const struct edge *e)
{
	bool pod = e->by.kind == MOVE_PHASE || e->by.kind == MOVE_FAIL;
	return move_is_fault(e->by) || (pod && from->stopped);
}

/* A state from which no end can be reached without luck; UINT32_MAX: there is none. */
static uint32_t graph_stuck(const struct graph *g)
{
	uint32_t *heads = checked(calloc(g->n + 1, sizeof(*heads))); /* edges by where they lead */
	uint32_t *from = checked(calloc(g->n_edges + 1, sizeof(*from)));
	uint32_t *queue = checked(calloc(g->n, sizeof(*queue)));
	bool *ends = checked(calloc(g->n, sizeof(*ends)));
	uint32_t last = 0;
	uint32_t stuck = UINT32_MAX;
	for (size_t i = 0; i < g->n_edges; i++)
		heads[g->edges[i].to]++;
	for (uint32_t i = 1; i <= g->n; i++)
		heads[i] += heads[i - 1];
	for (uint32_t v = 0; v < g->n; v++)
		for (uint32_t i = 0; i < g->v[v].edges; i++) {
			const struct edge *e = &graph_edges(g, v)[i];
			from[--heads[e->to]] = edge_is_luck(&g->v[v], e) ? UINT32_MAX : v;
		}
	for (uint32_t v = 0; v < g->n; v++)
		if (g->v[v].done)
			ends[v] = true, queue[last++] = v;
	for (uint32_t at = 0; at < last; at++)
		for (uint32_t i = heads[queue[at]]; i < heads[queue[at] + 1]; i++)
			if (from[i] != UINT32_MAX && !ends[from[i]])
				ends[from[i]] = true, queue[last++] = from[i];
	for (uint32_t v = 0; v < g->n && stuck == UINT32_MAX; v++)
		if (!ends[v])
			stuck = v;
	free(heads);
	free(from);
	free(queue);
	free(ends);
	return stuck;
}

/* A state of a circle of moves without time; UINT32_MAX: there is none. */
static uint32_t graph_circle(const struct graph *g)
{
	enum { NEW, OPEN, LEFT };
	unsigned char *mark = checked(calloc(g->n, 1));
	uint32_t *stack = checked(calloc(g->n, sizeof(*stack)));
	uint32_t *next = checked(calloc(g->n, sizeof(*next)));
	uint32_t found = UINT32_MAX;
	for (uint32_t root = 0; root < g->n && found == UINT32_MAX; root++) {
		uint32_t n = 0;
		if (mark[root] == NEW)
			stack[n++] = root, mark[root] = OPEN;
		while (n && found == UINT32_MAX) {
			uint32_t v = stack[n - 1];
			if (next[v] == g->v[v].edges) {
				mark[v] = LEFT;
				n--;
				continue;
			}
			const struct edge *e = &graph_edges(g, v)[next[v]++];
			if (e->by.kind == MOVE_TIME)
				continue;
			if (mark[e->to] == OPEN)
				found = e->to;
			else if (mark[e->to] == NEW)
				stack[n++] = e->to, mark[e->to] = OPEN;
		}
	}
	free(mark);
	free(stack);
	free(next);
	return found;
}

/* ---- the search --------------------------------------------------------------------------------
 */

/* All moves from a state.  false: an invariant does not hold. */
static bool expand(struct graph *g, uint32_t at, struct result *r)
{
	struct move moves[MOVES_MOST];
	uint32_t size = g->v[at].size;
	void *memory = g->v[at].memory;
	const struct move *last = NULL;
	area_restore(memory, size);
	size_t n = world_moves(moves);
	world_check_rest(moves, n);
	g->v[at].first_edge = (uint32_t)g->n_edges;
	for (size_t i = 0; i < n && !world->bad; i++) {
		if (i > 0)
			area_restore(memory, size);
		play(moves[i]);
		r->steps++;
		last = &moves[i];
		if (!world->bad)
			graph_edge(g, at, graph_state(g), moves[i]);
	}
	r->bad = world->bad;
	if (r->bad && g->breadth) {
		printf("FAIL %s: %s, after:\n", g->space->name, r->bad);
		path_tell(g, at, last);
	}
	g->bytes -= size;
	outside_free(memory);
	g->v[at].memory = NULL;
	return !r->bad;
}

static void graph_check(const struct graph *g, struct result *r)
{
	uint32_t odd = graph_stuck(g);
	if (odd != UINT32_MAX)
		r->bad = "no end can be reached any more";
	else if ((odd = graph_circle(g)) != UINT32_MAX)
		r->bad = "requests go on for ever without time";
	if (odd == UINT32_MAX)
		return;
	printf("FAIL %s: %s, after:\n", g->space->name, r->bad);
	path_tell(g, odd, NULL);
}

static struct result search_in(const struct space *of, const struct framework_config *config,
                               bool breadth)
{
	struct graph g;
	struct result r = { 0 };
	double begun = seconds();
	graph_begin(&g, of, config, breadth);
	world_enter(&g);
	(void)graph_state(&g);
	bool holds = true;
	while (holds && g.first < g.last && g.n < of->states)
		holds = expand(&g, breadth ? g.waiting[g.first++] : g.waiting[--g.last], &r);
	r.whole = holds && g.first == g.last;
	if (r.whole)
		graph_check(&g, &r);
	for (uint32_t i = 0; i < g.n; i++)
		r.ends += g.v[i].done;
	r.states = g.n;
	r.seconds = seconds() - begun;
	r.peak = g.peak;
	graph_end(&g);
	return r;
}

struct result search(const struct space *of, const struct framework_config *config)
{
	struct result r = search_in(of, config, false);
	if (r.bad && !r.whole) /* the shortest way to it */
		(void)search_in(of, config, true);
	return r;
}
