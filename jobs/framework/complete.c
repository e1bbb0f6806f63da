/* Decides how attempts end and if they are retried, by the policies of the Framework and its roles.
 * */
#include <stdlib.h>

#include "jobs/framework/framework_internal.h"

/* The codes that the state machine gives. */
static const struct phrase {
	int32_t code;
	const char *phrase, *attributes;
} PHRASES[] = {
	{ FW_SUCCEEDED, "Succeeded", "[]" },
	{ FW_CONFIGMAP_DELETED, "ConfigMapExternalDeleted", "[\"Transient\"]" },
	{ FW_POD_DELETED, "PodExternalDeleted", "[\"Transient\"]" },
	{ FW_CONFIGMAP_NOT_SEEN, "ConfigMapLocalCacheCreationTimeout", "[\"Transient\"]" },
	{ FW_POD_NOT_SEEN, "PodLocalCacheCreationTimeout", "[\"Transient\"]" },
	{ FW_EVICTED, "FrameworkEvicted", "[\"Transient\"]" },
	{ FW_POD_REFUSED, "PodCreationPermanentError", "[\"Permanent\"]" },
	{ FW_STOPPED, "StopFrameworkRequested", "[\"Permanent\"]" },
	{ FW_ATTEMPT_ENDED, "FrameworkAttemptCompletion", "[\"Permanent\"]" },
	{ FW_TASK_REMOVED, "DeleteTaskRequested", "[\"Permanent\"]" },
	{ FW_NO_FAILED_CONTAINER, "PodFailedWithoutFailedContainer", "[]" },
	{ FW_POD_REFUSED_UNKNOWN, "PodCreationUnknownError", "[]" },
};

/* Returns true if the attributes, a list of texts as JSON, have this one. */
static bool complete_attribute(const char *attributes, const char *quoted)
{
	const char *at = strstr(attributes, quoted);
	while (at && at[-1] != '[' && at[-1] != ',')
		at = strstr(at + 1, quoted);
	return at != NULL;
}

struct fw_outcome *fw_outcome_make(int32_t code, bool succeeded, const char *phrase,
                                   const char *attributes, const char *diagnostics)
{
	struct fw_outcome *o = xcalloc(1, sizeof(*o));
	*o = (struct fw_outcome){
		.code = code,
		.succeeded = succeeded,
		.transient = complete_attribute(attributes, "\"Transient\""),
		.conflict = complete_attribute(attributes, "\"Conflict\""),
		.permanent = complete_attribute(attributes, "\"Permanent\""),
		.phrase = xstrdup(phrase),
		.diagnostics = xstrdup(diagnostics),
		.attributes = xstrdup(attributes),
	};
	return o;
}

struct fw_outcome *fw_outcome_new(int32_t code, const char *diagnostics)
{
	const struct phrase *p = PHRASES;
	while (p->code != code)
		p++;
	return fw_outcome_make(code, code == FW_SUCCEEDED, p->phrase, p->attributes, diagnostics);
}

void fw_end(struct fw_sync *s, struct fw_life *l, struct fw_outcome *o)
{
	if (l->outcome) {
		fw_outcome_free(o);
		return;
	}
	l->outcome = o;
	s->r->status_changed = true;
}

void fw_complete(struct fw_sync *s, bool force, struct fw_outcome *o)
{
	struct framework *f = s->f;
	fw_end(s, &f->life, o);
	for (size_t i = 0; i < f->n_roles; i++) {
		struct fw_role *r = &f->roles[i];
		for (size_t k = 0; k < r->n; k++) {
			struct fw_life *l = &r->tasks[k].life;
			if (!l->outcome)
				fw_end(s, l,
				       fw_outcome_new(FW_ATTEMPT_ENDED,
				                      "Stop to complete current FrameworkAttempt"));
			/* Tasks end with the attempt, also if their pods still run. */
			if (!force || l->state == FW_COMPLETED)
				continue;
			fw_move(s, r, k, l, FW_ATTEMPT_COMPLETED);
			l->retry_delay_s = -1;
			fw_move(s, r, k, l, FW_COMPLETED);
		}
	}
	fw_move(s, NULL, 0, &f->life, force ? FW_ATTEMPT_COMPLETED : FW_DELETION_PENDING);
	s->r->again = true;
}

/* ---- FrameworkAttemptCompletionPolicy ---- */

/* The member `trigger` of an outcome. */
static char *complete_trigger(const char *message, const char *role, int64_t index)
{
	STR_AUTO out = STR_INIT(FRAMEWORK_OBJECT_MAX);
	str_puts(&out, "\"trigger\":{");
	fw_put_member_if_set(&out, "message", message);
	fw_put_member_if_set(&out, "taskRoleName", role);
	json_put_int(&out, "taskIndex", index);
	str_char(&out, '}');
	return str_take(&out);
}

/* A task has triggered a rule: that of all tasks, or that of its role and its own end. */
static void complete_by_task(struct fw_sync *s, const struct fw_role *r, size_t index, bool all)
{
	const struct framework *f = s->f;
	const struct fw_outcome *from = r->tasks[index].life.outcome;
	const char *what = from->succeeded ? "Succeeded" : "Failed";
	FREE_AUTO char *message =
	    all ? xasprintf("CompletedTaskCount %lld has reached TotalTaskCount %lld and no user "
	                    "specified conditions in FrameworkAttemptCompletionPolicy have ever "
	                    "been triggered",
	                    (long long)f->completed, (long long)f->spec.wanted)
		: xasprintf("%sTaskCount %d has reached Min%sTaskCount %d in the TaskRole", what,
	                    r->ended[from->succeeded], what, r->spec->min[from->succeeded]);
	struct fw_outcome *o = all ? fw_outcome_new(FW_SUCCEEDED, message)
	                           : fw_outcome_make(from->code, from->succeeded, from->phrase,
	                                             from->attributes, from->diagnostics);
	o->more = complete_trigger(message, r->name, (int64_t)index);
	fw_complete(s, false, o);
}

/* The same two rules as fw_rules, which looks for the first task that triggered one. */
void fw_rules_after(struct fw_sync *s, struct fw_role *r, size_t index)
{
	const struct framework *f = s->f;
	bool succeeded = r->tasks[index].life.outcome->succeeded;
	int32_t min = r->spec->min[succeeded];
	bool one = min >= 1 && r->ended[succeeded] >= min;
	if (one || (f->spec.wanted >= 1 && f->completed >= f->spec.wanted))
		complete_by_task(s, r, index, !one);
}

/* A task that has ended. */
struct ended_task {
	const struct fw_role *role; /* NULL: none */
	size_t index;
	int64_t when_s;
};

static int complete_order(const void *a, const void *b)
{
	const struct ended_task *x = a;
	const struct ended_task *y = b;
	if (x->when_s != y->when_s)
		return x->when_s < y->when_s ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* The task by which a count reached its minimum. */
static struct ended_task complete_kth(const struct fw_role *r, bool succeeded)
{
	struct ended_task *v = xcalloc(r->n + 1, sizeof(*v));
	size_t k = (size_t)r->spec->min[succeeded];
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++) {
		const struct fw_life *l = &r->tasks[i].life;
		if (!r->tasks[i].removing && l->state == FW_COMPLETED &&
		    l->outcome->succeeded == succeeded)
			v[n++] = (struct ended_task){ r, i, l->completion_s };
	}
	qsort(v, n, sizeof(*v), complete_order);
	struct ended_task kth = v[k - 1];
	free(v);
	return kth;
}

/* The last task to complete; of several in a role the higher index, else the earlier role. */
static struct ended_task complete_last(const struct framework *f)
{
	struct ended_task last = { 0 };
	for (size_t i = 0; i < f->spec.n_roles; i++) {
		const struct fw_role *r = f->spec.roles[i].status;
		const struct fw_role *before = last.role;
		for (size_t k = 0; r && k < r->n; k++) {
			const struct fw_life *l = &r->tasks[k].life;
			if (r->tasks[k].removing || l->state != FW_COMPLETED)
				continue;
			if (!last.role || l->completion_s > last.when_s ||
			    (l->completion_s == last.when_s && last.role != before))
				last = (struct ended_task){ r, k, l->completion_s };
		}
	}
	return last;
}

void fw_rules(struct fw_sync *s)
{
	const struct framework *f = s->f;
	struct ended_task first = { 0 };
	for (size_t i = 0; i < 2 * f->spec.n_roles; i++) {
		const struct fw_role *r = f->spec.roles[i / 2].status;
		int32_t min = r ? r->spec->min[i % 2] : 0;
		if (min < 1 || r->ended[i % 2] < min)
			continue;
		struct ended_task e = complete_kth(r, i % 2);
		if (!first.role || e.when_s < first.when_s)
			first = e;
	}
	bool all = !first.role && f->spec.wanted >= 1 && f->completed >= f->spec.wanted;
	if (all)
		first = complete_last(f);
	if (first.role)
		complete_by_task(s, first.role, first.index, all);
}

/* ---- retries ---- */

int32_t fw_alike(const struct fw_life *l)
{
	enum { SOON_S = 600 };
	bool ran = l->attempt_run_s != FW_NO_TIME;
	if (ran && l->attempt_completion_s - l->attempt_run_s >= SOON_S)
		return 0;
	bool same = l->last && l->last->code == l->outcome->code;
	return same && l->alike < INT32_MAX - 1 ? l->alike + 1 : 1;
}

struct fw_decision fw_decide(struct fw_sync *s, const struct fw_policy *p, const struct fw_life *l,
                             bool delayed)
{
	enum { ALWAYS = -2, AFTER_FAILURE = -1 };
	const struct fw_outcome *o = l->outcome;
	const struct framework_config *c = s->f->config;
	if (o->code == FW_STOPPED || o->code == FW_ATTEMPT_ENDED || o->code == FW_TASK_REMOVED ||
	    c->once)
		return (struct fw_decision){ false, true, 0 };
	if (o->code == FW_EVICTED)
		return (struct fw_decision){ true, false, 0 };
	/* Those of nodes and of the cluster are below 0, and a conflict is about resources. */
	bool bound = c->alike_max > 0 && o->code > 0 && !o->conflict && fw_alike(l) >= c->alike_max;
	if (p->fancy && !o->succeeded && o->transient && !bound) {
		struct fw_decision d = { true, false, 0 };
		if (o->conflict && delayed)
			d.delay_s = c->min_delay_s +
			            (int64_t)(fw_random(s) %
			                      (uint64_t)(c->max_delay_s - c->min_delay_s + 1));
		return d;
	}
	if (p->fancy && !o->succeeded && o->permanent)
		return (struct fw_decision){ false, true, 0 };
	bool retry = p->max == ALWAYS ||
	             (!o->succeeded && (p->max == AFTER_FAILURE || l->accountable < p->max));
	return (struct fw_decision){ retry, true, 0 };
}
