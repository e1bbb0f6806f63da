/* Runs the janitor in the main thread. */
#include <stdlib.h>

#include "k8s/gc/janitor.h"
#include "server/cluster/cluster.h"
#include "server/counts.h"
#include "server/log.h"

enum { ANSWER_MAX = 16 << 20 }; /* a list of 60 Frameworks with annotations of maximal size */

struct gc {
	struct store *store;
	struct janitor *janitor;
	char *trouble; /* the last one that was logged; NULL: none */
	struct janitor_counts *counts;
	bool stopping;
};

static void gc_report(void *arg, const struct janitor_report *r)
{
	struct gc *g = arg;
	if (g->stopping)
		return;
	counter_add(r->trouble ? &g->counts->failed : &g->counts->good, 1);
	counter_add(&g->counts->frameworks, r->frameworks);
	counter_add(&g->counts->classes, r->classes);
	if (r->frameworks + r->classes > 0) {
		struct line line = log_begin(LOG_INFO, "removed leftovers of a killed server");
		log_int(&line, "frameworks", (int64_t)r->frameworks);
		log_int(&line, "priority_classes", (int64_t)r->classes);
		log_end(&line);
	}
	cluster_log_trouble(&g->trouble, r->trouble,
	                    "cannot look for leftovers of a killed server; trying again",
	                    "can look for leftovers of a killed server again");
}

struct gc *gc_start(struct server *s, struct err *e)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	const struct options *o = s->options;
	const struct janitor_options options = {
		.instance = o->instance,
		.namespace_name = s->namespace_name,
		.interval_ms = o->janitor_interval_s * 1000,
		.age_ms = o->janitor_age_s * 1000,
		.priority_classes = o->priority_class,
	};
	struct gc *g = xcalloc(1, sizeof(*g));
	limits.body = ANSWER_MAX;
	g->counts = &s->counts->janitor;
	g->store = cluster_store(s, &limits, e);
	if (!g->store) {
		gc_free(g);
		return NULL;
	}
	g->janitor = janitor_new(g->store, &options, gc_report, g);
	return g;
}

void gc_run_once(struct gc *g)
{
	store_reap(g->store);
	janitor_run_once(g->janitor);
	store_start(g->store);
}

int gc_fd(const struct gc *g)
{
	return store_fd(g->store);
}

int gc_timeout_ms(const struct gc *g)
{
	int store = store_timeout_ms(g->store);
	int janitor = janitor_timeout_ms(g->janitor);
	if (store < 0 || janitor < 0)
		return store < 0 ? janitor : store;
	return store < janitor ? store : janitor;
}

void gc_free(struct gc *g)
{
	if (!g)
		return;
	g->stopping = true;
	store_free(g->store);
	janitor_free(g->janitor);
	free(g->trouble);
	free(g);
}
