#include <stdlib.h>

#include "k8s/framework/framework_internal.h"

/* A task of a sync. */
struct one {
	struct fw_sync *s;
	struct fw_role *r;
	size_t index;
	struct fw_task *t;
	struct fw_life *l;
	char name[FW_NAME_MAX]; /* of its pod */
};

static void task_move(struct one *o, enum fw_state to)
{
	fw_move(o->s, o->r, o->index, o->l, to);
}

/* The attempt is over once its pod is deleted. */
static void task_end(struct one *o, struct fw_outcome *outcome)
{
	fw_end(o->s, o->l, outcome);
	task_move(o, FW_DELETION_PENDING);
	o->s->r->again = true;
}

/* The attempt is over: there is no pod. */
static void task_force(struct one *o, struct fw_outcome *outcome)
{
	fw_end(o->s, o->l, outcome);
	task_move(o, FW_ATTEMPT_COMPLETED);
	o->s->r->again = true;
}

static bool task_remove(struct one *o, const char *uid, bool force, bool confirm)
{
	struct framework_delete what = { FRAMEWORK_POD, o->name, uid, force, confirm };
	return fw_answered(o->s, o->s->w->remove(o->s->w->arg, &what)) == FRAMEWORK_DONE;
}

/* The pod of this attempt.  One that the ConfigMap owns, but the status does not know, is deleted.
 */
static enum fw_found task_find(struct one *o, bool confirm, struct framework_pod *pod)
{
	const char *owner = o->s->f->life.uid;
	*pod = (struct framework_pod){ 0 };
	if (!o->s->w->pod(o->s->w->arg, o->name, pod) || !pod->uid)
		return FW_GONE;
	if (o->l->uid && strcmp(pod->uid, o->l->uid) == 0)
		return FW_THERE;
	if (!owner || !pod->owner_uid || strcmp(pod->owner_uid, owner) != 0)
		return FW_GONE;
	return task_remove(o, pod->uid, false, confirm) ? FW_GONE : FW_LATER;
}

static void task_create(struct one *o)
{
	const struct framework_world *w = o->s->w;
	STR_AUTO object = STR_INIT(FRAMEWORK_OBJECT_MAX);
	struct framework_created made = { 0 };
	struct framework_pod pod;
	fw_pod_object(o->s->f, o->r, o->index, &object);
	enum framework_answer a =
	    w->create(w->arg, FRAMEWORK_POD, o->name, str_view(&object), &made);
	if (a == FRAMEWORK_REFUSED) {
		struct fw_outcome *outcome = fw_pod_refused(made.http, made.status);
		if (!outcome)
			(void)fw_answered(o->s, FRAMEWORK_FAILED);
		else if (task_find(o, true, &pod) != FW_LATER)
			task_force(o, outcome);
		else
			fw_outcome_free(outcome);
		return;
	}
	if (fw_answered(o->s, a) != FRAMEWORK_DONE)
		return;
	o->l->uid = xstrdup(made.uid);
	task_move(o, FW_CREATION_REQUESTED);
	(void)fw_due(o->s, o->s->now_s + o->s->f->config->cache_timeout_s); /* another look */
}

static void task_pending(struct one *o)
{
	if (fw_completing(o->s->f))
		return;
	if (o->t->removing || !o->r->spec)
		task_force(o, fw_scaled_down());
	else
		task_create(o);
}

static void task_not_seen(struct one *o)
{
	int64_t timeout_s = o->s->f->config->cache_timeout_s;
	if (!o->t->removing && !fw_due(o->s, o->l->transition_s + timeout_s))
		return;
	if (!task_remove(o, o->l->uid, false, true))
		return;
	char shown[FW_TIME_MAX];
	FREE_AUTO char *says = xasprintf(
	    "Pod does not appear in the local cache within timeout %s, so consider it was "
	    "deleted and explicitly delete it",
	    fw_duration(timeout_s, shown));
	task_force(o, o->t->removing ? fw_scaled_down() : fw_outcome_new(FW_POD_NOT_SEEN, says));
}

static void task_dying(struct one *o, const struct framework_pod *pod)
{
	fw_end(o->s, o->l, fw_outcome_new(FW_POD_DELETED, "Pod is being deleted by others"));
	task_move(o, FW_DELETING);
	/* By force only if it took too long.  The next sync sees that it is gone. */
	if (o->r->grace_s != FW_NO_TIME &&
	    fw_due(o->s, pod->deletion_s - pod->grace_s + o->r->grace_s))
		(void)task_remove(o, o->l->uid, true, true);
}

/* Replaces a text of the status; NULL counts as "". */
static void task_copy(struct one *o, char **to, const char *from)
{
	from = from ? from : "";
	if (*to && strcmp(*to, from) == 0)
		return;
	free(*to);
	*to = xstrdup(from);
	o->s->r->status_changed = true;
}

static void task_seen(struct one *o, const struct framework_pod *pod)
{
	const char *phase = pod->phase ? pod->phase : "";
	if (o->l->state == FW_CREATION_REQUESTED)
		task_move(o, FW_PREPARING);
	task_copy(o, &o->t->node, pod->node);
	task_copy(o, &o->t->ip, pod->ip);
	task_copy(o, &o->t->host_ip, pod->host_ip);
	if (strcmp(phase, "Succeeded") == 0) {
		task_end(o, fw_pod_succeeded(pod));
		return;
	}
	if (strcmp(phase, "Failed") == 0) {
		task_end(o, fw_pod_failed(o->s->f->config, o->name, pod));
		return;
	}
	if (strcmp(phase, "Pending") == 0)
		task_move(o, FW_PREPARING);
	else if (strcmp(phase, "Running") == 0)
		task_move(o, FW_RUNNING);
	if (o->t->removing)
		task_end(o, fw_scaled_down());
}

static void task_there(struct one *o, const struct framework_pod *pod)
{
	if (pod->dying) {
		task_dying(o, pod);
	} else if (o->l->state == FW_DELETION_PENDING) {
		if (task_remove(o, o->l->uid, false, false))
			task_move(o, FW_DELETION_REQUESTED);
	} else if (o->l->state < FW_DELETION_PENDING) {
		task_seen(o, pod);
	}
}

void fw_task_begin(struct fw_sync *s, struct fw_task *t)
{
	fw_attempt_clear(&t->life);
	free(TAKE(t->node));
	free(TAKE(t->ip));
	free(TAKE(t->host_ip));
	t->life.id = t->life.retried;
	t->life.attempt_start_s = s->now_s;
}

/* After the end of an attempt: a retry, or the end of the task. */
static void task_ended(struct one *o)
{
	static const struct fw_policy NEVER = { false, 0 };
	struct fw_decision d =
	    fw_decide(o->s, o->r->spec ? &o->r->spec->policy : &NEVER, o->l, false);
	if (!o->r->spec || (o->l->retry_delay_s < 0 && !d.retry)) {
		o->l->retry_delay_s = -1;
		task_move(o, FW_COMPLETED);
		fw_count(o->s->f, o->r, o->t);
		o->s->r->again |= o->t->removing;
		if (!fw_completing(o->s->f) && !o->t->removing)
			fw_rules_after(o->s, o->r, o->index);
		return;
	}
	if (o->l->retry_delay_s < 0)
		o->l->retry_delay_s = d.delay_s;
	o->s->r->status_changed = true;
	if (!o->t->removing && !fw_due(o->s, o->l->transition_s + o->l->retry_delay_s))
		return;
	fw_retry(o->l, d.accountable);
	fw_task_begin(o->s, o->t);
	task_move(o, FW_CREATION_PENDING);
	o->s->r->again = true;
}

void fw_task_sync(struct fw_sync *s, struct fw_role *r, size_t index)
{
	struct one o = { .s = s, .r = r, .index = index, .t = &r->tasks[index] };
	struct framework_pod pod;
	o.l = &o.t->life;
	if (o.l->state == FW_COMPLETED)
		return;
	if (o.l->state == FW_ATTEMPT_COMPLETED) {
		task_ended(&o);
		return;
	}
	(void)fw_pod_name(s->f, r, index, o.name);
	enum fw_found found = task_find(&o, false, &pod);
	if (found == FW_LATER)
		return;
	if (o.l->state == FW_CREATION_PENDING)
		task_pending(&o);
	else if (found == FW_THERE)
		task_there(&o, &pod);
	else if (o.l->state == FW_CREATION_REQUESTED)
		task_not_seen(&o);
	else
		task_force(&o, fw_outcome_new(FW_POD_DELETED, "Pod was deleted by others"));
}
