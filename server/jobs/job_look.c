#include "server/jobs/job_look.h"

#include <time.h>

#include "base/enc.h"
#include "server/http/answer.h"
#include "server/http/http_request.h"
#include "server/http/loop.h"
#include "server/jobs/history.h"
#include "server/jobs/job_wait.h"

enum {
	LATEST = -1,
	BODY_LARGE = 32 << 20, /* no answer is larger */
	SEEN_MAX = 4096,
	TAG_MAX = 40, /* W/"MD5" */
};

struct looking {
	struct job_looking how;
	int64_t attempt; /* LATEST, or its number */
	struct span earlier;
};

void job_answer(struct request *r, int failed, const struct err *e)
{
	if (failed) {
		answer_error(r, e);
		return;
	}
	answer_hold(r);
	answer_json(r, 200);
}

/* ---- what is shown ---- */

struct job_shown job_shown_of(const struct request *r, const struct job_entry *job, struct span doc)
{
	const struct server *s = r->loop->server;
	return (struct job_shown){
		.job = job,
		.doc = doc,
		.spec = s->exit_spec,
		.v1 = route_is_v1(r->route),
		.hived = s->options->hived_config[0] != '\0',
	};
}

size_t job_look_events(const struct request *r, const struct job_entry *job, struct arena *a,
                       struct event **v)
{
	struct events *events = r->loop->server->events;
	if (!events || job->state != JOB_WAITING || !job_may(r, job, JOB_SEE))
		return 0;
	return events_of(events, span_of(job->name), a, v);
}

enum neglect job_look_neglect(const struct request *r, const struct job_entry *job)
{
	struct timespec now;
	if (!job->untouched)
		return NEGLECT_NONE;
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
	return job_neglect(job, r->loop->server->local != NULL, (int64_t)now.tv_sec * 1000);
}

static void show(struct request *r, const struct job_entry *job, struct span doc)
{
	const struct looking *l = r->state;
	struct job_shown shown = job_shown_of(r, job, doc);
	struct event *v = NULL;
	ERR_AUTO e = { 0 };
	if (!answer_has_room(r)) /* any more */
		return;
	size_t n = job_look_events(r, job, &r->arena, &v);
	shown.why.neglect = job_look_neglect(r, job);
	shown.attempt = l->earlier;
	shown.why.event = n ? job_waiting(&shown, v, n, &r->arena) : NULL;
	r->reply.body.max = BODY_LARGE;
	job_answer(r, l->how.render(r, &shown, &r->reply.body, &e), &e);
}

/* ---- is it still the same? ---- */

/* By all that an answer is made from; what others may not see of it is none of it. */
static const char *tag_of(struct request *r, const struct job_entry *job)
{
	struct event *v = NULL;
	size_t n = job_look_events(r, job, &r->arena, &v);
	char hash[33];
	STR_AUTO seen = STR_INIT(SEEN_MAX);
	str_printf(&seen, "%s %s %s %d %d", job->uid, job->resource_version, REST_LIT_VERSION,
	           route_is_v1(r->route), job_look_neglect(r, job));
	if (n > 0) {
		str_printf(&seen, " %zu %lld %lld ", n, (long long)v[0].last_ms,
		           (long long)v[0].count);
		str_span(&seen, v[0].uid);
	}
	md5_hex(hash, str_view(&seen));
	return arena_printf(&r->arena, "W/\"%s\"", hash);
}

/* Compared weakly: with or without W/. */
static bool is_known(const struct request *r, const char *tag)
{
	const char *has = request_header(r, "If-None-Match");
	return has && (strcmp(has, "*") == 0 || strstr(has, tag + 2));
}

/* Who waited wants an answer. */
static bool has_waited(const struct request *r)
{
	for (size_t i = 0; i < r->reply.n_headers; i++) {
		if (strcmp(r->reply.headers[i].name, "X-Wait") == 0)
			return true;
	}
	return false;
}

static bool is_answered(struct request *r, const struct job_entry *job)
{
	const char *tag = tag_of(r, job);
	answer_header(r, "ETag", tag);
	if (!is_known(r, tag))
		return false;
	r->reply.status = 304;
	answer_send(r);
	return true;
}

/* ---- the attempt ---- */

static void earlier_came(struct request *r, const struct job_entry *job, struct span status)
{
	struct looking *l = r->state;
	l->earlier = status;
	if (status.n)
		job_doc(r, job, show);
	else
		answer_refuse(r, 404, "NoJobError", "nothing is kept of this attempt of the job");
}

static void found(struct request *r, const struct job_entry *job)
{
	const struct looking *l = r->state;
	if (!answer_has_room(r))
		return;
	if (l->attempt > job->attempt)
		answer_refuse(r, 404, "NoJobError", "the job has no such attempt");
	else if (l->attempt != LATEST && l->attempt < job->attempt)
		history_get(r, job, l->attempt, earlier_came);
	else if (!l->how.tags || has_waited(r) || !is_answered(r, job))
		job_doc(r, job, show);
}

static void wait(struct request *r, const struct job_entry *job)
{
	const struct looking *l = r->state;
	if (l->how.waits)
		job_wait(r, job, found);
	else
		found(r, job);
}

void job_look(struct request *r, const struct job_looking *how)
{
	struct looking *l = ARENA_NEW(&r->arena, struct looking, 1);
	*l = (struct looking){ .how = *how, .attempt = LATEST };
	if (!span_is(how->attempt, "latest") &&
	    parse_i64(how->attempt, 0, INT32_MAX, &l->attempt) < 0) {
		answer_refuse(r, INVALID_PARAMETERS,
		              "the attempt in the path must be a number from 0, or `latest`");
		return;
	}
	r->state = l;
	job_find(r, wait);
}
