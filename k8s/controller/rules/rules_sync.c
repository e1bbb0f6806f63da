/*
 * One step of a Framework: its state machine is given the unread object and synced until nothing
 * changes; then the requests that it wants are open, or its status is to be written.  While
 * requests are open there is no step: their answers come first.
 */
#include <stdlib.h>

#include "base/enc.h"
#include "base/gzip.h"
#include "jobs/cache/job_entry_pack.h"
#include "jobs/framework/drive.h"
#include "k8s/controller/rules/rules_internal.h"

enum { SYNCS_MOST = 100 /* in one step */ };

/* ---- what the state machine asks
 * ------------------------------------------------------------------- */

/* A sync accepts requests only if all before them is stored and the Framework is taken over. */
struct sync_view {
	struct rules_job *job;
	const struct rules_time *now;
	bool accepts, answered;
	bool created; /* the state machine has got the uid of a new object */
};

static struct rules_op *op_find(struct rules_job *job, enum rules_verb verb, enum object_kind kind,
                                const char *name)
{
	struct rules_op *op;
	TAILQ_FOREACH(op, &job->ops, next)
	if (op->verb == verb && op->kind == kind && strcmp(op->name, name) == 0)
		return op;
	return NULL;
}

/* Asks by a GET whether an object is gone; if that is asked of many, not of all at once. */
static enum framework_presence sync_doubt(const struct sync_view *v, enum object_kind kind,
                                          const char *name, const char *uid)
{
	struct rules_job *job = v->job;
	struct rules *r = job->r;
	if (job->read.unread != UNREAD_NOTHING || op_find(job, OP_LOOK, kind, name))
		return FRAMEWORK_UNKNOWN;
	struct rules_op *op = op_new(job, OP_LOOK, kind, name);
	op->uid = xstrdup(uid);
	r->absent_ms = (r->absent_ms > v->now->ms ? r->absent_ms : v->now->ms) + RULES_ABSENCE_MS;
	op->due_ms = r->absent_ms - (int64_t)RULES_ABSENCES * RULES_ABSENCE_MS;
	if (op->due_ms <= v->now->ms)
		op_send(op);
	else
		job_step_at(job, op->due_ms);
	return FRAMEWORK_UNKNOWN;
}

/* The object of this name as the state machine may see it.  One that another controls is hidden; so
 * is one that the status does not name yet, unless it is not what the state machine would create: a
 * POST may have made it whose answer was lost, or an earlier leader.  sync_create settles that. */
static enum framework_presence sync_presence(const struct sync_view *v, enum object_kind kind,
                                             const char *name, const char *uid)
{
	struct rules_job *job = v->job;
	struct rules_object *o = object_find_known(job, kind, name, false);
	bool known = o && o->state != OBJECT_NONE;
	bool same = known && uid && strcmp(o->view.uid, uid) == 0;
	const char *owner = kind == KIND_POD ? job->configmap.view.uid : job->uid;
	if (known && o->state == OBJECT_DOUBTED)
		return sync_doubt(v, kind, name, uid ? uid : o->view.uid);
	if (uid && !same && !(o && o->gone && strcmp(o->gone, uid) == 0))
		return sync_doubt(v, kind, name, uid);
	if (!known || !owner || strcmp(o->view.owner_uid, owner) != 0)
		return FRAMEWORK_ABSENT;
	bool stopped = kind == KIND_CONFIGMAP && job->read.stops;
	bool hidden = !uid && !o->alien && !o->view.dying && !stopped;
	job->step.sweep |= hidden;
	return hidden ? FRAMEWORK_ABSENT : FRAMEWORK_THERE;
}

static enum framework_presence sync_configmap_known(void *arg, const char *name, const char *uid,
                                                    struct framework_configmap *out)
{
	const struct sync_view *v = arg;
	const struct framework_pod *cm = &v->job->configmap.view;
	enum framework_presence found = sync_presence(v, KIND_CONFIGMAP, name, uid);
	v->job->step.current = found == FRAMEWORK_THERE && uid && strcmp(cm->uid, uid) == 0;
	if (found == FRAMEWORK_THERE)
		*out = (struct framework_configmap){ cm->uid, cm->owner_uid, cm->dying };
	return found;
}

static enum framework_presence sync_pod_known(void *arg, const char *name, const char *uid,
                                              struct framework_pod *out)
{
	const struct sync_view *v = arg;
	enum framework_presence found = sync_presence(v, KIND_POD, name, uid);
	if (found == FRAMEWORK_THERE)
		*out = object_find_known(v->job, KIND_POD, name, false)->view;
	return found;
}

static bool sync_accepts(const struct sync_view *v)
{
	return v->accepts && v->job->n_ops < v->job->step.window;
}

static enum object_kind kind_of_object(enum framework_kind kind)
{
	return kind == FRAMEWORK_POD ? KIND_POD : KIND_CONFIGMAP;
}

static enum framework_answer sync_create(void *arg, const struct framework_object *object,
                                         struct framework_created *out)
{
	struct sync_view *v = arg;
	struct rules_job *job = v->job;
	enum object_kind kind = kind_of_object(object->kind);
	struct rules_op *op = op_find(job, OP_CREATE, kind, object->name);
	const struct rules_object *o = object_find_known(job, kind, object->name, false);
	if (op) {
		*out = (struct framework_created){ op->made, op->http, op->status };
		v->created |= op->answer == FRAMEWORK_DONE;
		return op->answer;
	}
	bool there = o && o->state != OBJECT_NONE;
	const char *owner = kind == KIND_POD ? job->configmap.view.uid : job->uid;
	if (there && (o->alien || o->view.dying || strcmp(o->view.owner_uid, owner) != 0)) {
		if (!o->view.dying)
			job_tell_failure(job, object->name, SPAN("another object has this name"));
		return FRAMEWORK_FAILED; /* a POST would be answered with 409 */
	}
	if (o && v->now->ms < o->retry_ms)
		return FRAMEWORK_FAILED;
	if (!sync_accepts(v))
		return FRAMEWORK_PENDING;
	enum framework_answer admits = job_admits(job, object, out);
	if (admits != FRAMEWORK_DONE)
		return admits;
	op = op_new(job, OP_CREATE, kind, object->name);
	op->role = object->role ? xstrdup(object->role) : NULL;
	op->task_uid = object->task_uid ? xstrdup(object->task_uid) : NULL;
	op->object = *object;
	op->object.name = op->name;
	op->object.role = op->role;
	op->object.task_uid = op->task_uid;
	op->stage = there ? STAGE_SETTLE : STAGE_FIRST;
	op_send(op);
	return FRAMEWORK_PENDING;
}

static enum framework_answer sync_remove(void *arg, const struct framework_delete *what)
{
	struct sync_view *v = arg;
	struct rules_job *job = v->job;
	enum object_kind kind = kind_of_object(what->kind);
	struct rules_op *op = op_find(job, OP_DELETE, kind, what->name);
	const struct rules_object *o = object_find_known(job, kind, what->name, false);
	const char *owner = kind == KIND_POD ? job->configmap.view.uid : job->uid;
	/* The force of a removal is a request of its own. */
	if (op && strcmp(op->uid, what->uid) == 0 && op->force == what->force)
		return op->answer;
	/* Only an object that is known as one of this Framework is deleted without a look. */
	bool own = o && o->state == OBJECT_LIVE && strcmp(o->view.uid, what->uid) == 0 && owner &&
	           strcmp(o->view.owner_uid, owner) == 0;
	bool dying = own && o->view.dying && !what->force && !what->confirm;
	if (dying || (o && o->gone && strcmp(o->gone, what->uid) == 0))
		return FRAMEWORK_DONE;
	if (!sync_accepts(v))
		return FRAMEWORK_PENDING;
	op = op_new(job, OP_DELETE, kind, what->name);
	op->uid = xstrdup(what->uid);
	op->force = what->force;
	op->confirm = what->confirm;
	op->stage = own ? STAGE_FIRST : STAGE_LOOK;
	op_send(op);
	return FRAMEWORK_PENDING;
}

/* ---- the state machine
 * ----------------------------------------------------------------------------- */

static bool job_put_packed(struct rules_job *job, const struct rules_packed *p, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct span text;
	if (!job_entry_unpack(str_view(&p->text), p->n, &a, &text))
		return err_set(e, UNKNOWN_ERROR, "the copy in memory is damaged") == 0;
	return framework_put(job->framework, text, e) == 0;
}

bool job_fatten(struct rules_job *job)
{
	ERR_AUTO e = { 0 };
	struct rules_packed *given = &job->read.given;
	if (given->text.n > 0 && job_put_packed(job, given, &e))
		str_done(&given->text);
	return given->text.n == 0;
}

/* A status that another leader may still write is not read yet. */
static bool job_is_held(const struct rules_job *job, const struct rules_time *now)
{
	return job->read.unread == UNREAD_WHOLE && job->write.hold_ms > now->ms;
}

/* Gives the state machine the newest object.  One that cannot be read leaves it as it is. */
static void job_take_unread(struct rules_job *job, const struct rules_time *now)
{
	ERR_AUTO e = { 0 };
	struct rules_read *read = &job->read;
	bool whole = read->unread == UNREAD_WHOLE;
	if (read->unread == UNREAD_NOTHING || job_is_held(job, now))
		return;
	if (whole) {
		framework_free(job->framework);
		job->framework = framework_new(job->r->set.config);
	}
	bool readable = job_put_packed(job, &read->next, &e);
	if (readable) {
		str_done(&read->given.text);
		read->given = read->next;
		framework_slim(job->framework);
		job->step.sync_ms = RULES_AT_ONCE;
		job->step.sweep |= whole; /* by another status */
	} else {
		counter_add(&job->r->set.counts->unreadable, 1);
		job_tell(job, "Unreadable", err_msg(&e));
		str_done(&read->next.text);
		if (whole)
			framework_free(TAKE(job->framework));
	}
	read->next = (struct rules_packed){ 0 };
	read->unread = UNREAD_NOTHING;
	if (whole)
		job_move(job, readable ? ON_READ : ON_ODD);
}

static void job_set_next_sync(struct rules_job *job, const struct rules_time *now,
                              const struct framework_result *result)
{
	job->step.sync_ms = drive_next_ms(result, &job->step.sync_failures, now->ms, now->wall_ms,
	                                  RULES_BACKOFF_MS);
	if (!job->over_quota)
		return;
	if (result->failed && job->step.sync_ms < now->ms + RULES_QUOTA_MS) {
		job->step.sync_ms = now->ms + RULES_QUOTA_MS;
	} else if (!result->failed && !result->pending) {
		LIST_REMOVE(job, quota);
		job->over_quota = false;
	}
}

static void job_sync_once(struct rules_job *job, const struct rules_time *now)
{
	const struct rules_settings *set = &job->r->set;
	struct sync_view view = { .job = job, .now = now, .answered = job->n_ops > 0 };
	struct framework_result result;
	ARENA_AUTO a = { 0 };
	if (job->admission)
		job->admission->starts = job->admission->exceeds = false;
	view.accepts = job->state == JOB_STORED && job->write.fence == FENCE_OURS &&
	               !view.answered && job->read.unread == UNREAD_NOTHING;
	const struct framework_client client = {
		.arg = &view,
		.unstored = job->state != JOB_STORED,
		.evicted = job_eviction(job, &a),
		.configmap = sync_configmap_known,
		.pod = sync_pod_known,
		.create = sync_create,
		.remove = sync_remove,
	};
	int64_t begun_us = set->clock_us ? set->clock_us(set->arg) : 0;
	framework_sync(job->framework, &client, now->wall_ms / 1000, set->random(set->arg),
	               &result);
	if (set->clock_us)
		histogram_add(&set->counts->sync, set->clock_us(set->arg) - begun_us);
	counter_add(&set->counts->syncs, 1);
	if (view.answered) {
		job_drop_ops(job, OP_ANSWERED); /* it has taken them */
		job->step.window = RULES_WINDOW;
	}
	job->step.asks = result.pending            ? ASKS_REQUESTS
	                 : result.delete_framework ? ASKS_DELETION
	                                           : ASKS_NOTHING;
	if (result.status_changed)
		job_move(job, result.again || view.created ? ON_HURRY : ON_CHANGE);
	job_set_next_sync(job, now, &result);
	/* New objects are seen, and what had to wait for the answers is asked for, in the next one.
	 */
	if (result.again || view.created || (view.answered && result.pending))
		job->step.sync_ms = RULES_AT_ONCE;
}

/* ---- the next write -------------------------------------------------------------------------- */

struct rules_op *op_new_removal(struct rules_job *job, enum object_kind kind, const char *name,
                                const char *uid)
{
	struct rules_op *op = op_new(job, OP_DELETE, kind, name);
	op->uid = xstrdup(uid);
	op->stray = true;
	op_send(op);
	return op;
}

/* Asks for a removal, if that is due and the Framework is taken over. */
static void sweep_object(struct rules_object *o, const struct rules_time *now,
                         enum object_kind kind, const char *name)
{
	struct rules_job *job = o->job;
	job->step.sweep = true;
	if (o->remove_ms > now->ms) {
		job_step_at(job, o->remove_ms);
	} else if (job->write.fence != FENCE_OURS) {
		job->step.asks = ASKS_REQUESTS;
	} else if (job->n_ops < RULES_WINDOW) {
		(void)op_new_removal(job, kind, name, o->view.uid);
	}
}

/* The status is stored.  A pod of the ConfigMap of this attempt that is in no task must not run
 * unseen; and what was to be removed by the status, but is not even dying, is removed again. */
static void job_sweep(struct rules_job *job, const struct rules_time *now)
{
	const struct rules_object *cm = &job->configmap;
	struct rules_object *o = NULL;
	job->step.sweep = false;
	if (cm->state != OBJECT_LIVE || !job->step.current)
		return;
	if (strcmp(framework_state(job->framework), "AttemptDeletionRequested") == 0 &&
	    !cm->view.dying) {
		FREE_AUTO char *name = xasprintf("%s-attempt", job->name);
		sweep_object(&job->configmap, now, KIND_CONFIGMAP, name);
	}
	LIST_FOREACH(o, &job->pods, siblings)
	{
		struct span rest = span_of(o->name);
		int64_t index = -1;
		if (o->state == OBJECT_NONE || o->view.dying ||
		    strcmp(o->view.owner_uid, cm->view.uid) != 0)
			continue;
		(void)span_next(&rest, '-');
		FREE_AUTO char *role = xstrndup(rest.p, span_chr(rest, '-'));
		(void)span_next(&rest, '-');
		(void)parse_i64(rest, 0, INT32_MAX, &index); /* else it is in no task */
		const char *uid = framework_task_pod(job->framework, role, index);
		if (!uid || (*uid && strcmp(uid, o->view.uid) != 0))
			sweep_object(o, now, KIND_POD, o->name);
	}
}

/* When RULES_WAITING is to be written; RULES_NEVER: it says so already, or is written with the next
 * status, as it does not wait any more. */
static int64_t job_tell_ms(struct rules_job *job, const struct rules_time *now)
{
	ARENA_AUTO a = { 0 };
	struct rules_admission *of = job->admission;
	const char *waiting = of ? job_wait_text(job, &a) : NULL;
	if (!waiting) {
		if (of)
			of->told_ms = 0;
		return RULES_NEVER;
	}
	if (!of->told_ms) /* most are admitted at once */
		of->told_ms = now->ms + RULES_WAITS_MS - RULES_TOLD_MS;
	return of->told && strcmp(waiting, of->told) == 0 ? RULES_NEVER
	                                                  : of->told_ms + RULES_TOLD_MS;
}

/* Without open requests: writes what must be written before anything else, or says when. */
static void job_write_or_rest(struct rules_job *job, const struct rules_time *now)
{
	bool held = job->read.unread != UNREAD_NOTHING;
	bool ends = strcmp(framework_state(job->framework), "Completed") == 0;
	if (job->step.sweep && job->state == JOB_STORED && !ends && !held)
		job_sweep(job, now);
	if (job->admission && job->state == JOB_STORED && !ends && !held)
		job_admit(job, now);
	if (job->n_ops > 0)
		return;
	bool waits = job->step.asks == ASKS_REQUESTS;
	bool takes = waits && job->write.fence != FENCE_OURS;
	/* A change that nothing waits for is written with others, the more so if writes are slow.
	 */
	int64_t pace_ms =
	    10 * job->write.took_ms > RULES_PACE_MS ? 10 * job->write.took_ms : RULES_PACE_MS;
	bool lazy = job->write.begun_ms && job->state == JOB_CHANGED && !waits;
	int64_t at_ms = lazy ? job->write.begun_ms + pace_ms : 0;
	int64_t tell_ms =
	    job->state == JOB_STORED && !takes && !ends ? job_tell_ms(job, now) : RULES_NEVER;
	bool tells = tell_ms != RULES_NEVER;
	at_ms = tells ? tell_ms : at_ms;
	at_ms = at_ms > job->write.hold_ms ? at_ms : job->write.hold_ms;
	job_step_at(job, job->step.sync_ms);
	job_step_at(job, job->step.unwatched_ms);
	if (held) { /* the state machine is not of the newest status */
		job_step_at(job, job->write.hold_ms);
		return;
	}
	if (job->state != JOB_STORED || takes || tells) {
		if (at_ms <= now->ms)
			op_send(op_new(job, OP_STORE, KIND_FRAMEWORK, job->name));
		job_step_at(job, job->n_ops ? RULES_NEVER : at_ms);
		return;
	}
	if (ends) {
		struct fw_summary end;
		framework_summary(job->framework, &end);
		if (job->admission)
			job->admission->succeeded = end.has_code && end.code == 0;
		int64_t now_s = now->wall_ms / 1000;
		job_end(job, now,
		        job->step.asks == ASKS_DELETION
		            ? now_s - framework_config_retain_s(job->r->set.config)
		            : now_s);
	}
}

/* Sends requests that wait when it is time.  true: all that are open were answered. */
static bool job_send_waiting(struct rules_job *job, const struct rules_time *now)
{
	struct rules_op *op = NULL;
	bool answered = true;
	TAILQ_FOREACH(op, &job->ops, next)
	{
		const struct rules_object *o =
		    op->deleted ? object_find_known(job, op->kind, op->name, false) : NULL;
		if (o && op->state == OP_WAITING && o->gone && strcmp(o->gone, op->uid) == 0) {
			op->answer = FRAMEWORK_DONE; /* before the GET */
			op->state = OP_ANSWERED;
		}
		answered = answered && op->state == OP_ANSWERED;
		if (op->state == OP_WAITING && op->due_ms <= now->ms)
			op_send(op);
		else if (op->state == OP_WAITING)
			job_step_at(job, op->due_ms);
	}
	return answered;
}

/* Objects without the label, of which no event comes, are looked at again. */
static void job_doubt_unwatched(struct rules_job *job)
{
	struct rules_object *o = &job->configmap;
	if (o->unwatched && o->state == OBJECT_LIVE)
		o->state = OBJECT_DOUBTED;
	LIST_FOREACH(o, &job->pods, siblings)
	if (o->unwatched && o->state == OBJECT_LIVE)
		o->state = OBJECT_DOUBTED;
	job->step.unwatched_ms = RULES_NEVER;
	job->step.sync_ms = RULES_AT_ONCE;
}

/* Deletes a Framework whose retention is over by the wall clock, which may have been set.  Each
 * waits for its turn, since the ends of other jobs wait behind its objects in the queue of the
 * garbage collector. */
static void job_expire(struct rules_job *job, const struct rules_time *now)
{
	struct rules *r = job->r;
	int64_t left_s =
	    job->ended_s + framework_config_retain_s(r->set.config) - now->wall_ms / 1000;
	if (left_s <= 0 && !job->delete_ms && job->n_ops == 0) {
		job->delete_ms = r->expire_ms > now->ms ? r->expire_ms : now->ms;
		r->expire_ms = job->delete_ms + RULES_EXPIRE_MS;
	}
	if (left_s <= 0 && job->delete_ms > now->ms) {
		job_step_at(job, job->delete_ms);
	} else if (job->n_ops == 0 && left_s <= 0) {
		job->delete_ms = 0;
		struct rules_op *op = op_new(job, OP_DELETE, KIND_FRAMEWORK, job->name);
		op->uid = xstrdup(job->uid);
		op_send(op);
	}
	job_step_at(job, left_s > 0 ? now->ms + left_s * 1000 : RULES_NEVER);
}

void job_step_once(struct rules_job *job, const struct rules_time *now)
{
	bool answered = job_send_waiting(job, now);
	if (job->state == JOB_ENDED)
		job_expire(job, now);
	if (answered && job->admission && (job->state == JOB_ENDED || !job->uid))
		job_admit(job, now);
	if (!answered || !job->uid || job->state == JOB_ENDED)
		return;
	if (job->read.list < job->r->listed[KIND_FRAMEWORK] && job->n_ops == 0) {
		op_send(op_new(job, OP_READ, KIND_FRAMEWORK, job->name));
		return;
	}
	if (now->ms >= job->step.unwatched_ms)
		job_doubt_unwatched(job);
	bool answers = job->n_ops > 0;
	if (!answers && job_is_held(job, now)) {
		job_step_at(job, job->write.hold_ms);
		return;
	}
	if (!answers)
		job_take_unread(job, now);
	if (!job->framework)
		return;
	if (answers)
		job->step.sync_ms = RULES_AT_ONCE;
	for (int i = 0; i < SYNCS_MOST && job->step.sync_ms <= now->ms; i++) {
		job_sync_once(job, now);
		if (job->n_ops > 0)
			break;
		job_take_unread(job, now);
		if (!job->framework)
			return;
	}
	if (job->n_ops == 0 && job->framework)
		job_write_or_rest(job, now);
}
