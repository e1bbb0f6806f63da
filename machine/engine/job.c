/* One Framework: its machine is synced until nothing changes, its status is stored, and only then
 * do its pods start. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/hash.h"
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
	job->order = (struct queue_order){
		.user = arena_span(&job->arena, span_of(job_entry_shown_user(c))),
		.virtual_cluster = arena_span(&job->arena, span_of(c->cluster)),
		.priority = job_priority_of(c->priority),
		.submitted_ms = c->submitted_ms >= 0 ? c->submitted_ms : c->created_ms,
	};
	job->limit_s = c->max_duration_s;
	job->launched = c->launched_ms != JOB_ENTRY_NONE;
	int64_t left_ms = job_entry_left_ms(c);
	job->stops_ms = left_ms == INT64_MAX ? ENGINE_NEVER : clock_ms() + left_ms;
	job_entry_drop(c);
}

/* Of what the machine reads, but for the status. */
static uint64_t job_hash(const struct engine *e, struct span object)
{
	struct span deleted = scan_path(object, "metadata", "deletionTimestamp");
	return hash_bytes(&e->key, scan_get(object, "spec")) * 31 + hash_bytes(&e->key, deleted);
}

/* The machine of a Completed Framework is not needed. */
static void job_complete(struct engine_job *job)
{
	if (job->unstored || job->pods || strcmp(framework_state(job->machine), "Completed") != 0)
		return;
	framework_free(TAKE(job->machine));
	job->complete = true;
	while (job->grants)
		grant_end(job, job->grants);
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
	uint64_t seen = job_hash(job->e, object);
	bool first = job->version == 0;
	(void)parse_i64(span_of(answer->resource_version), 1, INT64_MAX, &job->version);
	if (job->gone || job->complete || (!first && job->seen == seen))
		return;
	job->seen = seen;
	if (first) {
		job_read_order(job, object);
		world_restore_configmap(job, scan_get(object, "status"));
	}
	job_read_machine(job, object);
	/* Not later, because there can be thousands. */
	if (first && job->machine && strcmp(framework_state(job->machine), "Completed") == 0) {
		job_sync(job);
		job_complete(job);
	}
	engine_due(job, 0);
}

void job_remove(struct engine_job *job)
{
	job->gone = true;
	job->configmap.dying = true; /* so all pods are deleted */
	engine_due(job, 0);
}

/* ---- the stored status ----------------------------------------------------------------------- */

/* Its time limit counts from then, whatever becomes of the clock that people set. */
static void job_store_launched(const struct engine_job *job, struct str *patch)
{
	char boot[PROCESS_BOOT_MAX];
	process_boot(boot);
	if (job->launched_boot_ms && boot[0])
		str_printf(patch,
		           ",{\"op\":\"add\",\"path\":\"/metadata/annotations/rest-lit~1launched\","
		           "\"value\":\"%s %lld\"}",
		           boot, (long long)job->launched_boot_ms);
}

/* The answer tells also what others have changed. */
static void job_store(struct engine_job *job)
{
	struct local_answer answer;
	STR_AUTO body = STR_INIT(BODY_MAX);
	str_puts(&body, "[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":");
	str_json(&body, span_of(job->uid));
	str_puts(&body, "},{\"op\":\"add\",\"path\":\"/status\",\"value\":");
	framework_status_write(job->machine, &body);
	str_char(&body, '}');
	job_store_launched(job, &body);
	str_char(&body, ']');
	const struct store_request r = { .verb = STORE_PATCH,
		                         .kind = KIND_FRAMEWORK,
		                         .name = job->name,
		                         .json_patch = true,
		                         .whole = true,
		                         .body = { str_view(&body) } };
	local_request(job->e->set.store, job->e->set.namespace_name, &r, &answer);
	if (answer.outcome == STORE_OK) {
		job->unstored = job->ends = false;
		job->launched_boot_ms = 0;
		job->store_failures = 0;
		job_trouble(job, NULL, SPAN(""));
		job_put(job, &answer);
	} else {
		job->store_ms =
		    clock_ms() + engine_backoff(STORE_MIN + job->store_failures++, STORE_MS);
		/* Else there are news of its deletion. */
		if (answer.outcome != STORE_NOT_FOUND && answer.status != 422)
			job_trouble(job, "its state cannot be stored", span_of(answer.message));
	}
	local_answer_done(&answer);
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
	static const char *const BEGINS[] = { "AttemptCreationPending", "AttemptCreationRequested",
		                              "AttemptPreparing", "AttemptRunning" };
	struct engine_job *job = arg;
	bool begins = false;
	(void)from;
	for (size_t i = 0; i < ARRAY_SIZE(BEGINS); i++)
		begins = begins || strcmp(to, BEGINS[i]) == 0;
	job->ends = job->ends || !begins;
	if (!role && strcmp(to, "AttemptRunning") == 0)
		job_launched(job);
	if (strcmp(to, "Completed") != 0 && (role || strcmp(to, "AttemptCompleted") != 0))
		return;
	struct engine_grant *g = role ? grant_of(job, role, index) : job->grants;
	while (g) {
		grant_end(job, g);
		g = role ? NULL : job->grants;
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
	job->look = job->look || r->again;
}

/* A status towards a start is stored when nothing more follows; any other one is stored before the
 * next sync, so that no attempt ends unseen. */
static bool job_syncs(const struct engine_job *job)
{
	return job->machine && job->look && !(job->unstored && job->ends);
}

static void job_sync_once(struct engine_job *job)
{
	struct framework_world world;
	struct framework_result r = { .wake_s = INT64_MAX };
	uint64_t random;
	random_bytes(&random, sizeof(random));
	world_callbacks(job, &world);
	world.transition = job_transition;
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

/* A look at a job with a machine. */
static void job_advance(struct engine_job *job)
{
	job_pods(job, false);
	job->look |= clock_ms() >= job->sync_ms;
	job_sync(job);
	if (job->unstored && clock_ms() >= job->store_ms)
		job_store(job);
	if (job->unstored)
		engine_due(job, job->store_ms);
	job_pods(job, !job->unstored && !job->look);
	job_complete(job);
}

bool job_step(struct engine_job *job)
{
	if (job->machine && !job->gone)
		job_advance(job);
	else if (job->complete || job->gone)
		job_pods(job, false);
	if (job->gone && !job->pods)
		logs_forget(job->e, job->uid);
	if (job->gone)
		return job->pods != NULL;
	if (job->complete && clock_ms() >= job->sync_ms)
		job_delete(job);
	grants_undo_late(job);
	engine_due(job, job_syncs(job) ? 0 : job->sync_ms);
	job_explain(job);
	return true;
}

/* ---- why it waits ---------------------------------------------------------------------------- */

void job_explain(struct engine_job *job)
{
	STR_AUTO text = STR_INIT(1024);
	const char *why = job->problem;
	for (const struct engine_pod *p = job->pods; p && !why; p = p->next)
		why = p->problem;
	if (!why && job->queued && queue_reason(job->e->queue, job->queued, &text))
		why = str_c(&text);
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
	while (job->grants)
		grant_end(job, job->grants);
	if (job->queued)
		queue_remove(job->e->queue, job->queued);
	for (struct engine_pod *p = job->pods; p; p = p->next)
		p->state = POD_REMOVED;
	world_sweep(job);
	framework_free(job->machine);
	json_decref(job->refusal);
	arena_done(&job->arena);
	free(job->name);
	free(job->problem);
	free(job->why);
	free(job);
}
