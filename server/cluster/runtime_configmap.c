/* Creates the ConfigMaps with pai-runtime, or compares those that exist. */
#include "server/cluster/runtime_configmap.h"

#include <stdatomic.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/store/paths.h"
#include "server/check/check.h"

enum { TRY_MS = 10000 }; /* per attempt to create a ConfigMap */

/* ---- ConfigMaps ---- */

enum store_outcome configmap_ask(struct caller *c, struct store_request r, struct arena *a,
                                 struct store_reply *reply)
{
	r.kind = KIND_CONFIGMAP;
	r.whole = true;
	r.deadline_ms = clock_ms() + TRY_MS;
	return store_call(c, &r, a, reply);
}

void configmap_log(const struct server *s, const struct configmap_event *e)
{
	ARENA_AUTO a = { 0 };
	struct line line = log_begin(e->level, e->event);
	log_text(&line, "object", span_of(arena_printf(&a, "ConfigMap %s", e->name)));
	log_text(&line, "namespace", span_of(s->namespace_name));
	log_text(&line, e->level == LOG_INFO ? "how" : "why", e->why);
	if (e->mend)
		log_text(&line, "mend", span_of(e->mend));
	log_end(&line);
}

const char *configmap_mend(const struct server *s, struct arena *a, const struct store_reply *reply)
{
	return reply->status == 403 ? check_apply(s, a, "rbac/rbac.yaml") : NULL;
}

/* ---- the state ---- */

static const char PENDING[] =
    "the ConfigMap with pai-runtime, which all pods need, is still being created";
static const char NO_ANSWER[] = "the ConfigMap with pai-runtime, which all pods need, is not yet "
				"created: the API server does not answer";
static const char NO_RIGHT[] =
    "the ConfigMap with pai-runtime, which all pods need, cannot be created: this server's account "
    "needs the RBAC verb \"create\" on configmaps";
static const char REFUSED[] =
    "the ConfigMap with pai-runtime, which all pods need, cannot be created: the API server "
    "refuses it, see the log of this server";

/* Logs a new problem, and each time that there is none, with the reason; returns true then.  The
 * server has that of the first program. */
static bool program_set(struct runtime_configmap *d, struct program_configmap *p,
                        const char *problem, struct span why, const char *mend)
{
	bool is_new = !problem || p->problem != problem;
	size_t i = 0;
	p->problem = problem;
	while (i + 1 < d->n && !d->program[i].problem)
		i++;
	atomic_store(&d->server->runtime_problem, d->program[i].problem);
	if (is_new)
		configmap_log(
		    d->server,
		    &(struct configmap_event){
			problem ? LOG_ERROR : LOG_INFO,
			problem ? "jobs are refused until the ConfigMap with pai-runtime exists"
				: "the ConfigMap with pai-runtime is ready",
			p->object.name, why, mend });
	return !problem;
}

static bool program_refused(struct runtime_configmap *d, struct program_configmap *p,
                            struct arena *a, const struct store_reply *reply)
{
	const char *problem = reply->outcome != STORE_REFUSED ? NO_ANSWER
	                      : reply->status == 403          ? NO_RIGHT
	                                                      : REFUSED;
	return program_set(d, p, problem, reply->message, configmap_mend(d->server, a, reply));
}

/* false: it must be tried again. */
static bool program_publish(struct runtime_configmap *d, struct program_configmap *p)
{
	ARENA_AUTO a = { 0 };
	struct store_reply made;
	struct store_reply there;
	struct store_request r = { .verb = STORE_CREATE,
		                   .name = p->object.name,
		                   .body = { p->object.body } };
	configmap_ask(d->caller, r, &a, &made);
	bool forbidden = made.outcome == STORE_REFUSED && made.status == 403;
	if (d->caller->stopped)
		return true;
	if (made.outcome == STORE_OK)
		return program_set(d, p, NULL, SPAN("created"), NULL);
	if (made.outcome != STORE_EXISTS && !forbidden)
		return program_refused(d, p, &a, &made);

	r = (struct store_request){ .verb = STORE_GET, .name = p->object.name };
	configmap_ask(d->caller, r, &a, &there);
	bool unreadable = there.outcome == STORE_REFUSED && there.status == 403;
	if (d->caller->stopped)
		return true;
	if (there.outcome == STORE_OK && check_has_program(p->object.body, there.body))
		return program_set(d, p, NULL, SPAN("was there, and is the same"), NULL);
	if (there.outcome == STORE_OK)
		return program_set(d, p, CHECK_FOREIGN, span_of(CHECK_FOREIGN),
		                   check_mend_foreign(d->server, &a, p->object.name));
	if (forbidden && (unreadable || there.outcome == STORE_NOT_FOUND))
		return program_refused(d, p, &a, &made);
	if (unreadable) /* its name contains a hash, so an existing one is trusted */
		return program_set(
		    d, p, NULL,
		    SPAN("was there; not compared, because the RBAC verb \"get\" on it "
		         "is missing"),
		    NULL);
	if (there.outcome == STORE_NOT_FOUND)
		return false; /* deleted meanwhile */
	return program_refused(d, p, &a, &there);
}

void runtime_configmap_begin(struct runtime_configmap *d, struct server *s, struct caller *caller,
                             struct arena *a)
{
	*d = (struct runtime_configmap){ .server = s, .caller = caller };
	while (d->n < RUNTIME_PROGRAMS &&
	       runtime_object(s->translator, d->n, a, &d->program[d->n].object)) {
		d->program[d->n++].problem = PENDING;
		atomic_store(&s->runtime_problem, PENDING);
	}
}

size_t runtime_configmap_publish(struct runtime_configmap *d, bool first)
{
	size_t left = 0;
	for (struct program_configmap *p = d->program; p < d->program + d->n; p++) {
		p->done = (p->done && !first) || program_publish(d, p);
		left += !p->done;
	}
	return left;
}
