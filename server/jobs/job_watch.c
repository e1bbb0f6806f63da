/*
 * One job, as it changes: how it is now, and again whenever it is different, until it has ended.
 * Not each step between: what follows quickly may be one event.
 */
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/stream.h"
#include "server/jobs/follower.h"
#include "server/jobs/job_find.h"
#include "server/jobs/job_show.h"

enum { FRAME = 256 }; /* more than stands around the data of an event, and first in a stream */

struct watch {
	struct follower follower; /* first */
	struct request *r;
	const struct job_entry *job; /* as it was found; r keeps it */
	struct stream *stream;
	struct str shown; /* what was sent last of it */
	bool known;       /* it was in the cache */
	bool over;
};

static void put(struct watch *w, const struct str *text)
{
	/* Who does not take what waits is too slow. */
	if (text->full || !stream_put(w->stream, str_view(text)))
		stream_cut(w->stream);
}

static void end(struct watch *w, const char *reason)
{
	STR_AUTO text = STR_INIT(REPLY_MAX);
	w->over = true;
	sse_end(&text, reason);
	put(w, &text);
	stream_end(w->stream);
}

/* A row of the list, and how many tasks are in which state, unless there is no room for so much. */
static void describe(struct str *out, const struct job_entry *job, size_t room)
{
	ARENA_AUTO a = { 0 };
	struct span doc;
	job_row(out, job, NULL, false);
	if (!out->n || !job_entry_doc(job, &a, &doc))
		return;
	size_t row = --out->n; /* without the brace */
	str_puts(out, ",\"taskRoles\":");
	job_counts(out, doc, &a);
	if (out->n + FRAME > room)
		out->n = row;
	str_char(out, '}');
}

static void show(struct watch *w, const struct job_entry *job)
{
	STR_AUTO data = STR_INIT(REPLY_MAX);
	STR_AUTO text = STR_INIT(REPLY_MAX);
	describe(&data, job, (size_t)w->r->loop->server->options->stream_buffer);
	w->known = true;
	if (span_eq(str_view(&data), str_view(&w->shown)))
		return;
	sse_event(&text, "job", job->version, str_view(&data));
	put(w, &text);
	str_done(&w->shown);
	w->shown = data;
	data = STR_INIT(REPLY_MAX);
	if (job_state_final(job->state))
		end(w, "completed");
}

static void show_gone(struct watch *w, const struct job_entry *job)
{
	STR_AUTO text = STR_INIT(REPLY_MAX);
	sse_gone(&text, job);
	put(w, &text);
	end(w, "gone");
}

static void look(struct watch *w)
{
	CACHE_VIEW_AUTO *view = cache_view(w->r->loop->server->cache);
	const struct job_entry *job = view_find(view, w->follower.name);
	if (job)
		show(w, job);
	else if (w->known)
		show_gone(w, w->job);
	else
		show(w, w->job); /* found in the store, and the cache is to hear of it */
}

/* ---- what happens ---- */

static void changed(struct follower *f, const struct job_entry *now, const struct job_entry *before,
                    int64_t told)
{
	struct watch *w = (struct watch *)f;
	(void)told;
	if (w->over)
		return;
	if (now)
		show(w, now);
	else
		show_gone(w, before);
}

static void lost(struct follower *f)
{
	struct watch *w = (struct watch *)f;
	if (!w->over)
		look(w);
}

static void last(struct stream *s, void *arg)
{
	struct watch *w = arg;
	end(w, stream_why(s));
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
	str_done(&w->shown);
}

static const struct stream_calls CALLS = {
	.last = last, .heartbeat = heartbeat, .gone = gone, .lasting = true
};

static void begin(struct request *r, const struct job_entry *job)
{
	struct watch *w = ARENA_NEW(&r->arena, struct watch, 1);
	*w = (struct watch){ .r = r, .job = job, .shown = STR_INIT(REPLY_MAX) };
	w->follower.name = span_of(job->name);
	w->follower.changed = changed;
	w->follower.lost = lost;
	if (!r->loop->has->followers) {
		answer_refuse(r, UNAVAILABLE, "this server does not keep track of jobs");
		return;
	}
	answer_header(r, "X-Accel-Buffering", "no"); /* or nginx waits for a buffer of them */
	w->stream = stream_open(r, 200, "text/event-stream", &CALLS, w);
	if (!w->stream)
		return;
	follower_begin(r->loop->has->followers, &w->follower);
	(void)stream_put(w->stream, SPAN(SSE_RETRY "\n")); /* the first: there is room */
	look(w);
}

void job_watch(struct request *r)
{
	job_find(r, begin);
}
