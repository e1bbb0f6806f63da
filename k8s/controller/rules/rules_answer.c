/* The answers of the API server to the requests of the rules. */
#include <stdlib.h>

#include "base/json/scan.h"
#include "jobs/framework/drive.h"
#include "jobs/framework/view.h"
#include "jobs/store/reply.h"
#include "k8s/controller/rules/rules_internal.h"

enum {
	TOLD_MAX = 64 << 10,
	HTTP_FORBIDDEN = 403,
	HTTP_TOO_LARGE = 413,
	HTTP_UNPROCESSABLE = 422,
	HTTP_SERVER_ERROR = 500
};

static struct rules_object *op_object(const struct rules_op *op)
{
	return object_find_known(op->job, op->kind, op->name, true);
}

/* The answer for the state machine; when all requests of the Framework have one, it is synced. */
static void op_finish(struct rules_op *op, const struct rules_time *now,
                      enum framework_answer answer)
{
	struct rules_job *job = op->job;
	op->answer = answer;
	op->state = OP_ANSWERED;
	if (op->verb == OP_CREATE && answer != FRAMEWORK_DONE)
		op_object(op)->retry_ms =
		    now->ms + drive_backoff_ms(job->step.sync_failures, RULES_BACKOFF_MS);
	if (job->state == JOB_ENDED && answer == FRAMEWORK_FAILED) {
		op->stage = STAGE_FIRST;
		op->deleted = false;
		op_send_later(op, now);
	} else if (op->stray) {
		op_drop(op);
	}
	job_step_at(job, now->ms);
}

/* The object that an answer shows.  A list that began meanwhile may not have it, because it is gone
 * already. */
static void op_note_object(const struct rules_op *op, const struct rules_time *now,
                           const struct store_reply *reply)
{
	struct rules_object *o = op_object(op);
	object_note(o, now, reply->body, op->kind);
	if (o->state == OBJECT_LIVE && op->list != op->job->r->lists[op->kind])
		o->state = OBJECT_DOUBTED;
}

/* ---- creations ------------------------------------------------------------------------------- */

/* This object is the one that the POST would make. */
static bool create_made(const struct rules_op *op, struct span object)
{
	ARENA_AUTO a = { 0 };
	struct rules_metadata m;
	const struct rules_job *job = op->job;
	bool pod = op->kind == KIND_POD;
	const char *owner = pod ? job->configmap.view.uid : job->uid;
	const char *attempt = pod ? "FC_TASK_ATTEMPT_ID" : "FC_FRAMEWORK_ATTEMPT_ID";
	int64_t number = pod ? op->object.retry : op->object.attempt;
	rules_read_metadata(object, &a, &m);
	return owner && span_is(rules_read_owner(&m, &a), owner) && m.deletion_ms < 0 &&
	       (!pod || span_is(scan_text(scan_get(m.annotations, "FC_TASK_UID"), &a),
	                        op->task_uid ? op->task_uid : "")) &&
	       span_is(scan_text(scan_get(m.annotations, attempt), &a),
	               arena_printf(&a, "%lld", (long long)number));
}

static void create_done(struct rules_op *op, const struct rules_time *now,
                        const struct store_reply *reply)
{
	op_note_object(op, now, reply);
	op->made = xstrndup(reply->uid.p, reply->uid.n);
	op_finish(op, now, FRAMEWORK_DONE);
}

/* The answer of the GET that settles a POST.  404: it was not executed, but still may be. */
static void create_settle(struct rules_op *op, const struct rules_time *now,
                          const struct store_reply *reply)
{
	if (reply->outcome == STORE_OK && create_made(op, reply->body)) {
		counter_add(&op->job->r->set.counts->adopted, 1);
		create_done(op, now, reply);
	} else if (reply->outcome == STORE_OK) {
		op_note_object(op, now, reply);
		op_object(op)->alien = true;
		op_finish(op, now, FRAMEWORK_FAILED);
	} else if (reply->outcome == STORE_NOT_FOUND) {
		if (op->uid) /* not one that the POST has made meanwhile */
			object_note_gone(op_object(op), now, op->uid);
		job_tell_failure(
		    op->job, op->name,
		    SPAN("it does not exist after its creation had no answer, or an error 5xx"));
		op_finish(op, now, FRAMEWORK_FAILED);
	} else {
		op_send_later(op, now);
	}
}

/* Other pods of this batch would be refused, too; they are asked for again later. */
static void create_stop_batch(struct rules_op *op)
{
	struct rules_op *next;
	for (struct rules_op *other = TAILQ_FIRST(&op->job->ops); other; other = next) {
		next = TAILQ_NEXT(other, next);
		if (other != op && other->state == OP_UNSENT && other->verb == OP_CREATE &&
		    other->stage == STAGE_FIRST)
			op_drop(other);
	}
}

/* Tells what the API server has against the object. */
static void create_tell(const struct rules_op *op, const char *reason)
{
	const char *message = reply_text(op->status, "message");
	STR_AUTO says = STR_INIT(TOLD_MAX);
	bool denied = op->kind == KIND_POD && fw_view_denial(&says, span_of(message));
	job_tell(op->job, reason, denied ? str_c(&says) : *message ? message : "without a reason");
}

/* Admission, or the API server itself, refuses the object: the end of a pod's task; a ConfigMap is
 * tried again. */
static void create_end_refused(struct rules_op *op, const struct rules_time *now)
{
	create_tell(op, op->kind == KIND_POD ? "PodRefused" : "CreationFails");
	op_finish(op, now, FRAMEWORK_REFUSED);
}

/* 4xx.  403 can mean that the account of the controller lacks the right, which is not the user's
 * fault. */
static void create_refused(struct rules_op *op, const struct rules_time *now,
                           const struct store_reply *reply)
{
	struct rules_job *job = op->job;
	op->http = reply->status;
	op->status = reply_parse(reply->body);
	bool quota = strstr(reply_text(op->status, "message"), "exceeded quota") != NULL;
	if (quota && !job->over_quota) {
		LIST_INSERT_HEAD(&job->r->quota, job, quota);
		job->over_quota = true;
		create_tell(op, "QuotaExceeded");
	}
	if (quota) {
		create_stop_batch(op);
		op_finish(op, now, FRAMEWORK_REFUSED);
	} else if (reply->status == HTTP_FORBIDDEN) {
		op->stage = STAGE_REVIEW;
		op_send(op);
	} else {
		create_end_refused(op, now);
	}
}

static void create_review(struct rules_op *op, const struct rules_time *now,
                          const struct store_reply *reply)
{
	static const char WHY[] =
	    "The account of the controller lacks the right to create pods or ConfigMaps in this "
	    "namespace, or that to finalizers of their owners; it tries again.";
	struct span allowed = scan_path(reply->body, "status", "allowed");
	bool ok = reply->outcome == STORE_OK;
	/* Said by the admission plugin OwnerReferencesPermissionEnforcement. */
	bool finalizers = strstr(reply_text(op->status, "message"), "blockOwnerDeletion") != NULL;
	if (ok && (finalizers || span_is(allowed, "false"))) {
		counter_add(&op->job->r->set.counts->forbidden, 1);
		job_tell(op->job, "Forbidden", WHY);
	}
	if (ok && !finalizers && span_is(allowed, "true"))
		create_end_refused(op, now);
	else
		op_finish(op, now, FRAMEWORK_FAILED);
}

static void create_answer(struct rules_op *op, const struct rules_time *now,
                          const struct store_reply *reply)
{
	if (op->stage == STAGE_SETTLE) {
		create_settle(op, now, reply);
	} else if (op->stage == STAGE_REVIEW) {
		create_review(op, now, reply);
	} else if (reply->outcome == STORE_OK) {
		create_done(op, now, reply);
	} else if (reply->outcome == STORE_AMBIGUOUS) {
		op->stage = STAGE_SETTLE;
		op_send_later(op, now);
	} else if (reply->outcome == STORE_EXISTS) {
		op->stage = STAGE_SETTLE;
		op_send(op);
	} else if (reply->outcome == STORE_REFUSED) {
		create_refused(op, now, reply);
	} else {
		create_stop_batch(op); /* no connection, 429, 500, 503, a full queue */
		job_tell_failure(op->job, op->name, reply->message);
		op_finish(op, now, FRAMEWORK_FAILED);
	}
}

/* ---- deletions and looks --------------------------------------------------------------------- */

/* The answer of a GET about an object of this uid: false, if it exists still. */
static bool look_found_gone(struct rules_op *op, const struct rules_time *now,
                            const struct store_reply *reply)
{
	struct rules_object *o = op_object(op);
	struct rules *r = op->job->r;
	bool there = reply->outcome == STORE_OK;
	if (there) {
		o->state = o->state == OBJECT_DOUBTED ? OBJECT_LIVE : o->state;
		op_note_object(op, now, reply);
	}
	/* Its event may have come before the answer of a GET that still found it. */
	bool known_gone = o->gone && strcmp(o->gone, op->uid) == 0;
	if (there && span_is(reply->uid, op->uid) && !known_gone) {
		r->absent_ms -= op->verb == OP_LOOK ? RULES_ABSENCE_MS : 0;
		return false;
	}
	/* So is another one of that name, which the last list did not have either. */
	if (!there && o->state == OBJECT_DOUBTED && op->list == r->lists[op->kind])
		object_note_gone(o, now, o->view.uid);
	object_note_gone(o, now, op->uid);
	if (op->verb == OP_LOOK)
		counter_add(&r->set.counts->absences, 1);
	return true;
}

static void delete_look(struct rules_op *op, const struct rules_time *now,
                        const struct store_reply *reply)
{
	const struct rules_job *job = op->job;
	if (reply->outcome != STORE_OK && reply->outcome != STORE_NOT_FOUND) {
		op_send_later(op, now);
		return;
	}
	const char *owner = op->kind == KIND_POD ? job->configmap.view.uid : job->uid;
	bool gone = look_found_gone(op, now, reply);
	const struct rules_object *o = op_object(op);
	if (gone || !owner || strcmp(o->view.owner_uid, owner) != 0) {
		op_finish(op, now, FRAMEWORK_DONE); /* nothing of this Framework is there */
	} else if (op->deleted) {                   /* it takes time */
		op_finish(op, now, op->confirm ? FRAMEWORK_FAILED : FRAMEWORK_DONE);
	} else {
		op->stage = STAGE_FIRST;
		op_send(op);
	}
}

/* The answer of the DELETE itself.  One that was answered 2xx, and has no effect, is repeated by
 * the sweep after 10 s, 20, 40 ... 300.  If its event came before the answer, the name is free, and
 * the next object of that name need not wait. */
static void delete_note(const struct rules_op *op, const struct rules_time *now, bool done)
{
	enum { FIRST = 11 /* drive_backoff_ms: 10 s */ };
	struct rules_object *o = op_object(op);
	if (op->stray && op->kind == KIND_POD && done && !o->removals)
		counter_add(&op->job->r->set.counts->strays, 1);
	op->job->step.sweep = true;
	if (o->gone && strcmp(o->gone, op->uid) == 0)
		return;
	o->remove_ms = now->ms + drive_backoff_ms(FIRST + o->removals, RULES_REMOVED_MS);
	o->removals += done;
}

static void delete_answer(struct rules_op *op, const struct rules_time *now,
                          const struct store_reply *reply)
{
	const struct rules_object *o = op->stage == STAGE_LOOK ? NULL : op_object(op);
	bool done = reply->outcome == STORE_OK;
	/* A pod that has ended goes at once.  If the sync has asked for more than its DELETE, that
	 * is over when the pod is gone: then ends that one sync has found count in the order of
	 * their tasks, not in that of the events. */
	bool waits = o && !op->stray && op->kind == KIND_POD && op->job->n_ops > 1 &&
	             o->state == OBJECT_LIVE && strcmp(o->view.uid, op->uid) == 0 &&
	             pod_is_over(&o->view);
	if (op->stage != STAGE_LOOK)
		delete_note(op, now, done);
	if (op->stage == STAGE_LOOK) {
		delete_look(op, now, reply);
	} else if (reply->outcome == STORE_CONFLICT) { /* another uid, perhaps */
		op->stage = STAGE_LOOK;
		op_send_later(op, now);
	} else if (reply->outcome == STORE_NOT_FOUND) {
		object_note_gone(op_object(op), now, op->uid); /* this uid */
		op_finish(op, now, FRAMEWORK_DONE);
	} else if (done && (op->confirm || waits)) {
		op->deleted = true;
		op->stage = STAGE_LOOK;
		op->due_ms = now->ms + (op->confirm ? 0 : RULES_ENDED_MS);
		job_step_at(op->job, op->due_ms);
	} else {
		op_finish(op, now, done ? FRAMEWORK_DONE : FRAMEWORK_FAILED);
	}
}

/* A Framework whose retention is over. */
static void expire_answer(struct rules_op *op, const struct rules_time *now,
                          const struct store_reply *reply)
{
	struct rules_job *job = op->job;
	bool gone = reply->outcome == STORE_NOT_FOUND;
	op_drop(op);
	if (gone)
		job_note_gone(job);
	else
		job_step_at(job, now->ms + RULES_BACKOFF_MS);
}

static void look_answer(struct rules_op *op, const struct rules_time *now,
                        const struct store_reply *reply)
{
	if (reply->outcome != STORE_OK && reply->outcome != STORE_NOT_FOUND) {
		op_send_later(op, now);
		return;
	}
	(void)look_found_gone(op, now, reply);
	op_finish(op, now, FRAMEWORK_DONE);
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* Reads the Framework after a write that was refused, or that was not the last one. */
static void store_read_after(struct rules_job *job, const char *refused, int64_t version)
{
	struct rules_op *op = op_new(job, OP_READ, KIND_FRAMEWORK, job->name);
	op->made = refused ? xstrdup(refused) : NULL;
	op->version = version;
	op_send(op);
}

static void store_done_well(struct rules_op *op, const struct rules_time *now,
                            const struct store_reply *reply)
{
	ARENA_AUTO a = { 0 };
	struct rules_metadata m;
	struct rules_job *job = op->job;
	int64_t before = job->read.version;
	rules_read_metadata(reply->body, &a, &m);
	int64_t version = rules_version(&m);
	if (op->takes) {
		job->write.fence = FENCE_OURS;
		counter_add(&job->r->set.counts->taken, 1);
	}
	job->write.take_failures = job->write.store_failures = 0;
	job_move(job, ON_WRITTEN);
	job->write.begun_ms = op->begun_ms;
	if (job->admission) {
		free(job->admission->told);
		job->admission->told = TAKE(op->told);
		job->admission->told_ms = now->ms;
	}
	job->write.took_ms = now->ms - op->begun_ms;
	if (job->step.asks == ASKS_REQUESTS)
		job->step.sync_ms = RULES_AT_ONCE;
	op_drop(op);
	if (version > before)
		job->read.version = version;
	else if (version < before) /* somebody has written after this */
		store_read_after(job, NULL, 0);
	job_step_at(job, now->ms);
}

/* slowly: the failure is not expected to pass soon. */
static void store_try_later(struct rules_job *job, const struct rules_time *now, bool slowly)
{
	job->write.hold_ms =
	    now->ms +
	    (slowly ? RULES_BACKOFF_MS : rules_backoff(job->r, job->write.store_failures++));
	job_step_at(job, job->write.hold_ms);
}

/* The write is refused for good: its content, the size of the object, or a right. */
static void store_refused(struct rules_job *job, const struct rules_time *now, int status,
                          const char *message)
{
	FREE_AUTO char *why =
	    xasprintf("The status cannot be stored, so nothing goes on: %s", message);
	counter_add(&job->r->set.counts->unstorable, 1);
	job_tell(job, status == HTTP_FORBIDDEN ? "Forbidden" : "Unstorable", why);
	store_try_later(job, now, true);
}

static void store_answer(struct rules_op *op, const struct rules_time *now,
                         const struct store_reply *reply)
{
	struct rules_job *job = op->job;
	if (reply->outcome == STORE_OK) {
		store_done_well(op, now, reply);
		return;
	}
	/* A test has failed, or the first try of this write was executed after all. */
	bool read = reply->status == HTTP_UNPROCESSABLE || reply->outcome == STORE_CONFLICT;
	bool large = reply->status == HTTP_TOO_LARGE || reply->status == HTTP_SERVER_ERROR;
	int64_t version = op->version;
	FREE_AUTO char *message = xstrndup(reply->message.p, reply->message.n);
	op_drop(op);
	if (reply->outcome == STORE_NOT_FOUND) {
		job_note_gone(job);
	} else if (read) {
		store_read_after(job, message, version);
	} else if (reply->outcome == STORE_REFUSED && large && !job->write.packs) {
		job->write.packs = true;
		job_step_at(job, now->ms);
	} else if (reply->outcome == STORE_REFUSED) {
		store_refused(job, now, reply->status, message);
	} else {
		store_try_later(job, now, false);
	}
}

/* The Framework, after a write that was refused, or because a list did not have it. */
static void read_answer(struct rules_op *op, const struct rules_time *now,
                        const struct store_reply *reply)
{
	struct rules_job *job = op->job;
	struct rules *r = job->r;
	if (reply->outcome == STORE_NOT_FOUND) {
		job_note_gone(job); /* with this request */
		return;
	}
	if (reply->outcome != STORE_OK) {
		op_send_later(op, now);
		return;
	}
	ARENA_AUTO a = { 0 };
	struct rules_metadata m;
	bool ours = job->write.fence == FENCE_OURS;
	int64_t tested = op->version;
	FREE_AUTO char *refused = TAKE(op->made);
	op_drop(op);
	rules_read_metadata(reply->body, &a, &m);
	if (refused && rules_version(&m) < tested)
		job_forget(job); /* etcd was restored: what is stored now counts */
	job_note(r, now, reply->body, true);
	/* All that it tested holds, so it is the status that was refused.  Else it is written
	 * again: a user has changed the Framework, or the first try of the write was executed after
	 * all. */
	if (refused && ours && job->write.fence == FENCE_OURS && job->read.version == tested)
		store_refused(job, now, HTTP_UNPROCESSABLE, refused);
	else if (refused && !ours)
		job->write.hold_ms = now->ms + rules_backoff(r, job->write.take_failures++);
	job_step_at(job, now->ms);
}

void op_take_answer(struct rules_op *op, const struct rules_time *now,
                    const struct store_reply *reply)
{
	if (op->verb == OP_ADMIT)
		admission_answer(op, now, reply);
	else if (op->verb == OP_FETCH)
		fetch_answer(op, now, reply);
	else if (op->verb == OP_CREATE)
		create_answer(op, now, reply);
	else if (op->verb == OP_DELETE && op->kind == KIND_FRAMEWORK)
		expire_answer(op, now, reply);
	else if (op->verb == OP_DELETE)
		delete_answer(op, now, reply);
	else if (op->verb == OP_LOOK)
		look_answer(op, now, reply);
	else if (op->verb == OP_STORE)
		store_answer(op, now, reply);
	else
		read_answer(op, now, reply);
}
