/* Why a job waits: the last Warning about a pod of it that is still to come. */
#include "server/job_detail_task.h"

/* What is in the way, in a word, by what Kubernetes calls it. */
static const struct {
	const char *reason, *message, *kind; /* message: has this in it; NULL: any */
} KINDS[] = {
	{ "FailedScheduling", NULL, "unschedulable" },
	{ "ErrImagePull", NULL, "image" },
	{ "ImagePullBackOff", NULL, "image" },
	{ "InvalidImageName", NULL, "image" },
	{ "ErrImageNeverPull", NULL, "image" },
	{ "InspectFailed", NULL, "image" },
	{ "Failed", "ImagePull", "image" },
	{ "Failed", "pull image", "image" },
	{ "Failed", "InvalidImageName", "image" },
	{ "BackOff", "pulling", "image" },
	{ "FailedMount", NULL, "volume" },
	{ "FailedAttachVolume", NULL, "volume" },
};

static const char *kind_of(const struct event *v)
{
	for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
		if (span_is(v->reason, KINDS[i].reason) &&
		    (!KINDS[i].message ||
		     (v->message.n && span_find(v->message, 0, KINDS[i].message) != SIZE_MAX)))
			return KINDS[i].kind;
	}
	return "other";
}

void show_waiting(struct shower *w)
{
	const struct event *v = w->s->waiting;
	if (!v || w->s->job->state != JOB_WAITING || w->s->attempt.n)
		return;
	show_word(w, ",\"waitingReason\":{\"kind\":", kind_of(v));
	str_puts(w->out, ",\"reason\":");
	str_json(w->out, v->reason);
	str_puts(w->out, ",\"message\":");
	str_json(w->out, v->message);
	str_puts(w->out, ",\"taskRoleName\":");
	str_json(w->out, v->role);
	show_number(w, ",\"taskIndex\":", v->index);
	str_puts(w->out, ",\"type\":");
	str_json(w->out, v->type);
	show_number(w, ",\"count\":", v->count);
	show_ms(w, ",\"lastTimestamp\":", v->last_ms);
	str_char(w->out, '}');
}

/* Does it tell of a pod of this name? */
static bool is_about(const struct event *v, const struct cached *job, struct arena *a)
{
	const char *pod = arena_printf(a, "%s-%.*s-%lld", job->name, (int)v->role.n, v->role.p,
	                               (long long)v->index);
	return span_is(v->type, "Warning") && v->pod_uid.n && span_is(v->pod, pod);
}

/* The first of them that is about the pod that this task has now, if it waits. */
static size_t of_task(const struct event *const v[], size_t n, struct span role, struct span status,
                      struct arena *a)
{
	struct task t;
	task_read(&t, status);
	struct span state = scan_text(t.v[TASK_STATE], a);
	struct span pod = scan_text(t.at[TRY_POD], a);
	if (!pod.n || job_state_of(state, t.outcome.has_code, t.outcome.code) != JOB_WAITING)
		return n;
	for (size_t i = 0; i < n; i++) {
		if (v[i]->index == t.index && span_eq(v[i]->role, role) &&
		    span_eq(v[i]->pod_uid, pod))
			return i;
	}
	return n;
}

const struct event *job_waiting(const struct job_shown *s, const struct event *v, size_t n,
                                struct arena *a)
{
	const struct event *about[EVENTS_PER_FRAMEWORK];
	size_t best = 0;
	ERR_AUTO e = { 0 };
	struct span list;
	struct span status;
	struct span item;
	for (size_t i = 0; i < n && best < EVENTS_PER_FRAMEWORK; i++) {
		if (is_about(&v[i], s->job, a))
			about[best++] = &v[i];
	}
	n = best;
	if (n == 0 || s->job->state != JOB_WAITING ||
	    attempt_roles(shown_attempt(s), a, &list, &e) < 0)
		return NULL;
	struct scan roles = scan_begin(list);
	for (size_t tasks = 0; best > 0 && scan_item(&roles, &status);) {
		struct span role = scan_text(scan_get(status, "name"), a);
		struct scan all = scan_begin(scan_get(status, "taskStatuses"));
		/* Only what is better than the best so far is looked for. */
		for (; best > 0 && tasks < SHOWN_TASKS && scan_item(&all, &item); tasks++)
			best = of_task(about, best, role, item, a);
	}
	return best < n ? about[best] : NULL;
}
