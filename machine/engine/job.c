/* Frameworks: in a turn of the engine the machines of those that are due are synced until nothing
 * changes, then their statuses are stored together, and only then do their pods start. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "base/process.h"
#include "k8s/cache/job_entry.h"
#include "machine/engine/engine_internal.h"

enum {
	SYNCS_MAX = 100, /* in one step */
	SYNC_BACKOFF_MS = 30000,
	STORE_MIN = 8, /* engine_backoff: 1.28 s */
	STORE_MS = 60000,
	BODY_MAX = 64 << 20,
	STORES_MAX = 64, /* in one commit */
};

void job_trouble(struct engine_job *job, const char *format, struct span what)
{
	free(job->problem);
	job->problem = format ? xasprintf("%s: %.*s", format, (int)what.n, what.p) : NULL;
}

/* ---- the Framework --------------------------------------------------------------------------- */

/* As OpenPAI gives them to HiveD. */
static int job_priority_of(const char *name)
{
	static const struct {
		const char *name;
		int priority;
	} CLASSES[] = { { "crit", 120 }, { "prod", 100 }, { "test", 10 }, { "oppo", -1 } };
	for (size_t i = 0; i < ARRAY_SIZE(CLASSES); i++) {
		if (strcmp(name, CLASSES[i].name) == 0)
			return CLASSES[i].priority;
	}
	return 10;
}

static void job_read_order(struct engine_job *job, struct span object)
{
	struct job_entry *c = job_entry_new(object);
	if (!c)
		return;
	job->limit_s = c->max_duration_s;
	job->launched = c->launched_ms != JOB_ENTRY_NONE;
	int64_t left_ms = job_entry_left_ms(c);
	job->stops_ms = left_ms == INT64_MAX ? ENGINE_NEVER : clock_ms() + left_ms;
	(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
	job->queued =
	    queue_add(job->e->queue, span_of(job_entry_shown_user(c)), span_of(c->cluster));
	job->queued->priority = job_priority_of(c->priority);
	job->queued->submitted_ms = c->submitted_ms >= 0 ? c->submitted_ms : c->created_ms;
	(void)pthread_mutex_unlock(&job->e->lock);
	job_entry_drop(c);
}

/* The machine of a Completed Framework is not needed. */
static void job_complete(struct engine_job *job)
{
	if (!job->machine || job->unstored || job->pods ||
	    strcmp(framework_state(job->machine), "Completed") != 0)
		return;
	framework_free(TAKE(job->machine));
	grants_end(job, NULL, 0);
	(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
	job->complete = true;
	TAILQ_REMOVE(&job->e->live, job, live);
	queue_remove(job->e->queue, TAKE(job->queued));
	(void)pthread_mutex_unlock(&job->e->lock);
}

static void job_read_machine(struct engine_job *job, struct span object)
{
	ERR_AUTO err = { 0 };
	struct framework *m = job->machine ?: framework_new(job->e->config);
	bool bad = framework_put(m, object, &err) < 0;
	if (bad) {
		job_trouble(job, "its Framework is not valid", span_of(err_msg(&err)));
		engine_notice(job->e, ENGINE_WARNING, "Framework %s is not valid: %s", job->name,
		              err_msg(&err));
		if (!job->machine)
			framework_free(m);
	} else {
		job_trouble(job, NULL, SPAN(""));
		job->machine = m;
	}
	job->look = !bad;
}

static void job_sync(struct engine_job *job);

void job_put(struct engine_job *job, const struct local_answer *answer)
{
	struct span object = str_view(&answer->body);
	bool first = job->version == 0;
	job->version = answer->version;
	if (job->gone || job->complete)
		return;
	job_read_machine(job, object);
	if (first) {
		ARENA_AUTO a = { 0 };
		struct fw_view status;
		fw_view_read(scan_get(object, "status"), &a, &status);
		job_read_order(job, object);
		world_restore_configmap(job, &status);
		if (job->machine)
			world_restore_tasks(job, &status);
	}
	/* Not later, because there can be thousands. */
	if (first && job->machine && strcmp(framework_state(job->machine), "Completed") == 0) {
		job_sync(job);
		job_complete(job);
	}
	engine_due(job, 0);
}

void job_remove(struct engine_job *job)
{
	job->e->n_gone += !job->gone;
	job->gone = true;
	job->configmap.dying = true; /* so all pods are deleted */
	engine_due(job, 0);
}

/* After frameworkCompletedRetainSec. */
static void job_delete(struct engine_job *job)
{
	struct local_answer answer;
	const struct store_request r = {
		.verb = STORE_DELETE, .kind = KIND_FRAMEWORK, .name = job->name, .uid = job->uid
	};
	local_request(job->e->set.store, job->e->set.namespace_name, &r, 1, &answer);
	bool gone = answer.outcome == STORE_OK || answer.outcome == STORE_NOT_FOUND;
	job->sync_ms = gone ? ENGINE_NEVER : clock_ms() + STORE_MS;
	local_answer_done(&answer);
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void job_launched(struct engine_job *job)
{
	if (!job->launched && job->limit_s) {
		job->launched_boot_ms = clock_boot_ms();
		job->stops_ms = clock_ms() + job->limit_s * 1000;
		grants_time(job);
	}
	job->launched = true;
}

static void job_transition(void *arg, const char *role, int index, const char *from, const char *to)
{
	struct engine_job *job = arg;
	(void)from;
	if (!role && strcmp(to, "AttemptRunning") == 0)
		job_launched(job);
	if (strcmp(to, "Completed") == 0 || (!role && strcmp(to, "AttemptCompleted") == 0))
		grants_end(job, role, index);
}

/* When the machine wants to be asked again. */
static void job_next_sync(struct engine_job *job, const struct framework_result *r)
{
	int64_t now = clock_ms();
	job->sync_ms = ENGINE_NEVER;
	if (r->wake_s != INT64_MAX) {
		int64_t wait = r->wake_s * 1000 - clock_wall_ms();
		job->sync_ms = now + (wait > 0 ? wait : 0);
	}
	if (r->failed || r->delete_framework) {
		int64_t again = now + engine_backoff(job->sync_failures++, SYNC_BACKOFF_MS);
		job->sync_ms = again < job->sync_ms ? again : job->sync_ms;
	} else {
		job->sync_failures = 0;
	}
	/* A pod is removed, and an attempt replaced, when its end is stored. */
	job->held = r->pending && job->unstored;
	job->look = job->look || r->again || job->held;
}

static bool job_syncs(const struct engine_job *job)
{
	return job->machine && job->look && !job->held;
}

static void job_sync_once(struct engine_job *job)
{
	struct framework_world world;
	struct framework_result r = { .wake_s = INT64_MAX };
	uint64_t random;
	random_bytes(&random, sizeof(random));
	world_callbacks(job, &world);
	world.transition = job_transition;
	world.unstored = job->unstored;
	job->look = false;
	framework_sync(job->machine, &world, clock_wall_ms() / 1000, random, &r);
	world_collect(job);
	world_sweep(job);
	job->unstored |= r.status_changed;
	job_next_sync(job, &r);
	if (!r.failed)
		grants_enter(job);
}

/* Syncs the machine until nothing changes, or its status must be stored first. */
static void job_sync(struct engine_job *job)
{
	for (unsigned i = 0; i < SYNCS_MAX && job_syncs(job); i++)
		job_sync_once(job);
}

static void job_pods(struct engine_job *job, bool stored)
{
	for (struct engine_pod *p = job->pods; p; p = p->next)
		pod_step(p, stored);
	world_collect(job);
	world_sweep(job);
}

/* The end of a look: what is stored may start. */
static void job_settle(struct engine_job *job)
{
	if (job->machine)
		job_pods(job, !job->unstored && !job->look);
	job_complete(job);
	if (job->complete && clock_ms() >= job->sync_ms)
		job_delete(job);
	grants_undo_late(job);
	if (job->unstored)
		engine_due(job, job->store_ms);
	engine_due(job, job_syncs(job) ? 0 : job->sync_ms);
	job_explain(job);
}

bool job_step(struct engine_job *job)
{
	if (job->machine || job->complete || job->gone)
		job_pods(job, false);
	if (job->gone && !job->pods)
		logs_forget(job->e, job->uid);
	if (job->gone)
		return job->pods != NULL;
	job->look |= clock_ms() >= job->sync_ms;
	job_sync(job);
	if (!job->unstored || clock_ms() < job->store_ms) {
		job_settle(job);
	} else if (!job->storing) {
		job->storing = true;
		TAILQ_INSERT_TAIL(&job->e->stores, job, store);
	}
	return true;
}

/* ---- the stored status ----------------------------------------------------------------------- */

/* What a request to store a status borrows. */
struct job_storing {
	struct engine_job *job;
	struct str status;
	char launched[PROCESS_BOOT_MAX + 24];
};

/* The time limit of a job counts from its launch, whatever becomes of the clock that people set. */
static void job_write(struct job_storing *w, struct store_request *out)
{
	char boot[PROCESS_BOOT_MAX];
	process_boot(boot);
	w->status = (struct str)STR_INIT(BODY_MAX);
	framework_status_write(w->job->machine, &w->status);
	w->launched[0] = '\0';
	if (w->job->launched_boot_ms && boot[0])
		(void)snprintf(w->launched, sizeof(w->launched), "%s %lld", boot,
		               (long long)w->job->launched_boot_ms);
	*out = (struct store_request){ .verb = STORE_PATCH,
		                       .kind = KIND_FRAMEWORK,
		                       .name = w->job->name,
		                       .uid = w->job->uid,
		                       .body = { str_view(&w->status), span_of(w->launched) } };
}

static void job_stored(struct engine_job *job, const struct local_answer *s)
{
	job->storing = false;
	if (s->outcome == STORE_OK) {
		job->unstored = job->held = false;
		job->launched_boot_ms = 0;
		job->store_failures = 0;
		job_trouble(job, NULL, SPAN(""));
		/* Else others have changed it too, and the news of this write make it be read. */
		if (s->before == job->version)
			job->version = s->version;
	} else {
		job->store_ms =
		    clock_ms() + engine_backoff(STORE_MIN + job->store_failures++, STORE_MS);
		/* Else there are news of its deletion. */
		if (s->outcome != STORE_NOT_FOUND)
			job_trouble(job, "its state cannot be stored", span_of(s->message ?: ""));
	}
	job_settle(job);
}

void jobs_store(struct engine *e)
{
	while (!TAILQ_EMPTY(&e->stores)) {
		struct job_storing w[STORES_MAX];
		struct store_request r[STORES_MAX];
		struct local_answer s[STORES_MAX];
		size_t n = 0;
		for (; n < STORES_MAX && !TAILQ_EMPTY(&e->stores); n++) {
			w[n].job = TAILQ_FIRST(&e->stores);
			TAILQ_REMOVE(&e->stores, w[n].job, store);
			job_write(&w[n], &r[n]);
		}
		local_request(e->set.store, e->set.namespace_name, r, n, s);
		for (size_t i = 0; i < n; i++) {
			job_stored(w[i].job, &s[i]);
			local_answer_done(&s[i]);
			str_done(&w[i].status);
		}
	}
}

/* ---- why it waits ---------------------------------------------------------------------------- */

void job_explain(struct engine_job *job)
{
	const char *why = job->problem;
	for (const struct engine_pod *p = job->pods; p && !why; p = p->next)
		why = p->problem;
	if (why == job->why || (why && job->why && strcmp(why, job->why) == 0))
		return;
	char *copy = why ? xstrdup(why) : NULL;
	(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
	char *old = job->why;
	job->why = copy;
	(void)pthread_mutex_unlock(&job->e->lock);
	free(old);
}

void job_free(struct engine_job *job)
{
	if (job->storing)
		TAILQ_REMOVE(&job->e->stores, job, store);
	grants_end(job, NULL, 0);
	(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
	queue_remove(job->e->queue, TAKE(job->queued));
	(void)pthread_mutex_unlock(&job->e->lock);
	for (struct engine_pod *p = job->pods; p; p = p->next)
		p->state = POD_REMOVED;
	world_sweep(job);
	framework_free(job->machine);
	json_decref(job->refusal);
	free(job->name);
	free(job->problem);
	free(job->why);
	free(job);
}
