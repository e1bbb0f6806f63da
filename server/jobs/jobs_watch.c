/*
 * All jobs that a query chooses, as they change.  What is known already (of the jobs that changed
 * while a client was away, or of all) comes first, by version; then what happens.  All of it goes
 * through a queue, from which the client's buffer is filled: so a thousand changes at once cut
 * nobody off, and what has changed again before its turn came is passed over.
 *
 * The id of an event is a resourceVersion up to which all has been told; where more may still come
 * from before it, there is none.
 */
#include <stdlib.h>

#include "server/cluster/follow.h"
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/http_request.h"
#include "server/http/query.h"
#include "server/http/stream.h"
#include "server/jobs/follower.h"
#include "server/jobs/job_list.h"
#include "server/jobs/job_show.h"

enum { NEWS_MAX = 10000 };

enum kind {
	KNOWN,  /* as it was at the beginning */
	TOLD,   /* all up to its version has been told with it */
	UNTOLD, /* it was made by this server, and of others more may come from before it */
	GONE,
};

struct watch {
	struct follower follower; /* first */
	struct request *r;
	struct stream *stream;
	struct job_query query;
	/* What is to be told: v[at..n); references. */
	struct entry {
		const struct job_entry *job;
		enum kind kind;
	} * v;
	size_t at, n, cap;
	size_t news;   /* of them; the others are KNOWN, at most all that are there */
	int64_t heard; /* when they were taken from the cache */
	int64_t id;    /* that was sent last */
	bool over;
};

static struct cache *cache_of(const struct watch *w)
{
	return w->r->loop->server->cache;
}

/* ---- telling ---- */

static void pop(struct watch *w)
{
	w->news -= w->v[w->at].kind != KNOWN;
	job_entry_drop(w->v[w->at++].job);
	if (w->at < w->n)
		return;
	free(w->v);
	w->v = NULL;
	w->at = w->n = w->cap = 0;
}

static void drop_all(struct watch *w)
{
	while (w->n)
		pop(w);
}

/* Ids only grow, also where what was known is told once more as news. */
static int64_t id_of(const struct watch *w, const struct entry *e)
{
	bool told = e->kind == TOLD || (e->kind == KNOWN && e->job->version <= w->heard);
	return told && e->job->version > w->id ? e->job->version : 0;
}

static void describe(struct str *out, const struct watch *w, const struct entry *e)
{
	STR_AUTO data = STR_INIT(REPLY_MAX);
	if (e->kind == GONE) {
		sse_gone(out, e->job);
		return;
	}
	job_row(&data, e->job, NULL, false);
	sse_event(out, "job", id_of(w, e), str_view(&data));
}

/* Whether there was room. */
static bool tell(struct watch *w, const struct entry *e)
{
	STR_AUTO text = STR_INIT(REPLY_MAX);
	int64_t id = e->kind == GONE ? 0 : id_of(w, e);
	describe(&text, w, e);
	if (!stream_put(w->stream, str_view(&text)))
		return false;
	w->id = id ? id : w->id;
	return true;
}

/* Does the cache hold a later state of this job, of which `changed` will hear?  It passes over one
 * whose row is the same. */
static bool is_outdated(const struct entry *e, const struct view *cache)
{
	const struct job_entry *now = view_find(cache, span_of(e->job->name));
	return e->kind != GONE && now != e->job && !(now && job_entry_same(now, e->job));
}

/* As much as there is room for. */
static void fill(struct watch *w)
{
	CACHE_VIEW_AUTO *now = w->n ? cache_view(cache_of(w)) : NULL;
	while (w->n) {
		const struct entry *e = &w->v[w->at];
		if (!is_outdated(e, now) && !tell(w, e))
			return;
		pop(w);
	}
}

static void add(struct watch *w, const struct job_entry *job, enum kind kind)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 16;
		w->v = xrealloc(w->v, w->cap * sizeof(w->v[0]));
	}
	w->v[w->n++] = (struct entry){ job_entry_hold(job), kind };
	w->news += kind != KNOWN;
}

/* ---- what is known already ---- */

static int by_version(const void *a, const void *b)
{
	int64_t x = ((const struct entry *)a)->job->version;
	int64_t y = ((const struct entry *)b)->job->version;
	return (x > y) - (x < y);
}

/* Those that are newer than that; nothing else is to be told. */
static void add_known(struct watch *w, int64_t version)
{
	drop_all(w);
	w->heard = cache_heard(cache_of(w));
	CACHE_VIEW_AUTO *view = cache_view(cache_of(w));
	struct view_walk walk = { .view = view };
	for (const struct job_entry *job; (job = view_next(&walk));)
		if (job->version > version && job_query_takes(&w->query, job))
			add(w, job, KNOWN);
	if (w->n)
		qsort(w->v, w->n, sizeof(w->v[0]), by_version);
}

static void more(struct stream *s, void *arg)
{
	(void)s;
	fill(arg);
}

/* ---- what happens ---- */

static void start_anew(struct watch *w)
{
	STR_AUTO text = STR_INIT(256);
	sse_event(&text, "reset", 0, SPAN("{}"));
	drop_all(w);
	if (stream_put(w->stream, str_view(&text)))
		add_known(w, -1);
	else
		stream_cut(w->stream); /* it has not taken what came 10 000 changes ago */
}

static void changed(struct follower *f, const struct job_entry *now, const struct job_entry *before,
                    int64_t told)
{
	struct watch *w = (struct watch *)f;
	bool was = before && job_query_takes(&w->query, before);
	if (w->over || (!was && !(now && job_query_takes(&w->query, now))))
		return;
	if (now && before && job_entry_same(now, before)) /* of its tasks, rows say nothing */
		return;
	if (w->news == NEWS_MAX)
		start_anew(w);
	add(w, now ? now : before, !now ? GONE : told ? TOLD : UNTOLD);
	fill(w);
}

static void lost(struct follower *f)
{
	struct watch *w = (struct watch *)f;
	if (!w->over)
		start_anew(w);
}

static void last(struct stream *s, void *arg)
{
	struct watch *w = arg;
	STR_AUTO text = STR_INIT(256);
	w->over = true;
	drop_all(w);
	sse_end(&text, stream_why(s));
	(void)stream_put(s, str_view(&text)); /* no room: it ends without */
}

static void heartbeat(struct stream *s, void *arg)
{
	(void)arg;
	(void)stream_put(s, SPAN(SSE_PING)); /* no room: then there is something else to show */
}

static void gone(void *arg)
{
	struct watch *w = arg;
	follower_end(w->r->loop->has->followers, &w->follower);
	drop_all(w);
}

static const struct stream_calls CALLS = {
	.more = more, .last = last, .heartbeat = heartbeat, .gone = gone, .lasting = true
};

/* ---- what is asked for ---- */

/* From where: -1: all; INT64_MAX: what happens from now on. */
static int read_from(struct request *r, int64_t *from, struct err *e)
{
	struct span value;
	const char *id = request_header(r, "Last-Event-ID");
	*from = INT64_MAX;
	if (id && parse_i64(span_of(id), 0, INT64_MAX - 1, from) < 0)
		return err_set(e, INVALID_PARAMETERS,
		               "Last-Event-ID must be the id of an event, which is a number");
	if (!query_find(span_of(r->query), "initial", &r->arena, &value) || span_is(value, "false"))
		return 0;
	if (!span_is(value, "true"))
		return err_set(e, INVALID_PARAMETERS, "initial must be true or false");
	if (!id)
		*from = -1;
	return 0;
}

static bool is_known(struct request *r)
{
	const char *why = follow_problem(r->loop->server, &r->arena);
	if (why)
		answer_refuse(r, UNAVAILABLE, why);
	else if (!r->loop->has->followers)
		answer_refuse(r, UNAVAILABLE, "this server does not keep track of jobs");
	return r->loop->has->followers && !why;
}

static void begin(struct watch *w, int64_t from)
{
	STR_AUTO text = STR_INIT(256);
	str_puts(&text, SSE_RETRY);
	if (from == INT64_MAX) /* this alone is no event, but clients keep the id */
		str_printf(&text, "id: %ld\n", (long)cache_heard(cache_of(w)));
	str_char(&text, '\n');
	follower_begin(w->r->loop->has->followers, &w->follower);
	(void)stream_put(w->stream, str_view(&text)); /* the first: there is room */
	if (from != INT64_MAX)
		add_known(w, from);
}

void jobs_watch(struct request *r)
{
	ERR_AUTO e = { 0 };
	int64_t from = INT64_MAX;
	struct watch *w = ARENA_NEW(&r->arena, struct watch, 1);
	*w = (struct watch){ .r = r, .follower = { .changed = changed, .lost = lost } };
	if (job_query_read(&w->query, r->query, false, &r->arena, &e) < 0 ||
	    read_from(r, &from, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	if (!is_known(r))
		return;
	answer_header(r, "X-Accel-Buffering", "no"); /* or nginx waits for a buffer of them */
	w->stream = stream_open(r, 200, "text/event-stream", &CALLS, w);
	if (w->stream)
		begin(w, from);
}
