/* What Kubernetes says of a job's pods. */
#include "server/jobs/job_events.h"

#include <time.h>

#include "k8s/cache/events.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/jobs/job_find.h"

enum { BODY_MAX_BYTES = 4 << 20 };

/* ---- which of them ---- */

static bool began_before(const struct event *e, int64_t ms)
{
	return e->first_ms > 0 && e->first_ms < ms;
}

/* The pod was there before the job was: that of an earlier job with this name. */
static bool is_older(const struct event *all, size_t n, const struct event *one, int64_t created_ms)
{
	for (size_t i = 0; i < n && one->pod_uid.n; i++)
		if (span_eq(all[i].pod_uid, one->pod_uid) && began_before(&all[i], created_ms))
			return true;
	return began_before(one, created_ms);
}

/* ---- as JSON ---- */

/* As ECMAScript writes dates; null if it is not known. */
static void put_time(struct str *out, const char *key, int64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	char text[64];
	if (ms > 0 && gmtime_r(&s, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm))
		str_printf(out, "\"%s\":\"%s.%03dZ\",", key, text, (int)(ms % 1000));
	else
		str_printf(out, "\"%s\":null,", key);
}

static void put_text(struct str *out, const char *key, struct span text)
{
	str_printf(out, "\"%s\":", key);
	str_json(out, text);
	str_char(out, ',');
}

static void put_event(struct str *out, const struct event *e)
{
	str_char(out, '{');
	put_text(out, "uid", e->uid);
	put_text(out, "frameworkName", e->framework);
	put_text(out, "podUid", e->pod_uid);
	put_text(out, "taskroleName", e->role);
	put_text(out, "taskName", e->pod);
	str_printf(out, "\"taskIndex\":%lld,", (long long)e->index);
	put_text(out, "type", e->type);
	put_text(out, "reason", e->reason);
	put_text(out, "message", e->message);
	put_time(out, "firstTimestamp", e->first_ms);
	put_time(out, "lastTimestamp", e->last_ms);
	str_printf(out, "\"count\":%lld,", (long long)e->count);
	put_text(out, "sourceComponent", e->component);
	str_puts(out, "\"sourceHost\":");
	str_json(out, e->host);
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
		str_puts(&data, shown++ ? "," : "");
		put_event(&data, &all[i]);
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

static void found(struct request *r, const struct job_entry *job)
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
	job_find(r, found);
}
