/* Moves a Framework and its tasks from state to state, by what is seen of their ConfigMap and pods.
 * */
#include <stdlib.h>

#include "jobs/framework/framework_internal.h"

/* The Framework with its ConfigMap, or a task with its pod, in a sync. */
struct sync_object {
	struct fw_sync *s;
	struct fw_role *r; /* NULL, as t: the Framework */
	size_t index;
	struct fw_task *t;
	struct fw_life *l;
	char name[FW_NAME_MAX]; /* of the ConfigMap or the pod */
};

/* Its ConfigMap or pod with the uid of the status. */
enum object_presence {
	THERE,
	GONE, /* also if another one of that name is there */
	LATER /* not known yet; or a foreign one must be deleted first, which failed or is pending
	       */
};

uint64_t fw_random(struct fw_sync *s)
{
	/* splitmix64 */
	uint64_t z = s->random += 0x9E3779B97F4A7C15;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
	return z ^ (z >> 31);
}

static char *sync_uuid(struct fw_sync *s)
{
	/* The version is 4, the variant that of RFC 4122. */
	uint64_t a = (fw_random(s) & ~(uint64_t)0xF000) | 0x4000;
	uint64_t b = fw_random(s) >> 2 | (uint64_t)1 << 63;
	return xasprintf("%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32),
	                 (unsigned)(a >> 16 & 0xFFFF), (unsigned)(a & 0xFFFF), (unsigned)(b >> 48),
	                 (unsigned long long)(b & 0xFFFFFFFFFFFF));
}

/* The sync is due at this time; true: that time has come. */
static bool sync_due(struct fw_sync *s, int64_t when_s)
{
	if (s->now_s >= when_s)
		return true;
	if (s->r->wake_s > when_s)
		s->r->wake_s = when_s;
	return false;
}

/* The Framework is on its way to AttemptCompleted. */
static bool sync_completing(const struct framework *f)
{
	return f->life.state >= FW_DELETION_PENDING && f->life.state <= FW_DELETING;
}

void fw_move(struct fw_sync *s, const struct fw_role *r, size_t index, struct fw_life *l,
             enum fw_state to)
{
	if (l->state == to)
		return;
	if (s->w->transition)
		s->w->transition(s->w->arg, r ? r->name : NULL, (int)index, FW_STATES[l->state],
		                 FW_STATES[to]);
	l->state = to;
	l->transition_s = s->now_s;
	if (to == FW_RUNNING) {
		l->attempt_run_s = s->now_s;
		if (l->run_s == FW_NO_TIME)
			l->run_s = s->now_s;
	} else if (to == FW_ATTEMPT_COMPLETED) {
		l->attempt_completion_s = s->now_s;
	} else if (to == FW_COMPLETED) {
		l->completion_s = s->now_s;
	}
	s->r->status_changed = true;
}

static struct fw_outcome *sync_stopped(void)
{
	return fw_outcome_new(FW_STOPPED, "User has requested to stop the Framework");
}

static struct fw_outcome *sync_scaled_down(void)
{
	return fw_outcome_new(FW_TASK_REMOVED,
	                      "User has requested to delete the Task by Framework ScaleDown");
}

/* ---- new tasks and attempts ---- */

/* A new attempt of a task; the state is not set. */
static void task_attempt(struct fw_sync *s, struct fw_task *t)
{
	fw_attempt_clear(&t->life);
	free(TAKE(t->node));
	free(TAKE(t->ip));
	free(TAKE(t->host_ip));
	free(TAKE(t->ports));
	free(TAKE(t->gpus));
	t->life.id = t->life.retried;
	t->life.attempt_start_s = s->now_s;
}

/* A whole new task in this place. */
static void task_new(struct fw_sync *s, struct fw_task *t)
{
	fw_task_clear(t);
	t->life = FW_LIFE_NEW;
	t->uid = sync_uuid(s);
	t->life.start_s = t->life.transition_s = s->now_s;
	task_attempt(s, t);
}

static void role_new(struct fw_sync *s, const struct fw_role_spec *spec)
{
	struct fw_role *r = fw_role_add(s->f);
	r->spec = spec;
	r->name = xstrdup(spec->name);
	r->uid = sync_uuid(s);
	while (r->n < (size_t)spec->number)
		task_new(s, fw_task_add(r));
}

/* A new attempt of the Framework: all roles anew from the spec. */
static void sync_attempt(struct fw_sync *s)
{
	struct framework *f = s->f;
	for (size_t i = 0; i < f->n_roles; i++)
		fw_role_clear(&f->roles[i]);
	f->n_roles = 0;
	fw_attempt_clear(&f->life);
	f->life.id = f->life.retried;
	f->life.attempt_start_s = s->now_s;
	for (size_t i = 0; i < f->spec.n_roles; i++)
		role_new(s, &f->spec.roles[i]);
}

/* ---- requests and ends of a Framework or a task ---- */

static void object_move(struct sync_object *o, enum fw_state to)
{
	fw_move(o->s, o->r, o->index, o->l, to);
}

/* Returns true if it is not stopped or scaled away. */
static bool object_is_wanted(const struct sync_object *o)
{
	return o->t ? !o->t->removing : o->s->f->spec.execution != FW_STOP;
}

/* The attempt is over: there is no ConfigMap or pod. */
static void object_end_attempt(struct sync_object *o, struct fw_outcome *outcome)
{
	if (!o->t) {
		fw_complete(o->s, true, outcome);
		return;
	}
	fw_end(o->s, o->l, outcome);
	object_move(o, FW_ATTEMPT_COMPLETED);
	o->s->r->again = true;
}

static bool object_note_answer(struct sync_object *o, enum framework_answer a)
{
	if (a == FRAMEWORK_PENDING)
		o->s->r->pending = true;
	else if (a != FRAMEWORK_DONE)
		o->s->r->failed = true;
	return a == FRAMEWORK_DONE;
}

static bool object_remove(struct sync_object *o, const char *uid, bool force, bool confirm)
{
	const struct framework_client *w = o->s->w;
	struct framework_delete what = { o->t ? FRAMEWORK_POD : FRAMEWORK_CONFIGMAP, o->name, uid,
		                         force, confirm };
	return object_note_answer(o, w->remove(w->arg, &what));
}

/* Finds the ConfigMap or pod.  *out has only the uids and `dying` of a ConfigMap.  It deletes an
 * object that the Framework or its ConfigMap owns, but the status does not know. */
static enum object_presence object_find(struct sync_object *o, bool confirm,
                                        struct framework_pod *out)
{
	const struct framework_client *w = o->s->w;
	const char *owner = o->t ? o->s->f->life.uid : o->s->f->spec.uid;
	struct framework_configmap cm = { 0 };
	*out = (struct framework_pod){ 0 };
	enum framework_presence there = o->t ? w->pod(w->arg, o->name, o->l->uid, out)
	                                     : w->configmap(w->arg, o->name, o->l->uid, &cm);
	o->s->r->pending |= there == FRAMEWORK_UNKNOWN;
	if (there != FRAMEWORK_THERE)
		return there == FRAMEWORK_UNKNOWN ? LATER : GONE;
	if (!o->t)
		*out = (struct framework_pod){ .uid = cm.uid,
			                       .owner_uid = cm.owner_uid,
			                       .dying = cm.dying };
	if (!out->uid)
		return GONE;
	if (o->l->uid && strcmp(out->uid, o->l->uid) == 0)
		return THERE;
	if (!owner || !out->owner_uid || strcmp(out->owner_uid, owner) != 0)
		return GONE;
	return object_remove(o, out->uid, false, confirm) ? GONE : LATER;
}

static void object_create(struct sync_object *o)
{
	const struct framework_client *w = o->s->w;
	struct framework_created made = { 0 };
	struct framework_pod other;
	const struct framework_object object = {
		.kind = o->t ? FRAMEWORK_POD : FRAMEWORK_CONFIGMAP,
		.name = o->name,
		.role = o->t ? o->r->name : NULL,
		.index = (int64_t)o->index,
		.attempt = o->s->f->life.id,
		.retry = o->l->id,
		.task_uid = o->t ? o->t->uid : NULL,
	};
	enum framework_answer a = w->create(w->arg, &object, &made);
	struct fw_outcome *refused =
	    o->t && a == FRAMEWORK_REFUSED ? fw_pod_refused(made.http, made.status) : NULL;
	if (refused) {
		if (object_find(o, true, &other) != LATER)
			object_end_attempt(o, refused);
		else
			fw_outcome_free(refused);
		return;
	}
	if (!object_note_answer(o, a))
		return;
	o->l->uid = xstrdup(made.uid);
	object_move(o, FW_CREATION_REQUESTED);
	(void)sync_due(o->s, o->s->now_s + o->s->f->config->cache_timeout_s); /* another look */
}

/* "5m0s", "1h0m0s", as Go writes durations. */
static char *duration_as_go_writes(int64_t seconds)
{
	enum { MINUTE = 60, HOUR = 3600 };
	long long h = seconds / HOUR;
	long long m = seconds / MINUTE % MINUTE;
	long long s = seconds % MINUTE;
	return h   ? xasprintf("%lldh%lldm%llds", h, m, s)
	       : m ? xasprintf("%lldm%llds", m, s)
	           : xasprintf("%llds", s);
}

/* Handles an object that was created, but did not appear. */
static void object_did_not_appear(struct sync_object *o)
{
	int64_t timeout_s = o->s->f->config->cache_timeout_s;
	bool wanted = object_is_wanted(o);
	if (wanted && !sync_due(o->s, o->l->transition_s + timeout_s))
		return;
	if (!object_remove(o, o->l->uid, false, true))
		return;
	FREE_AUTO char *shown = duration_as_go_writes(timeout_s);
	FREE_AUTO char *says =
	    xasprintf("%s does not appear in the local cache within timeout %s, so consider it was "
	              "deleted and explicitly delete it",
	              o->t ? "Pod" : "ConfigMap", shown);
	if (wanted)
		object_end_attempt(
		    o, fw_outcome_new(o->t ? FW_POD_NOT_SEEN : FW_CONFIGMAP_NOT_SEEN, says));
	else
		object_end_attempt(o, o->t ? sync_scaled_down() : sync_stopped());
}

/* Retries after the end of an attempt; false: there is no retry. policy NULL: never. */
static bool object_retry(struct sync_object *o, const struct fw_policy *policy)
{
	static const struct fw_policy NEVER = { false, 0 };
	struct fw_life *l = o->l;
	struct fw_decision d = fw_decide(o->s, policy ? policy : &NEVER, l, !o->t);
	if (!policy || (l->retry_delay_s < 0 && !d.retry)) {
		l->retry_delay_s = -1;
		object_move(o, FW_COMPLETED);
		return false;
	}
	if (l->retry_delay_s < 0) {
		l->retry_delay_s = d.delay_s;
		o->s->r->status_changed = true;
	}
	if (object_is_wanted(o) && !sync_due(o->s, l->transition_s + l->retry_delay_s))
		return true;
	o->s->r->pending |= o->s->w->unstored;
	if (o->s->w->unstored)
		return true;
	if (l->retried < INT32_MAX)
		l->retried++;
	if (d.accountable && l->accountable < INT32_MAX)
		l->accountable++;
	l->retry_delay_s = -1;
	if (o->s->f->config->keeps_last) {
		l->alike = fw_alike(l);
		fw_outcome_free(l->last);
		l->last = TAKE(l->outcome);
		free(TAKE(l->last->more));
	}
	if (o->t)
		task_attempt(o->s, o->t);
	else
		sync_attempt(o->s);
	object_move(o, FW_CREATION_PENDING);
	o->s->r->again = true;
	return true;
}

/* ---- a task against its pod ---- */

/* The attempt is over once its pod is deleted. */
static void task_end(struct sync_object *o, struct fw_outcome *outcome)
{
	fw_end(o->s, o->l, outcome);
	object_move(o, FW_DELETION_PENDING);
	o->s->r->again = true;
}

/* Replaces a text of the status; NULL counts as "". */
static void task_copy(struct sync_object *o, char **to, const char *from)
{
	from = from ? from : "";
	if (*to && strcmp(*to, from) == 0)
		return;
	free(*to);
	*to = xstrdup(from);
	o->s->r->status_changed = true;
}

static void task_note_pod(struct sync_object *o, const struct framework_pod *pod)
{
	const char *phase = pod->phase ? pod->phase : "";
	if (o->l->state == FW_CREATION_REQUESTED)
		object_move(o, FW_PREPARING);
	task_copy(o, &o->t->node, pod->node);
	task_copy(o, &o->t->ip, pod->ip);
	task_copy(o, &o->t->host_ip, pod->host_ip);
	task_copy(o, &o->t->ports, pod->ports);
	task_copy(o, &o->t->gpus, pod->gpus);
	if (strcmp(phase, "Succeeded") == 0) {
		struct fw_outcome *outcome = fw_outcome_new(FW_SUCCEEDED, "Pod succeeded");
		outcome->more = fw_more_pod(pod);
		task_end(o, outcome);
		return;
	}
	if (strcmp(phase, "Failed") == 0) {
		task_end(o, fw_pod_failed(o->s->f->config, o->name, pod));
		return;
	}
	if (strcmp(phase, "Pending") == 0)
		object_move(o, FW_PREPARING);
	else if (strcmp(phase, "Running") == 0)
		object_move(o, FW_RUNNING);
	if (o->t->removing)
		task_end(o, sync_scaled_down());
}

static void task_sync_pod(struct sync_object *o, const struct framework_pod *pod)
{
	if (pod->dying) {
		fw_end(o->s, o->l,
		       fw_outcome_new(FW_POD_DELETED, "Pod is being deleted by others"));
		object_move(o, FW_DELETING);
		/* The deletion is forced only if it took too long.  The next sync sees that the pod
		 * is gone. */
		if (o->r->grace_s != FW_NO_TIME &&
		    sync_due(o->s, pod->deletion_s - pod->grace_s + o->r->grace_s))
			(void)object_remove(o, o->l->uid, true, true);
	} else if (o->l->state == FW_DELETION_PENDING) {
		if (object_remove(o, o->l->uid, false, false))
			object_move(o, FW_DELETION_REQUESTED);
	} else if (o->l->state < FW_DELETION_PENDING) {
		task_note_pod(o, pod);
	}
}

static void task_request_creation(struct sync_object *o)
{
	if (sync_completing(o->s->f))
		return;
	if (o->t->removing || !o->r->spec)
		object_end_attempt(o, sync_scaled_down());
	else
		object_create(o);
}

/* Counts a task, if it has ended for good. */
static void task_count(struct framework *f, struct fw_role *r, const struct fw_task *t)
{
	if (t->removing || t->life.state != FW_COMPLETED || !t->life.outcome)
		return;
	f->completed++;
	r->ended[t->life.outcome->succeeded]++;
}

static void object_sync(struct sync_object *o);

static void task_sync(struct fw_sync *s, struct fw_role *r, size_t index)
{
	struct fw_task *t = &r->tasks[index];
	struct sync_object o = { s, r, index, t, &t->life, "" };
	if (t->life.state == FW_COMPLETED)
		return;
	if (t->life.state == FW_ATTEMPT_COMPLETED) {
		if (object_retry(&o, r->spec ? &r->spec->policy : NULL))
			return;
		task_count(s->f, r, t);
		s->r->again |= t->removing;
		if (!sync_completing(s->f) && !t->removing)
			fw_rules_after(s, r, index);
		return;
	}
	(void)fw_pod_name(s->f, r, index, o.name);
	object_sync(&o);
}

/* ---- the spec has changed ---- */

/* `completed` counts are set, and roles and specs find each other.  Linear in tasks and roles. */
static void rescale_link(struct framework *f)
{
	f->completed = 0;
	for (size_t i = 0; i < f->spec.n_roles; i++)
		f->spec.roles[i].status = NULL;
	for (size_t i = 0; i < f->n_roles; i++) {
		struct fw_role *r = &f->roles[i];
		const json_t *place = json_object_get(f->spec.places, r->name);
		struct fw_role_spec *spec =
		    place ? &f->spec.roles[json_integer_value(place)] : NULL;
		r->spec = spec;
		if (spec)
			spec->status = r;
		r->ended[0] = r->ended[1] = 0;
		for (size_t k = 0; k < r->n; k++)
			task_count(f, r, &r->tasks[k]);
	}
}

static bool rescale_gone(const struct fw_task *t)
{
	return t->removing && t->life.state == FW_COMPLETED;
}

/* true: tasks were added, replaced (scaled away, and wanted again), or marked to be scaled away. */
static bool rescale_role(struct fw_sync *s, struct fw_role *r)
{
	size_t number = r->spec ? (size_t)r->spec->number : 0;
	bool changed = r->n < number;
	while (r->n < number)
		task_new(s, fw_task_add(r));
	for (size_t i = 0; i < r->n; i++) {
		struct fw_task *t = &r->tasks[i];
		if (i < number && rescale_gone(t)) {
			task_new(s, t);
			changed = true;
		} else if (i >= number && !t->removing) {
			t->removing = changed = true;
			fw_end(s, &t->life, sync_scaled_down());
		}
	}
	return changed;
}

/* Removes what is scaled away, from the end of each role; an empty role that is not in the spec
 * gives its place to the last one. */
static void rescale_trim(struct fw_sync *s)
{
	struct framework *f = s->f;
	size_t i = 0;
	while (i < f->n_roles) {
		struct fw_role *r = &f->roles[i];
		while (r->n > 0 && rescale_gone(&r->tasks[r->n - 1])) {
			fw_task_clear(&r->tasks[--r->n]);
			s->r->status_changed = true;
		}
		if (r->n > 0 || r->spec) {
			i++;
			continue;
		}
		fw_role_clear(r);
		*r = f->roles[--f->n_roles];
		s->r->status_changed = true;
	}
}

/* true: tasks were added, marked or replaced. */
static bool rescale_roles(struct fw_sync *s)
{
	struct framework *f = s->f;
	bool changed = false;
	size_t n = f->n_roles;
	for (size_t i = 0; i < f->spec.n_roles; i++) {
		if (f->spec.roles[i].status)
			continue;
		role_new(s, &f->spec.roles[i]);
		changed |= f->spec.roles[i].number > 0;
		s->r->status_changed = true;
	}
	for (size_t i = 0; i < n; i++)
		changed |= rescale_role(s, &f->roles[i]);
	if (!changed)
		rescale_trim(s);
	if (s->r->status_changed)
		rescale_link(f);
	return changed;
}

/* ---- the Framework against its ConfigMap ---- */

static void sync_tasks(struct sync_object *o)
{
	struct framework *f = o->s->f;
	if (!sync_completing(f)) {
		if (f->spec.execution == FW_STOP)
			fw_complete(o->s, false, sync_stopped());
		else
			fw_rules(o->s);
		if (o->s->w->evicted && !sync_completing(f))
			fw_complete(o->s, false, fw_outcome_new(FW_EVICTED, o->s->w->evicted));
	}
	bool running = false;
	for (size_t i = 0; i < f->n_roles; i++) {
		for (size_t k = 0; k < f->roles[i].n; k++) {
			const struct fw_task *t = &f->roles[i].tasks[k];
			task_sync(o->s, &f->roles[i], k);
			running |= t->life.state == FW_RUNNING && !t->removing;
		}
	}
	if (f->life.state == FW_PREPARING && running)
		object_move(o, FW_RUNNING);
}

static void sync_configmap(struct sync_object *o, const struct framework_pod *cm)
{
	if (cm->dying) {
		fw_end(
		    o->s, o->l,
		    fw_outcome_new(FW_CONFIGMAP_DELETED, "ConfigMap is being deleted by others"));
		object_move(o, FW_DELETING);
	} else if (o->l->state == FW_DELETION_PENDING) {
		if (!object_remove(o, o->l->uid, false, false))
			return;
		object_move(o, FW_DELETION_REQUESTED);
	} else if (o->l->state == FW_CREATION_REQUESTED) {
		object_move(o, FW_PREPARING);
	}
	sync_tasks(o);
}

static void sync_request_creation(struct sync_object *o)
{
	const struct framework *f = o->s->f;
	struct framework_pod other;
	if (f->spec.dying || f->spec.execution == FW_CREATE)
		return;
	if (f->spec.execution != FW_STOP)
		object_create(o);
	else if (object_find(o, true, &other) != LATER)
		object_end_attempt(o, sync_stopped());
}

/* Compares with the ConfigMap or pod and goes on from there. */
static void object_sync(struct sync_object *o)
{
	struct framework_pod there;
	enum object_presence found = object_find(o, false, &there);
	if (found == LATER)
		return;
	if (o->l->state == FW_CREATION_PENDING)
		(o->t ? task_request_creation : sync_request_creation)(o);
	else if (found == THERE)
		(o->t ? task_sync_pod : sync_configmap)(o, &there);
	else if (o->l->state == FW_CREATION_REQUESTED)
		object_did_not_appear(o);
	else if (o->t)
		object_end_attempt(o, fw_outcome_new(FW_POD_DELETED, "Pod was deleted by others"));
	else
		object_end_attempt(
		    o, fw_outcome_new(FW_CONFIGMAP_DELETED, "ConfigMap was deleted by others"));
}

/* The spec comes first.  true: something has changed. */
static bool sync_spec(struct fw_sync *s)
{
	struct framework *f = s->f;
	if (!f->has_status) {
		f->has_status = true;
		f->life = FW_LIFE_NEW;
		f->life.start_s = f->life.transition_s = s->now_s;
		sync_attempt(s);
		return true;
	}
	rescale_link(f);
	if (f->life.state < FW_DELETION_PENDING && rescale_roles(s))
		return true;
	bool changed = false;
	for (size_t i = 0; i < f->n_roles && f->life.state != FW_COMPLETED; i++) {
		struct fw_role *r = &f->roles[i];
		if (r->spec && r->grace_s != r->spec->grace_s) {
			r->grace_s = r->spec->grace_s;
			changed = true;
		}
	}
	return changed;
}

void framework_sync(struct framework *f, const struct framework_client *w, int64_t now_s,
                    uint64_t random, struct framework_result *result)
{
	struct fw_sync s = { .f = f, .w = w, .now_s = now_s, .random = random, .r = result };
	struct sync_object o = { .s = &s, .l = &f->life };
	*result = (struct framework_result){ .wake_s = INT64_MAX };
	(void)fw_configmap_name(f, o.name);
	if (sync_spec(&s))
		result->again = result->status_changed = true;
	else if (f->life.state == FW_COMPLETED)
		result->delete_framework = sync_due(&s, f->life.transition_s + f->config->retain_s);
	else if (f->life.state != FW_ATTEMPT_COMPLETED)
		object_sync(&o);
	else if (!object_retry(&o, &f->spec.policy))
		(void)sync_due(&s, now_s + f->config->retain_s);
}
