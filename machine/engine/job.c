/* Frameworks: in a turn of the engine the machines of those that are due are synced until nothing
 * changes, then their statuses are stored together, and only then do their pods start. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "base/lock.h"
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
	char *text = format ? xasprintf("%s: %.*s", format, (int)what.n, what.p) : NULL;
	LOCK_AUTO(&job->e->lock);
	free(job->problem);
	job->problem = text;
}

/* ---- the Framework --------------------------------------------------------------------------- */

static void job_read_order(struct engine_job *job, struct span object)
{
	/* As OpenPAI gives them to HiveD. */
	static const struct {
		const char *name;
		int priority;
	} CLASSES[] = { { "crit", 120 }, { "prod", 100 }, { "oppo", -1 } };
	enum { TEST = 10 };
	struct job_entry *c = job_entry_new(object);
	if (!c)
		return;
	struct queue_order order = {
		.user = span_of(job_entry_shown_user(c)),
		.virtual_cluster = span_of(c->cluster),
		.priority = TEST,
		.submitted_ms = c->submitted_ms >= 0 ? c->submitted_ms : c->created_ms,
	};
	for (size_t i = 0; i < ARRAY_SIZE(CLASSES); i++) {
		if (strcmp(c->priority, CLASSES[i].name) == 0)
			order.priority = CLASSES[i].priority;
	}
	job->limit_s = c->max_duration_s;
	job->launched = c->launched_ms != JOB_ENTRY_NONE;
	int64_t left_ms = job_entry_left_ms(c);
	job->stops_ms = left_ms == INT64_MAX ? ENGINE_NEVER : clock_ms() + left_ms;
	(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
	job->queued = queue_add(job->e->queue, &order);
	(void)pthread_mutex_unlock(&job->e->lock);
	job_entry_drop(c);
}

void job_end_grants(struct engine_job *job)
{
	while (job->grants)
		grant_end(job, job->grants);
}

/* The machine of a Completed Framework is not needed. */
static void job_complete(struct engine_job *job)
{
	if (!job->machine || job->unstored || job->pods ||
	    strcmp(framework_state(job->machine), "Completed") != 0)
		return;
	framework_free(TAKE(job->machine));
	job_end_grants(job);
	job->complete = true;
	LOCK_AUTO(&job->e->lock);
	TAILQ_REMOVE(&job->e->live, job, live);
	queue_remove(job->e->queue, TAKE(job->queued));
}

static void job_sync(struct engine_job *job);

void job_put(struct engine_job *job, const struct local_answer *answer)
{
	ERR_AUTO err = { 0 };
	struct span object = str_view(&answer->body);
	bool first = job->version == 0;
	(void)parse_i64(span_of(answer->resource_version), 1, INT64_MAX, &job->version);
	if (job->gone || job->complete)
		return;
	job->machine = job->machine ?: framework_new(job->e->config);
	job->look = framework_put(job->machine, object, &err) == 0;
	job_trouble(job, job->look ? NULL : "its Framework is not valid", span_of(err_msg(&err)));
	if (!job->look)
		engine_notice(job->e, ENGINE_WARNING, "Framework %s is not valid: %s", job->name,
		              err_msg(&err));
	if (first)
		job_read_order(job, object);
	if (first && job->look)
		world_restore(job, scan_get(object, "status"));
	/* Not later, because there can be thousands. */
	if (first && strcmp(framework_state(job->machine), "Completed") == 0) {
		job_sync(job);
		job_complete(job);
	}
	engine_due(job, 0);
}

void job_remove(struct engine_job *job)
{
	job->e->n_gone += !job->gone;
	job->gone = true;
	job->dying = true; /* so all pods are deleted */
	engine_due(job, 0);
}

/* After frameworkCompletedRetainSec. */
static void job_delete(struct engine_job *job)
{
	struct local_answer answer;
	const struct store_request r = {
		.verb = STORE_DELETE, .kind = KIND_FRAMEWORK, .name = job->name, .uid = job->uid
	};
	local_request(job->e->set.store, job->e->set.namespace_name, &r, &answer);
	bool gone = answer.outcome == STORE_OK || answer.outcome == STORE_NOT_FOUND;
	job->sync_ms = gone ? ENGINE_NEVER : clock_ms() + STORE_MS;
	local_answer_done(&answer);
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void job_transition(void *arg, const char *role, int index, const char *from, const char *to)
{
	struct engine_job *job = arg;
	bool ended = strcmp(to, "Completed") == 0;
	struct engine_grant *g = role && ended ? grant_of(job, role, index) : NULL;
	(void)from;
	if (g)
		grant_end(job, g);
	if (!role && (ended || strcmp(to, "AttemptCompleted") == 0))
		job_end_grants(job);
	if (role || job->launched || strcmp(to, "AttemptRunning") != 0)
		return;
	job->launched = true;
	if (job->limit_s) {
		job->launched_boot_ms = clock_boot_ms();
		job->stops_ms = clock_ms() + job->limit_s * 1000;
		grants_time(job);
	}
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

/* Syncs the machine until nothing changes, or its status must be stored first. */
static void job_sync(struct engine_job *job)
{
	for (unsigned i = 0; i < SYNCS_MAX && job_syncs(job); i++) {
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
		job->unstored |= r.status_changed;
		job_next_sync(job, &r);
		if (!r.failed)
			grants_enter(job);
	}
}

static void job_pods(struct engine_job *job, bool stored)
{
	for (struct engine_pod *p = job->pods; p; p = p->next)
		pod_step(p, stored);
	world_collect(job);
}

void job_step(struct engine_job *job)
{
	job_pods(job, false);
	job->look |= clock_ms() >= job->sync_ms;
	if (!job->gone)
		job_sync(job);
}

/* The end of a look: what is stored may start. */
static void job_settle(struct engine_job *job)
{
	if (job->gone && !job->pods) {
		trash_take(job->e, job->e->logs_dir, job->uid);
		engine_drop(job);
		return;
	}
	if (job->gone)
		return;
	job_pods(job, !job->unstored && !job->look);
	job_complete(job);
	if (job->complete && clock_ms() >= job->sync_ms)
		job_delete(job);
	grants_undo_late(job);
	if (job->unstored)
		engine_due(job, job->store_ms);
	engine_due(job, job_syncs(job) ? 0 : job->sync_ms);
}

/* ---- the stored status ----------------------------------------------------------------------- */

/* What local_put_status borrows is in `text`.  The time limit of a job counts from its launch,
 * whatever becomes of the clock that people set. */
static void job_write(const struct engine_job *job, struct str *text, struct local_status *out)
{
	char boot[PROCESS_BOOT_MAX] = "";
	*text = (struct str)STR_INIT(BODY_MAX);
	framework_status_write(job->machine, text);
	size_t n = text->n;
	if (job->launched_boot_ms)
		process_boot(boot);
	if (boot[0])
		str_printf(text, "%s %lld", boot, (long long)job->launched_boot_ms);
	*out = (struct local_status){ .name = job->name,
		                      .uid = job->uid,
		                      .status = span_to(str_view(text), n),
		                      .launched = span_from(str_view(text), n) };
}

static void job_stored(struct engine_job *job, const struct local_status *s)
{
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

void jobs_settle(struct engine *e)
{
	struct engine_job *job;
	do {
		struct engine_job *jobs[STORES_MAX];
		struct str text[STORES_MAX];
		struct local_status s[STORES_MAX];
		size_t n = 0;
		while (n < STORES_MAX && (job = TAILQ_FIRST(&e->turn)) != NULL) {
			TAILQ_REMOVE(&e->turn, job, turn);
			job->in_turn = TURN_NONE;
			if (job->gone || !job->unstored || clock_ms() < job->store_ms) {
				job_settle(job);
				continue;
			}
			jobs[n] = job;
			job_write(job, &text[n], &s[n]);
			n++;
		}
		if (n > 0)
			local_put_status(e->set.store, e->set.namespace_name, s, n);
		for (size_t i = 0; i < n; i++) {
			job_stored(jobs[i], &s[i]);
			free(s[i].message);
			str_done(&text[i]);
		}
	} while (!TAILQ_EMPTY(&e->turn));
}
