/* Runs the janitor on a thread of its own. */
#include "server/cluster/gc.h"

#include <stdlib.h>

#include "k8s/gc/janitor.h"
#include "server/cluster/cluster.h"
#include "server/config/options.h"
#include "server/state/counts.h"
#include "server/state/log.h"

enum { ANSWER_MAX = 16 << 20 }; /* a list of 60 Frameworks with annotations of maximal size */

struct gc {
	struct caller caller;
	struct janitor *janitor;
	char *trouble; /* the last one that was logged; NULL: none */
	struct janitor_counts *counts;
};

static void gc_report(struct gc *g, const struct janitor_report *r)
{
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

static void *gc_thread(void *arg)
{
	struct gc *g = arg;
	struct janitor_report report;
	int64_t pause_ms;
	do {
		pause_ms = janitor_round(g->janitor, &report);
		if (!g->caller.stopped)
			gc_report(g, &report);
	} while (caller_wait(&g->caller, -1, pause_ms));
	return NULL;
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
	g->janitor = janitor_new(&g->caller, &options);
	struct store *store = cluster_store(s, &limits, e);
	if (store && caller_start(&g->caller, store, gc_thread, g, e) == 0) {
		s->threads[s->n_threads++] = &g->caller;
		return g;
	}
	gc_free(g);
	return NULL;
}

void gc_free(struct gc *g)
{
	if (!g)
		return;
	caller_end(&g->caller);
	janitor_free(g->janitor);
	free(g->trouble);
	free(g);
}
