/*
 * Waits for the end of a job, for `submit --wait`, `wait` and `logs`.  After each event of /watch
 * the client requests the job; without events it polls.  If the server does not answer, the client
 * retries for the fixed limit patience.
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
	struct log_mux *mux; /* NULL: without logs */
	bool quiet;          /* only logs, and why they do not begin */
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
	if (!w->term.block || !w->detail.n || w->quiet)
		return;
	const struct frame frame = {
		w->job, term_columns(), term_rows(), clock_wall_ms(), NULL, 0
	};
	progress_block(&block, &w->progress, &frame);
	term_block(&w->term, str_view(&block));
}

static void show_line(struct waiter *w)
{
	STR_AUTO line = STR_INIT(TEXT_MAX);
	progress_line(&line, &w->progress);
	if ((w->quiet ? w->progress.state != JOB_WAITING : w->term.block) ||
	    span_eq(str_view(&line), str_view(&w->line)))
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
	if (job_state_final(p.state) || (w->quiet && log_mux_over(w->mux)))
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
	if (w->quiet)
		return log_mux_missing(w->mux) ? EXIT_REFUSED : EXIT_OK;
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
	case INTERRUPTED:
		if (w->quiet)
			return EXIT_SERVER;
		break;
	case WAITING:
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

static void waiter_open(struct waiter *w, const struct log_wanted *logs, struct arena *a)
{
	w->path = remote_path(w->job, "", a);
	w->watch_path = remote_path(w->job, "/watch", a);
	w->lines = LINES_INIT(TEXT_MAX);
	w->line = (struct str)STR_INIT(TEXT_MAX);
	term_init(&w->term);
	w->mux = logs ? log_mux_new(w->remote, &w->term, logs) : NULL;
}

int wait_for_job(struct remote *r, const char *job, const struct log_wanted *logs, bool quiet)
{
	ARENA_AUTO arena = { 0 };
	sigset_t set;
	struct waiter w = { .remote = r, .job = job, .quiet = quiet };
	waiter_open(&w, logs, &arena);
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

int wait_for_logs(struct remote *r, struct span detail, const struct log_wanted *logs)
{
	struct waiter w = { .remote = r, .quiet = true, .signal_fd = -1 };
	struct log_mux *m;
	term_init(&w.term);
	w.mux = m = log_mux_new(r, &w.term, logs);
	log_mux_update(m, detail);
	while (!w.term.lost && !log_mux_idle(m) && clock_ms() < r->end_ms) {
		int64_t ms = log_mux_run_once(m);
		int64_t left = r->end_ms - clock_ms();
		client_run_once(r->client, ms < left ? ms : left, -1);
	}
	term_show(&w.term);
	int code = w.term.lost || !log_mux_idle(m) ? EXIT_SERVER
	           : log_mux_missing(m)            ? EXIT_REFUSED
	                                           : EXIT_OK;
	waiter_free(&w);
	return code;
}
