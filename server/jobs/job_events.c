/* The Events of a job, and the reason why a job waits. */
#include <stdio.h>

#include "base/time.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/http/routes.h"
#include "server/jobs/jobs_internal.h"

enum { BODY_MAX_BYTES = 4 << 20 };

/* ---- outdated Events ---- */

static bool began_before(const struct event *e, int64_t ms)
{
	return e->first_ms > 0 && e->first_ms < ms;
}

/* The pod is older than the job: it belongs to an earlier job of this name. */
static bool is_older(const struct event *all, size_t n, const struct event *one, int64_t created_ms)
{
	for (size_t i = 0; i < n && one->pod_uid.n; i++)
		if (span_eq(all[i].pod_uid, one->pod_uid) && began_before(&all[i], created_ms))
			return true;
	return began_before(one, created_ms);
}

/* ---- as JSON ---- */

/* A date as in ECMAScript; null if unknown. */
static void event_put_time(struct str *out, const char *key, int64_t ms)
{
	char text[RFC3339_MAX];
	json_put_word(out, key, ms > 0 ? rfc3339_put(text, ms, 3) : NULL);
}

static void event_put(struct str *out, const struct event *e)
{
	json_put_open(out, NULL, '{');
	json_put_text(out, "uid", e->uid);
	json_put_text(out, "frameworkName", e->framework);
	json_put_text(out, "podUid", e->pod_uid);
	json_put_text(out, "taskroleName", e->role);
	json_put_text(out, "taskName", e->pod);
	json_put_int(out, "taskIndex", e->index);
	json_put_text(out, "type", e->type);
	json_put_text(out, "reason", e->reason);
	json_put_text(out, "message", e->message);
	event_put_time(out, "firstTimestamp", e->first_ms);
	event_put_time(out, "lastTimestamp", e->last_ms);
	json_put_int(out, "count", e->count);
	json_put_text(out, "sourceComponent", e->component);
	json_put_text(out, "sourceHost", e->host);
	str_char(out, '}');
}

void job_events_show(struct str *out, const struct event *all, size_t n, int64_t created_ms,
                     struct span type)
{
	STR_AUTO data = STR_INIT(BODY_MAX_BYTES);
	size_t shown = 0;
	for (size_t i = 0; i < n; i++) {
		if ((type.n && !span_eq(all[i].type, type)) ||
		    is_older(all, n, &all[i], created_ms))
			continue;
		event_put(&data, &all[i]);
		shown++;
	}
	str_printf(out, "{\"totalCount\":%zu,\"data\":[", shown);
	str_span(out, str_view(&data));
	str_puts(out, "]}\n");
}

/* ---- the route ---- */

/* false: answered. */
static bool take_type(struct request *r, struct span *type)
{
	*type = SPAN("");
	if (!query_find(span_of(r->query), "type", &r->arena, type) || type->n == 0 ||
	    span_is(*type, "Warning") || span_is(*type, "Normal"))
		return true;
	answer_bad(r, "query parameter type: must be Warning or Normal", *type);
	return false;
}

static void events_found(struct request *r, const struct job_entry *job)
{
	struct events *events = r->loop->server->events;
	struct event *all = NULL;
	struct span type;
	if (!take_type(r, &type))
		return;
	const char *problem = events_problem(events, &r->arena);
	if (problem) {
		answer_refuse(r, UNAVAILABLE,
		              arena_printf(&r->arena, "events are not known: %s", problem));
		return;
	}
	size_t n = events_of(events, span_of(job->name), &r->arena, &all);
	r->reply.body = STR_INIT(BODY_MAX_BYTES + 100);
	job_events_show(&r->reply.body, all, n, job->created_ms, type);
	answer_json(r, 200);
}

void events_get(struct request *r)
{
	job_find(r, events_found);
}

/*
 * ---- why a job waits ----
 *
 * The engine's sentence, for jobs on this machine; or the last Warning about a pod that does not
 * run yet; or nothing processes the job; or the next attempt has not begun.
 */

enum rank { FIRST, FIRST_BARE, SECOND, SECOND_BARE, NOISE }; /* NOISE: never a reason */

/* The kind of a problem, by reason and message of the Event. */
static const struct kind {
	const char *reason, *message, *kind; /* message: a part of it; NULL: any */
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

static const struct kind *event_kind(const struct event *v)
{
	static const struct kind OTHER = { NULL, NULL, "other", SECOND };
	for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++) {
		if (span_is(v->reason, KINDS[i].reason) &&
		    (!KINDS[i].message ||
		     (v->message.n && span_find(v->message, 0, KINDS[i].message) != SIZE_MAX)))
			return &KINDS[i];
	}
	return &OTHER;
}

/* "Error: ImagePullBackOff" repeats the reason of the container's state: one word, which names
 * neither an object nor a cause. */
static bool event_is_bare(const struct event *v)
{
	enum { START = sizeof("Error: ") - 1 };
	return span_starts(v->message, "Error: ") &&
	       span_chr(span_from(v->message, START), ' ') == v->message.n - START;
}

static enum rank event_rank(const struct event *v)
{
	enum rank rank = event_kind(v)->rank;
	return rank < NOISE && event_is_bare(v) ? rank + 1 : rank;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void waiting_begin(struct str *out, const char *kind, struct span reason,
                          struct span message)
{
	json_put_open(out, "waitingReason", '{');
	json_put_word(out, "kind", kind);
	json_put_text(out, "reason", reason);
	json_put_text(out, "message", message);
}

static void waiting_event(struct shower *w, const struct event *v)
{
	waiting_begin(w->out, event_kind(v)->kind, v->reason, v->message);
	json_put_text(w->out, "taskRoleName", v->role);
	json_put_int(w->out, "taskIndex", v->index);
	json_put_text(w->out, "type", v->type);
	json_put_int(w->out, "count", v->count);
	job_put_ms(w->out, "lastTimestamp", v->last_ms);
	str_char(w->out, '}');
}

static void waiting_neglected(struct str *out, enum neglect why)
{
	static const struct {
		const char *reason, *message;
	} TEXTS[] = {
		[NEGLECT_NONE] = { "", "" },
		[NEGLECT_DIRECTORY] = { "NoEngine", "this server only keeps jobs (--engine=none); "
		                                    "nothing runs them" },
		[NEGLECT_CONTROLLER] = { "NoController",
		                         "no FrameworkController has looked at this job since it "
		                         "was submitted: it does not run in this cluster, or is "
		                         "in trouble (see k8s/deploy/frameworkcontroller)" },
	};
	waiting_begin(out, "controller", span_of(TEXTS[why].reason), span_of(TEXTS[why].message));
	str_char(out, '}');
}

/* When the controller begins the next attempt, in ms since 1970; false: none is due. */
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
	char when[RFC3339_MAX];
	char text[64];
	(void)snprintf(text, sizeof(text), "next attempt at %.5s UTC",
	               rfc3339_put(when, ms, 0) + sizeof("2006-01-02T") - 1);
	waiting_begin(out, "retry", SPAN("RetryDelay"), span_of(text));
	json_put_int(out, "nextAttemptTime", ms);
	str_char(out, '}');
}

static void waiting_machine(struct str *out, struct span why)
{
	waiting_begin(out, "machine", SPAN("Waiting"), why);
	str_char(out, '}');
}

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
	if (s->why.machine.n)
		waiting_machine(w->out, s->why.machine);
	else if (s->why.event && s->job->state == JOB_WAITING)
		waiting_event(w, s->why.event);
	else
		waiting_other(w->out, s->job, s->why.neglect);
}

void job_row_waiting(struct str *out, const struct job_entry *job, const struct job_why *why)
{
	const struct event *v = why->event;
	if (why->machine.n) {
		waiting_machine(out, span_cut(why->machine, ROW_MESSAGE_MAX));
		return;
	}
	if (!v) {
		waiting_other(out, job, why->neglect);
		return;
	}
	waiting_begin(out, event_kind(v)->kind, v->reason, span_cut(v->message, ROW_MESSAGE_MAX));
	str_char(out, '}');
}

/* ---- choice of the Event --------------------------------------------------------------------- */

/* Collects Warnings about its pods that may be a reason, the most important first. */
static size_t may_count(const struct job_entry *job, const struct event *v, size_t n,
                        const struct event *about[static EVENTS_PER_FRAMEWORK])
{
	size_t found = 0;
	for (enum rank rank = FIRST; rank < NOISE; rank++) {
		for (size_t i = 0; i < n && found < EVENTS_PER_FRAMEWORK; i++) {
			if (span_is(v[i].type, "Warning") && v[i].pod_uid.n &&
			    span_is(v[i].framework, job->name) && event_rank(&v[i]) == rank)
				about[found++] = &v[i];
		}
	}
	return found;
}

/* Index of the first Event about the current pod of a waiting task; n if none. */
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
		/* Only a more important Event than the best so far is searched. */
		for (; best > 0 && tasks < SHOWN_TASKS && scan_item(&all, &item); tasks++)
			best = of_task(about, best, role, item, a);
	}
	return best < n ? about[best] : NULL;
}

/* Is an Event outdated by others (v[0..n), the latest first): has the pod been replaced, or
 * scheduled? */
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
