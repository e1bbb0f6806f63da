/* Takes the GPUs of nodes from a list, and adds up their use by a walk through the cache, in
 * slices. */
#include "server/cluster/nodes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/lock.h"
#include "jobs/cache/cache.h"
#include "jobs/framework/view.h"
#include "server/config/options.h"

enum {
	LIST_MS = 600000, /* between lists */
	COUNT_MS = 30000, /* between counts */
	COUNT_SLICE_MS = 100,
};

struct node_list {
	struct node_gpus v[NODES_MAX];
	size_t n;
};

struct nodes {
	struct server *server;
	int64_t list_ms, count_ms; /* last begin of each; count_ms 0: never */
	/* A count. */
	const struct cache_view *view; /* NULL: none is going on */
	struct view_walk walk;
	int64_t unplaced; /* GPUs of jobs whose nodes are unknown */
	struct node_list counting;
	/* The last complete one. */
	pthread_mutex_t lock; /* protects the next; held for a copy only */
	struct node_list shown;
};

struct nodes *nodes_new(struct server *s)
{
	struct nodes *n = xcalloc(1, sizeof(*n));
	n->server = s;
	n->list_ms = clock_ms();                  /* a start lists them by itself */
	(void)pthread_mutex_init(&n->lock, NULL); /* cannot fail */
	return n;
}

static void nodes_count_end(struct nodes *n)
{
	if (n->view)
		view_drop(n->view);
	n->view = NULL;
}

void nodes_free(struct nodes *n)
{
	if (!n)
		return;
	nodes_count_end(n);
	(void)pthread_mutex_destroy(&n->lock); /* not locked */
	free(n);
}

/* ---- the list ---- */

/* Orders by name, which is the first member. */
static int node_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Kubernetes taints nodes that are cordoned, not ready, or short of something. */
static bool node_closed(struct span node, struct arena *a)
{
	struct scan s = scan_begin(scan_path(node, "spec", "taints"));
	struct span taint;
	while (scan_item(&s, &taint))
		if (span_starts(scan_text(scan_get(taint, "key"), a), "node.kubernetes.io/") &&
		    !span_is(scan_text(scan_get(taint, "effect"), a), "PreferNoSchedule"))
			return true;
	return false;
}

static void nodes_show(struct nodes *n)
{
	LOCK_AUTO(&n->lock);
	n->shown = n->counting;
}

void nodes_list(struct nodes *n, struct span list)
{
	ARENA_AUTO a = { 0 };
	struct node_list *to = &n->counting;
	struct scan s = scan_begin(scan_get(list, "items"));
	struct span item;
	int64_t most = 0;
	nodes_count_end(n);
	to->n = 0;
	n->count_ms = 0;
	while (scan_item(&s, &item)) {
		struct node_gpus node = { .closed = node_closed(item, &a) };
		struct span name = scan_text(scan_path(item, "metadata", "name"), &a);
		struct span gpus =
		    scan_path(item, "status", "allocatable", n->server->options->device);
		(void)parse_i64(scan_text(gpus, &a), 0, INT32_MAX, &node.total); /* else none */
		most = node.total > most ? node.total : most;
		if (name.n == 0 || name.n > NODE_NAME_MAX || to->n == NODES_MAX)
			continue;
		bytes_copy(node.name, name.p, name.n);
		to->v[to->n++] = node;
	}
	qsort(to->v, to->n, sizeof(to->v[0]), node_compare);
	bool whole = scan_text(scan_path(list, "metadata", "continue"), &a).n == 0;
	atomic_store(&n->server->node_gpus, whole ? most : 0);
	if (to->n == 0)
		nodes_show(n);
}

/* Asking counts, so that a list that fails is not asked for at once again. */
bool nodes_wanted(struct nodes *n)
{
	if (clock_ms() - n->list_ms < LIST_MS)
		return false;
	n->list_ms = clock_ms();
	return true;
}

/* ---- their use ---- */

/* GPUs of one task of a role: by the limits of its containers; for HiveD, which has none, by its
 * annotation. */
static int64_t nodes_role_gpus(struct span doc, struct span name, struct arena *a)
{
	static const char CELLS[] = "\nleafCellNumber: ";
	struct scan roles = scan_begin(scan_path(doc, "spec", "taskRoles"));
	struct span role = { NULL, 0 };
	while (scan_item(&roles, &role) && !span_eq(scan_text(scan_get(role, "name"), a), name))
		;
	int64_t gpus = job_entry_role_gpus(role, a);
	struct span hived = scan_text(scan_path(role, "task", "pod", "metadata", "annotations",
	                                        "hivedscheduler.microsoft.com/pod-scheduling-spec"),
	                              a);
	size_t at = span_find(hived, 0, CELLS);
	if (gpus == 0 && at != SIZE_MAX) {
		struct span rest = span_from(hived, at + strlen(CELLS));
		(void)parse_i64(span_next(&rest, '\n'), 0, INT32_MAX, &gpus); /* else none */
	}
	return gpus;
}

static void nodes_count_role(struct nodes *n, struct span doc, struct fw_walk *role)
{
	int64_t gpus = nodes_role_gpus(doc, role->role, role->a);
	struct fw_view t;
	while (gpus && fw_walk_task(role, &t)) {
		bool ended = span_is(t.state, "Completed") || span_is(t.state, "AttemptCompleted");
		struct node_gpus *node =
		    bsearch(arena_dup(role->a, t.node), n->counting.v, n->counting.n,
		            sizeof(n->counting.v[0]), node_compare);
		if (node && !ended)
			node->used += gpus;
	}
}

static void nodes_count_job(struct nodes *n, const struct job_entry *job)
{
	ARENA_AUTO a = { 0 };
	struct span doc = { NULL, 0 };
	struct fw_view f;
	struct fw_walk w;
	if (job_state_final(job->state) || job->untouched || job->gpus <= 0)
		return;
	bool good = job_entry_doc(job, &a, &doc);
	fw_view_read(scan_inside(doc, "status"), &a, &f);
	good = fw_walk_begin(&w, &f, &a) && good;
	n->unplaced += good ? 0 : job->gpus;
	while (fw_walk_role(&w))
		nodes_count_role(n, doc, &w);
}

static bool nodes_count_begin(struct nodes *n)
{
	if (n->counting.n == 0 || (n->count_ms && clock_ms() - n->count_ms < COUNT_MS))
		return false;
	n->view = cache_view(n->server->cache);
	if (!view_warm(n->view)) {
		nodes_count_end(n);
		return false;
	}
	n->walk = (struct view_walk){ .view = n->view };
	n->count_ms = clock_ms();
	n->unplaced = 0;
	for (size_t i = 0; i < n->counting.n; i++)
		n->counting.v[i].used = 0;
	return true;
}

/* GPUs of jobs whose nodes are unknown could be those of any node. */
void nodes_run_once(struct nodes *n)
{
	int64_t end_ms = clock_ms() + COUNT_SLICE_MS;
	if (!n->view && !nodes_count_begin(n))
		return;
	for (const struct job_entry *job; (job = view_next(&n->walk)) != NULL;) {
		nodes_count_job(n, job);
		if (clock_ms() >= end_ms)
			return;
	}
	for (size_t i = 0; i < n->counting.n; i++) {
		struct node_gpus *node = &n->counting.v[i];
		int64_t left = node->closed ? 0 : node->total - node->used - n->unplaced;
		node->available = left > 0 ? left : 0;
	}
	nodes_show(n);
	nodes_count_end(n);
}

size_t nodes_copy(struct nodes *n, struct arena *a, struct node_gpus **out)
{
	if (!n)
		return 0;
	struct node_list *copy = ARENA_NEW(a, struct node_list, 1);
	(void)pthread_mutex_lock(&n->lock); /* likewise */
	*copy = n->shown;
	(void)pthread_mutex_unlock(&n->lock);
	*out = copy->v;
	return copy->n;
}
