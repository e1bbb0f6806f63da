/* The Events of a job, and the reason why a job waits. */
#include <stdio.h>

#include "base/time.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/jobs/jobs_internal.h"

enum { BODY_MAX_BYTES = 4 << 20 };

/* ---- as JSON ---- */

static void event_put(struct str *out, const struct event *e)
{
	char date[RFC3339_MAX]; /* as in ECMAScript; null if unknown */
	json_put_open(out, NULL, '{');
	json_put_text(out, "uid", e->uid);
	json_put_text(out, "frameworkName", e->framework);
	json_put_text(out, "podUid", e->role.n ? e->pod_uid : SPAN(""));
	json_put_text(out, "taskroleName", e->role);
	json_put_text(out, "taskName", e->pod);
	json_put_int(out, "taskIndex", e->index);
	json_put_text(out, "type", e->type);
	json_put_text(out, "reason", e->reason);
	json_put_text(out, "message", e->message);
	json_put_word(out, "firstTimestamp",
	              e->first_ms > 0 ? rfc3339_put(date, e->first_ms, 3) : NULL);
	json_put_word(out, "lastTimestamp",
	              e->last_ms > 0 ? rfc3339_put(date, e->last_ms, 3) : NULL);
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
		bool takes = !type.n || span_eq(all[i].type, type);
		/* A pod that is older than the job belongs to an earlier job of this name. */
		for (size_t k = 0; k < n && takes; k++)
			if (k == i || (all[i].pod_uid.n && span_eq(all[k].pod_uid, all[i].pod_uid)))
				takes = all[k].first_ms <= 0 || all[k].first_ms >= created_ms;
		if (!takes)
			continue;
		event_put(&data, &all[i]);
		shown++;
	}
	str_printf(out, "{\"totalCount\":%zu,\"data\":[", shown);
	str_span(out, str_view(&data));
	str_puts(out, "]}\n");
}

/* ---- the route ---- */

const struct parameter JOB_EVENTS[] = {
	{ .name = "type", .values = "Warning|Normal", .doc = "Only Events of this type." },
	{ .name = NULL },
};

static void events_found(struct request *r, const struct job_entry *job)
{
	struct events *events = r->loop->server->events;
	struct event *all = NULL;
	struct span type = SPAN("");
	if (parameter_find(r, JOB_EVENTS, &type) && type.n != 0 &&
	    parameter_index(JOB_EVENTS, type) < 0) {
		answer_bad(r, "query parameter type: must be Warning or Normal", type);
		return;
	}
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

enum event_rank { FIRST, FIRST_BARE, SECOND, SECOND_BARE, NOISE }; /* NOISE: never a reason */

/* The kind of a problem, by reason and message of the Event. */
static const struct event_kind {
	const char *reason, *message, *kind; /* message: a part of it; NULL: any */
	enum event_rank rank;
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

static const struct event_kind *event_kind(const struct event *v)
{
	static const struct event_kind OTHER = { NULL, NULL, "other", SECOND };
	for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++) {
		if (span_is(v->reason, KINDS[i].reason) &&
		    (!KINDS[i].message ||
		     (v->message.n && span_find(v->message, 0, KINDS[i].message) != SIZE_MAX)))
			return &KINDS[i];
	}
	return &OTHER;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

void job_waiting_put(struct str *out, const struct job_entry *job, const struct job_why *why,
                     bool full)
{
	static const struct {
		const char *reason, *message;
	} NEGLECTED[] = {
		[NEGLECT_NONE] = { "", "" },
		[NEGLECT_NO_ENGINE] = { "NoEngine", "this server only keeps jobs (--engine=none); "
		                                    "nothing runs them" },
		[NEGLECT_CONTROLLER] = { "NoController",
		                         "no controller has looked at this job since it was "
		                         "submitted: none runs in this cluster, or it is in "
		                         "trouble; rest-lit check says more" },
	};
	const struct event *v = why->machine.n ? NULL : why->event;
	/* The controller then begins the next attempt. */
	int64_t next_ms = job->transition_ms + (int64_t)job->retry_delay_s * 1000;
	bool retries = job->retry_delay_s != JOB_ENTRY_NONE &&
	               job->transition_ms != JOB_ENTRY_NONE &&
	               strcmp(job->sub_state, "AttemptCompleted") == 0;
	char when[RFC3339_MAX];
	char next[64];
	const char *kind = "controller";
	struct span reason = span_of(NEGLECTED[why->neglect].reason);
	struct span message = span_of(NEGLECTED[why->neglect].message);
	if (why->machine.n) {
		kind = job->held ? "order" : *job->waits ? "queue" : "machine";
		reason = job->held ? SPAN("Held") : *job->waits ? SPAN("Queued") : SPAN("Waiting");
		message = why->machine;
	} else if (v) {
		kind = event_kind(v)->kind;
		reason = v->reason;
		message = v->message;
	} else if (!why->neglect && retries) {
		(void)snprintf(next, sizeof(next), "next attempt at %.5s UTC",
		               rfc3339_put(when, next_ms, 0) + sizeof("2006-01-02T") - 1);
		kind = "retry";
		reason = SPAN("RetryDelay");
		message = span_of(next);
	} else if (!why->neglect) {
		return;
	}
	json_put_open(out, "waitingReason", '{');
	json_put_word(out, "kind", kind);
	json_put_text(out, "reason", reason);
	json_put_text(out, "message", full ? message : span_cut(message, ROW_MESSAGE_MAX));
	if (v && full) {
		if (v->role.n) {
			json_put_text(out, "taskRoleName", v->role);
			json_put_int(out, "taskIndex", v->index);
		}
		json_put_text(out, "type", v->type);
		json_put_int(out, "count", v->count);
		job_put_ms(out, "lastTimestamp", v->last_ms);
	} else if (message.p == next) {
		json_put_int(out, "nextAttemptTime", next_ms);
	}
	str_char(out, '}');
}

/* ---- choice of the Event --------------------------------------------------------------------- */

/* Collects Warnings about its pods that may be a reason, the most important first. */
static size_t events_that_count(const struct job_entry *job, const struct event *v, size_t n,
                                const struct event *about[static EVENTS_PER_FRAMEWORK])
{
	enum { START = sizeof("Error: ") - 1 };
	size_t found = 0;
	for (enum event_rank rank = FIRST; rank < NOISE; rank++) {
		for (size_t i = 0; i < n && found < EVENTS_PER_FRAMEWORK; i++) {
			if (!span_is(v[i].type, "Warning") || !v[i].pod_uid.n ||
			    !span_is(v[i].framework, job->name))
				continue;
			/* Events rank by kind; an event of a kind that says nothing itself comes
			 * last: "Error: ImagePullBackOff" repeats the reason of the container's
			 * state, one word, which names neither an object nor a cause. */
			enum event_rank own = event_kind(&v[i])->rank;
			struct span says = v[i].message;
			bool bare = span_starts(says, "Error: ") &&
			            span_chr(span_from(says, START), ' ') == says.n - START;
			if ((own < NOISE && bare ? own + 1 : own) == rank)
				about[found++] = &v[i];
		}
	}
	return found;
}

/* Index of the first Event about the current pod of a waiting task; n if none. */
static size_t event_of_task(const struct event *const v[], size_t n, struct span role,
                            const struct fw_view *t, struct arena *a)
{
	const struct completion_status o = fw_view_completion(t->outcome, a);
	if (!t->uid.n || job_state_of(t->state, o.has_code, o.code) != JOB_WAITING)
		return n;
	for (size_t i = 0; i < n; i++) {
		bool scheduled = t->node.n && span_is(v[i]->reason, "FailedScheduling");
		if (v[i]->index == t->index && span_eq(v[i]->role, role) &&
		    span_eq(v[i]->pod_uid, t->uid) && !scheduled)
			return i;
	}
	return n;
}

const struct event *job_waiting(const struct job_shown *s, const struct event *v, size_t n,
                                struct arena *a)
{
	const struct event *about[EVENTS_PER_FRAMEWORK];
	struct fw_view attempt;
	struct fw_view t;
	struct fw_walk w;
	if (s->job->state != JOB_WAITING)
		return NULL;
	size_t may = events_that_count(s->job, v, n, about);
	size_t best = may;
	if (may == 0)
		return NULL;
	shown_view(s, a, &attempt);
	if (!fw_walk_begin(&w, &attempt, a))
		return NULL;
	/* Only a more important Event than the best so far is searched. */
	while (best > 0 && fw_walk_role(&w))
		while (best > 0 && w.tasks < SHOWN_TASKS && fw_walk_task(&w, &t))
			best = event_of_task(about, best, w.role, &t, a);
	if (best < may)
		return about[best];
	const struct event *last = job_row_event(s->job, v, n);
	return last && !last->role.n ? last : NULL;
}

/* Returns true if others (v[0..n), the latest first) have outdated an Event: the pod has been
 * replaced, or scheduled; or the controller no longer repeats one about the Framework. */
static bool event_is_past(const struct event *one, const struct event *v, size_t n)
{
	enum { REPEATED_MS = 60000 }; /* a refused pod is asked for again each 30 s */
	bool latest = true;
	if (!one->role.n && v[0].role.n && v[0].last_ms - one->last_ms > REPEATED_MS)
		return true;
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
	size_t may = job->state == JOB_WAITING ? events_that_count(job, v, n, about) : 0;
	for (size_t i = 0; i < may; i++) {
		if (about[i]->last_ms >= since && !event_is_past(about[i], v, n))
			return about[i];
	}
	return NULL;
}
