/*
 * `--wait` and `--logs`: waits for the end of a job.  After each event of /watch the client
 * requests the job; without events it polls.  If the server does not answer, the client retries for
 * the fixed limit patience.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json/scan.h"
#include "k8s/cache/job_entry.h"
#include "k8s/transport/store.h"
#include "server/cli/cli_internal.h"

/*
 * ---- logs ----
 *
 * Prints the logs of several tasks with "worker[0] | " before each line: one task of each role
 * first, then more, up to `max-logs`.
 *
 * A log is opened by a link, which is requested each time.  When a stream ends, the log is opened
 * again and the printed part is skipped.  After the end of a task its log is opened a last time:
 * the pod may have been removed early, and the server may have kept the end.
 */

enum {
	NAME_MAX_BYTES = 256,
	LINKS_MAX = 64 * 1024,
	LINKS_MS = 30000,
	LOST_MAX = 3,
	EARLY_MS = 2000,
	TIME_MAX = 40
};

enum stage { STAGE_REST, STAGE_LINKS, STAGE_STREAM, STAGE_OVER };

struct log_stream {
	struct log_mux *mux;
	char *role, *prefix;
	int64_t index;
	char *log, *next_log; /* paths; next_log: of a later attempt */
	bool done;            /* the task has ended */
	bool heard;           /* a stream of this attempt was opened */
	bool final;           /* the last stream was opened after the end of the task */
	enum stage stage;
	struct exchange *exchange;
	char *path; /* of the exchange */
	uint64_t printed, skip;
	uint64_t runtime; /* printed bytes that pai-runtime has written */
	uint64_t begin;   /* offset of the stream in the log */
	bool fresh;       /* new bytes came in this stream */
	unsigned failures;
	int64_t due_ms;
	struct lines lines;
};

struct log_mux {
	struct remote *remote;
	struct term *term;
	struct log_stream *stream;
	size_t n, max;
	bool told; /* printed that there are more tasks */
};

/* ---- one stream ------------------------------------------------------------------------------ */

/* "[time] [openpai-runtime] ..." */
static bool is_runtime(struct span line)
{
	size_t at = span_find(line, 0, "] [openpai-runtime] ");
	return line.n && line.p[0] == '[' && at < TIME_MAX;
}

static void stream_print_line(void *arg, struct span line, bool cut)
{
	struct log_stream *v = arg;
	if (is_runtime(line))
		v->runtime += line.n + 1;
	term_log(v->mux->term, v->prefix, line, cut);
}

static bool stream_take_piece(void *arg, struct span bytes)
{
	struct log_stream *v = arg;
	size_t known = v->skip < bytes.n ? (size_t)v->skip : bytes.n;
	v->skip -= known;
	bytes = (struct span){ bytes.p + known, bytes.n - known };
	v->fresh |= bytes.n > 0;
	v->printed += bytes.n;
	lines_feed(&v->lines, bytes, stream_print_line, v);
	return !v->mux->term->lost;
}

/* Ends the log of an attempt; continues with the next one, if any. */
static void stream_end_attempt(struct log_stream *v)
{
	lines_end(&v->lines, stream_print_line, v);
	v->stage = STAGE_OVER;
	if (!v->next_log)
		return;
	free(v->log);
	v->log = TAKE(v->next_log);
	v->printed = v->runtime = 0;
	v->heard = v->final = false;
	v->failures = 0;
	v->due_ms = 0;
	v->stage = STAGE_REST;
}

static void stream_retry(struct log_stream *v, const struct client_answer *a)
{
	v->failures++;
	v->stage = STAGE_REST;
	v->due_ms = clock_ms() + remote_pause_ms(a, v->failures + 1);
}

/* The log is not complete.  It may not exist yet, or no longer. */
static void stream_failed(struct log_stream *v, const struct client_answer *a)
{
	bool lasting = a->hopeless || a->status == 401 || a->status == 403;
	bool gone = v->next_log || (v->done && (!remote_may_retry(a) || v->failures >= LOST_MAX));
	if (!lasting && !gone) {
		stream_retry(v, a);
		if (a->status == 404) /* the pod is being created: poll */
			v->due_ms = clock_ms() + EARLY_MS;
		return;
	}
	if (lasting || (v->printed == 0 && !v->heard)) {
		ERR_AUTO e = { 0 };
		STR_AUTO text = STR_INIT(LINKS_MAX);
		remote_error(v->mux->remote, a, &e);
		str_printf(&text, "no log of %s[%lld]: %s", v->role, (long long)v->index,
		           err_msg(&e));
		term_print_time(v->mux->term, str_view(&text));
	}
	stream_end_attempt(v);
}

static void stream_ended(void *arg, const struct client_answer *a)
{
	struct log_stream *v = arg;
	v->exchange = NULL;
	bool over = v->done || v->next_log;
	bool whole = !a->problem && a->status / 100 == 2;
	if (v->fresh)
		v->failures = 0;
	v->heard |= whole;
	if (!whole)
		stream_failed(v, a);
	else if (over && v->final)
		stream_end_attempt(v);
	else
		stream_retry(v, a);
	if (whole && over && v->stage == STAGE_REST && !v->final)
		v->due_ms = 0;
}

static void stream_start(struct log_stream *v, enum stage stage, const struct client_call *call)
{
	ERR_AUTO e = { 0 };
	v->stage = stage;
	v->exchange = client_start(v->mux->remote->client, call, &e);
	if (!v->exchange)
		stream_retry(v, &(struct client_answer){ 0 });
}

static void stream_open_link(struct log_stream *v, struct span uri)
{
	free(v->path);
	v->path = xasprintf("%.*s%sfollow=true", (int)uri.n, uri.p,
	                    memchr(uri.p, '?', uri.n) ? "&" : "?");
	v->skip = v->printed - v->begin;
	v->fresh = false;
	const struct client_call call = { .method = "GET",
		                          .path = v->path,
		                          .link = true,
		                          .max = LINKS_MAX,
		                          .piece = stream_take_piece,
		                          .ended = stream_ended,
		                          .arg = v };
	stream_start(v, STAGE_STREAM, &call);
}

/* The link to "all", else the first.  Only paths of this server are accepted. */
static struct span choose_link(struct span body, struct arena *a)
{
	struct span chosen = { "", 0 };
	struct scan walk = scan_begin(scan_get(body, "locations"));
	for (struct span place; scan_item(&walk, &place);) {
		struct span uri = scan_text(scan_get(place, "uri"), a);
		bool all = span_is(scan_text(scan_get(place, "name"), a), "all");
		if (uri.n > 1 && uri.p[0] == '/' && uri.p[1] != '/' && (all || !chosen.n))
			chosen = uri;
	}
	return chosen;
}

/* The log of a pod is complete.  A kept output begins later, and lacks the lines of pai-runtime. */
static void find_begin(struct log_stream *v, struct span body)
{
	int64_t dropped;
	v->begin = 0;
	if (!scan_int(scan_get(body, "dropped"), 0, INT64_MAX, &dropped))
		return;
	v->begin = (uint64_t)dropped;
	v->printed -= v->runtime < v->printed ? v->runtime : v->printed;
	v->runtime = 0;
	if (v->printed < v->begin)
		v->printed = v->begin;
}

static void links_ended(void *arg, const struct client_answer *a)
{
	struct log_stream *v = arg;
	ARENA_AUTO arena = { 0 };
	struct span uri = { "", 0 };
	v->exchange = NULL;
	bool good = a->status / 100 == 2 && !a->problem && scan_valid(a->body, 16);
	if (good) {
		uri = choose_link(a->body, &arena);
		find_begin(v, a->body);
	}
	if (uri.n)
		stream_open_link(v, uri);
	else
		stream_failed(v, a);
}

static void ask_for_links(struct log_stream *v)
{
	v->final = v->done || v->next_log;
	const struct client_call call = { .method = "GET",
		                          .path = v->log,
		                          .max = LINKS_MAX,
		                          .timeout_ms = LINKS_MS,
		                          .ended = links_ended,
		                          .arg = v };
	stream_start(v, STAGE_LINKS, &call);
}

/* ---- choice of tasks ------------------------------------------------------------------------- */

static struct log_stream *log_mux_find(struct log_mux *m, const char *role, int64_t index)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->stream[i].index == index && strcmp(m->stream[i].role, role) == 0)
			return &m->stream[i];
	return NULL;
}

static void log_mux_add(struct log_mux *m, const char *role, int64_t index)
{
	struct log_stream *v = &m->stream[m->n++];
	*v = (struct log_stream){
		.mux = m, .role = xstrdup(role), .index = index, .stage = STAGE_OVER
	};
	v->prefix = xasprintf("%s[%lld] | ", role, (long long)index);
	v->lines = LINES_INIT((size_t)m->remote->o->max_line);
}

/* The name is in every line: short and visible. */
static const char *log_mux_role_name(struct span name, struct arena *a)
{
	STR_AUTO out = STR_INIT((size_t)8 * NAME_MAX_BYTES);
	name.n = name.n > NAME_MAX_BYTES ? NAME_MAX_BYTES : name.n;
	visible_text(&out, name);
	return arena_dup(a, str_view(&out));
}

static bool task_index(struct span task, int64_t *index)
{
	return scan_int(scan_get(task, "taskIndex"), 0, INT32_MAX, index);
}

/* Adds the n-th task of each role.  Returns the number of roles that have one. */
static size_t log_mux_add_round(struct log_mux *m, struct span roles, size_t round, struct arena *a)
{
	struct scan walk = scan_begin(roles);
	size_t tasks = 0;
	for (struct span name, role; scan_member(&walk, &name, &role);) {
		struct scan items = scan_begin(scan_get(role, "taskStatuses"));
		struct span task;
		int64_t index;
		size_t i = 0;
		while (i <= round && scan_item(&items, &task))
			i++;
		if (i <= round || !task_index(task, &index))
			continue;
		tasks++;
		const char *text = log_mux_role_name(name, a);
		if (m->n < m->max && !log_mux_find(m, text, index))
			log_mux_add(m, text, index);
	}
	return tasks;
}

static size_t log_mux_count_tasks(struct span roles)
{
	size_t n = 0;
	struct scan walk = scan_begin(roles);
	for (struct span name, role; scan_member(&walk, &name, &role);)
		n += scan_count(scan_get(role, "taskStatuses"));
	return n;
}

static void log_mux_tell_which(struct log_mux *m, size_t tasks)
{
	STR_AUTO text = STR_INIT((size_t)2 * NAME_MAX_BYTES * (m->n + 1));
	m->told = true;
	str_puts(&text, "logs of ");
	for (size_t i = 0; i < m->n; i++)
		str_printf(&text, "%s%s[%lld]", i ? ", " : "", m->stream[i].role,
		           (long long)m->stream[i].index);
	str_printf(&text, "; not of %zu other tasks", tasks - m->n);
	term_print_time(m->term, str_view(&text));
}

static void log_mux_choose(struct log_mux *m, struct span roles, struct arena *a)
{
	for (size_t round = 0; m->n < m->max && round < m->max; round++)
		if (log_mux_add_round(m, roles, round, a) == 0)
			break;
	size_t tasks = m->told || m->n < m->max ? 0 : log_mux_count_tasks(roles);
	if (tasks > m->n)
		log_mux_tell_which(m, tasks);
}

static void stream_update(struct log_stream *v, struct span task, struct arena *a)
{
	enum job_state state = job_state_named(scan_text(scan_get(task, "taskState"), a));
	struct span log = scan_text(scan_get(task, "containerLog"), a);
	v->done = job_state_final(state);
	bool placed = scan_type(scan_get(task, "containerNodeName")) == SCAN_STRING;
	if ((state == JOB_WAITING && !placed) || log.n < 2 || log.p[0] != '/')
		return;
	if (v->log && span_is(log, v->log))
		return;
	free(v->next_log);
	v->next_log = xstrndup(log.p, log.n);
	if (v->stage == STAGE_OVER)
		stream_end_attempt(v);
}

static void log_mux_update(struct log_mux *m, struct span detail)
{
	ARENA_AUTO arena = { 0 };
	struct span roles = scan_get(detail, "taskRoles");
	log_mux_choose(m, roles, &arena);
	struct scan walk = scan_begin(roles);
	for (struct span name, role; scan_member(&walk, &name, &role);) {
		const char *text = log_mux_role_name(name, &arena);
		struct scan items = scan_begin(scan_get(role, "taskStatuses"));
		struct log_stream *v;
		int64_t index;
		for (struct span task; scan_item(&items, &task);)
			if (task_index(task, &index) && (v = log_mux_find(m, text, index)))
				stream_update(v, task, &arena);
	}
}

static int64_t log_mux_run_once(struct log_mux *m)
{
	int64_t next = INT64_MAX;
	for (struct log_stream *v = m->stream; v < m->stream + m->n; v++) {
		if (v->stage != STAGE_REST)
			continue;
		int64_t left = v->due_ms - clock_ms();
		if (left <= 0)
			ask_for_links(v);
		else if (left < next)
			next = left;
	}
	return next;
}

static bool log_mux_idle(const struct log_mux *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->stream[i].stage != STAGE_OVER)
			return false;
	return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct log_mux *log_mux_new(struct remote *r, struct term *s)
{
	struct log_mux *m = xcalloc(1, sizeof(*m));
	*m = (struct log_mux){ .remote = r, .term = s, .max = (size_t)r->o->max_logs };
	m->stream = xcalloc(m->max, sizeof(*m->stream));
	return m;
}

static void log_mux_free(struct log_mux *m)
{
	if (!m)
		return;
	for (struct log_stream *v = m->stream; v < m->stream + m->n; v++) {
		if (v->exchange)
			client_stop(v->exchange);
		lines_end(&v->lines, stream_print_line, v);
		lines_done(&v->lines);
		free(v->role);
		free(v->prefix);
		free(v->log);
		free(v->next_log);
		free(v->path);
	}
	free(m->stream);
	free(m);
}

/* ---- the job ---- */

enum {
	SECOND = 1000,
	DETAIL_MAX = 128 << 20,
	DETAIL_MS = 60000,
	TEXT_MAX = 256 * 1024,
	GAP_MS = 500, /* between requests, or CALM times the duration of one */
	CALM = 5,
	POLL_MS = 2000,  /* without events */
	WHY_MS = 5000,   /* waitingReason changes without an event */
	SURE_MS = 30000, /* with events, as a fallback */
	DRAW_MS = 1000,
	DRAIN_MS = 15000, /* for logs, after the end */
	SILENCE_S = 120   /* of events; servers send a heartbeat every 30 s */
};

enum reason { WAITING, ENDED, GONE, REFUSED, NO_SERVER, TIME_OVER, INTERRUPTED, NO_OUTPUT };

struct waiter {
	struct remote *remote;
	const char *job, *path, *watch_path;
	struct term term;
	struct log_mux *mux; /* NULL without --logs */
	int signal_fd;
	enum reason reason;
	struct err e; /* for REFUSED and NO_SERVER */

	struct exchange *asking;
	int64_t asked_ms, came_ms, due_ms; /* requests for the job */
	bool changed;                      /* since the last request */
	unsigned failures;
	int64_t bad_ms; /* since when requests fail */
	bool told;      /* the failure was printed */

	struct exchange *watching;
	bool no_events;   /* the server does not support events */
	int64_t watch_ms; /* time of the next request */
	unsigned watch_failures;
	struct lines lines;
	bool data; /* the current event has data */

	struct arena arena; /* of detail and progress */
	struct span detail;
	struct progress progress;
	struct str line; /* the last line printed */
};

static void waiter_stop(struct waiter *w, enum reason reason)
{
	if (w->reason == WAITING)
		w->reason = reason;
}

static void due_at(struct waiter *w, int64_t ms)
{
	if (ms < w->due_ms)
		w->due_ms = ms;
}

/* ---- display --------------------------------------------------------------------------------- */

static void waiter_tell(struct waiter *w, const char *text)
{
	term_print_time(&w->term, span_of(text));
}

static void draw(struct waiter *w)
{
	STR_AUTO block = STR_INIT(TEXT_MAX);
	if (!w->term.block || !w->detail.n)
		return;
	const struct frame frame = { w->job, term_columns(), term_rows(), clock_wall_ms() };
	progress_block(&block, &w->progress, &frame);
	term_block(&w->term, str_view(&block));
}

static void show_line(struct waiter *w)
{
	STR_AUTO line = STR_INIT(TEXT_MAX);
	progress_line(&line, &w->progress);
	if (w->term.block || span_eq(str_view(&line), str_view(&w->line)))
		return;
	term_print_time(&w->term, str_view(&line));
	w->line.n = 0;
	str_span(&w->line, str_view(&line));
}

/* ---- the job --------------------------------------------------------------------------------- */

static void take_detail(struct waiter *w, struct span body)
{
	struct arena fresh = { 0 };
	struct progress p;
	ERR_AUTO e = { 0 };
	struct span detail = arena_span(&fresh, body);
	if (progress_read(&p, detail, &fresh, &e) < 0) {
		arena_done(&fresh);
		waiter_stop(w, NO_SERVER);
		err_move(&w->e, &e);
		return;
	}
	arena_done(&w->arena);
	w->arena = fresh;
	w->detail = detail;
	w->progress = p;
	show_line(w);
	if (w->mux)
		log_mux_update(w->mux, detail);
	if (job_state_final(p.state))
		waiter_stop(w, ENDED);
}

static void no_detail(struct waiter *w, const struct client_answer *a)
{
	ERR_AUTO e = { 0 };
	STR_AUTO text = STR_INIT(TEXT_MAX);
	int64_t now = clock_ms();
	remote_error(w->remote, a, &e);
	w->bad_ms = w->failures ? w->bad_ms : now;
	if (remote_may_retry(a) && now - w->bad_ms < w->remote->o->patience_s * SECOND) {
		w->due_ms = now + remote_pause_ms(a, ++w->failures);
		str_printf(&text, "%s; trying again", err_msg(&e));
		if (!w->told)
			term_print_time(&w->term, str_view(&text));
		w->told = true;
		return;
	}
	waiter_stop(w, a->status == 404                ? GONE
	               : remote_exit(&e) == EXIT_USAGE ? REFUSED
	                                               : NO_SERVER);
	err_move(&w->e, &e);
}

/* The earliest time of the next request. */
static int64_t waiter_next_ms(const struct waiter *w)
{
	int64_t gap = CALM * (w->came_ms - w->asked_ms);
	return w->came_ms + (gap > GAP_MS ? gap : GAP_MS);
}

static void detail_came(void *arg, const struct client_answer *a)
{
	struct waiter *w = arg;
	w->asking = NULL;
	w->came_ms = clock_ms();
	if (a->status != 200 || a->problem) {
		no_detail(w, a);
		return;
	}
	w->failures = 0;
	if (w->told)
		waiter_tell(w, "the server answers again");
	w->told = false;
	take_detail(w, a->body);
	w->due_ms = w->came_ms + (!w->watching                       ? POLL_MS
	                          : w->progress.state == JOB_WAITING ? WHY_MS
	                                                             : SURE_MS);
	if (w->changed)
		due_at(w, waiter_next_ms(w));
}

static void waiter_ask(struct waiter *w)
{
	const struct client_call call = { .method = "GET",
		                          .path = w->path,
		                          .max = DETAIL_MAX,
		                          .timeout_ms = DETAIL_MS,
		                          .ended = detail_came,
		                          .arg = w };
	w->asked_ms = clock_ms();
	w->due_ms = INT64_MAX;
	w->changed = false;
	w->asking = client_start(w->remote->client, &call, &w->e);
	if (!w->asking)
		waiter_stop(w, NO_SERVER);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* An empty line ends an event; comments are heartbeats. */
static void take_event_line(void *arg, struct span line, bool cut)
{
	struct waiter *w = arg;
	(void)cut; /* only the fact matters */
	if (line.n) {
		w->data |= span_starts(line, "data:");
		return;
	}
	w->changed |= w->data;
	if (w->data && !w->asking)
		due_at(w, waiter_next_ms(w));
	w->data = false;
}

static bool take_events(void *arg, struct span bytes)
{
	struct waiter *w = arg;
	w->watch_failures = 0;
	lines_feed(&w->lines, bytes, take_event_line, w);
	return true;
}

static void events_ended(void *arg, const struct client_answer *a)
{
	struct waiter *w = arg;
	w->watching = NULL;
	w->no_events = a->status >= 400 && !remote_may_retry(a);
	w->watch_ms = clock_ms() + remote_pause_ms(a, ++w->watch_failures);
	lines_done(&w->lines);
	w->lines = LINES_INIT(TEXT_MAX);
	w->data = false;
	due_at(w, clock_ms() + POLL_MS);
}

static void waiter_watch(struct waiter *w)
{
	const struct client_call call = { .method = "GET",
		                          .path = w->watch_path,
		                          .max = TEXT_MAX,
		                          .silence_s = SILENCE_S,
		                          .piece = take_events,
		                          .ended = events_ended,
		                          .arg = w };
	ERR_AUTO e = { 0 };
	w->watching = client_start(w->remote->client, &call, &e);
	w->no_events = !w->watching;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void look_at_signals(struct waiter *w)
{
	struct signalfd_siginfo info;
	if (read(w->signal_fd, &info, sizeof(info)) == sizeof(info))
		waiter_stop(w, INTERRUPTED);
}

static void waiter_shorten(int64_t *ms, int64_t at_ms, int64_t now)
{
	if (at_ms != INT64_MAX && at_ms - now < *ms)
		*ms = at_ms - now;
}

/* Waits for I/O, for a limited time. */
static void waiter_run_once(struct waiter *w)
{
	int64_t now = clock_ms();
	int64_t ms = SURE_MS;
	int64_t logs = w->mux ? log_mux_run_once(w->mux) : INT64_MAX;
	waiter_shorten(&ms, logs == INT64_MAX ? logs : now + logs, now);
	waiter_shorten(&ms, w->asking ? INT64_MAX : w->due_ms, now);
	waiter_shorten(&ms, w->watching || w->no_events ? INT64_MAX : w->watch_ms, now);
	waiter_shorten(&ms, w->remote->end_ms, now);
	if (w->term.block)
		waiter_shorten(&ms, now + DRAW_MS, now);
	draw(w);
	term_show(&w->term);
	client_run_once(w->remote->client, ms, w->signal_fd);
	look_at_signals(w);
	if (w->term.lost)
		waiter_stop(w, NO_OUTPUT);
	if (clock_ms() >= w->remote->end_ms)
		waiter_stop(w, TIME_OVER);
}

static void waiter_run(struct waiter *w)
{
	while (w->reason == WAITING) {
		int64_t now = clock_ms();
		if (!w->asking && now >= w->due_ms)
			waiter_ask(w);
		if (!w->watching && !w->no_events && now >= w->watch_ms)
			waiter_watch(w);
		waiter_run_once(w);
	}
}

/* Waits for the rest of the logs. */
static void waiter_drain(struct waiter *w)
{
	int64_t end = clock_ms() + DRAIN_MS;
	end = end < w->remote->end_ms ? end : w->remote->end_ms;
	w->reason = WAITING;
	w->due_ms = w->watch_ms = INT64_MAX;
	if (w->watching)
		client_stop(TAKE(w->watching));
	while (w->reason == WAITING && clock_ms() < end && !log_mux_idle(w->mux))
		waiter_run_once(w);
	if (!log_mux_idle(w->mux))
		waiter_tell(w, "the rest of the logs is skipped");
	w->reason = ENDED;
}

/* ---- result ---------------------------------------------------------------------------------- */

static void waiter_say(struct waiter *w, const char *what)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_printf(&text, "%s; %s goes on; to stop it: rest-lit stop %s", what, w->job, w->job);
	term_print(&w->term, str_view(&text));
}

static int waiter_verdict(struct waiter *w)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	progress_verdict(&text, &w->progress, w->job);
	struct span view = str_view(&text);
	view.n -= view.n > 0; /* the last LF */
	term_print(&w->term, view);
	return w->progress.state == JOB_SUCCEEDED ? EXIT_OK : EXIT_REFUSED;
}

static int waiter_conclude(struct waiter *w)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	switch (w->reason) {
	case ENDED:
		return waiter_verdict(w);
	case GONE:
		str_printf(&text, "%s was deleted", w->job);
		term_print(&w->term, str_view(&text));
		return EXIT_REFUSED;
	case REFUSED:
	case NO_SERVER:
		waiter_say(w, err_msg(&w->e));
		return w->reason == REFUSED ? EXIT_USAGE : EXIT_SERVER;
	case TIME_OVER:
		waiter_say(w, "--timeout is over");
		return EXIT_SERVER;
	case NO_OUTPUT:
		waiter_say(w, "writing to standard output failed");
		return EXIT_SERVER;
	case WAITING:
	case INTERRUPTED:
		break;
	}
	waiter_say(w, "interrupted");
	return EXIT_SERVER;
}

static void waiter_free(struct waiter *w)
{
	if (w->asking)
		client_stop(w->asking);
	if (w->watching)
		client_stop(w->watching);
	log_mux_free(w->mux);
	lines_done(&w->lines);
	term_done(&w->term);
	str_done(&w->line);
	arena_done(&w->arena);
	err_done(&w->e);
	if (w->signal_fd >= 0)
		(void)close(w->signal_fd); /* read only */
}

int wait_for_job(struct remote *r, const char *job, bool logs)
{
	ARENA_AUTO arena = { 0 };
	sigset_t set;
	struct waiter w = { .remote = r, .job = job };
	w.path = remote_path(job, "", &arena);
	w.watch_path = remote_path(job, "/watch", &arena);
	w.lines = LINES_INIT(TEXT_MAX);
	w.line = (struct str)STR_INIT(TEXT_MAX);
	term_init(&w.term);
	w.mux = logs ? log_mux_new(r, &w.term) : NULL;
	(void)sigemptyset(&set);                      /* cannot fail */
	(void)sigaddset(&set, SIGINT);                /* the same */
	(void)sigaddset(&set, SIGTERM);               /* the same */
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* the same */
	w.signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	waiter_run(&w);
	if (w.reason == ENDED && w.mux)
		waiter_drain(&w);
	int code = waiter_conclude(&w);
	waiter_free(&w);
	return code;
}
