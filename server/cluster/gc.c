/* Runs the janitor on a thread of its own, and removes unused code there. */
#include "server/cluster/gc.h"

#include <stdlib.h>

#include "base/posix/clock.h"
#include "jobs/cache/cache.h"
#include "jobs/gc/janitor.h"
#include "machine/store/aside.h"
#include "server/cluster/cluster.h"
#include "server/config/options.h"
#include "server/state/counts.h"
#include "server/state/log.h"

enum {
	ANSWER_MAX = 16 << 20, /* a list of 60 Frameworks with annotations of maximal size */
	CODE_ROUND_MS = 60000,
};

struct gc {
	const struct server *server;
	struct caller caller;
	struct janitor *janitor;      /* NULL: a machine, which cannot leave a job half created */
	char *trouble, *code_trouble; /* the last ones that were logged; NULL: none */
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

/* ---- code ---- */

/* On one machine the cache has a job before its submission is answered. */
static bool gc_code_named(const void *arg, const char *name)
{
	const struct server *s = arg;
	CACHE_VIEW_AUTO *view = cache_view(s->cache);
	struct view_walk walk = { .view = view };
	uint64_t key = job_entry_key(span_of(name + strlen("code-")));
	const struct job_entry *job;
	while ((job = view_next(&walk)) != NULL && job->archive != key)
		;
	return job;
}

/* Moves code to damaged/code: the database has lost its row. */
static void gc_set_aside(const void *arg, const char *name)
{
	const struct server *s = arg;
	const char *dir = s->options->local;
	FREE_AUTO char *from = xasprintf("code/%s", name);
	FREE_AUTO char *to = aside_move(dir, from, SPAN("code"));
	FREE_AUTO char *text = xasprintf(
	    to ? "the database lacks code that was uploaded: it is now in %s; upload it again"
	       : "%s cannot be moved to damaged/: %m",
	    to ?: from);
	const char *told = to ? aside_note(dir, text) : text;
	if (told)
		log_event(LOG_WARN, "code that no record names", "what", told);
}

struct code_store gc_code_store(const struct server *s, struct caller *c, int64_t deadline_ms)
{
	const struct options *o = s->options;
	bool local = s->code_directory;
	return (struct code_store){
		.caller = c,
		.deadline_ms = deadline_ms,
		.instance = o->instance,
		.directory = s->code_directory,
		.user_bytes = local ? o->machine_code_user : o->code_user,
		.all_bytes = local ? o->machine_code_all : o->code_all,
		.age_ms = o->code_age_s * 1000,
		.young_ms = o->janitor_age_s * 1000,
		.named = local ? gc_code_named : NULL,
		.orphan = gc_set_aside,
		.arg = s,
	};
}

static void gc_remove_code(struct gc *g)
{
	ERR_AUTO e = { 0 };
	struct code_store store = gc_code_store(g->server, &g->caller, clock_ms() + CODE_ROUND_MS);
	int64_t n = code_round(&store, &e);
	if (g->caller.stopped)
		return;
	if (n > 0) {
		struct line line = log_begin(LOG_INFO, "removed code that no job names");
		log_int(&line, "archives", n);
		log_end(&line);
	}
	cluster_log_trouble(&g->code_trouble, n < 0 ? err_msg(&e) : NULL,
	                    "cannot remove code that no job names; trying again",
	                    "can remove code that no job names again");
}

/* ---- the thread ---- */

static void *gc_thread(void *arg)
{
	struct gc *g = arg;
	struct janitor_report report;
	int64_t pause_ms = g->server->options->janitor_interval_s * 1000;
	do {
		if (g->janitor)
			pause_ms = janitor_round(g->janitor, &report);
		if (g->janitor && !g->caller.stopped)
			gc_report(g, &report);
		gc_remove_code(g);
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
	g->server = s;
	if (!s->local)
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
	free(g->code_trouble);
	free(g);
}
