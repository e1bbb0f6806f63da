/* Finds the jobs that a held job waits for: in the cache, or, one after the other, in the store. */
#include "base/enc.h"
#include "jobs/cache/hold.h"
#include "server/http/request.h"
#include "server/jobs/jobs_internal.h"
#include "translate/translate.h"

/* Lives in the request's arena. */
struct after_search {
	struct request *r;
	struct hold *hold;
	size_t i; /* of hold->after */
	struct job_id id;
	void (*done)(void *arg, struct err *e);
	void *arg;
};

/* 400, with the nearest name of a job of that user. */
static void after_refuse(const struct after_search *s, struct err *e)
{
	const struct span wanted = s->hold->after[s->i].job;
	struct cache *cache = s->r->loop->server->cache;
	struct guess g = { .name = s->id.job };
	if (cache) {
		CACHE_VIEW_AUTO *view = cache_view(cache);
		struct view_walk walk = { .view = view };
		for (const struct job_entry *job; (job = view_next(&walk)) != NULL;)
			if (span_is(s->id.user, job->user) &&
			    job_access_allowed(s->r, job, JOB_SEE))
				guess_try(&g, job->job);
		if (g.best)
			g.best = arena_dup(&s->r->arena, span_of(g.best));
	}
	bool near = g.best && !span_is(s->id.job, g.best);
	(void)err_set(e, INVALID_PARAMETERS, "after: there is no job %.*s%s%.*s%s%s%s",
	              (int)wanted.n, wanted.p, near ? ", did you mean " : "",
	              near ? (int)s->id.user.n : 0, s->id.user.p, near ? "~" : "",
	              near ? g.best : "", near ? "?" : "");
}

/* false and *e: it is none that this user may see. */
static bool after_take(struct after_search *s, const struct job_entry *job, struct err *e)
{
	struct arena *a = &s->r->arena;
	struct hold_after *h = &s->hold->after[s->i];
	if (!job || !job_id_fits(&s->id, job, false) || job->broken || job->deleting ||
	    !job_access_allowed(s->r, job, JOB_SEE)) {
		after_refuse(s, e);
		return false;
	}
	h->framework = arena_span(a, span_of(job->name));
	h->uid = arena_span(a, span_of(job->uid));
	return true;
}

static void after_go_on(struct after_search *s);

static void after_answered(void *arg, const struct store_reply *reply)
{
	struct after_search *s = arg;
	ERR_AUTO e = { 0 };
	bool good = reply->outcome == STORE_OK && scan_valid(reply->body, SCAN_DEPTH_MAX);
	struct job_entry *job = good ? job_entry_new(reply->body) : NULL;
	if (!good && reply->outcome != STORE_NOT_FOUND)
		(void)err_set(&e, UNAVAILABLE,
		              "after: the store of jobs does not answer: %.*s; try again",
		              (int)reply->message.n, reply->message.p);
	else if (after_take(s, job, &e))
		s->i++;
	job_entry_drop(job);
	if (e.http)
		s->done(s->arg, &e);
	else
		after_go_on(s);
}

static void after_go_on(struct after_search *s)
{
	ERR_AUTO e = { 0 };
	CACHE_VIEW_AUTO *view = cache_view(s->r->loop->server->cache);
	for (; !e.http && s->i < s->hold->n_after; s->i++) {
		const struct span name = s->hold->after[s->i].job;
		size_t n = span_chr(name, '~');
		if (!job_id_pair(span_to(name, n), span_from(name, n < name.n ? n + 1 : n),
		                 &s->r->arena, &s->id)) {
			after_refuse(s, &e);
			break;
		}
		const struct job_entry *job = view_find(view, span_of(s->id.name));
		if (!job && !s->r->loop->server->local) { /* another server may just have made it */
			job_store_get(s->r, KIND_FRAMEWORK, s->id.name, after_answered, s);
			return;
		}
		if (!after_take(s, job, &e))
			break;
	}
	s->done(s->arg, &e);
}

void jobs_after(struct request *r, struct hold *h, void (*done)(void *arg, struct err *e),
                void *arg)
{
	struct after_search *s = ARENA_NEW(&r->arena, struct after_search, 1);
	*s = (struct after_search){ .r = r, .hold = h, .done = done, .arg = arg };
	after_go_on(s);
}
