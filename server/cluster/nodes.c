#include "server/cluster/nodes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json/scan.h"
#include "k8s/cache/cache.h"

enum {
	LIST_MS = 600000,      /* between lists */
	LIST_ASKED_MS = 60000, /* ... if somebody wants to see them */
	COUNT_MS = 30000,      /* between counts */
	COUNT_SLICE_MS = 100,
};

struct nodes {
	const struct server *server;
	int64_t list_ms, count_ms; /* when each was last begun; count_ms 0: never */
	/* A count. */
	const struct view *view; /* NULL: none is going on */
	struct view_walk walk;
	int64_t unplaced; /* GPUs of jobs whose nodes are unknown */
	struct node_gpus listed[NODES_MAX];
	size_t n_listed;
	/* The last complete one. */
	pthread_mutex_t lock; /* protects the next two; held for a copy only */
	struct node_gpus shown[NODES_MAX];
	size_t n_shown;
	atomic_bool asked; /* since the last list */
};

struct nodes *nodes_new(const struct server *s)
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

static int node_compare(const void *a, const void *b)
{
	return strcmp(((const struct node_gpus *)a)->name, ((const struct node_gpus *)b)->name);
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
	(void)pthread_mutex_lock(&n->lock); /* likewise */
	memcpy(n->shown, n->listed, n->n_listed * sizeof(n->listed[0]));
	n->n_shown = n->n_listed;
	(void)pthread_mutex_unlock(&n->lock);
}

void nodes_list(struct nodes *n, struct span list)
{
	ARENA_AUTO a = { 0 };
	struct scan s = scan_begin(scan_get(list, "items"));
	struct span item;
	nodes_count_end(n);
	n->n_listed = 0;
	n->count_ms = 0;
	while (n->n_listed < NODES_MAX && scan_item(&s, &item)) {
		struct node_gpus *node = &n->listed[n->n_listed];
		struct span name = scan_text(scan_path(item, "metadata", "name"), &a);
		struct span gpus =
		    scan_path(item, "status", "allocatable", n->server->options->device);
		*node = (struct node_gpus){ .closed = node_closed(item, &a) };
		(void)parse_i64(scan_text(gpus, &a), 0, INT32_MAX, &node->total); /* else none */
		if (name.n == 0 || name.n > NODE_NAME_MAX)
			continue;
		bytes_copy(node->name, name.p, name.n);
		n->n_listed++;
	}
	qsort(n->listed, n->n_listed, sizeof(n->listed[0]), node_compare);
	if (n->n_listed == 0)
		nodes_show(n);
}

bool nodes_wanted(struct nodes *n)
{
	bool asked = n->n_listed && atomic_load(&n->asked);
	if (clock_ms() - n->list_ms < (asked ? LIST_ASKED_MS : LIST_MS))
		return false;
	n->list_ms = clock_ms();
	atomic_store(&n->asked, false);
	return true;
}

/* ---- their use ---- */

/* GPUs of one task of a role: by the limits of its containers; for HiveD, which has none, by its
 * annotation. */
static int64_t nodes_role_gpus(const struct nodes *n, struct span doc, struct span name,
                               struct arena *a)
{
	static const char CELLS[] = "\nleafCellNumber: ";
	struct scan roles = scan_begin(scan_path(doc, "spec", "taskRoles"));
	struct span role = { NULL, 0 };
	struct span container;
	int64_t sum = 0;
	while (scan_item(&roles, &role) && !span_eq(scan_text(scan_get(role, "name"), a), name))
		;
	struct span pod = scan_path(role, "task", "pod");
	struct scan containers = scan_begin(scan_path(pod, "spec", "containers"));
	while (scan_item(&containers, &container)) {
		int64_t gpus = 0;
		struct span limit =
		    scan_path(container, "resources", "limits", n->server->options->device);
		if (!scan_int(limit, 0, INT32_MAX, &gpus))
			(void)parse_i64(scan_text(limit, a), 0, INT32_MAX, &gpus); /* else none */
		sum += gpus;
	}
	struct span hived = scan_text(scan_path(pod, "metadata", "annotations",
	                                        "hivedscheduler.microsoft.com/pod-scheduling-spec"),
	                              a);
	size_t at = span_find(hived, 0, CELLS);
	if (sum == 0 && at != SIZE_MAX) {
		at += sizeof(CELLS) - 1;
		struct span rest = { hived.p + at, hived.n - at };
		const char *end = memchr(rest.p, '\n', rest.n);
		rest.n = end ? (size_t)(end - rest.p) : rest.n;
		(void)parse_i64(rest, 0, INT32_MAX, &sum); /* else none */
	}
	return sum;
}

static void nodes_add(int64_t *sum, int64_t gpus)
{
	*sum = *sum + gpus < INT32_MAX ? *sum + gpus : INT32_MAX;
}

static void nodes_count_role(struct nodes *n, struct span doc, struct span role, struct arena *a)
{
	int64_t gpus = nodes_role_gpus(n, doc, scan_text(scan_get(role, "name"), a), a);
	struct scan s = scan_begin(scan_get(role, "taskStatuses"));
	struct span task;
	struct node_gpus wanted = { 0 };
	while (gpus && scan_item(&s, &task)) {
		struct span state = scan_text(scan_get(task, "state"), a);
		struct span name = scan_text(scan_path(task, "attemptStatus", "podNodeName"), a);
		if (span_is(state, "Completed") || span_is(state, "AttemptCompleted") ||
		    name.n == 0 || name.n > NODE_NAME_MAX)
			continue; /* no pod, or not scheduled */
		bytes_copy(wanted.name, name.p, name.n);
		wanted.name[name.n] = '\0';
		struct node_gpus *node =
		    bsearch(&wanted, n->listed, n->n_listed, sizeof(wanted), node_compare);
		if (node)
			nodes_add(&node->used, gpus);
	}
}

static void nodes_count_job(struct nodes *n, const struct job_entry *job)
{
	ARENA_AUTO a = { 0 };
	struct span doc;
	struct span roles;
	struct span role;
	if (job_state_final(job->state) || job->untouched || job->gpus <= 0)
		return;
	if (!job_entry_doc(job, &a, &doc) ||
	    !job_entry_roles(scan_path(doc, "status", "attemptStatus"), &a, &roles)) {
		nodes_add(&n->unplaced, job->gpus);
		return;
	}
	struct scan s = scan_begin(roles);
	while (scan_item(&s, &role))
		nodes_count_role(n, doc, role, &a);
}

static bool nodes_count_begin(struct nodes *n)
{
	if (n->n_listed == 0 || (n->count_ms && clock_ms() - n->count_ms < COUNT_MS))
		return false;
	n->view = cache_view(n->server->cache);
	if (!view_warm(n->view)) {
		nodes_count_end(n);
		return false;
	}
	n->walk = (struct view_walk){ .view = n->view };
	n->count_ms = clock_ms();
	n->unplaced = 0;
	for (size_t i = 0; i < n->n_listed; i++)
		n->listed[i].used = 0;
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
	for (size_t i = 0; i < n->n_listed; i++) {
		struct node_gpus *node = &n->listed[i];
		int64_t left = node->closed ? 0 : node->total - node->used - n->unplaced;
		node->available = left > 0 ? left : 0;
	}
	nodes_show(n);
	nodes_count_end(n);
}

size_t nodes_copy(struct nodes *n, struct arena *a, struct node_gpus **out)
{
	*out = NULL;
	if (!n)
		return 0;
	struct node_gpus *rows = ARENA_NEW(a, struct node_gpus, NODES_MAX);
	(void)pthread_mutex_lock(&n->lock); /* likewise */
	size_t count = n->n_shown;
	memcpy(rows, n->shown, count * sizeof(*rows));
	(void)pthread_mutex_unlock(&n->lock);
	atomic_store(&n->asked, true);
	*out = rows;
	return count;
}
