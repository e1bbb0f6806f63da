/*
 * Waiting for changes of jobs: followers, `?wait=`, and the event streams of one job and of all.
 * A stream of one job may merge several quick changes into one event.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "server/config/options.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/http/stream.h"
#include "server/jobs/jobs.h"
#include "server/jobs/jobs_internal.h"
#include "server/state/server.h"

enum {
	BUCKETS = 256,
	FRAME = 256, /* more than the bytes around the data of an event */
	UPDATES_MAX = 10000,
	AHEAD_MAX = 100000, /* versions that another server can know before this one; beyond it,
	                       etcd was restored from a backup */
};

/* ---- followers ---- */

/* References.  Begins with the job, as watch_entry. */
struct job_update {
	const struct job_entry *job;    /* gone: as it was last */
	const struct job_entry *before; /* NULL: none */
	bool gone;
};

struct followers {
	struct change_queue *queue;
	struct hash_key key;
	size_t n;
	struct follower *of_all, *of_one[BUCKETS];
	struct cache *cache;
	struct job_update *updates; /* being reported */
	size_t n_updates, cap;
};

/* The descriptor is that of the queue, in which changes of one job are joined until they are read.
 */
struct followers *followers_new(struct cache *c, int *fd, struct err *e)
{
	struct followers *all = xcalloc(1, sizeof(*all));
	all->cache = c;
	all->key = hash_key_new();
	all->queue = change_queue_new(c, e);
	if (!all->queue) {
		free(all);
		return NULL;
	}
	*fd = change_queue_fd(all->queue);
	return all;
}

/* No follower is left: each has ended with its request, which held the job. */
void followers_free(struct followers *all)
{
	if (!all)
		return;
	assert(all->n == 0);
	change_queue_free(all->queue);
	free(all);
}

static struct follower **follower_list(struct followers *all, struct span name)
{
	return name.n ? &all->of_one[hash_bytes(&all->key, name) % BUCKETS] : &all->of_all;
}

/* Reports changes from now on; the caller reads a view afterwards for the present state. */
static void follower_begin(struct followers *all, struct follower *f)
{
	struct follower **list = follower_list(all, f->name);
	f->next = *list;
	f->at = list;
	if (f->next)
		f->next->at = &f->next;
	*list = f;
	if (all->n++ == 0)
		change_queue_listen(all->queue, true);
}

static void follower_end(struct followers *all, struct follower *f)
{
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
	if (--all->n == 0)
		change_queue_listen(all->queue, false);
}

/* Orders entries that begin with a job by its version. */
static int version_compare(const void *a, const void *b)
{
	int64_t x = (*(const struct job_entry *const *)a)->version;
	int64_t y = (*(const struct job_entry *const *)b)->version;
	return (x > y) - (x < y);
}

static void update_report_to(struct follower *list, const struct job_update *c, int64_t told)
{
	struct follower *next;
	for (struct follower *f = list; f; f = next) {
		next = f->next;
		if (!f->name.n || span_is(f->name, c->job->name))
			f->changed(f, c->gone ? NULL : c->job, c->before, told);
	}
}

static void update_take(void *arg, const struct job_entry *now, const struct job_entry *before)
{
	struct followers *all = arg;
	if (all->n_updates == all->cap) {
		all->cap = all->cap ? 2 * all->cap : 16;
		all->updates = xrealloc(all->updates, all->cap * sizeof(all->updates[0]));
	}
	all->updates[all->n_updates++] = (struct job_update){
		job_entry_hold(now ? now : before),
		before ? job_entry_hold(before) : NULL,
		!now,
	};
}

static void report_lost(struct follower *list)
{
	struct follower *next;
	for (struct follower *f = list; f; f = next) {
		next = f->next;
		f->lost(f);
	}
}

void followers_run_once(struct followers *all)
{
	/* All changes up to here are in the queue by now. */
	int64_t heard = cache_heard_version(all->cache);
	bool complete = change_queue_take(all->queue, update_take, all);
	if (all->n_updates > 1)
		qsort(all->updates, all->n_updates, sizeof(all->updates[0]), version_compare);
	for (size_t i = 0; i < all->n_updates; i++) {
		const struct job_update *c = &all->updates[i];
		bool known = complete && !c->gone && c->job->version <= heard;
		int64_t told = known ? c->job->version : 0;
		update_report_to(*follower_list(all, span_of(c->job->name)), c, told);
		update_report_to(all->of_all, c, told);
		job_entry_drop(c->job);
		job_entry_drop(c->before);
	}
	free(TAKE(all->updates));
	all->n_updates = all->cap = 0;
	if (complete)
		return;
	report_lost(all->of_all);
	for (size_t i = 0; i < BUCKETS; i++)
		report_lost(all->of_one[i]);
}

/* ---- ?wait= ---- */

struct job_wait {
	struct follower follower; /* first */
	struct request *r;
	const struct job_entry *job; /* as found; r holds it */
	job_found *go_on;
	bool running; /* wait for running, not for completed */
	bool known;   /* it was in the cache: if it no longer is, it was deleted */
};

enum { WAIT_SECONDS, WAIT_FOR };
/* clang-format off */
const struct parameter JOB_WAIT[] = {
	[WAIT_SECONDS] = { .name = "wait", .max = INT64_MAX, .must = "a number of seconds",
	  .doc = "The server answers when the job has come as far as `for` says, or after so many seconds, at most 300. The header `X-Wait` says which: `reached` or `timeout`." },
	[WAIT_FOR] = { .name = "for", .values = "running|completed", .absent = "completed", .must = "running or completed",
	  .doc = "`running`: until the job runs or has ended." },
	{ .name = NULL },
};
/* clang-format on */

/* *seconds stays if none are given. */
static int job_wait_read_query(struct request *r, int64_t *seconds, bool *running, struct err *e)
{
	struct span value;
	if (!parameter_find(r, &JOB_WAIT[WAIT_SECONDS], &value))
		return 0;
	if (parameter_number(&JOB_WAIT[WAIT_SECONDS], value, seconds, e) < 0)
		return -1;
	if (!parameter_find(r, &JOB_WAIT[WAIT_FOR], &value))
		return 0;
	int which = parameter_index(&JOB_WAIT[WAIT_FOR], value);
	*running = which == 0;
	return which < 0 ? parameter_refuse(&JOB_WAIT[WAIT_FOR], value, e) : 0;
}

static bool job_wait_reached(bool running, const struct job_entry *job)
{
	return job_state_final(job->state) ||
	       (running && (job->state == JOB_RUNNING || job->state == JOB_STOPPING));
}

static void job_wait_stop(struct job_wait *w)
{
	follower_end(w->r->loop->has->followers, &w->follower);
	long_lived_end(w->r);
}

/* Ends if the job has reached the state, or `anyway`.  Returns whether it has ended. */
static bool job_wait_settle(struct job_wait *w, const struct job_entry *job, bool anyway)
{
	struct request *r = w->r;
	bool reached = job_wait_reached(w->running, job);
	if (!reached && !anyway)
		return false;
	job_wait_stop(w);
	if (job != w->job)
		job_keep(r, job_entry_hold(job));
	answer_header(r, "X-Wait", reached ? "reached" : "timeout");
	w->go_on(r, job);
	return true;
}

static bool job_wait_gone(struct job_wait *w)
{
	job_wait_stop(w);
	answer_refuse(w->r, 404, "NoJobError", "the job was deleted meanwhile");
	return true;
}

static bool job_wait_look(struct job_wait *w, bool anyway)
{
	CACHE_VIEW_AUTO *view = cache_view(w->r->loop->server->cache);
	const struct job_entry *job = view_find(view, w->follower.name);
	if (!job && w->known)
		return job_wait_gone(w);
	w->known = job;
	return job_wait_settle(w, job ? job : w->job, anyway);
}

static void job_wait_changed(struct follower *f, const struct job_entry *now,
                             const struct job_entry *before, int64_t told)
{
	(void)before;
	(void)told;
	struct job_wait *w = (struct job_wait *)f;
	if (!now) {
		(void)job_wait_gone(w);
		return;
	}
	w->known = true;
	(void)job_wait_settle(w, now, false);
}

static void job_wait_lost(struct follower *f)
{
	(void)job_wait_look((struct job_wait *)f, false);
}

static void job_wait_follow(void *arg, enum long_lived_event event)
{
	struct job_wait *w = arg;
	if (event == LONG_LIVED_REFUSED) {
		job_wait_stop(w);
		answer_header(w->r, "WWW-Authenticate", "Bearer");
		answer_refuse(w->r, UNAUTHORIZED,
		              "Your token has expired or was revoked; log in again");
	} else if (event != LONG_LIVED_TICK) { /* the time is over, or the server ends */
		(void)job_wait_look(w, true);
	}
}

void job_wait(struct request *r, const struct job_entry *job, job_found *go_on)
{
	int64_t seconds = -1;
	bool running = false;
	ERR_AUTO e = { 0 };
	bool head = strcmp(r->method, "HEAD") == 0;
	if (job_wait_read_query(r, &seconds, &running, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	if (seconds < 0) {
		go_on(r, job);
		return;
	}
	bool reached = job_wait_reached(running, job);
	if (reached || !seconds || head || !r->loop->has->followers) {
		answer_header(r, "X-Wait", reached ? "reached" : "timeout");
		go_on(r, job);
		return;
	}
	struct job_wait *w = ARENA_NEW(&r->arena, struct job_wait, 1);
	if (!long_lived_begin(r, seconds, job_wait_follow, w))
		return;
	*w = (struct job_wait){ .r = r, .job = job, .go_on = go_on, .running = running };
	w->follower = (struct follower){ .name = span_of(job->name),
		                         .changed = job_wait_changed,
		                         .lost = job_wait_lost };
	follower_begin(r->loop->has->followers, &w->follower);
	if (!job_wait_look(w, false))
		request_wait(r);
}

/* ---- event streams ---- */

struct watch {
	struct follower follower; /* first */
	struct request *r;
	struct stream *stream;
	bool over;
};

/* Opens the stream, with `first` in it.  false: r is answered. */
static bool watch_open(struct watch *w, const struct stream_calls *calls, struct span first)
{
	struct followers *all = w->r->loop->has->followers;
	if (!all) {
		answer_refuse(w->r, UNAVAILABLE, "this server does not watch jobs");
		return false;
	}
	answer_header(w->r, "X-Accel-Buffering", "no"); /* nginx would buffer events */
	w->stream = stream_open(w->r, 200, "text/event-stream", calls, w);
	if (!w->stream)
		return false;
	follower_begin(all, &w->follower);
	(void)stream_put(w->stream, first); /* an empty stream has room */
	return true;
}

static void watch_heartbeat(struct stream *s, void *arg)
{
	(void)arg;
	(void)stream_put(s, SPAN(SSE_PING)); /* without room, data is pending anyway */
}

/* ---- one job ---- */

struct job_watch {
	struct watch w;              /* first */
	const struct job_entry *job; /* as found; r holds it */
	struct str shown;            /* the last row that was sent */
	bool known;                  /* it was in the cache */
	int64_t from;                /* the client has this version, by Last-Event-ID; 0: none */
};

static void job_watch_put(struct job_watch *o, const struct str *text)
{
	/* A client that does not read pending events is too slow. */
	if (text->full || !stream_put(o->w.stream, str_view(text)))
		stream_cut(o->w.stream);
}

static void job_watch_end(struct job_watch *o, const char *reason)
{
	STR_AUTO text = STR_INIT(REPLY_MAX);
	o->w.over = true;
	sse_end(&text, reason);
	job_watch_put(o, &text);
	stream_end(o->w.stream);
}

/* A row of the list, and the numbers of tasks by state if there is room for them. */
static void job_watch_describe(struct str *out, const struct job_entry *job, size_t room)
{
	ARENA_AUTO a = { 0 };
	struct span status;
	job_row(out, job, NULL, false);
	if (!out->n || !job_entry_status(job, &a, &status))
		return;
	size_t row = --out->n; /* without the brace */
	str_puts(out, ",\"taskRoles\":");
	job_counts(out, status, &a);
	if (out->n + FRAME > room)
		out->n = row;
	str_char(out, '}');
}

static void job_watch_show(struct job_watch *o, const struct job_entry *job)
{
	STR_AUTO data = STR_INIT(REPLY_MAX);
	STR_AUTO text = STR_INIT(REPLY_MAX);
	job_watch_describe(&data, job, (size_t)o->w.r->loop->server->options->stream_buffer);
	o->known = true;
	if (job->version < o->from || span_eq(str_view(&data), str_view(&o->shown)))
		return;
	sse_event(&text, "job", job->version, str_view(&data));
	job_watch_put(o, &text);
	str_done(&o->shown);
	o->shown = data;
	data = STR_INIT(REPLY_MAX);
	if (job_state_final(job->state))
		job_watch_end(o, "completed");
}

static void job_watch_show_gone(struct job_watch *o, const struct job_entry *job)
{
	STR_AUTO text = STR_INIT(REPLY_MAX);
	sse_put_deleted(&text, job);
	job_watch_put(o, &text);
	job_watch_end(o, "gone");
}

static void job_watch_look(struct job_watch *o)
{
	CACHE_VIEW_AUTO *view = cache_view(o->w.r->loop->server->cache);
	const struct job_entry *job = view_find(view, o->w.follower.name);
	if (job || !o->known) /* it came from the store; the cache will get it */
		job_watch_show(o, job ?: o->job);
	else
		job_watch_show_gone(o, o->job);
}

static void job_watch_changed(struct follower *f, const struct job_entry *now,
                              const struct job_entry *before, int64_t told)
{
	struct job_watch *o = (struct job_watch *)f;
	(void)told;
	if (o->w.over)
		return;
	if (now)
		job_watch_show(o, now);
	else
		job_watch_show_gone(o, before);
}

static void job_watch_lost(struct follower *f)
{
	struct job_watch *o = (struct job_watch *)f;
	if (!o->w.over)
		job_watch_look(o);
}

static void job_watch_last(struct stream *s, void *arg)
{
	job_watch_end(arg, stream_end_reason(s));
}

static void job_watch_release(void *arg)
{
	struct job_watch *o = arg;
	follower_end(o->w.r->loop->has->followers, &o->w.follower);
	str_done(&o->shown);
}

static void job_watch_begin(struct request *r, const struct job_entry *job)
{
	static const struct stream_calls CALLS = { .last = job_watch_last,
		                                   .heartbeat = watch_heartbeat,
		                                   .gone = job_watch_release,
		                                   .long_lived = true };
	struct job_watch *o = ARENA_NEW(&r->arena, struct job_watch, 1);
	*o = (struct job_watch){ .job = job, .shown = STR_INIT(REPLY_MAX) };
	o->w = (struct watch){ .follower = { .name = span_of(job->name),
		                             .changed = job_watch_changed,
		                             .lost = job_watch_lost },
		               .r = r };
	const char *id = request_header(r, "Last-Event-ID");
	int64_t heard = cache_heard_version(r->loop->server->cache);
	if (id &&
	    (parse_i64(span_of(id), 0, INT64_MAX, &o->from) < 0 || o->from - heard > AHEAD_MAX))
		o->from = 0;
	if (watch_open(&o->w, &CALLS, SPAN(SSE_RETRY "\n")))
		job_watch_look(o);
}

void job_watch(struct request *r)
{
	job_find(r, job_watch_begin);
}

/*
 * ---- all jobs ----
 *
 * First come the known jobs (those that changed while the client was away, or all), by version;
 * then changes.  A queue in front of the client's buffer keeps bursts from cutting the client off;
 * entries that have changed again meanwhile are skipped.
 *
 * The id of an event is a resourceVersion up to which the client knows everything; an event has no
 * id if earlier changes may still come.
 */

enum entry_kind {
	KNOWN,  /* state at the beginning */
	TOLD,   /* the client knows everything up to its version */
	UNTOLD, /* made by this server; earlier changes of other jobs may follow */
	GONE,
};

struct jobs_watch {
	struct watch w; /* first */
	struct cache *cache;
	struct job_query query;
	/* The queue: v[at..n); references. */
	struct watch_entry {
		const struct job_entry *job;
		enum entry_kind kind;
	} * v;
	size_t at, n, cap;
	size_t fresh;  /* entries that are not KNOWN */
	int64_t heard; /* version of the cache when KNOWN entries were added */
	int64_t id;    /* the last one that the client has */
};

static void jobs_watch_pop(struct jobs_watch *j)
{
	j->fresh -= j->v[j->at].kind != KNOWN;
	job_entry_drop(j->v[j->at++].job);
	if (j->at < j->n)
		return;
	free(TAKE(j->v));
	j->at = j->n = j->cap = 0;
}

static void jobs_watch_drop(struct jobs_watch *j)
{
	while (j->n)
		jobs_watch_pop(j);
}

/* false: there is no room. */
static bool jobs_watch_put(struct jobs_watch *j, const struct watch_entry *e)
{
	STR_AUTO data = STR_INIT(REPLY_MAX);
	STR_AUTO text = STR_INIT(REPLY_MAX);
	/* Ids only grow, also where a known job is reported again as a change. */
	bool told = e->kind == TOLD || (e->kind == KNOWN && e->job->version <= j->heard);
	int64_t id = told && e->job->version > j->id ? e->job->version : 0;
	if (e->kind == GONE) {
		sse_put_deleted(&text, e->job);
	} else {
		job_row(&data, e->job, NULL, false);
		if (!job_query_takes(&j->query, e->job) && data.n) {
			data.n--; /* the brace */
			str_puts(&data, ",\"left\":true}");
		}
		sse_event(&text, "job", id, str_view(&data));
	}
	if (!stream_put(j->w.stream, str_view(&text)))
		return false;
	j->id = id ? id : j->id;
	return true;
}

/* Moves entries from the queue to the client's buffer while there is room. */
static void jobs_watch_fill(struct jobs_watch *j)
{
	CACHE_VIEW_AUTO *now = j->n ? cache_view(j->cache) : NULL;
	while (j->n) {
		const struct watch_entry *e = &j->v[j->at];
		const struct job_entry *job = view_find(now, span_of(e->job->name));
		/* The cache holds a later state, which jobs_watch_changed will report unless it is
		 * equal.
		 */
		bool outdated =
		    e->kind != GONE && job != e->job && !(job && job_entry_same(job, e->job));
		if (!outdated && !jobs_watch_put(j, e))
			return;
		jobs_watch_pop(j);
	}
}

static void jobs_watch_add(struct jobs_watch *j, const struct job_entry *job, enum entry_kind kind)
{
	if (j->n == j->cap) {
		j->cap = j->cap ? 2 * j->cap : 16;
		j->v = xrealloc(j->v, j->cap * sizeof(j->v[0]));
	}
	j->v[j->n++] = (struct watch_entry){ job_entry_hold(job), kind };
	j->fresh += kind != KNOWN;
}

/* Replaces the queue by the known jobs that are newer than `version`. */
static void jobs_watch_add_known(struct jobs_watch *j, int64_t version)
{
	jobs_watch_drop(j);
	j->heard = cache_heard_version(j->cache);
	CACHE_VIEW_AUTO *view = cache_view(j->cache);
	struct view_walk walk = { .view = view };
	for (const struct job_entry *job; (job = view_next(&walk));)
		if (job->version > version && job_query_takes(&j->query, job))
			jobs_watch_add(j, job, KNOWN);
	if (j->n)
		qsort(j->v, j->n, sizeof(j->v[0]), version_compare);
}

static void jobs_watch_more(struct stream *s, void *arg)
{
	(void)s;
	jobs_watch_fill(arg);
}

static void jobs_watch_restart(struct jobs_watch *j)
{
	STR_AUTO text = STR_INIT(256);
	sse_event(&text, "reset", 0, SPAN("{}"));
	jobs_watch_drop(j);
	j->id = 0;
	if (stream_put(j->w.stream, str_view(&text)))
		jobs_watch_add_known(j, -1);
	else
		stream_cut(j->w.stream); /* it has not read for 10 000 changes */
}

static void jobs_watch_changed(struct follower *f, const struct job_entry *now,
                               const struct job_entry *before, int64_t told)
{
	struct jobs_watch *j = (struct jobs_watch *)f;
	bool was = before && job_query_takes(&j->query, before);
	if (j->w.over || (!was && !(now && job_query_takes(&j->query, now))))
		return;
	if (now && before && job_entry_same(now, before)) /* a change of tasks; rows show none */
		return;
	if (now && now->version <= j->id) /* another server, which was ahead, has told it */
		return;
	if (j->fresh == UPDATES_MAX)
		jobs_watch_restart(j);
	jobs_watch_add(j, now ? now : before, !now ? GONE : told ? TOLD : UNTOLD);
	jobs_watch_fill(j);
}

static void jobs_watch_lost(struct follower *f)
{
	struct jobs_watch *j = (struct jobs_watch *)f;
	if (!j->w.over)
		jobs_watch_restart(j);
}

static void jobs_watch_last(struct stream *s, void *arg)
{
	struct jobs_watch *j = arg;
	const struct followers *all = j->w.r->loop->has->followers;
	STR_AUTO text = STR_INIT(256);
	/* All changes up to here are in the queue, or were taken from it; if all have been told,
	 * events without id are not repeated at the next server. */
	int64_t heard = cache_heard_version(all->cache);
	int64_t id = !j->n && change_queue_empty(all->queue) ? heard : 0;
	j->w.over = true;
	jobs_watch_drop(j);
	if (id > j->id)
		str_printf(&text, "id: %ld\n", (long)id);
	sse_end(&text, stream_end_reason(s));
	(void)stream_put(s, str_view(&text)); /* without room, the stream ends without it */
}

static void jobs_watch_release(void *arg)
{
	struct jobs_watch *j = arg;
	follower_end(j->w.r->loop->has->followers, &j->w.follower);
	jobs_watch_drop(j);
}

/* clang-format off */
const struct parameter JOBS_WATCH[] = {
	{ .name = "initial", .values = "true|false",
	  .doc = "`true`: the current state of each job first." },
	{ .name = "Last-Event-ID", .header = true, .max = INT64_MAX - 1,
	  .doc = "The `id` of the last event that the client has received: the jobs that changed since come first." },
	{ .name = NULL },
};
const struct parameter JOB_WATCH[] = {
	{ .name = "Last-Event-ID", .header = true, .max = INT64_MAX - 1,
	  .doc = "The `id` of the last event that the client has received: no earlier state is sent." },
	{ .name = NULL },
};
/* clang-format on */

/* Reads the version to begin after; -1: all jobs; INT64_MAX: only future changes. */
static int jobs_watch_read_from(struct request *r, int64_t *from, struct err *e)
{
	struct span value;
	const char *id = request_header(r, "Last-Event-ID");
	*from = INT64_MAX;
	if (id && parse_i64(span_of(id), 0, INT64_MAX - 1, from) < 0)
		return err_set(e, INVALID_PARAMETERS,
		               "Last-Event-ID must be the id of an event, which is a number");
	if (!parameter_find(r, JOBS_WATCH, &value) || span_is(value, "false"))
		return 0;
	if (!span_is(value, "true"))
		return err_set(e, INVALID_PARAMETERS, "initial must be true or false");
	if (!id)
		*from = -1;
	return 0;
}

void jobs_watch(struct request *r)
{
	static const struct stream_calls CALLS = { .more = jobs_watch_more,
		                                   .last = jobs_watch_last,
		                                   .heartbeat = watch_heartbeat,
		                                   .gone = jobs_watch_release,
		                                   .long_lived = true };
	ERR_AUTO e = { 0 };
	STR_AUTO first = STR_INIT(256);
	int64_t from = INT64_MAX;
	struct jobs_watch *j = ARENA_NEW(&r->arena, struct jobs_watch, 1);
	j->cache = r->loop->server->cache;
	j->w =
	    (struct watch){ .follower = { .changed = jobs_watch_changed, .lost = jobs_watch_lost },
		            .r = r };
	if (job_query_read(&j->query, r->query, false, &r->arena, &e) < 0 ||
	    jobs_watch_read_from(r, &from, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	const char *problem = follow_problem(r->loop->server, &r->arena);
	if (problem) {
		answer_refuse(r, UNAVAILABLE, problem);
		return;
	}
	int64_t heard = cache_heard_version(j->cache);
	j->id = from == INT64_MAX ? heard : from < 0 ? 0 : from;
	str_puts(&first, SSE_RETRY);
	if (from == INT64_MAX) /* an id alone is not an event, but clients keep it */
		str_printf(&first, "id: %ld\n", (long)heard);
	str_char(&first, '\n');
	if (!watch_open(&j->w, &CALLS, str_view(&first)) || from == INT64_MAX)
		return;
	if (from - heard > AHEAD_MAX)
		jobs_watch_restart(j);
	else
		jobs_watch_add_known(j, from);
}
