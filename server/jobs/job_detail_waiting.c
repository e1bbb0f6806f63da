/* Why a job waits: the last Warning about a pod of it that is still to come; or nobody works on it;
 * or the next attempt is yet to begin. */
#include "server/jobs/job_detail_task.h"

#include <time.h>

enum rank { FIRST, SECOND, NOISE, RANKS }; /* NOISE: never a reason */

/* What is in the way, in a word, by what Kubernetes calls it. */
static const struct kind {
	const char *reason, *message, *kind; /* message: has this in it; NULL: any */
	enum rank rank;
} KINDS[] = {
	{ "FailedScheduling", NULL, "unschedulable", FIRST },
	{ "ErrImagePull", NULL, "image", FIRST },
	{ "ImagePullBackOff", NULL, "image", FIRST },
	{ "InvalidImageName", NULL, "image", FIRST },
	{ "ErrImageNeverPull", NULL, "image", FIRST },
	{ "InspectFailed", NULL, "image", FIRST },
	{ "Failed", "ImagePull", "image", FIRST },
	{ "Failed", "pull image", "image", FIRST },
	{ "Failed", "InvalidImageName", "image", FIRST },
	{ "BackOff", "pulling", "image", FIRST },
	{ "FailedMount", NULL, "volume", FIRST },
	{ "FailedAttachVolume", NULL, "volume", FIRST },
	{ "MissingClusterDNS", NULL, "other", NOISE },
	{ "DNSConfigForming", NULL, "other", NOISE },
	{ "CheckLimitsForResolvConf", NULL, "other", NOISE },
	{ "FailedToRetrieveImagePullSecret", NULL, "other", NOISE },
};

static const struct kind *kind_of(const struct event *v)
{
	static const struct kind OTHER = { NULL, NULL, "other", SECOND };
	for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
		if (span_is(v->reason, KINDS[i].reason) &&
		    (!KINDS[i].message ||
		     (v->message.n && span_find(v->message, 0, KINDS[i].message) != SIZE_MAX)))
			return &KINDS[i];
	}
	return &OTHER;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void waiting_begin(struct str *out, const char *kind, struct span reason,
                          struct span message)
{
	str_puts(out, ",\"waitingReason\":{\"kind\":");
	str_json(out, span_of(kind));
	str_puts(out, ",\"reason\":");
	str_json(out, reason);
	str_puts(out, ",\"message\":");
	str_json(out, message);
}

static void waiting_event(struct shower *w, const struct event *v)
{
	waiting_begin(w->out, kind_of(v)->kind, v->reason, v->message);
	str_puts(w->out, ",\"taskRoleName\":");
	str_json(w->out, v->role);
	show_number(w, ",\"taskIndex\":", v->index);
	str_puts(w->out, ",\"type\":");
	str_json(w->out, v->type);
	show_number(w, ",\"count\":", v->count);
	show_ms(w, ",\"lastTimestamp\":", v->last_ms);
	str_char(w->out, '}');
}

static void waiting_neglected(struct str *out, enum neglect why)
{
	static const struct {
		const char *reason, *message;
	} TEXTS[] = {
		[NEGLECT_NONE] = { "", "" },
		[NEGLECT_DIRECTORY] = { "Standalone",
		                        "this server keeps jobs in a directory (--standalone); "
		                        "nothing runs them" },
		[NEGLECT_CONTROLLER] = { "NoController",
		                         "no FrameworkController has looked at this job since it "
		                         "was submitted: it does not run in this cluster, or is "
		                         "in trouble (see k8s/frameworkcontroller)" },
	};
	waiting_begin(out, "controller", span_of(TEXTS[why].reason), span_of(TEXTS[why].message));
	str_char(out, '}');
}

/* When the controller begins the next attempt, in ms since 1970; false: it does not wait for that.
 */
static bool next_attempt_ms(const struct job_entry *job, int64_t *ms)
{
	if (job->retry_delay_s == JOB_ENTRY_NONE || job->transition_ms == JOB_ENTRY_NONE ||
	    strcmp(job->sub_state, "AttemptCompleted") != 0)
		return false;
	*ms = job->transition_ms + (int64_t)job->retry_delay_s * 1000;
	return true;
}

static void waiting_retry(struct str *out, int64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm = { 0 };
	char text[64] = "";
	if (gmtime_r(&s, &tm))
		(void)strftime(text, sizeof(text), "next attempt at %H:%M UTC", &tm);
	waiting_begin(out, "retry", SPAN("RetryDelay"), span_of(text));
	str_puts(out, ",\"nextAttemptTime\":");
	str_int(out, ms);
	str_char(out, '}');
}

/* Why nothing of it runs, if no Event says so. */
static void waiting_other(struct str *out, const struct job_entry *job, enum neglect neglect)
{
	int64_t ms;
	if (neglect)
		waiting_neglected(out, neglect);
	else if (next_attempt_ms(job, &ms))
		waiting_retry(out, ms);
}

void show_waiting(struct shower *w)
{
	const struct job_shown *s = w->s;
	if (s->attempt.n)
		return;
	if (s->why.event && s->job->state == JOB_WAITING)
		waiting_event(w, s->why.event);
	else
		waiting_other(w->out, s->job, s->why.neglect);
}

void job_row_waiting(struct str *out, const struct job_entry *job, const struct job_why *why)
{
	const struct event *v = why->event;
	if (!v) {
		waiting_other(out, job, why->neglect);
		return;
	}
	waiting_begin(out, kind_of(v)->kind, v->reason, span_cut(v->message, ROW_MESSAGE_MAX));
	str_char(out, '}');
}

/* ---- which event counts ---------------------------------------------------------------------- */

/* The Warnings about its pods that may be a reason, the weightiest first; how many. */
static size_t may_count(const struct job_entry *job, const struct event *v, size_t n,
                        const struct event *about[static EVENTS_PER_FRAMEWORK])
{
	size_t found = 0;
	for (enum rank rank = FIRST; rank < NOISE; rank++) {
		for (size_t i = 0; i < n && found < EVENTS_PER_FRAMEWORK; i++) {
			if (span_is(v[i].type, "Warning") && v[i].pod_uid.n &&
			    span_is(v[i].framework, job->name) && kind_of(&v[i])->rank == rank)
				about[found++] = &v[i];
		}
	}
	return found;
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
	bool scheduled = scan_text(t.at[TRY_NODE], a).n > 0;
	for (size_t i = 0; i < n; i++) {
		if (v[i]->index == t.index && span_eq(v[i]->role, role) &&
		    span_eq(v[i]->pod_uid, pod) &&
		    !(scheduled && span_is(v[i]->reason, "FailedScheduling")))
			return i;
	}
	return n;
}

const struct event *job_waiting(const struct job_shown *s, const struct event *v, size_t n,
                                struct arena *a)
{
	const struct event *about[EVENTS_PER_FRAMEWORK];
	ERR_AUTO e = { 0 };
	struct span list;
	struct span status;
	struct span item;
	if (s->job->state != JOB_WAITING)
		return NULL;
	n = may_count(s->job, v, n, about);
	size_t best = n;
	if (n == 0 || attempt_roles(shown_attempt(s), a, &list, &e) < 0)
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

/* Have other Events (v[0..n), the last one first) put an end to what this one says: is there
 * another pod of this name by now, or has it found its node? */
static bool is_past(const struct event *one, const struct event *v, size_t n)
{
	bool latest = true;
	for (size_t i = 0; i < n; i++) {
		if (!span_eq(v[i].pod, one->pod))
			continue;
		bool same = span_eq(v[i].pod_uid, one->pod_uid);
		if ((latest && !same) || (same && span_is(one->reason, "FailedScheduling") &&
		                          span_is(v[i].reason, "Scheduled")))
			return true;
		latest = false;
	}
	return false;
}

const struct event *job_row_event(const struct job_entry *job, const struct event *v, size_t n)
{
	const struct event *about[EVENTS_PER_FRAMEWORK];
	int64_t since = job->attempt > 0 ? job->transition_ms : job->created_ms;
	size_t may = job->state == JOB_WAITING ? may_count(job, v, n, about) : 0;
	for (size_t i = 0; i < may; i++) {
		if (about[i]->last_ms >= since && !is_past(about[i], v, n))
			return about[i];
	}
	return NULL;
}
