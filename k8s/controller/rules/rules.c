/* The entry points of the rules; jobs, users and their turns. */
#include "k8s/controller/rules/rules.h"

#include <assert.h>
#include <stdlib.h>

#include "base/json/scan.h"
#include "jobs/framework/drive.h"
#include "jobs/framework/view.h"
#include "k8s/controller/rules/rules_internal.h"

enum { STEPS_MOST = 64 /* between two requests */ };

/* ---- small things ---------------------------------------------------------------------------- */

/* 5 ms, 10, 20 ... 60 s, give or take a quarter. */
int64_t rules_backoff(struct rules *r, unsigned failures)
{
	int64_t ms = drive_backoff_ms(failures, RULES_BACKOFF_MS);
	return ms - ms / 4 + (int64_t)(r->set.random(r->set.arg) % (uint64_t)(ms / 2 + 1));
}

void job_tell(const struct rules_job *job, const char *reason, const char *message)
{
	const struct rules_settings *s = &job->r->set;
	s->notice(s->arg, &(struct rules_notice){ job->namespace_name, job->name,
	                                          job->uid ? job->uid : "", reason, message });
}

/* A number of what there is now. */
void counter_subtract(atomic_ullong *c)
{
	counter_set(c, counter_get(c) - 1);
}

void job_tell_failure(const struct rules_job *job, const char *name, struct span why)
{
	enum { TOLD_FROM = 9 /* failures in a row: they have lasted a few seconds */ };
	if (job->step.sync_failures < TOLD_FROM)
		return;
	FREE_AUTO char *message =
	    xasprintf("%s cannot be created; trying again: %.*s", name, (int)why.n, why.p);
	job_tell(job, "CreationFails", message);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* clang-format off */
static const enum rules_state FOLLOWS[][JOB_NONE] = {
	/*               JOB_ABSENT, JOB_SEEN,   JOB_STORED,  JOB_CHANGED, JOB_URGENT, JOB_ENDED */
	[ON_SIGHT]   = { JOB_SEEN,   JOB_NONE,   JOB_NONE,    JOB_NONE,    JOB_NONE,   JOB_SEEN },
	[ON_READ]    = { JOB_NONE,   JOB_STORED, JOB_STORED,  JOB_STORED,  JOB_STORED, JOB_NONE },
	[ON_ODD]     = { JOB_NONE,   JOB_SEEN,   JOB_SEEN,    JOB_SEEN,    JOB_SEEN,   JOB_NONE },
	[ON_CHANGE]  = { JOB_NONE,   JOB_NONE,   JOB_CHANGED, JOB_CHANGED, JOB_URGENT, JOB_NONE },
	[ON_HURRY]   = { JOB_NONE,   JOB_NONE,   JOB_URGENT,  JOB_URGENT,  JOB_URGENT, JOB_NONE },
	[ON_WRITTEN] = { JOB_NONE,   JOB_NONE,   JOB_STORED,  JOB_STORED,  JOB_STORED, JOB_NONE },
	[ON_END]     = { JOB_NONE,   JOB_ENDED,  JOB_ENDED,   JOB_NONE,    JOB_NONE,   JOB_NONE },
	[ON_GONE]    = { JOB_ABSENT, JOB_ABSENT, JOB_ABSENT,  JOB_ABSENT,  JOB_ABSENT, JOB_ABSENT },
};
/* clang-format on */

static const struct rules_step STEP_NONE = { .sync_ms = RULES_NEVER,
	                                     .unwatched_ms = RULES_NEVER,
	                                     .window = RULES_WINDOW_FIRST };

struct rules_job *job_of_name(struct rules *r, struct span namespace_name, struct span name,
                              bool make)
{
	struct rules_job *job;
	size_t bucket = hash_bytes(&r->key, name) % RULES_BUCKETS;
	LIST_FOREACH(job, &r->jobs[bucket], same_hash)
	if (span_is(name, job->name) && span_is(namespace_name, job->namespace_name))
		return job;
	if (!make)
		return NULL;
	job = xcalloc(1, sizeof(*job));
	job->r = r;
	job->name = xstrndup(name.p, name.n);
	job->namespace_name = xstrndup(namespace_name.p, namespace_name.n);
	job->step = STEP_NONE;
	job->shown = RULES_FRAMEWORK_STATES;
	job->configmap.job = job;
	LIST_INIT(&job->pods);
	TAILQ_INIT(&job->ops);
	LIST_INSERT_HEAD(&r->jobs[bucket], job, same_hash);
	return job;
}

void job_step_at(struct rules_job *job, int64_t ms)
{
	if (ms != RULES_NEVER && (!job->due.place || ms < job->due.at_ms))
		heap_put(&job->r->due, &job->due, ms);
}

void job_move(struct rules_job *job, enum rules_event event)
{
	atomic_ullong *counts = job->r->set.counts->frameworks;
	unsigned now = RULES_FRAMEWORK_STATES; /* no Framework */
	job->state = FOLLOWS[event][job->state];
	assert(job->state != JOB_NONE);
	if (job->state == JOB_ENDED)
		now = FRAMEWORK_STATE_COMPLETED;
	else if (job->uid)
		now = job->framework ? framework_state_index(job->framework) : FRAMEWORK_STATES;
	if (now == job->shown)
		return;
	if (job->shown < RULES_FRAMEWORK_STATES)
		counter_subtract(&counts[job->shown]);
	if (now < RULES_FRAMEWORK_STATES)
		counter_add(&counts[now], 1);
	job->shown = now;
}

void job_drop_all_ops(struct rules_job *job)
{
	struct rules_op *op;
	while ((op = TAILQ_FIRST(&job->ops)) != NULL)
		op_drop(op); /* NOLINT(clang-analyzer-unix.Malloc): it takes it off the list */
}

/* Frees what a living Framework has and an ended one has not. */
static void job_clear(struct rules_job *job)
{
	job_drop_all_ops(job);
	framework_free(TAKE(job->framework));
	str_done(&job->read.given.text);
	str_done(&job->read.next.text);
	if (job->over_quota)
		LIST_REMOVE(job, quota);
	job->over_quota = false;
	job->read.unread = UNREAD_NOTHING;
	job->write = (struct rules_write){ 0 };
	job->step = STEP_NONE;
	job->delete_ms = 0;
	if (job->admission)
		job->admission->starts = job->admission->exceeds = false;
}

void job_remove_late(struct rules_job *job, const char *uid)
{
	const struct rules_op *op;
	TAILQ_FOREACH(op, &job->ops, next)
	if (op->uid && strcmp(op->uid, uid) == 0)
		return;
	FREE_AUTO char *name = xasprintf("%s-attempt", job->name);
	op_new_removal(job, KIND_CONFIGMAP, name, uid)->confirm = true;
}

void job_end(struct rules_job *job, const struct rules_time *now, int64_t ended_s)
{
	struct rules_object *o;
	const struct framework_pod *cm = &job->configmap.view;
	job_clear(job);
	if (job->configmap.state != OBJECT_NONE && !cm->dying &&
	    strcmp(cm->owner_uid, job->uid) == 0)
		job_remove_late(job, cm->uid);
	while ((o = LIST_FIRST(&job->pods)) != NULL)
		object_free_known(o);
	object_free_known(&job->configmap);
	job->ended_s = ended_s;
	job_move(job, ON_END);
	job_step_at(job, now->ms);
}

void job_forget(struct rules_job *job)
{
	job_clear(job);
	free(TAKE(job->uid));
	job->read.version = 0;
	job->read.spec_hash = 0;
	heap_remove(&job->r->due, &job->due);
	job_move(job, ON_GONE);
	if (!job->admission)
		return;
	job->admission->priority.known = false; /* that of the next Framework of this name */
	if (job->admission->workload.state != OBJECT_NONE)
		job_step_at(job, 0);
}

static void user_leave(struct rules_user *u)
{
	if (!u || --u->held > 0)
		return;
	LIST_REMOVE(u, same_hash);
	free(u);
}

static struct rules_user *user_of_name(struct rules *r, struct span name)
{
	struct rules_user *u;
	size_t bucket = hash_bytes(&r->key, name) % RULES_USERS;
	LIST_FOREACH(u, &r->user[bucket], same_hash)
	if (span_is(name, u->name))
		return u;
	u = xcalloc(1, sizeof(*u) + name.n + 1);
	if (name.n)
		memcpy(u->name, name.p, name.n);
	TAILQ_INIT(&u->jobs);
	LIST_INSERT_HEAD(&r->user[bucket], u, same_hash);
	return u;
}

void job_set_user(struct rules_job *job, struct span user)
{
	if ((job->user && span_is(user, job->user->name)) || job->n_unsent > 0)
		return; /* a job in turn changes its user at the next event */
	struct rules_user *before = job->user;
	job->user = user_of_name(job->r, user);
	job->user->held++;
	user_leave(before);
}

void job_free_unused(struct rules_job *job)
{
	bool workload = job->admission && job->admission->workload.state != OBJECT_NONE;
	if (job->uid || !LIST_EMPTY(&job->pods) || job->configmap.state != OBJECT_NONE || workload)
		return;
	job_forget(job);
	job_admission_free(job);
	object_free_known(&job->configmap);
	user_leave(job->user);
	LIST_REMOVE(job, same_hash);
	free(job->name);
	free(job->namespace_name);
	free(job);
}

/* ---- requests and turns ---------------------------------------------------------------------- */

/* A job takes part while it has unsent requests, its user while he has such jobs. */
static void turn_join(struct rules_job *job)
{
	if (!job->user)
		job_set_user(job, SPAN(""));
	if (TAILQ_EMPTY(&job->user->jobs))
		TAILQ_INSERT_TAIL(&job->r->users, job->user, queue);
	TAILQ_INSERT_TAIL(&job->user->jobs, job, queue);
	counter_add(&job->r->set.counts->queued, 1);
}

static void turn_leave(struct rules_job *job)
{
	TAILQ_REMOVE(&job->user->jobs, job, queue);
	if (TAILQ_EMPTY(&job->user->jobs))
		TAILQ_REMOVE(&job->r->users, job->user, queue);
	counter_subtract(&job->r->set.counts->queued);
}

/* The next request in turn, by users, then by their jobs. */
static struct rules_op *turn_take(struct rules *r)
{
	struct rules_user *u = TAILQ_FIRST(&r->users);
	if (!u)
		return NULL;
	struct rules_job *job = TAILQ_FIRST(&u->jobs);
	struct rules_op *op;
	TAILQ_FOREACH(op, &job->ops, next)
	if (op->state == OP_UNSENT)
		break;
	op->state = OP_SENT; /* a job in turn has one that is unsent */
	turn_leave(job);
	if (--job->n_unsent > 0)
		turn_join(job); /* at the end */
	return op;
}

struct rules_op *op_new(struct rules_job *job, enum rules_verb verb, enum object_kind kind,
                        const char *name)
{
	struct rules_op *op = xcalloc(1, sizeof(*op));
	op->job = job;
	op->verb = verb;
	op->kind = kind;
	op->name = xstrdup(name);
	op->namespace_name = xstrdup(job->namespace_name);
	op->state = OP_WAITING;
	op->body = STR_INIT(RULES_OBJECT_MAX);
	op->answer = FRAMEWORK_PENDING;
	TAILQ_INSERT_TAIL(&job->ops, op, next);
	if (job->n_ops++ == 0)
		counter_add(&job->r->set.counts->frozen, 1);
	return op;
}

void op_send(struct rules_op *op)
{
	str_done(&op->body);
	op->body = STR_INIT(RULES_OBJECT_MAX);
	op->state = OP_UNSENT;
	if (op->job->n_unsent == 0)
		turn_join(op->job);
	op->job->n_unsent++;
}

void op_send_later(struct rules_op *op, const struct rules_time *now)
{
	enum { LEAST = 5 /* 160 ms: the other end is away, or a request is still under way */ };
	op->state = OP_WAITING;
	op->due_ms = now->ms + rules_backoff(op->job->r, LEAST + op->tries++);
	job_step_at(op->job, op->due_ms);
}

static void op_free(struct rules_op *op)
{
	free(op->namespace_name);
	free(op->name);
	free(op->uid);
	free(op->role);
	free(op->task_uid);
	free(op->made);
	free(op->told);
	json_decref(op->status);
	str_done(&op->body);
	free(op);
}

void op_drop(struct rules_op *op)
{
	struct rules_job *job = op->job;
	assert(job); /* a sent one that is dropped is in no list */
	TAILQ_REMOVE(&job->ops, op, next);
	if (--job->n_ops == 0)
		counter_subtract(&job->r->set.counts->frozen);
	if (op->state == OP_UNSENT && --job->n_unsent == 0)
		turn_leave(job);
	if (op->state == OP_SENT)
		op->job = NULL; /* its answer frees it */
	else
		op_free(op);
}

void job_drop_ops(struct rules_job *job, enum rules_op_state state)
{
	struct rules_op *op = TAILQ_FIRST(&job->ops);
	while (op) {
		struct rules_op *next = TAILQ_NEXT(op, next);
		if (op->state == state && (state != OP_UNSENT || op->stage == STAGE_FIRST))
			op_drop(op);
		op = next;
	}
}

/* ---- the entry points ------------------------------------------------------------------------ */

struct rules *rules_new(const struct rules_settings *s)
{
	struct rules *r = xcalloc(1, sizeof(*r));
	r->set = *s;
	r->key.v[0] = s->random(s->arg);
	r->key.v[1] = s->random(s->arg);
	r->foreign_ms[0] = r->foreign_ms[1] = INT64_MIN / 2;
	TAILQ_INIT(&r->users);
	return r;
}

void rules_free(struct rules *r)
{
	struct rules_job *job;
	struct rules_object *o;
	if (!r)
		return;
	for (size_t i = 0; i < RULES_BUCKETS; i++) {
		while ((job = LIST_FIRST(&r->jobs[i])) != NULL) {
			while ((o = LIST_FIRST(&job->pods)) != NULL)
				object_free_known(o);
			object_free_known(&job->configmap);
			job_admission_free(job);
			job_forget(job);
			job_free_unused(job);
		}
	}
	free(r->due.v);
	free(r);
}

bool rules_wants_workloads(const struct rules *r)
{
	return r->wants_workloads;
}

static void admissions_wake(struct rules *r, const struct rules_time *now)
{
	struct rules_admission *of = NULL;
	LIST_FOREACH(of, &r->admissions, all)
	{
		of->job->step.sync_ms = RULES_AT_ONCE;
		job_step_at(of->job, now->ms);
	}
}

void rules_no_workloads(struct rules *r, const struct rules_time *now, const char *why)
{
	r->no_workloads = why;
	admissions_wake(r, now);
}

void rules_list_begin(struct rules *r, enum object_kind kind)
{
	r->lists[kind]++;
}

static void object_doubt(struct rules_object *o, unsigned list)
{
	if (o->state != OBJECT_LIVE || o->list == list)
		return;
	o->state = OBJECT_DOUBTED;
	o->job->step.sync_ms = RULES_AT_ONCE;
}

/* Doubts what the list did not have. */
static void job_doubt(struct rules_job *job, const struct rules_time *now, enum object_kind kind)
{
	struct rules *r = job->r;
	struct rules_object *o;
	if (kind == KIND_FRAMEWORK && job->state == JOB_ENDED && job->read.list != r->lists[kind]) {
		job_note_gone(job); /* nothing depends on it */
		return;
	}
	if (kind == KIND_WORKLOAD) {
		if (job->admission)
			object_doubt(&job->admission->workload, r->lists[kind]);
		return;
	}
	if (job->read.list < r->listed[KIND_FRAMEWORK] || r->lists[kind] == 1)
		job->step.sync_ms = RULES_AT_ONCE;
	o = &job->configmap;
	if (kind == KIND_CONFIGMAP)
		object_doubt(o, r->lists[kind]);
	LIST_FOREACH(o, &job->pods, siblings)
	if (kind == KIND_POD)
		object_doubt(o, r->lists[kind]);
	if (job->uid && job->step.sync_ms == RULES_AT_ONCE && job->state != JOB_ENDED)
		job_step_at(job, now->ms);
}

void rules_list_end(struct rules *r, const struct rules_time *now, enum object_kind kind)
{
	struct rules_job *job;
	struct rules_job *next;
	r->listed[kind] = r->lists[kind];
	for (size_t i = 0; i < RULES_BUCKETS; i++) {
		for (job = LIST_FIRST(&r->jobs[i]); job; job = next) {
			next = LIST_NEXT(job, same_hash);
			job_doubt(job, now, kind);
		}
	}
	if (kind == KIND_WORKLOAD)
		rules_no_workloads(r, now, NULL);
}

static bool rules_all_listed(const struct rules *r)
{
	return r->listed[KIND_FRAMEWORK] && r->listed[KIND_CONFIGMAP] && r->listed[KIND_POD];
}

static struct rules_job *rules_first_due(const struct rules *r, int64_t now_ms)
{
	struct heap_item *first = heap_first(&r->due);
	return first && first->at_ms <= now_ms
	           ? (struct rules_job *)((char *)first - offsetof(struct rules_job, due))
	           : NULL;
}

bool rules_next(struct rules *r, const struct rules_time *now, struct store_request *out)
{
	struct rules_job *job;
	struct rules_op *op = NULL;
	const struct heap_item *first = heap_first(&r->due);
	bool waits = first && first->at_ms <= now->ms;
	counter_set(&r->set.counts->oldest_due_ms, waits ? (uint64_t)first->at_ms : 0);
	counter_set(&r->set.counts->passive, r->passive_ms > now->ms);
	if (!rules_all_listed(r) || r->passive_ms > now->ms)
		return false;
	do {
		for (int n = 0; n < STEPS_MOST && (job = rules_first_due(r, now->ms)); n++) {
			heap_remove(&r->due, &job->due);
			job_step_once(job, now);
		}
		op = turn_take(r);
	} while (!op && rules_first_due(r, now->ms));
	if (!op)
		return false;
	*out = (struct store_request){
		.namespace_name = op->namespace_name,
		.name = op->name,
		.kind = op->kind,
		.arg = op,
	};
	op_write_request(op, now, out);
	r->open++;
	return true;
}

void rules_answer(struct rules *r, const struct rules_time *now, void *request,
                  const struct store_reply *reply)
{
	struct rules_op *op = request;
	struct rules_job *job = op->job;
	r->open--;
	if (!job) {
		op_free(op);
		return;
	}
	op->state = OP_WAITING;
	op->due_ms = RULES_NEVER;
	str_done(&op->body); /* others of this Framework may wait long for their answers */
	op_take_answer(op, now, reply);
}

int64_t rules_wake_ms(const struct rules *r)
{
	const struct heap_item *first = heap_first(&r->due);
	if (!rules_all_listed(r))
		return RULES_NEVER;
	int64_t wake_ms = !TAILQ_EMPTY(&r->users) ? 0 : first ? first->at_ms : RULES_NEVER;
	return wake_ms < r->passive_ms ? r->passive_ms : wake_ms;
}

size_t rules_open(const struct rules *r)
{
	return r->open;
}
