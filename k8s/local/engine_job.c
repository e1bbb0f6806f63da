/* One Framework: its machine is synced until nothing changes, its status is stored, and only then
 * do its pods start. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/hash.h"
#include "base/json/scan.h"
#include "k8s/cache/job_entry.h"
#include "k8s/local/engine_internal.h"

enum {
	SYNCS_MAX = 100, /* in one step */
	SYNC_BACKOFF_MS = 30000,
	STORE_BACKOFF_MS = 5000,
	REFUSED_MS = 60000,
	DEADLINE_MS = 30000,
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
	for (size_t i = 0; i < sizeof(CLASSES) / sizeof(CLASSES[0]); i++) {
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
	job->name = xstrdup(c->name);
	job->order = (struct queue_order){
		.user = arena_span(&job->arena, span_of(job_entry_shown_user(c))),
		.virtual_cluster = arena_span(&job->arena, span_of(c->cluster)),
		.priority = job_priority_of(c->priority),
		.submitted_ms = c->submitted_ms >= 0 ? c->submitted_ms : c->created_ms,
	};
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

void job_put(struct engine_job *job, struct span object)
{
	uint64_t seen = job_hash(job->e, object);
	if (job->gone || job->complete || (job->known && job->seen == seen))
		return;
	job->seen = seen;
	bool first = !job->known;
	job->known = true;
	if (first) {
		job_read_order(job, object);
		world_restore_configmap(job, scan_get(object, "status"));
	}
	job_read_machine(job, object);
	/* Not later, because there can be thousands. */
	if (first && job->machine && strcmp(framework_state(job->machine), "Completed") == 0)
		job_sync(job);
	else
		engine_due(job, 0);
}

void job_remove(struct engine_job *job)
{
	job->gone = true;
	engine_due(job, 0);
}

/* ---- the stored status ----------------------------------------------------------------------- */

static void job_stored(void *arg, const struct store_reply *reply)
{
	struct engine_job *job = arg;
	job->storing = false;
	str_done(&job->body);
	engine_due(job, 0);
	if (reply->outcome == STORE_OK) {
		job->must_store = false;
		job->store_failures = 0;
		job_trouble(job, NULL, SPAN(""));
		return;
	}
	bool absent = reply->outcome == STORE_NOT_FOUND || reply->status == 422;
	bool refused = reply->outcome == STORE_REFUSED || absent;
	job->unstored = true;
	job->store_ms = clock_ms() + (refused ? REFUSED_MS
	                                      : 20 * engine_backoff(job->store_failures++,
	                                                            STORE_BACKOFF_MS / 20));
	if (!absent) /* else the news of its deletion is under way */
		job_trouble(job, "its state cannot be stored", reply->message);
}

static void job_store(struct engine_job *job)
{
	job->body = STR_INIT(BODY_MAX);
	str_puts(&job->body, "[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":");
	str_json(&job->body, span_of(job->uid));
	str_puts(&job->body, "},{\"op\":\"add\",\"path\":\"/status\",\"value\":");
	framework_status_write(job->machine, &job->body);
	str_puts(&job->body, "}]");
	job->unstored = false;
	job->storing = true;
	store_request(job->e->store, &(struct store_request){
					 .verb = STORE_PATCH,
					 .kind = KIND_FRAMEWORK,
					 .name = job->name,
					 .json_patch = true,
					 .body = { str_view(&job->body) },
					 .urgent = true,
					 .deadline_ms = clock_ms() + DEADLINE_MS,
					 .done = job_stored,
					 .arg = job,
				     });
}

static void job_deleted(void *arg, const struct store_reply *reply)
{
	struct engine_job *job = arg;
	job->deleting = false;
	if (reply->outcome != STORE_OK && reply->outcome != STORE_NOT_FOUND)
		job->sync_ms = clock_ms() + REFUSED_MS;
	engine_due(job, job->sync_ms);
}

/* After frameworkCompletedRetainSec. */
static void job_delete(struct engine_job *job)
{
	job->sync_ms = ENGINE_NEVER;
	job->deleting = true;
	store_request(job->e->store, &(struct store_request){
					 .verb = STORE_DELETE,
					 .kind = KIND_FRAMEWORK,
					 .name = job->name,
					 .uid = job->uid,
					 .urgent = true,
					 .deadline_ms = clock_ms() + DEADLINE_MS,
					 .done = job_deleted,
					 .arg = job,
				     });
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void job_transition(void *arg, const char *role, int index, const char *from, const char *to)
{
	static const char *const BEGINS[] = { "AttemptCreationPending", "AttemptCreationRequested",
		                              "AttemptPreparing", "AttemptRunning" };
	struct engine_job *job = arg;
	bool begins = false;
	(void)from;
	for (size_t i = 0; i < sizeof(BEGINS) / sizeof(BEGINS[0]); i++)
		begins = begins || strcmp(to, BEGINS[i]) == 0;
	job->ends = job->ends || !begins;
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

/* One sync.  A status towards a start is stored when nothing more follows; any other one is stored
 * before the next sync, so that no attempt ends unseen. */
static void job_sync_once(struct engine_job *job)
{
	struct framework_world world;
	struct framework_result r = { .wake_s = INT64_MAX };
	uint64_t random;
	random_bytes(&random, sizeof(random));
	world_callbacks(job, &world);
	world.transition = job_transition;
	job->look = job->ends = false;
	framework_sync(job->machine, &world, clock_wall_ms() / 1000, random, &r);
	world_collect(job);
	world_sweep(job);
	if (r.status_changed)
		job->unstored = true;
	job->must_store = job->must_store || (r.status_changed && job->ends);
	job_next_sync(job, &r);
	if (!r.failed)
		grants_enter(job);
}

/* Syncs the machine until nothing changes, or its status must be stored first. */
static void job_sync(struct engine_job *job)
{
	for (unsigned i = 0; i < SYNCS_MAX; i++) {
		if (!job->look || job->storing || job->must_store)
			break;
		job_sync_once(job);
	}
	if (!job->unstored && !job->storing && !job->pods &&
	    strcmp(framework_state(job->machine), "Completed") == 0)
		job_complete(job);
	engine_due(job, job->look && !job->storing && !job->must_store ? 0 : job->sync_ms);
}

static void job_pods(struct engine_job *job, bool stored)
{
	for (struct engine_pod *p = job->pods; p; p = p->next)
		pod_step(p, stored);
	world_collect(job);
	world_sweep(job);
}

static bool job_bury(struct engine_job *job)
{
	for (struct engine_pod *p = job->pods; p; p = p->next) {
		if (!p->dying)
			pod_delete(p, p->grace_s);
	}
	job_pods(job, false);
	if (job->pods || job->storing || job->deleting)
		return true;
	logs_forget(job->e, job->uid);
	return false;
}

bool job_step(struct engine_job *job)
{
	int64_t now = clock_ms();
	if (job->gone)
		return job_bury(job);
	if (job->complete) {
		job_pods(job, false); /* of a crash */
		if (now >= job->sync_ms && !job->deleting)
			job_delete(job);
		engine_due(job, job->sync_ms);
		return true;
	}
	if (!job->machine)
		return true;
	job_pods(job, false);
	if (now >= job->sync_ms)
		job->look = true;
	if (job->look)
		job_sync(job);
	if (job->complete)
		return true;
	if (job->unstored && !job->storing && now >= job->store_ms)
		job_store(job);
	else if (job->unstored && !job->storing)
		engine_due(job, job->store_ms);
	job_pods(job, !job->unstored && !job->storing && !job->look);
	engine_due(job, job->look && !job->storing && !job->must_store ? 0 : job->sync_ms);
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
	bool never = !why && job->queued && queue_never(job->queued);
	if (!why && job->queued && queue_reason(job->e->queue, job->queued, &text))
		why = str_c(&text);
	if (why == job->why || (why && job->why && strcmp(why, job->why) == 0))
		return;
	char *copy = why ? xstrdup(why) : NULL;
	(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
	char *old = job->why;
	job->why = copy;
	job->never = never;
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
	str_done(&job->body);
	str_done(&job->refusal);
	arena_done(&job->arena);
	free(job->name);
	free(job->problem);
	free(job->why);
	free(job);
}
