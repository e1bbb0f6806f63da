/*
 * All jobs that a query chooses, as they change.  What is known already (of the jobs that changed
 * while a client was away, or of all) comes first, by version, a few at a time as the client takes
 * them; changes that happen meanwhile come between, and what they are about is then passed over.
 *
 * The id of an event is a resourceVersion up to which all has been told; where more is to come from
 * before it, there is none.
 */
#include <stdlib.h>

#include "server/answer.h"
#include "server/follow.h"
#include "server/follower.h"
#include "server/handlers.h"
#include "server/http_request.h"
#include "server/job_list.h"
#include "server/job_show.h"
#include "server/query.h"
#include "server/sse.h"
#include "server/stream.h"

struct watch {
	struct follower follower; /* first */
	struct request *r;
	struct stream *stream;
	struct job_query query;
	/* What is known already: v[at..n) are to come, borrowed from the view. */
	const struct view *view;
	struct known {
		const struct cached *job;
	} *v;
	size_t at, n;
	int64_t heard; /* of the view */
	bool over;
};

static struct cache *cache_of(const struct watch *w)
{
	return w->r->loop->server->cache;
}

static void put(struct watch *w, const struct str *text)
{
	/* Who does not take what waits is too slow. */
	if (text->full || !stream_put(w->stream, str_view(text)))
		stream_cut(w->stream);
}

static void show(struct watch *w, const struct cached *job, int64_t id)
{
	STR_AUTO data = STR_INIT(REPLY_MAX);
	STR_AUTO text = STR_INIT(REPLY_MAX);
	job_row(&data, job, false);
	sse_event(&text, "job", id, str_view(&data));
	put(w, &text);
}

/* ---- what is known already ---- */

static void drop_known(struct watch *w)
{
	if (w->view)
		view_drop(w->view);
	free(w->v);
	w->view = NULL;
	w->v = NULL;
	w->at = w->n = 0;
}

static int by_version(const void *a, const void *b)
{
	int64_t x = ((const struct known *)a)->job->version;
	int64_t y = ((const struct known *)b)->job->version;
	return (x > y) - (x < y);
}

/* Those that are newer than that. */
static void take_known(struct watch *w, int64_t version)
{
	drop_known(w);
	w->heard = cache_heard(cache_of(w));
	w->view = cache_view(cache_of(w));
	w->v = xmalloc((view_count(w->view) + 1) * sizeof(w->v[0]));
	struct view_walk walk = { .view = w->view };
	for (const struct cached *job; (job = view_next(&walk));)
		if (job->version > version && job_query_takes(&w->query, job))
			w->v[w->n++].job = job;
	qsort(w->v, w->n, sizeof(w->v[0]), by_version);
}

/* Its own, and leaves half of the room for what happens. */
static void show_known(struct watch *w)
{
	size_t half = (size_t)w->r->loop->server->options->stream_buffer / 2;
	CACHE_VIEW_AUTO *now = cache_view(cache_of(w));
	while (w->at < w->n && stream_room(w->stream) > half) {
		const struct cached *job = w->v[w->at++].job;
		if (view_find(now, span_of(job->name)) == job)
			show(w, job, job->version <= w->heard ? job->version : 0);
	}
	if (w->at == w->n)
		drop_known(w);
}

static void more(struct stream *s, void *arg)
{
	struct watch *w = arg;
	(void)s;
	if (w->view)
		show_known(w);
}

/* ---- what happens ---- */

static void changed(struct follower *f, const struct cached *now, const struct cached *before,
                    int64_t told)
{
	struct watch *w = (struct watch *)f;
	bool was = before && job_query_takes(&w->query, before);
	if (w->over)
		return;
	if (now && (was || job_query_takes(&w->query, now))) {
		show(w, now, w->view ? 0 : told);
	} else if (!now && was) {
		STR_AUTO text = STR_INIT(REPLY_MAX);
		sse_gone(&text, before);
		put(w, &text);
	}
}

static void lost(struct follower *f)
{
	struct watch *w = (struct watch *)f;
	STR_AUTO text = STR_INIT(REPLY_MAX);
	if (w->over)
		return;
	sse_event(&text, "reset", 0, SPAN("{}"));
	put(w, &text);
	take_known(w, -1);
}

static void last(struct stream *s, void *arg)
{
	struct watch *w = arg;
	STR_AUTO text = STR_INIT(REPLY_MAX);
	w->over = true;
	drop_known(w);
	sse_end(&text, stream_why(s));
	put(w, &text);
}

static void heartbeat(struct stream *s, void *arg)
{
	(void)arg;
	if (!stream_put(s, SPAN(SSE_PING)))
		stream_cut(s);
}

static void gone(void *arg)
{
	struct watch *w = arg;
	follower_end(w->r->loop->followers, &w->follower);
	drop_known(w);
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
	else if (!r->loop->followers)
		answer_refuse(r, UNAVAILABLE, "this server does not keep track of jobs");
	return r->loop->followers && !why;
}

static void begin(struct watch *w, int64_t from)
{
	STR_AUTO text = STR_INIT(256);
	str_puts(&text, SSE_RETRY);
	if (from == INT64_MAX) /* this alone is no event, but clients keep the id */
		str_printf(&text, "id: %ld\n", (long)cache_heard(cache_of(w)));
	str_char(&text, '\n');
	follower_begin(w->r->loop->followers, &w->follower);
	put(w, &text);
	if (from != INT64_MAX)
		take_known(w, from);
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
