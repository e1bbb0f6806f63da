#include "server/cluster/gc_thread.h"

#include <stdlib.h>

#include "k8s/gc/janitor.h"
#include "k8s/transport/store.h"
#include "server/log.h"

enum { ANSWER_MAX = 16 << 20 }; /* of a list: 60 Frameworks with annotations as large as may be */

struct gc_thread {
	struct store *store;
	struct janitor *janitor;
	char *trouble; /* that was logged last; NULL: none */
	bool stopping;
};

/* A line when it is news. */
static void log_trouble(struct gc_thread *w, const char *trouble)
{
	if (trouble && (!w->trouble || strcmp(trouble, w->trouble) != 0)) {
		log_event(LOG_WARN,
		          "cannot look for what a killed server has left behind, and will "
		          "try again",
		          "why", trouble);
	} else if (!trouble && w->trouble) {
		log_event(LOG_INFO, "can look for what a killed server has left behind again", NULL,
		          NULL);
	}
	free(w->trouble);
	w->trouble = trouble ? xstrdup(trouble) : NULL;
}

static void swept(void *arg, const struct janitor_report *r)
{
	struct gc_thread *w = arg;
	if (w->stopping)
		return;
	if (r->frameworks + r->classes > 0) {
		struct line line =
		    log_begin(LOG_INFO, "removed what a killed server had left behind");
		log_int(&line, "frameworks", (int64_t)r->frameworks);
		log_int(&line, "priority_classes", (int64_t)r->classes);
		log_end(&line);
	}
	log_trouble(w, r->trouble);
}

struct gc_thread *gc_thread_start(struct server *s, struct err *e)
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
	struct gc_thread *w = xcalloc(1, sizeof(*w));
	limits.body = ANSWER_MAX;
	w->store = s->local ? store_local_new(s->local, s->namespace_name, &limits, e)
	                    : store_api_new(s->login, s->namespace_name, &limits, e);
	if (!w->store) {
		gc_thread_free(w);
		return NULL;
	}
	w->janitor = janitor_new(w->store, &options, swept, w);
	return w;
}

void gc_thread_run_once(struct gc_thread *w)
{
	store_reap(w->store);
	janitor_run_once(w->janitor);
	store_start(w->store);
}

int gc_thread_fd(const struct gc_thread *w)
{
	return store_fd(w->store);
}

int gc_thread_timeout_ms(const struct gc_thread *w)
{
	int store = store_timeout_ms(w->store);
	int janitor = janitor_timeout_ms(w->janitor);
	if (store < 0 || janitor < 0)
		return store < 0 ? janitor : store;
	return store < janitor ? store : janitor;
}

void gc_thread_free(struct gc_thread *w)
{
	if (!w)
		return;
	w->stopping = true;
	store_free(w->store);
	janitor_free(w->janitor);
	free(w->trouble);
	free(w);
}
