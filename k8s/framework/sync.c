#include "k8s/framework/framework.h"

#include <stdlib.h>

#include "k8s/framework/framework_internal.h"

/* ---- what all parts of a sync use ---- */

uint64_t fw_random(struct fw_sync *s)
{
	/* splitmix64 */
	uint64_t z = s->random += 0x9E3779B97F4A7C15;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
	return z ^ (z >> 31);
}

char *fw_uuid(struct fw_sync *s)
{
	/* The version is 4, the variant that of RFC 4122. */
	uint64_t a = (fw_random(s) & ~(uint64_t)0xF000) | 0x4000;
	uint64_t b = fw_random(s) >> 2 | (uint64_t)1 << 63;
	return xasprintf("%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32),
	                 (unsigned)(a >> 16 & 0xFFFF), (unsigned)(a & 0xFFFF), (unsigned)(b >> 48),
	                 (unsigned long long)(b & 0xFFFFFFFFFFFF));
}

bool fw_due(struct fw_sync *s, int64_t when_s)
{
	if (s->now_s >= when_s)
		return true;
	if (s->r->wake_s > when_s)
		s->r->wake_s = when_s;
	return false;
}

bool fw_completing(const struct framework *f)
{
	return f->life.state >= FW_DELETION_PENDING && f->life.state <= FW_DELETING;
}

enum framework_answer fw_answered(struct fw_sync *s, enum framework_answer a)
{
	if (a == FRAMEWORK_PENDING)
		s->r->pending = true;
	else if (a != FRAMEWORK_DONE)
		s->r->failed = true;
	return a;
}

const char *fw_configmap_name(const struct framework *f, char *out)
{
	(void)snprintf(out, FW_NAME_MAX, "%s-attempt", f->name);
	return out;
}

const char *fw_pod_name(const struct framework *f, const struct fw_role *r, size_t index, char *out)
{
	(void)snprintf(out, FW_NAME_MAX, "%s-%s-%zu", f->name, r->name, index);
	return out;
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

/* ---- the Framework against its ConfigMap ---- */

static void sync_move(struct fw_sync *s, enum fw_state to)
{
	fw_move(s, NULL, 0, &s->f->life, to);
}

/* The ConfigMap of this attempt.  One that this Framework owns, but its status does not know, is
 * deleted. */
static enum fw_found sync_find(struct fw_sync *s, bool confirm, bool *dying)
{
	const struct framework *f = s->f;
	char name[FW_NAME_MAX];
	struct framework_configmap cm = { 0 };
	if (!s->w->configmap(s->w->arg, fw_configmap_name(f, name), &cm) || !cm.uid)
		return FW_GONE;
	*dying = cm.dying;
	if (f->life.uid && strcmp(cm.uid, f->life.uid) == 0)
		return FW_THERE;
	if (!cm.owner_uid || strcmp(cm.owner_uid, f->uid) != 0)
		return FW_GONE;
	struct framework_delete what = { FRAMEWORK_CONFIGMAP, name, cm.uid, false, confirm };
	return fw_answered(s, s->w->remove(s->w->arg, &what)) == FRAMEWORK_DONE ? FW_GONE
	                                                                        : FW_LATER;
}

static bool sync_remove(struct fw_sync *s, bool confirm)
{
	char name[FW_NAME_MAX];
	struct framework_delete what = { FRAMEWORK_CONFIGMAP, fw_configmap_name(s->f, name),
		                         s->f->life.uid, false, confirm };
	return fw_answered(s, s->w->remove(s->w->arg, &what)) == FRAMEWORK_DONE;
}

static struct fw_outcome *sync_stopped(void)
{
	return fw_outcome_new(FW_STOPPED, "User has requested to stop the Framework");
}

static void sync_create(struct fw_sync *s)
{
	struct framework *f = s->f;
	bool dying;
	if (f->dying || f->execution == FW_CREATE)
		return;
	if (f->execution == FW_STOP) {
		if (sync_find(s, true, &dying) != FW_LATER)
			fw_complete(s, true, sync_stopped());
		return;
	}
	char name[FW_NAME_MAX];
	STR_AUTO object = STR_INIT(1 << 16);
	struct framework_created made = { 0 };
	fw_configmap_object(f, &object);
	if (fw_answered(s, s->w->create(s->w->arg, FRAMEWORK_CONFIGMAP, fw_configmap_name(f, name),
	                                str_view(&object), &made)) != FRAMEWORK_DONE)
		return;
	f->life.uid = xstrdup(made.uid);
	sync_move(s, FW_CREATION_REQUESTED);
	(void)fw_due(s, s->now_s + f->config->cache_timeout_s); /* the time of another look */
}

/* "5m0s", "1h0m0s", as Go writes durations. */
const char *fw_duration(int64_t seconds, char out[static FW_TIME_MAX])
{
	enum { MINUTE = 60, HOUR = 3600 };
	long long h = seconds / HOUR;
	long long m = seconds / MINUTE % MINUTE;
	long long sec = seconds % MINUTE;
	if (h)
		(void)snprintf(out, FW_TIME_MAX, "%lldh%lldm%llds", h, m, sec);
	else if (m)
		(void)snprintf(out, FW_TIME_MAX, "%lldm%llds", m, sec);
	else
		(void)snprintf(out, FW_TIME_MAX, "%llds", sec);
	return out;
}

static void sync_not_seen(struct fw_sync *s)
{
	struct framework *f = s->f;
	bool stop = f->execution == FW_STOP;
	int64_t timeout_s = f->config->cache_timeout_s;
	if (!stop && !fw_due(s, f->life.transition_s + timeout_s))
		return;
	if (!sync_remove(s, true))
		return;
	char shown[FW_TIME_MAX];
	FREE_AUTO char *says =
	    xasprintf("ConfigMap does not appear in the local cache within timeout %s, so consider "
	              "it was deleted and explicitly delete it",
	              fw_duration(timeout_s, shown));
	fw_complete(s, true, stop ? sync_stopped() : fw_outcome_new(FW_CONFIGMAP_NOT_SEEN, says));
}

static void sync_retry(struct fw_sync *s)
{
	struct framework *f = s->f;
	struct fw_life *l = &f->life;
	struct fw_decision d = fw_decide(s, &f->policy, l, true);
	if (l->retry_delay_s < 0) {
		if (!d.retry) {
			sync_move(s, FW_COMPLETED);
			(void)fw_due(s, s->now_s + f->config->retain_s);
			return;
		}
		l->retry_delay_s = d.delay_s;
		s->r->status_changed = true;
	}
	if (f->execution != FW_STOP && !fw_due(s, l->transition_s + l->retry_delay_s))
		return;
	fw_retry(l, d.accountable);
	fw_attempt_begin(s);
	sync_move(s, FW_CREATION_PENDING);
	s->r->again = true;
}

/* ---- tasks ---- */

static bool sync_any_running(const struct framework *f)
{
	for (size_t i = 0; i < f->n_roles; i++)
		for (size_t k = 0; k < f->roles[i].n; k++)
			if (f->roles[i].tasks[k].life.state == FW_RUNNING &&
			    !f->roles[i].tasks[k].removing)
				return true;
	return false;
}

static void sync_tasks(struct fw_sync *s)
{
	struct framework *f = s->f;
	if (!fw_completing(f)) {
		if (f->execution == FW_STOP)
			fw_complete(s, false, sync_stopped());
		else
			fw_rules(s);
	}
	for (size_t i = 0; i < f->n_roles; i++)
		for (size_t k = 0; k < f->roles[i].n; k++)
			fw_task_sync(s, &f->roles[i], k);
	if (f->life.state == FW_PREPARING && sync_any_running(f))
		sync_move(s, FW_RUNNING);
}

/* ---- */

/* The ConfigMap is there.  false: nothing more can be done now. */
static bool sync_there(struct fw_sync *s, bool dying)
{
	struct fw_life *l = &s->f->life;
	if (dying) {
		fw_end(
		    s, l,
		    fw_outcome_new(FW_CONFIGMAP_DELETED, "ConfigMap is being deleted by others"));
		sync_move(s, FW_DELETING);
	} else if (l->state == FW_DELETION_PENDING) {
		if (!sync_remove(s, false))
			return false;
		sync_move(s, FW_DELETION_REQUESTED);
	} else if (l->state == FW_CREATION_REQUESTED) {
		sync_move(s, FW_PREPARING);
	}
	return true;
}

static void sync_attempt(struct fw_sync *s)
{
	struct fw_life *l = &s->f->life;
	bool dying = false;
	enum fw_found found = sync_find(s, false, &dying);
	if (found == FW_LATER)
		return;
	if (l->state == FW_CREATION_PENDING) {
		sync_create(s);
	} else if (found == FW_THERE) {
		if (sync_there(s, dying))
			sync_tasks(s);
	} else if (l->state == FW_CREATION_REQUESTED) {
		sync_not_seen(s);
	} else {
		fw_complete(
		    s, true,
		    fw_outcome_new(FW_CONFIGMAP_DELETED, "ConfigMap was deleted by others"));
	}
}

/* true: something has changed. */
static bool sync_grace(struct fw_sync *s)
{
	bool changed = false;
	for (size_t i = 0; i < s->f->n_roles; i++) {
		struct fw_role *r = &s->f->roles[i];
		if (r->spec && r->grace_s != r->spec->grace_s) {
			r->grace_s = r->spec->grace_s;
			changed = true;
		}
	}
	return changed;
}

static void sync_begin(struct fw_sync *s)
{
	struct framework *f = s->f;
	f->has_status = true;
	f->life = FW_LIFE_NEW;
	f->life.start_s = f->life.transition_s = s->now_s;
	fw_attempt_begin(s);
}

void framework_sync(struct framework *f, const struct framework_world *w, int64_t now_s,
                    uint64_t random, struct framework_result *result)
{
	struct fw_sync s = { .f = f, .w = w, .now_s = now_s, .random = random, .r = result };
	*result = (struct framework_result){ .wake_s = INT64_MAX };
	bool again = false;
	if (!f->has_status) {
		sync_begin(&s);
		again = true;
	} else {
		fw_link(f);
		if (f->life.state < FW_DELETION_PENDING)
			again = fw_rescale(&s);
		if (!again && f->life.state != FW_COMPLETED)
			again = sync_grace(&s);
	}
	if (again)
		result->again = result->status_changed = true;
	else if (f->life.state == FW_COMPLETED)
		result->delete_framework = fw_due(&s, f->life.transition_s + f->config->retain_s);
	else if (f->life.state == FW_ATTEMPT_COMPLETED)
		sync_retry(&s);
	else
		sync_attempt(&s);
}
