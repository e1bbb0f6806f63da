/* Why a job waits: the last Warning about a pod of it that is still to come; or nobody works on it;
 * or the next attempt is yet to begin. */
#include "server/job_detail_task.h"

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

static void waiting_begin(struct shower *w, const char *kind, struct span reason,
                          struct span message)
{
	show_word(w, ",\"waitingReason\":{\"kind\":", kind);
	str_puts(w->out, ",\"reason\":");
	str_json(w->out, reason);
	str_puts(w->out, ",\"message\":");
	str_json(w->out, message);
}

static void waiting_event(struct shower *w, const struct event *v)
{
	waiting_begin(w, kind_of(v)->kind, v->reason, v->message);
	str_puts(w->out, ",\"taskRoleName\":");
	str_json(w->out, v->role);
	show_number(w, ",\"taskIndex\":", v->index);
	str_puts(w->out, ",\"type\":");
	str_json(w->out, v->type);
	show_number(w, ",\"count\":", v->count);
	show_ms(w, ",\"lastTimestamp\":", v->last_ms);
	str_char(w->out, '}');
}

enum neglect job_neglect(const struct cached *job, bool in_directory, int64_t now_ms)
{
	if (job->state != JOB_WAITING || !job->untouched)
		return NEGLECT_NONE;
	if (in_directory)
		return NEGLECT_DIRECTORY;
	return job->created_ms != CACHED_NONE && now_ms - job->created_ms >= NEGLECT_MS
	           ? NEGLECT_CONTROLLER
	           : NEGLECT_NONE;
}

static void waiting_neglected(struct shower *w, enum neglect why)
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
	waiting_begin(w, "controller", span_of(TEXTS[why].reason), span_of(TEXTS[why].message));
	str_char(w->out, '}');
}

/* When the controller begins the next attempt, in ms since 1970; false: it does not wait for that.
 */
static bool next_attempt_ms(const struct job_shown *s, int64_t *ms)
{
	if (s->job->retry_delay_s == CACHED_NONE ||
	    strcmp(s->job->sub_state, "AttemptCompleted") != 0 ||
	    !scan_time_ms(scan_path(s->doc, "status", "transitionTime"), ms))
		return false;
	*ms += (int64_t)s->job->retry_delay_s * 1000;
	return true;
}

static void waiting_retry(struct shower *w, int64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm = { 0 };
	char text[64] = "";
	if (gmtime_r(&s, &tm))
		(void)strftime(text, sizeof(text), "next attempt at %H:%M UTC", &tm);
	waiting_begin(w, "retry", SPAN("RetryDelay"), span_of(text));
	show_ms(w, ",\"nextAttemptTime\":", ms);
	str_char(w->out, '}');
}

void show_waiting(struct shower *w)
{
	const struct job_shown *s = w->s;
	int64_t ms;
	if (s->attempt.n)
		return;
	if (s->waiting && s->job->state == JOB_WAITING)
		waiting_event(w, s->waiting);
	else if (s->neglect)
		waiting_neglected(w, s->neglect);
	else if (next_attempt_ms(s, &ms))
		waiting_retry(w, ms);
}

/* ---- which event counts ---------------------------------------------------------------------- */

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
	size_t best = 0;
	ERR_AUTO e = { 0 };
	struct span list;
	struct span status;
	struct span item;
	for (enum rank rank = FIRST; rank < NOISE; rank++) {
		for (size_t i = 0; i < n && best < EVENTS_PER_FRAMEWORK; i++) {
			if (kind_of(&v[i])->rank == rank && is_about(&v[i], s->job, a))
				about[best++] = &v[i];
		}
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
