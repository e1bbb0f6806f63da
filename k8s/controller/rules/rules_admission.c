/* The admission of Frameworks by Kueue: requests about their Workloads, and their answers. */
#include <stdlib.h>

#include "base/json/put.h"
#include "jobs/framework/drive.h"
#include "jobs/store/paths.h"
#include "jobs/store/reply.h"
#include "k8s/controller/rules/rules_internal.h"

enum { FLAVORS_MAX = 1 << 20, WHY_MOST = 1024, HTTP_INVALID = 422 };

/* ---- what is known --------------------------------------------------------------------------- */

struct rules_admission *job_admission(struct rules_job *job)
{
	if (job->admission)
		return job->admission;
	job->admission = xcalloc(1, sizeof(*job->admission));
	job->admission->job = job;
	job->admission->workload.job = job;
	LIST_INSERT_HEAD(&job->r->admissions, job->admission, all);
	return job->admission;
}

void job_admission_free(struct rules_job *job)
{
	struct rules_admission *of = job->admission;
	if (!of)
		return;
	object_free_known(&of->workload);
	LIST_REMOVE(of, all);
	free(of->text);
	free(of->queue);
	free(of->class);
	free(of->class_name);
	free(of->flavors);
	free(of->why);
	free(of->told);
	json_decref(of->conflict);
	free(of);
	job->admission = NULL;
}

static void text_replace(char **to, struct span text)
{
	free(*to);
	*to = text.n ? xstrndup(text.p, text.n) : NULL;
}

void job_note_queue(struct rules_job *job, const struct rules_metadata *m)
{
	ARENA_AUTO a = { 0 };
	struct span queue = scan_text(scan_get(m->labels, ADMISSION_QUEUE), &a);
	struct span told = scan_text(scan_get(m->annotations, RULES_WAITING), &a);
	if (!queue.n && !told.n && !job->admission)
		return;
	struct rules_admission *of = job_admission(job);
	text_replace(&of->queue, queue);
	text_replace(&of->class, scan_text(scan_get(m->labels, ADMISSION_PRIORITY), &a));
	text_replace(&of->told, told);
	job->r->wants_workloads |= of->queue != NULL;
}

void workload_note(struct rules_object *o, struct span object)
{
	struct rules_admission *of = o->job->admission;
	STR_AUTO text = STR_INIT(RULES_OBJECT_MAX);
	admission_reduce(object, &text);
	text_replace(&of->text, str_view(&text));
	of->checked = of->absent = false;
	job_drop_ops(o->job, OP_UNSENT); /* they are asked for again, if they may still be sent */
}

/* The Workload; false: there is none. */
static bool workload_read(const struct rules_admission *of, struct arena *a, struct admission *out)
{
	if (of->workload.state == OBJECT_NONE || !of->text)
		return false;
	admission_read(span_of(of->text), a, out);
	return true;
}

bool workload_is_settled(struct span object)
{
	ARENA_AUTO a = { 0 };
	struct admission w;
	admission_read(object, &a, &w);
	return w.is[FINISHED].is_true && !w.guarded;
}

/* ---- what is next ---------------------------------------------------------------------------- */

/* A pod of a controller is there, of this attempt or one before it.  A ConfigMap alone needs no
 * quota; one that a late request has made may be in no attempt. */
static bool job_has_pods(const struct rules_job *job)
{
	const struct rules_object *o = NULL;
	LIST_FOREACH(o, &job->pods, siblings)
	if (o->state != OBJECT_NONE && *o->view.owner_uid)
		return true;
	return false;
}

/* An attempt has begun, and is not over. */
static bool job_has_attempt(const struct rules_job *job)
{
	enum { FIRST = 1, LAST = 6 /* of FW_STATES */ };
	unsigned state = job->framework ? framework_state_index(job->framework) : 0;
	return state >= FIRST && state <= LAST;
}

static bool job_is_over(const struct rules_job *job)
{
	return !job->uid || job->state == JOB_ENDED;
}

/* w: the Workload, if `has`. */
struct workload_view {
	bool has;
	struct admission w;
	enum admission_step step;
};

static void job_view_workload(const struct rules_job *job, struct arena *a,
                              struct workload_view *out)
{
	const struct rules_admission *of = job->admission;
	*out = (struct workload_view){ .step = ADMISSION_REST };
	out->has = workload_read(of, a, &out->w);
	if (!of->queue && !out->has) {
		out->step = ADMISSION_GO;
		return;
	}
	if (!job->r->listed[KIND_WORKLOAD] || of->look || of->workload.state == OBJECT_DOUBTED)
		return;
	bool own = job->uid && (!out->has || strcmp(of->workload.view.owner_uid, job->uid) == 0);
	const struct admission_wish wish = {
		.ended = job_is_over(job) || !own,
		.lives = job_has_pods(job) || job_has_attempt(job),
		.starts = of->starts,
	};
	/* One that is not of this Framework is left alone, unless it was made for an earlier one.
	 */
	if (own || out->w.guarded)
		out->step = admission_decide(out->has ? &out->w : NULL, &wish);
}

/* It was told by the answer of a GET, or of a write, so it is not that of an old list. */
static bool workload_is_fresh(const struct rules_admission *of, bool has)
{
	return has ? of->fresh == of->workload.version && of->fresh : of->absent;
}

const char *job_eviction(const struct rules_job *job, struct arena *a)
{
	struct workload_view v;
	const struct rules_admission *of = job->admission;
	if (!of)
		return NULL;
	job_view_workload(job, a, &v);
	if (v.step != ADMISSION_EVICT || !workload_is_fresh(of, v.has))
		return NULL;
	return arena_printf(a, "Kueue does not admit this job any more: %s",
	                    v.has ? admission_reason(&v.w, a) : "its Workload is gone");
}

/* ---- what may be created --------------------------------------------------------------------- */

static bool job_find_role(const struct rules_job *job, const char *name, struct framework_role *out)
{
	for (size_t i = 0; framework_role_at(job->framework, i, out); i++)
		if (strcmp(out->name, name) == 0)
			return true;
	return false;
}

static struct span job_flavors(const struct rules_admission *of)
{
	return of->flavors ? span_of(of->flavors) : SPAN("{}");
}

/* Labels or tolerations that cannot both be: such pods are refused, once for all. */
static void job_check_conflict(struct rules_job *job, const struct admission *w)
{
	struct rules_admission *of = job->admission;
	struct framework_role role;
	STR_AUTO why = STR_INIT(RULES_OBJECT_MAX);
	if (of->checked || !job_fatten(job))
		return;
	of->checked = true;
	json_decref(of->conflict);
	of->conflict = NULL;
	for (size_t i = 0; framework_role_at(job->framework, i, &role); i++) {
		ARENA_AUTO a = { 0 };
		(void)admission_additions(w, job_flavors(of), &role, &a, &why);
	}
	if (!why.n)
		return;
	FREE_AUTO char *message =
	    xasprintf("what Kueue adds to the pods contradicts them: %s", str_c(&why));
	of->conflict = json_pack("{s:s, s:s, s:s, s:i}", "status", "Failure", "reason", "Invalid",
	                         "message", message, "code", HTTP_INVALID);
	job_tell(job, "PodsContradict", message);
}

/* There are more tasks of this role than were admitted. */
static bool job_exceeds(const struct rules_job *job, const struct admission *w,
                        const struct framework_object *o)
{
	struct framework_role role;
	int64_t most = admission_allows(w, o->role);
	return job_find_role(job, o->role, &role) && role.left > most &&
	       framework_tasks_before(job->framework, o->role, o->index) >= most;
}

enum framework_answer job_admits(struct rules_job *job, const struct framework_object *o,
                                 struct framework_created *out)
{
	ARENA_AUTO a = { 0 };
	struct workload_view v;
	struct rules_admission *of = job->admission;
	if (!of)
		return FRAMEWORK_DONE;
	job_view_workload(job, &a, &v);
	if (v.step == ADMISSION_GO && !v.has)
		return FRAMEWORK_DONE;
	of->starts |=
	    v.step != ADMISSION_GO || admission_missing_flavor(&v.w, job_flavors(of), &a).p != NULL;
	if (of->starts || o->kind == FRAMEWORK_CONFIGMAP)
		return of->starts ? FRAMEWORK_PENDING : FRAMEWORK_DONE;
	if (job_exceeds(job, &v.w, o)) {
		of->exceeds = true; /* this pod; others of the job may be created */
		return FRAMEWORK_PENDING;
	}
	job_check_conflict(job, &v.w);
	if (of->conflict)
		*out = (struct framework_created){ .http = HTTP_INVALID, .status = of->conflict };
	return of->conflict ? FRAMEWORK_REFUSED : FRAMEWORK_DONE;
}

struct span job_pod_additions(const struct rules_job *job, const char *name, struct arena *a)
{
	struct admission w;
	struct framework_role role;
	STR_AUTO conflict = STR_INIT(RULES_OBJECT_MAX);
	if (!job->admission || !workload_read(job->admission, a, &w) ||
	    !job_find_role(job, name, &role))
		return (struct span){ NULL, 0 };
	return admission_additions(&w, job_flavors(job->admission), &role, a, &conflict);
}

/* ---- what people are told -------------------------------------------------------------------- */

/* See RULES_GATED. */
static bool job_is_gated(const struct rules_job *job)
{
	const struct rules_object *o = NULL;
	LIST_FOREACH(o, &job->pods, siblings)
	if (o->state != OBJECT_NONE && o->gated)
		return true;
	return false;
}

const char *job_wait_text(const struct rules_job *job, struct arena *a)
{
	const struct rules_admission *of = job->admission;
	struct workload_view v;
	if (!of || strcmp(framework_state(job->framework), "Completed") == 0)
		return NULL;
	if (job_is_gated(job))
		return RULES_GATED;
	job_view_workload(job, a, &v);
	if (!of->queue || (v.step == ADMISSION_GO && !of->why && !of->exceeds))
		return NULL;
	const char *queue = v.has ? arena_dup(a, v.w.queue) : of->queue;
	if (of->exceeds && v.step == ADMISSION_GO)
		return arena_printf(a,
		                    "the queue %s has admitted fewer tasks of this job: submit "
		                    "a second job for the others",
		                    queue);
	if (!of->starts && v.step != ADMISSION_EVICT)
		return NULL;
	bool foreign = v.has && !v.w.guarded && strcmp(of->workload.view.owner_uid, job->uid) != 0;
	const char *why = job->r->no_workloads ? job->r->no_workloads
	                  : foreign            ? "another Workload has its name"
	                  : of->why            ? of->why
	                  : v.has              ? admission_reason(&v.w, a)
	                                       : NULL;
	return why ? arena_printf(a, "waits for the queue %s: %s", queue, why) : NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A GET; or the request of this step. */
static void admission_ask(struct rules_job *job, enum admission_step step)
{
	struct rules_op *op = op_new(job, OP_ADMIT, KIND_WORKLOAD, job->name);
	op->step = step;
	if (step == ADMISSION_DELETE)
		op->uid = xstrdup(job->admission->workload.view.uid);
	op_send(op);
}

/* The priority is that of Kueue's class, else that of the pods' class, else that of the default.
 * true: it has to be asked for first. */
static bool admission_fetch_priority(struct rules_job *job)
{
	ARENA_AUTO a = { 0 };
	struct rules_admission *of = job->admission;
	struct framework_role role;
	struct span name = { NULL, 0 };
	if (of->priority.known)
		return false;
	for (size_t i = 0; !name.n && framework_role_at(job->framework, i, &role); i++)
		name = scan_text(scan_path(role.pod, "spec", "priorityClassName"), &a);
	if (of->class)
		op_send(op_new(job, OP_FETCH, KIND_WORKLOAD_PRIORITY, of->class));
	else
		op_send(op_new(job, OP_FETCH, KIND_PRIORITYCLASS, arena_dup(&a, name)));
	return true;
}

static void job_wake_at_once(struct rules_job *job, const struct rules_time *now)
{
	job->step.sync_ms = RULES_AT_ONCE;
	job_step_at(job, now->ms);
}

/* A request was answered well. */
static void admission_done(struct rules_job *job, const struct rules_time *now)
{
	struct rules_admission *of = job->admission;
	of->failures = 0;
	of->retry_ms = 0;
	free(TAKE(of->why));
	job_wake_at_once(job, now);
}

/* Nothing is under way: what the step asks for. */
static void admission_act(struct rules_job *job, const struct rules_time *now,
                          const struct workload_view *v, struct arena *a)
{
	struct rules_admission *of = job->admission;
	STR_AUTO body = STR_INIT(RULES_OBJECT_MAX);
	struct span flavor;
	switch (v->step) {
	case ADMISSION_REST:
		break;
	case ADMISSION_MAKE:
		if (job_fatten(job) && !admission_fetch_priority(job))
			admission_ask(job, v->step);
		break;
	case ADMISSION_GO:
		flavor = v->has ? admission_missing_flavor(&v->w, job_flavors(of), a)
		                : (struct span){ NULL, 0 };
		if (of->starts && flavor.p)
			op_send(op_new(job, OP_FETCH, KIND_FLAVOR, arena_dup(a, flavor)));
		else if (of->starts)
			admission_done(job, now);
		else if (!v->has || !job_has_pods(job) ||
		         !admission_put_progress(&body, &v->w, job->framework, now->wall_ms))
			break;
		else if (now->ms >= of->progress_ms)
			admission_ask(job, v->step);
		else
			job_step_at(job, of->progress_ms);
		break;
	case ADMISSION_EVICT:
		if (!workload_is_fresh(of, v->has))
			admission_ask(job, ADMISSION_REST);
		break;
	case ADMISSION_RELEASE:
	case ADMISSION_FINISH:
	case ADMISSION_DELETE:
	case ADMISSION_UNGUARD:
		admission_ask(job, v->step);
		break;
	}
}

/* Without an attempt the state machine asks for no pod.  One that a list did not have is looked for
 * here, since the quota is given back when none is left.  true: a GET is open. */
static bool admission_look_for_pod(struct rules_job *job)
{
	const struct rules_object *o = NULL;
	if (job_has_attempt(job))
		return false;
	LIST_FOREACH(o, &job->pods, siblings)
	{
		if (o->state != OBJECT_DOUBTED)
			continue;
		struct rules_op *op = op_new(job, OP_LOOK, KIND_POD, o->name);
		op->uid = xstrdup(o->view.uid);
		op->stray = true;
		op_send(op);
		return true;
	}
	return false;
}

void job_admit(struct rules_job *job, const struct rules_time *now)
{
	ARENA_AUTO a = { 0 };
	struct workload_view v;
	struct rules_admission *of = job->admission;
	bool known = job->r->listed[KIND_WORKLOAD] && !job->r->no_workloads;
	if (!known || job->n_ops > 0)
		return;
	if (now->ms < of->retry_ms) {
		job_step_at(job, of->retry_ms);
		return;
	}
	if (of->look || of->workload.state == OBJECT_DOUBTED) {
		admission_ask(job, ADMISSION_REST);
		return;
	}
	if (admission_look_for_pod(job))
		return;
	job_view_workload(job, &a, &v);
	if (v.step == ADMISSION_REST && job_is_over(job)) {
		bool settled = !v.has || (v.w.is[FINISHED].is_true && !v.w.guarded);
		if (settled && job->uid)
			job_admission_free(job);
		return;
	}
	bool acts = v.step != ADMISSION_REST && v.step != ADMISSION_EVICT;
	if (acts && !job_is_over(job) && job->write.fence != FENCE_OURS) {
		if (v.step != ADMISSION_GO)
			job->step.asks = ASKS_REQUESTS;
		return;
	}
	admission_act(job, now, &v, &a);
}

static void admission_put_body(struct rules_op *op, const struct rules_time *now,
                               struct store_request *out)
{
	ARENA_AUTO a = { 0 };
	struct admission w = { 0 };
	const struct rules_job *job = op->job;
	const struct rules_admission *of = job->admission;
	out->verb = STORE_PATCH;
	(void)workload_read(of, &a, &w);
	if (op->step == ADMISSION_RELEASE)
		admission_put_release(&op->body, &w, now->wall_ms);
	else if (op->step == ADMISSION_FINISH)
		admission_put_finish(&op->body, &w,
		                     of->conflict    ? "FailedToStart"
		                     : of->succeeded ? "Succeeded"
		                                     : "Failed",
		                     now->wall_ms);
	else if (op->step == ADMISSION_UNGUARD)
		admission_put_unguarded(&op->body, &w);
	else
		(void)admission_put_progress(&op->body, &w, job->framework, now->wall_ms);
	out->of_status = op->step != ADMISSION_UNGUARD;
}

void admission_write_request(struct rules_op *op, const struct rules_time *now,
                             struct store_request *out)
{
	const struct rules_job *job = op->job;
	const struct rules_admission *of = job->admission;
	out->whole = true;
	if (op->verb == OP_FETCH) {
		out->verb = *op->name ? STORE_GET : STORE_LIST;
		return;
	}
	if (op->step == ADMISSION_REST) {
		out->verb = STORE_GET;
	} else if (op->step == ADMISSION_DELETE) {
		out->verb = STORE_DELETE;
		out->uid = op->uid;
	} else if (op->step == ADMISSION_MAKE) {
		out->verb = STORE_CREATE;
		struct admission_job made = { job->namespace_name, job->name, job->uid, of->queue,
			                      of->priority };
		made.priority.name = of->class_name;
		if (of->queue)
			admission_put_workload(&op->body, job->framework, &made);
	} else {
		admission_put_body(op, now, out);
	}
	out->body[0] = str_view(&op->body);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Tries again later; why NULL: that was to be expected. */
static void admission_later(struct rules_job *job, const struct rules_time *now, const char *why)
{
	enum { LEAST = 5, TOLD_FROM = 2 };
	struct rules_admission *of = job->admission;
	of->retry_ms = now->ms + rules_backoff(job->r, LEAST + of->failures++);
	if (why)
		text_replace(&of->why, span_cut(span_of(why), WHY_MOST));
	if (why && of->failures > TOLD_FROM)
		job_tell(job, "AdmissionFails", why);
	job_step_at(job, now->ms); /* for RULES_WAITING; job_admit waits */
}

static bool fetched_priority(struct rules_admission *of, enum object_kind kind,
                             const struct store_reply *reply)
{
	ARENA_AUTO a = { 0 };
	struct span item;
	struct span class = reply->body;
	bool list = scan_type(scan_get(reply->body, "items")) == SCAN_ARRAY;
	if (list)
		class = SPAN("{}");
	for (struct scan all = scan_begin(scan_get(reply->body, "items")); scan_item(&all, &item);)
		if (span_is(scan_get(item, "globalDefault"), "true"))
			class = item;
	of->priority = (struct admission_priority){ .known = true,
		                                    .of_kueue = kind == KIND_WORKLOAD_PRIORITY };
	text_replace(&of->class_name, scan_text(scan_path(class, "metadata", "name"), &a));
	struct span value = scan_get(class, "value");
	of->priority.known = scan_int(value, INT32_MIN, INT32_MAX, &of->priority.value) || list;
	return of->priority.known;
}

static bool fetched_flavor(struct rules_admission *of, const char *name,
                           const struct store_reply *reply)
{
	STR_AUTO all = STR_INIT(FLAVORS_MAX);
	struct span before = job_flavors(of);
	struct span spec = scan_get(reply->body, "spec");
	str_span(&all, span_to(before, before.n - 1));
	json_put_raw(&all, name, spec.p ? spec : SPAN("{}"));
	str_char(&all, '}');
	if (all.full)
		return false;
	text_replace(&of->flavors, str_view(&all));
	of->checked = false;
	return true;
}

void fetch_answer(struct rules_op *op, const struct rules_time *now,
                  const struct store_reply *reply)
{
	struct rules_job *job = op->job;
	struct rules_admission *of = job->admission;
	const char *kind = resource_of(op->kind)->kind;
	bool ok = reply->outcome == STORE_OK &&
	          (op->kind == KIND_FLAVOR ? fetched_flavor(of, op->name, reply)
	                                   : fetched_priority(of, op->kind, reply));
	FREE_AUTO char *why =
	    reply->outcome == STORE_NOT_FOUND
		? xasprintf("the %s %s does not exist", kind, op->name)
		: xasprintf("the %s %s cannot be read: %.*s", kind, op->name, (int)reply->message.n,
	                    reply->message.p ? reply->message.p : "");
	op_drop(op);
	if (ok)
		admission_done(job, now);
	else
		admission_later(job, now, why);
}

/* The complaint of the API server, or of Kueue, about a request; NULL: only its version was old. */
static char *admission_complaint(const struct rules_op *op, const struct store_reply *reply)
{
	json_t *status = reply_parse(reply->body);
	const char *says = reply_text(status, "message");
	char *why = reply->outcome == STORE_CONFLICT || reply->outcome == STORE_EXISTS ||
	                    reply->outcome == STORE_NOT_FOUND
	                ? NULL
	                : xasprintf("its Workload cannot be %s: %.*s",
	                            op->step == ADMISSION_MAKE ? "created" : "changed",
	                            *says ? (int)strlen(says) : (int)reply->message.n,
	                            *says ? says : reply->message.p);
	json_decref(status);
	return why;
}

void admission_answer(struct rules_op *op, const struct rules_time *now,
                      const struct store_reply *reply)
{
	struct rules_job *job = op->job;
	struct rules_admission *of = job->admission;
	struct rules_object *o = &of->workload;
	enum admission_step step = op->step;
	bool found = reply->outcome == STORE_OK && step != ADMISSION_DELETE;
	bool absent = reply->outcome == STORE_NOT_FOUND && step == ADMISSION_REST;
	FREE_AUTO char *why = admission_complaint(op, reply);
	bool listed = op->list != job->r->lists[KIND_WORKLOAD]; /* one has begun meanwhile */
	op_drop(op);
	of->look = step != ADMISSION_MAKE || reply->outcome != STORE_REFUSED;
	if (found) {
		o->state = o->state == OBJECT_DOUBTED ? OBJECT_LIVE : o->state;
		object_note(o, now, reply->body, KIND_WORKLOAD);
		of->fresh = o->version;
		of->look = listed;
	} else if (absent) {
		if (o->state != OBJECT_NONE)
			object_note_gone(o, now, o->view.uid);
		of->absent = true;
		of->look = false;
	}
	if (step == ADMISSION_RELEASE && found)
		free(TAKE(of->flavors));
	if (step == ADMISSION_GO)
		of->progress_ms = now->ms + RULES_PACE_MS;
	if (step == ADMISSION_REST && (found || absent))
		job_wake_at_once(job, now); /* a failure before is not over */
	else if (reply->outcome == STORE_OK)
		admission_done(job, now);
	else
		admission_later(job, now, why);
	if (!job->uid && o->state == OBJECT_NONE)
		job_free_unused(job);
}
