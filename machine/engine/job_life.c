/* Frameworks, with the ConfigMaps and pods that an API server would keep for them; a stored status
 * says which there are.  In a round of the engine the machines of those that are due are synced
 * until nothing changes, then their statuses are stored together, and only then do their pods
 * start. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "base/posix/process.h"
#include "base/time.h"
#include "jobs/cache/job_entry.h"
#include "machine/engine/engine_internal.h"

enum {
	SYNCS_MAX = 100, /* in one step */
	SYNC_BACKOFF_MS = 30000,
	STORE_MIN = 8, /* drive_backoff_ms: 1.28 s */
	STORE_MS = 60000,
	BODY_MAX = 64 << 20,
	STORES_MAX = 64,       /* in one commit */
	IDLE_LATER_MS = 60000, /* the GPUs have worked between two times of idleness */
};

void job_trouble(struct engine_job *job, const char *format, struct span what)
{
	char *text = format ? xasprintf("%s: %.*s", format, (int)what.n, what.p) : NULL;
	LOCK_AUTO(&job->e->lock);
	free(job->problem);
	job->problem = text;
}

/* ---- the life of a job ---- */

/* The states that may follow each one.  A Framework can be deleted at any time. */
#define TO(life) (1u << LIFE_##life)
static const unsigned LIFE_NEXT[LIFE_CLEARED + 1] = {
	[LIFE_NEW] = TO(STORED) | TO(GONE) | TO(LOST),
	[LIFE_STORED] = TO(UNSTORED) | TO(HELD) | TO(COMPLETE) | TO(GONE),
	[LIFE_UNSTORED] = TO(UNSTORED) | TO(HELD) | TO(STORED) | TO(GONE),
	[LIFE_HELD] = TO(STORED) | TO(GONE),
	[LIFE_COMPLETE] = TO(CLEARED),
};

void job_become(struct engine_job *job, enum job_life life)
{
	assert(LIFE_NEXT[job->life] & 1u << life);
	job->life = life;
	job->e->n_gone += job->life >= LIFE_GONE;
}

/* ---- ConfigMaps ------------------------------------------------------------------------------ */

/* A job has one at a time, whose name is made of its own. */
static enum framework_presence client_configmap(void *arg, const char *name, const char *uid,
                                                struct framework_configmap *out)
{
	const struct engine_job *job = arg;
	(void)name;
	(void)uid;
	*out = (struct framework_configmap){ job->configmap, job->uid, job->dying };
	return job->configmap[0] ? FRAMEWORK_THERE : FRAMEWORK_ABSENT;
}

/* A Framework of the same name was deleted, and its tasks still run. */
static bool client_took(const struct engine_job *job)
{
	const struct engine_job *other;
	bool taken = false;
	if (job->e->n_gone == 0)
		return false;
	LOCK_AUTO(&job->e->lock);
	TAILQ_FOREACH(other, &job->e->live, live)
	taken = taken || (other->life >= LIFE_GONE && other->configmap[0] && other->name &&
	                  strcmp(other->name, job->name) == 0);
	return taken;
}

/* The garbage collector. */
static void job_collect_pods(struct engine_job *job)
{
	bool dying = job->dying || job->life >= LIFE_GONE;
	for (struct engine_pod **at = &job->pods; *at;) {
		struct engine_pod *p = *at;
		if (dying && !p->dying && p->state != POD_REMOVED)
			pod_delete(p, p->grace_s);
		if (p->state != POD_REMOVED) {
			at = &p->next;
			continue;
		}
		(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
		*at = p->next;
		(void)pthread_mutex_unlock(&job->e->lock);
		job->last_found = NULL;
		pod_free(p);
	}
	if (job->configmap[0] && dying && !job->pods) {
		job->configmap[0] = '\0';
		job->look = true;
		engine_due(job, 0);
	}
}

/* ---- pods ------------------------------------------------------------------------------------ */

static struct engine_pod *job_find_pod(struct engine_job *job, const char *name)
{
	/* The state machine asks for all pods in the order in which it has made them. */
	struct engine_pod *p = job->last_found ? job->last_found->next : NULL;
	if (p && p->state != POD_REMOVED && strcmp(p->name, name) == 0)
		return job->last_found = p;
	for (p = job->pods; p; p = p->next) {
		if (p->state != POD_REMOVED && strcmp(p->name, name) == 0)
			return job->last_found = p;
	}
	return NULL;
}

static enum framework_presence client_pod(void *arg, const char *name, const char *uid,
                                          struct framework_pod *out)
{
	struct engine_pod *p = job_find_pod(arg, name);
	(void)uid;
	if (p)
		pod_view(p, out);
	return p ? FRAMEWORK_THERE : FRAMEWORK_ABSENT;
}

static struct engine_pod *job_new_pod(struct engine_job *job, const struct framework_object *o,
                                      const char *uid)
{
	struct engine_pod *p = xcalloc(1, sizeof(*p));
	(void)snprintf(p->uid, sizeof(p->uid), "%s", uid);
	p->e = job->e;
	p->job = job;
	p->pidfd = -1;
	p->task = TASK_NEW;
	p->name = arena_dup(&p->texts, span_of(o->name));
	p->role = arena_dup(&p->texts, span_of(o->role));
	p->dir = arena_printf(&p->texts, "%s/pods/%s", job->e->set.dir, uid);
	p->ip = job->e->pods.ip;
	p->index = o->index;
	p->attempt = o->attempt;
	p->retry = o->retry;
	return p;
}

/* Appends the pod, so that pods stay in the order in which they were made. */
static void job_add_pod(struct engine_job *job, struct engine_pod *p)
{
	struct engine_pod **at = job->last_found ? &job->last_found->next : &job->pods;
	(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
	while (*at)
		at = &(*at)->next;
	*at = job->last_found = p;
	(void)pthread_mutex_unlock(&job->e->lock);
	allocation_enter(p);
}

/* ---- what the state machine asks
 * ------------------------------------------------------------------- */

/* An answer 422 of an API server. */
static enum framework_answer client_refuse(struct engine_job *job, const char *name,
                                           const char *message, struct framework_created *out)
{
	json_decref(job->refusal);
	job->refusal = json_pack("{s:s, s:o, s:s, s:{s:s, s:s}}", "status", "Failure", "message",
	                         json_string_nocheck(message), "reason", "Invalid", "details",
	                         "name", name, "kind", "Pod");
	out->http = 422;
	out->status = job->refusal;
	return FRAMEWORK_REFUSED;
}

static enum framework_answer client_create(void *arg, const struct framework_object *o,
                                           struct framework_created *out)
{
	ERR_AUTO err = { 0 };
	char uid[UUID_TEXT];
	struct engine_job *job = arg;
	if (o->kind == FRAMEWORK_CONFIGMAP || job_find_pod(job, o->name)) {
		if (o->kind == FRAMEWORK_POD || job->configmap[0] || client_took(job))
			return FRAMEWORK_FAILED;
		random_uuid(job->configmap);
		job->dying = false;
		out->uid = job->configmap;
		job->look = true; /* it is seen at the next sync */
		return FRAMEWORK_DONE;
	}
	random_uuid(uid);
	struct engine_pod *p = job_new_pod(job, o, uid);
	if (pod_read_need(p, &err) < 0) {
		pod_free(p);
		return client_refuse(job, o->name, err_msg(&err), out);
	}
	job_add_pod(job, p);
	job->look = true;
	out->uid = p->uid;
	return FRAMEWORK_DONE;
}

static enum framework_answer client_remove(void *arg, const struct framework_delete *what)
{
	struct engine_job *job = arg;
	if (what->kind == FRAMEWORK_CONFIGMAP) {
		if (strcmp(job->configmap, what->uid) != 0)
			return FRAMEWORK_DONE;
		if (job->life == LIFE_UNSTORED && job->pods)
			return FRAMEWORK_PENDING; /* the reason of the pods' end is stored first */
		job->dying = true;
		job_collect_pods(job);
		return job->configmap[0] && what->confirm ? FRAMEWORK_PENDING : FRAMEWORK_DONE;
	}
	struct engine_pod *p = job_find_pod(job, what->name);
	if (!p || strcmp(p->uid, what->uid) != 0)
		return FRAMEWORK_DONE;
	if (job->life == LIFE_UNSTORED)
		return FRAMEWORK_PENDING; /* its exit code is stored first */
	if (!p->dying || what->force)
		pod_delete(p, what->force ? 0 : p->grace_s);
	return p->state != POD_REMOVED && what->confirm ? FRAMEWORK_PENDING : FRAMEWORK_DONE;
}

/* ---- after a restart ------------------------------------------------------------------------- */

static bool attempt_is_deleted(const struct fw_view *f)
{
	return span_is(f->state, "AttemptDeletionRequested") ||
	       span_is(f->state, "AttemptDeleting");
}

/* A pod that a stored status names, of the attempt `f`.  A pod that was started is found again; one
 * that was not waits again. */
static void job_restore_pod(struct engine_job *job, struct span role, const struct fw_view *f,
                            const struct fw_view *t)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO err = { 0 };
	const char *of = arena_dup(&a, role);
	const struct framework_object o = {
		.name = arena_printf(&a, "%s-%s-%lld", job->name, of, (long long)t->index),
		.role = of,
		.index = t->index,
		.attempt = f->attempt,
		.retry = t->attempt,
	};
	struct engine_pod *p = job_new_pod(job, &o, arena_dup(&a, t->uid));
	p->ip = t->pod_ip.n ? arena_dup(&p->texts, t->pod_ip) : p->ip;
	p->ports = t->pod_ports.n ? xstrndup(t->pod_ports.p, t->pod_ports.n) : NULL;
	p->gpus = t->pod_gpus.n ? xstrndup(t->pod_gpus.p, t->pod_gpus.n) : NULL;
	bool waits =
	    pod_read_need(p, &err) == 0 && (span_is(t->state, "AttemptCreationRequested") ||
	                                    span_is(t->state, "AttemptPreparing"));
	if (!pod_find(p) && !waits) {
		pod_free(p); /* the state machine sees that it is gone */
		return;
	}
	job_add_pod(job, p);
	if (attempt_is_deleted(t))
		pod_delete(p, p->grace_s);
}

void job_restore(struct engine_job *job, struct span status)
{
	/* In these states there is no ConfigMap, or none any more. */
	static const char *const NONE[] = { "", "AttemptCreationPending", "AttemptCompleted",
		                            "Completed", NULL };
	ARENA_AUTO a = { 0 };
	struct fw_view f;
	struct fw_view t;
	struct fw_walk w;
	fw_view_read(status, &a, &f);
	if (span_among(f.state, NONE) || f.uid.n == 0 || f.uid.n >= UID_TEXT)
		return;
	(void)snprintf(job->configmap, UID_TEXT, "%.*s", (int)f.uid.n, f.uid.p);
	job->dying = attempt_is_deleted(&f);
	(void)fw_walk_begin(&w, &f, &a); /* else no task is known */
	while (fw_walk_role(&w))
		while (fw_walk_task(&w, &t))
			if (t.uid.n > 0 && t.uid.n < UID_TEXT && span_only_alnum_or(t.uid, "-"))
				job_restore_pod(job, w.role, &f, &t);
}

/* ---- the Framework --------------------------------------------------------------------------- */

void job_read_order(struct engine_job *job, const struct job_entry *c)
{
	/* The priorities that OpenPAI gives to HiveD. */
	static const struct {
		const char *name;
		int priority;
	} CLASSES[] = { { "crit", 120 }, { "prod", 100 }, { "oppo", -1 } };
	int priority = 10; /* "test" */
	for (size_t i = 0; i < ARRAY_SIZE(CLASSES); i++) {
		if (strcmp(c->priority, CLASSES[i].name) == 0)
			priority = CLASSES[i].priority;
	}
	job->name = xstrdup(c->name);
	job->label =
	    c->legacy ? xstrdup(c->name) : xasprintf("%s~%s", job_entry_shown_user(c), c->job);
	job->limit_s = c->max_duration_s;
	job->launched = c->launched_ms != JOB_ENTRY_NONE;
	if (strcmp(c->sub_state, "Completed") == 0 && !c->broken &&
	    c->transition_ms != JOB_ENTRY_NONE) {
		job->ended_ms = c->transition_ms;
		job->ended_version = c->version;
	}
	int64_t left_ms = job_entry_left_ms(c);
	job->stops_ms = left_ms == INT64_MAX ? ENGINE_NEVER : clock_ms() + left_ms;
	job->queued =
	    queue_add(job->e->queue, span_of(job_entry_shown_user(c)), span_of(c->cluster));
	queue_limit(job->e->queue, span_of(job_entry_shown_user(c)),
	            engine_limit_of(job->e, span_of(job_entry_shown_user(c))));
	job->queued->priority = priority;
	job->queued->submitted_ms = c->submitted_ms >= 0 ? c->submitted_ms : c->created_ms;
}

/* Its state is stored, and it has no pods. */
static void job_become_complete(struct engine_job *job)
{
	job_become(job, LIFE_COMPLETE);
	LOCK_AUTO(&job->e->lock);
	TAILQ_REMOVE(&job->e->live, job, live);
	queue_remove(job->e->queue, TAKE(job->queued));
	results_end(job);
}

/* The state machine of a Completed Framework is not needed. */
static void job_complete(struct engine_job *job)
{
	if (job->life != LIFE_STORED || job->pods ||
	    strcmp(framework_state(job->framework), "Completed") != 0)
		return;
	framework_free(TAKE(job->framework));
	allocations_end(job, NULL, 0);
	job_become_complete(job);
}

void job_put_ended(struct engine_job *job)
{
	int64_t retain_ms = framework_config_retain_s(job->e->config) * 1000;
	job->version = job->ended_version;
	job->sync_ms = job->ended_ms + retain_ms - clock_wall_ms() + clock_ms();
	job_become(job, LIFE_STORED);
	job_become_complete(job);
	engine_due(job, job->sync_ms);
}

/* Deletes a Framework after frameworkCompletedRetainSec. */
static void job_delete_completed(struct engine_job *job)
{
	struct local_answer answer;
	const struct store_request r = {
		.verb = STORE_DELETE, .kind = KIND_FRAMEWORK, .name = job->name, .uid = job->uid
	};
	local_request(job->e->set.store, &r, &answer);
	bool gone = answer.outcome == STORE_OK || answer.outcome == STORE_NOT_FOUND;
	job->sync_ms = gone ? ENGINE_NEVER : clock_ms() + STORE_MS;
	local_answer_done(&answer);
}

/* ---- the state machine
 * ----------------------------------------------------------------------------- */

static void job_transition(void *arg, const char *role, int index, const char *from, const char *to)
{
	struct engine_job *job = arg;
	bool runs = !role && strcmp(to, "AttemptRunning") == 0;
	(void)from;
	if (runs && !job->launched && job->limit_s) {
		job->launched_boot_ms = clock_boot_ms();
		job->stops_ms = clock_ms() + job->limit_s * 1000;
		allocations_time(job);
	}
	job->launched |= runs;
	if (strcmp(to, "Completed") == 0 || (!role && strcmp(to, "AttemptCompleted") == 0))
		allocations_end(job, role, index);
}

static bool job_syncs(const struct engine_job *job)
{
	return job->look && (job->life == LIFE_STORED || job->life == LIFE_UNSTORED);
}

/* Syncs the state machine until nothing changes, or its status must be stored first. */
static void job_sync(struct engine_job *job)
{
	for (unsigned i = 0; i < SYNCS_MAX && job_syncs(job); i++) {
		const struct framework_client client = { .arg = job,
			                                 .unstored = job->life == LIFE_UNSTORED,
			                                 .configmap = client_configmap,
			                                 .pod = client_pod,
			                                 .create = client_create,
			                                 .remove = client_remove,
			                                 .transition = job_transition };
		struct framework_result r = { .wake_s = INT64_MAX };
		uint64_t random;
		random_bytes(&random, sizeof(random));
		job->look = false;
		framework_sync(job->framework, &client, clock_wall_ms() / 1000, random, &r);
		job_collect_pods(job);
		job->sync_ms = drive_next_ms(&r, &job->sync_failures, clock_ms(), clock_wall_ms(),
		                             SYNC_BACKOFF_MS);
		/* A pod is removed, and an attempt replaced, when its end is stored. */
		if (r.status_changed || job->life == LIFE_UNSTORED)
			job_become(job, r.pending ? LIFE_HELD : LIFE_UNSTORED);
		job->look = job->look || r.again || job->life == LIFE_HELD;
	}
}

/* ---- idle GPUs ---- */

void job_set_gpu_idle(struct engine_job *job, int64_t since_wall_ms)
{
	if (since_wall_ms && job->idle_ms && since_wall_ms <= job->idle_ms + IDLE_LATER_MS)
		return; /* the same time, by a clock that is read again */
	if (since_wall_ms != job->idle_ms)
		engine_due(job, 0);
	job->idle_ms = since_wall_ms;
}

static void job_read_idle(struct engine_job *job, struct span object)
{
	ARENA_AUTO a = { 0 };
	int64_t unused;
	struct span notes = scan_path(object, "metadata", "annotations");
	struct span idle = scan_text(scan_get(notes, "rest-lit/gpu-idle"), &a);
	struct span keep = scan_text(scan_get(notes, "rest-lit/gpu-keep"), &a);
	job->kept_ms = job_keep_read(&keep, &unused);
	job->idle_stored_ms = idle.n ? job_idle_read(idle, &unused, &unused) : 0;
	if (job->life == LIFE_NEW) /* it goes on after a restart until it is known better */
		job->idle_ms = job->idle_stored_ms > 0 ? job->idle_stored_ms : 0;
}

/* Decides if the annotation is stored or removed, with the status as it is. */
static void job_judge_idle(struct engine_job *job)
{
	int64_t kept_ms = job->kept_ms - clock_wall_ms();
	bool flags = job->e->set.gpu_idle_ms > 0 && kept_ms <= 0;
	job->idle_next_ms = flags ? job->idle_ms : 0;
	if (job->idle_ms && kept_ms > 0)
		engine_due(job, clock_ms() + kept_ms);
	if (job->life == LIFE_STORED && job->idle_next_ms != job->idle_stored_ms &&
	    framework_state(job->framework)[0])
		job_become(job, LIFE_UNSTORED);
}

void job_put(struct engine_job *job, const struct local_answer *answer)
{
	ERR_AUTO err = { 0 };
	struct span object = str_view(&answer->body);
	bool first = job->life == LIFE_NEW;
	job->version = answer->version;
	if (job->life >= LIFE_COMPLETE)
		return;
	job_read_idle(job, object);
	if (first)
		job_become(job, LIFE_STORED);
	job->framework = job->framework ?: framework_new(job->e->config);
	job->look = framework_put(job->framework, object, &err) == 0;
	job_trouble(job, job->look ? NULL : "its Framework is not valid", span_of(err_msg(&err)));
	if (!job->look)
		engine_notice(job->e, ENGINE_WARNING, "Framework %s is not valid: %s", job->name,
		              err_msg(&err));
	if (first && job->look)
		job_restore(job, scan_get(object, "status"));
	engine_due(job, 0);
}

void job_remove(struct engine_job *job)
{
	if (job->life < LIFE_GONE)
		job_become(job, job->life == LIFE_COMPLETE ? LIFE_CLEARED : LIFE_GONE);
	engine_due(job, 0);
}

static void job_pods(struct engine_job *job, bool stored)
{
	for (struct engine_pod *p = job->pods; p; p = p->next)
		pod_step(p, stored);
	job_collect_pods(job);
}

void job_step(struct engine_job *job)
{
	job_pods(job, false);
	job->look |= clock_ms() >= job->sync_ms;
	job_sync(job);
	job_judge_idle(job);
}

/* Ends a look: tasks whose state is stored may start. */
static void job_settle(struct engine_job *job)
{
	if (job->life >= LIFE_GONE && !job->pods) {
		FREE_AUTO char *size = xasprintf("%s.size", job->uid);
		trash_take(job->e, job->e->logs_dir, job->uid);
		trash_take(job->e, job->e->results_dir, job->uid);
		(void)unlinkat(job->e->results_dir, size, 0); /* there may be none */
		engine_drop(job);
		return;
	}
	if (job->life >= LIFE_GONE)
		return;
	job_pods(job, job->life == LIFE_STORED && !job->look);
	job_complete(job);
	if (job->life == LIFE_COMPLETE && clock_ms() >= job->sync_ms)
		job_delete_completed(job);
	allocations_undo_late(job);
	if (job->life == LIFE_UNSTORED || job->life == LIFE_HELD)
		engine_due(job, job->store_ms);
	engine_due(job, job_syncs(job) ? 0 : job->sync_ms);
}

/* ---- the stored status ----------------------------------------------------------------------- */

/* The state to store; it borrows from `text`.  The time limit of a job counts from its launch, not
 * by the wall clock, which can be set. */
static void job_write(const struct engine_job *job, struct str *text, struct arena *a,
                      struct local_state *out)
{
	char boot[PROCESS_BOOT_MAX] = "";
	bool flags = job->idle_next_ms != job->idle_stored_ms;
	*text = (struct str)STR_INIT(BODY_MAX);
	framework_status_write(job->framework, text);
	if (job->launched_boot_ms || flags)
		process_boot(boot);
	*out = (struct local_state){ .name = job->name,
		                     .uid = job->uid,
		                     .status = str_view(text),
		                     .launched = "",
		                     .launched_boot_ms = boot[0] ? job->launched_boot_ms : 0 };
	framework_summary(job->framework, &out->summary);
	if (flags)
		out->gpu_idle =
		    job->idle_next_ms
			? arena_printf(a, "%lld %lld %s %lld", (long long)job->idle_next_ms,
		                       (long long)clock_wall_ms(), boot[0] ? boot : "-",
		                       (long long)clock_boot_ms())
			: "";
	if (out->launched_boot_ms)
		out->launched = arena_printf(a, "%s %lld", boot, (long long)job->launched_boot_ms);
}

static void job_stored(struct engine_job *job, const struct local_answer *s)
{
	if (s->outcome == STORE_OK) {
		char since[RFC3339_MAX];
		job_become(job, LIFE_STORED);
		if (job->idle_next_ms && job->idle_next_ms != job->idle_stored_ms)
			engine_notice(job->e, ENGINE_NOTE,
			              "the GPUs of job %s do nothing since %s: its owner is told",
			              job->label, rfc3339_put(since, job->idle_next_ms, 0));
		job->idle_stored_ms = job->idle_next_ms;
		job->launched_boot_ms = 0;
		job->store_failures = 0;
		job_trouble(job, NULL, SPAN(""));
		/* Others have changed it too, if this is false; the changes of that make it be
		 * read.
		 */
		if (s->before == job->version)
			job->version = s->version;
	} else {
		job->store_ms =
		    clock_ms() + drive_backoff_ms(STORE_MIN + job->store_failures++, STORE_MS);
		/* There are changes of its deletion, if this is false. */
		if (s->outcome != STORE_NOT_FOUND)
			job_trouble(job, "its state cannot be stored", span_of(s->message ?: ""));
	}
	job_settle(job);
}

void jobs_settle(struct engine *e)
{
	struct engine_job *job;
	engine_store_rows(e);
	do {
		ARENA_AUTO a = { 0 };
		struct engine_job *jobs[STORES_MAX];
		struct str text[STORES_MAX];
		struct local_state r[STORES_MAX];
		struct local_answer s[STORES_MAX];
		size_t n = 0;
		while (n < STORES_MAX && (job = TAILQ_FIRST(&e->round)) != NULL) {
			TAILQ_REMOVE(&e->round, job, round);
			job->in_round = ROUND_NONE;
			if ((job->life != LIFE_UNSTORED && job->life != LIFE_HELD) ||
			    clock_ms() < job->store_ms) {
				job_settle(job);
				continue;
			}
			jobs[n] = job;
			job_write(job, &text[n], &a, &r[n]);
			n++;
		}
		if (n > 0)
			local_request_states(e->set.store, r, n, s);
		for (size_t i = 0; i < n; i++) {
			job_stored(jobs[i], &s[i]);
			local_answer_done(&s[i]);
			str_done(&text[i]);
		}
	} while (!TAILQ_EMPTY(&e->round));
}

static bool engine_has_pod(struct engine *e, const char *uid)
{
	const struct engine_job *job;
	LOCK_AUTO(&e->lock);
	TAILQ_FOREACH(job, &e->live, live)
	for (const struct engine_pod *p = job->pods; p; p = p->next)
		if (strcmp(p->uid, uid) == 0)
			return true;
	return false;
}

/* The task becomes one of the Framework that was deleted, or of a new one, which is gone, too, and
 * whose files are set aside; a task that a known job has not started has none of a user. */
static void orphan_end(struct engine *e, const char *uid)
{
	enum { GRACE_S = 30 };
	ARENA_AUTO a = { 0 };
	struct span of;
	const char *dir = arena_printf(&a, "%s/pods/%s", e->set.dir, uid);
	const char *label = owner_read(dir, &a, &of);
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	struct engine_job *job = engine_find(e, of);
	bool known = job && job->name;
	job = job && job->life >= LIFE_GONE ? job : engine_job_of(e, span_of(uid));
	(void)pthread_mutex_unlock(&e->lock);
	const struct framework_object o = { .name = uid, .role = "" };
	struct engine_pod *p = job_new_pod(job, &o, uid);
	bool started = pod_find(p); /* else only its directory is removed */
	if (job->life == LIFE_NEW)
		job_become(job, started || !known ? LIFE_LOST : LIFE_GONE);
	if (job->life == LIFE_LOST && label && !job->label)
		job->label = xstrdup(label);
	p->grace_s = GRACE_S;
	job_add_pod(job, p);
	job_remove(job);
}

void orphans_end(struct engine *e)
{
	struct engine_job *job;
	DIR_AUTO *list = dir_list(e->pods_dir, ".");
	for (const char *uid; (uid = dir_next(list)) != NULL;)
		if (uid[0] != '.' && strlen(uid) < UID_TEXT && !engine_has_pod(e, uid) &&
		    unlinkat(e->pods_dir, uid, AT_REMOVEDIR) != 0) /* else it was empty */
			orphan_end(e, uid);
	TAILQ_FOREACH(job, &e->live, live) /* those that were forgotten */
	if (job->life >= LIFE_GONE)
		engine_due(job, 0);
}
