/*
 * Waits for the end of a job, for `run`, `submit --wait`, `wait` and `logs`.  After each event of
 * /watch the client requests the job; without events it polls.  If the server does not answer, the
 * client retries for the fixed limit patience.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/cache/job_entry.h"
#include "jobs/store/store.h"
#include "machine/engine/engine.h"
#include "server/cli/cli_internal.h"

/* ---- the job ---- */

enum {
	SECOND = 1000,
	DETAIL_MAX = 128 << 20,
	DETAIL_MS = 60000,
	TEXT_MAX = 256 * 1024,
	SURE_MS = 30000, /* with events, as a fallback */
	DRAW_MS = 1000,
	DRAIN_MS = 15000, /* for logs of a server, after the end */
	SILENCE_S = 120   /* of events; servers send a heartbeat every 30 s */
};

enum wait_end {
	WAITING,
	ENDED,
	GONE,
	REFUSED,
	NO_SERVER,
	TIME_OVER,
	INTERRUPTED,
	NO_OUTPUT,
	OWN_END /* `code`, or the tasks were killed */
};

struct job_waiter {
	struct remote *remote;
	const char *path, *watch_path;
	struct live_view view;
	struct log_mux *mux; /* NULL: without logs */
	int signal_fd;
	enum wait_end reason;
	struct err e; /* for REFUSED and NO_SERVER */

	/* Only for a job that ends with this process. */
	const struct own_server *own; /* NULL: it does not */
	struct client_call stop;
	struct client_exchange *stopping;
	bool interrupted; /* it is being stopped */
	uint32_t signo;   /* by this signal; 0: none */
	bool keeps;       /* `mux` only keeps the last lines */
	int code;         /* for OWN_END; -1: none */

	struct client_exchange *asking;
	int64_t asked_ms, came_ms, due_ms; /* requests for the job */
	int64_t bad_ms;                    /* since when requests fail */
	unsigned failures;
	bool told;    /* the failure was printed */
	bool changed; /* since the last request */

	struct client_exchange *watching;
	bool no_events;   /* the server has refused them for good */
	int64_t watch_ms; /* time of the next request */
	unsigned watch_failures;
};

static void waiter_stop(struct job_waiter *w, enum wait_end reason)
{
	if (w->reason == WAITING)
		w->reason = reason;
}

static void waiter_set_due(struct job_waiter *w, int64_t ms)
{
	if (ms < w->due_ms)
		w->due_ms = ms;
}

/* ---- the job --------------------------------------------------------------------------------- */

static void waiter_note_failure(struct job_waiter *w, const struct client_answer *a)
{
	ERR_AUTO e = { 0 };
	int64_t now = clock_ms();
	remote_error(w->remote, a, &e);
	w->bad_ms = w->failures ? w->bad_ms : now;
	if (remote_may_retry(a) && now - w->bad_ms < w->remote->o->patience_s * SECOND) {
		w->due_ms = now + remote_pause_ms(w->remote, a, ++w->failures);
		if (!w->told)
			term_message(&w->view.term, "%s; trying again", err_msg(&e));
		w->told = true;
		return;
	}
	waiter_stop(w, a->status == 404                ? GONE
	               : remote_exit(&e) == EXIT_USAGE ? REFUSED
	                                               : NO_SERVER);
	err_move(&w->e, &e);
}

/* The time of the next request, after this pause at least. */
static int64_t waiter_next_ms(const struct job_waiter *w, int64_t pause_ms)
{
	int64_t gap = w->remote->pace->calm * (w->came_ms - w->asked_ms);
	return w->came_ms + (gap > pause_ms ? gap : pause_ms);
}

static void waiter_show(struct job_waiter *w)
{
	ARENA_AUTO arena = { 0 };
	const struct task_progress *tasks = NULL;
	size_t n = w->keeps ? log_mux_tasks(w->mux, &arena, &tasks) : 0;
	view_show(&w->view, tasks, n);
}

static void waiter_take_detail(void *arg, const struct client_answer *a)
{
	struct job_waiter *w = arg;
	w->asking = NULL;
	w->came_ms = clock_ms();
	if (a->status != 200 || a->problem) {
		waiter_note_failure(w, a);
		return;
	}
	w->failures = 0;
	if (w->told)
		term_message(&w->view.term, "the server answers again");
	w->told = false;
	ERR_AUTO e = { 0 };
	if (view_take(&w->view, a->body, &e) < 0) {
		waiter_stop(w, NO_SERVER);
		err_move(&w->e, &e);
	} else {
		waiter_show(w);
		bool over = w->mux && log_mux_update(w->mux, w->view.detail);
		if (job_state_final(w->view.progress.state) || (w->view.quiet && over))
			waiter_stop(w, ENDED);
	}
	const struct pace *pace = w->remote->pace;
	w->due_ms = waiter_next_ms(w, !w->watching                            ? pace->poll
	                              : w->view.progress.state == JOB_WAITING ? pace->why
	                                                                      : SURE_MS);
	if (w->changed)
		waiter_set_due(w, waiter_next_ms(w, pace->gap));
}

static void waiter_ask(struct job_waiter *w)
{
	const struct client_call call = { .method = "GET",
		                          .path = w->path,
		                          .max = DETAIL_MAX,
		                          .timeout_ms = DETAIL_MS,
		                          .ended = waiter_take_detail,
		                          .arg = w };
	w->asked_ms = clock_ms();
	w->due_ms = INT64_MAX;
	w->changed = false;
	w->asking = client_start(w->remote->client, &call, &w->e);
	if (!w->asking)
		waiter_stop(w, NO_SERVER);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Any event is a reason to look; comments are heartbeats. */
static bool take_events(void *arg, struct span bytes)
{
	struct job_waiter *w = arg;
	w->watch_failures = 0;
	if (bytes.p[0] == ':' && span_find(bytes, 0, "data:") == SIZE_MAX)
		return true;
	w->changed = true;
	if (!w->asking)
		waiter_set_due(w, waiter_next_ms(w, w->remote->pace->gap));
	return true;
}

static void events_ended(void *arg, const struct client_answer *a)
{
	struct job_waiter *w = arg;
	w->watching = NULL;
	w->no_events = a->status >= 400 && !remote_may_retry(a);
	w->watch_ms = clock_ms() + remote_pause_ms(w->remote, a, ++w->watch_failures);
	waiter_set_due(w, clock_ms() + w->remote->pace->poll);
}

static void waiter_watch(struct job_waiter *w)
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

/* ---- a job of this process ------------------------------------------------------------------- */

static void waiter_kill(struct job_waiter *w)
{
	engine_kill(w->own->engine);
	waiter_stop(w, OWN_END);
}

static void stop_answered(void *arg, const struct client_answer *a)
{
	struct job_waiter *w = arg;
	ERR_AUTO e = { 0 };
	w->stopping = NULL;
	if (a->status == 202 && !a->problem)
		return;
	remote_error(w->remote, a, &e);
	term_message(&w->view.term, "the job cannot be stopped, its tasks are killed: %s",
	             err_msg(&e));
	waiter_kill(w);
}

static void waiter_stop_job(struct job_waiter *w, const char *why)
{
	if (w->interrupted)
		return;
	w->interrupted = true;
	term_message(&w->view.term, "%s: stopping %s; Ctrl-C%s kills its tasks at once", why,
	             w->view.job, why[0] == 'C' ? " again" : "");
	w->stop.ended = stop_answered;
	w->stop.arg = w;
	w->stop.timeout_ms = DETAIL_MS;
	w->stopping = client_start(w->remote->client, &w->stop, &w->e);
	if (!w->stopping)
		waiter_kill(w);
}

static void waiter_take_signal(struct job_waiter *w, uint32_t signo)
{
	w->signo = w->signo ?: signo;
	if (!w->own || job_state_final(w->view.progress.state)) {
		waiter_stop(w, INTERRUPTED);
	} else if (w->interrupted && signo == SIGINT) {
		term_message(&w->view.term, "Ctrl-C again: the tasks are killed");
		waiter_kill(w);
	} else {
		waiter_stop_job(w, signo == SIGINT   ? "Ctrl-C"
		                   : signo == SIGHUP ? "the terminal is closed"
		                                     : "SIGTERM");
	}
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void waiter_shorten(int64_t *ms, int64_t at_ms, int64_t now)
{
	if (at_ms != INT64_MAX && at_ms - now < *ms)
		*ms = at_ms - now;
}

/* Waits for I/O, for a limited time. */
static void waiter_run_once(struct job_waiter *w)
{
	int64_t now = clock_ms();
	struct signalfd_siginfo info;
	int64_t ms = SURE_MS;
	int64_t logs = w->mux ? log_mux_run_once(w->mux) : INT64_MAX;
	waiter_shorten(&ms, logs == INT64_MAX ? logs : now + logs, now);
	waiter_shorten(&ms, w->asking ? INT64_MAX : w->due_ms, now);
	waiter_shorten(&ms, w->watching || w->no_events ? INT64_MAX : w->watch_ms, now);
	waiter_shorten(&ms, w->remote->end_ms, now);
	if (w->view.term.block || w->own)
		waiter_shorten(&ms, now + DRAW_MS, now);
	if (w->own && w->code < 0)
		w->code = w->own->look(w->own->arg, w->remote, &w->view);
	if (w->code >= 0)
		waiter_stop(w, OWN_END);
	waiter_show(w);
	client_run_once(w->remote->client, ms, w->signal_fd);
	if (read(w->signal_fd, &info, sizeof(info)) == sizeof(info))
		waiter_take_signal(w, info.ssi_signo);
	if (w->view.term.lost && w->own && !job_state_final(w->view.progress.state))
		waiter_stop_job(w, "writing to standard output failed");
	else if (w->view.term.lost)
		waiter_stop(w, NO_OUTPUT);
	if (clock_ms() >= w->remote->end_ms)
		waiter_stop(w, TIME_OVER);
}

/* Reads the logs to their ends, and nothing else. */
static void waiter_drain(struct job_waiter *w, int64_t end)
{
	w->reason = WAITING;
	w->due_ms = w->watch_ms = INT64_MAX;
	if (w->watching)
		client_stop(TAKE(w->watching));
	while (w->reason == WAITING && clock_ms() < end && !log_mux_idle(w->mux))
		waiter_run_once(w);
	term_show(&w->view.term, str_view(&w->view.term.text)); /* the last lines */
}

/* ---- result ---------------------------------------------------------------------------------- */

/* The last lines of the task that failed first say more than the diagnostics, which quote them. */
static int waiter_verdict(struct job_waiter *w)
{
	STR_AUTO tail = STR_INIT(TEXT_MAX);
	struct progress *p = &w->view.progress;
	bool tails = p->state == JOB_FAILED && (w->own || w->keeps);
	p->brief = tails && log_mux_tail(w->mux, &tail, p->failed);
	return view_verdict(&w->view, str_view(&tail));
}

/* For the command of `run`: only its exit code, unless rest-lit or the machine has failed. */
static int waiter_conclude_command(struct job_waiter *w)
{
	enum { SIGNALLED = 128, SIGNALLED_MAX = 159, CODE_MAX = 255 };
	const enum job_state state = w->view.progress.state;
	struct span status = w->view.progress.status;
	int64_t code = EXIT_NO_COMMAND;
	bool known = state == JOB_FAILED &&
	             scan_int(scan_path(status, "appExitMessages", "runtime", "originUserExitCode"),
	                      1, CODE_MAX, &code);
	if (w->e.http)
		term_print(&w->view.term, "rest-lit: %s", err_msg(&w->e));
	if (state == JOB_SUCCEEDED)
		code = 0;
	else if (!known && w->signo)
		code = SIGNALLED + w->signo;
	else if (!known && w->code < 0 && job_state_final(state)) {
		(void)waiter_verdict(w); /* says why */
		/* All of the task was killed, or else the machine has failed. */
		(void)scan_int(scan_get(status, "appExitCode"), SIGNALLED + 1, SIGNALLED_MAX,
		               &code);
	}
	*w->own->exit_code = (int)code;
	return EXIT_OK;
}

/* The block of a job of this process stays, and says all about a success. */
static int waiter_conclude_own(struct job_waiter *w)
{
	const enum job_state state = w->view.progress.state;
	bool block = w->view.term.block;
	if (w->code >= 0)
		return w->code;
	waiter_show(w);
	if (block) { /* the block on the terminal stays above later lines */
		term_show(&w->view.term, str_view(&w->view.term.text));
		w->view.term.drawn = w->view.term.text.n = 0;
	}
	if (w->e.http)
		term_print(&w->view.term, "%s", err_msg(&w->e));
	if (job_state_final(state) && !(block && state == JOB_SUCCEEDED))
		(void)waiter_verdict(w); /* as follows */
	if (w->interrupted || w->reason != ENDED || w->view.term.lost)
		return EXIT_SERVER;
	return state == JOB_SUCCEEDED ? EXIT_OK : EXIT_REFUSED;
}

static int waiter_conclude(struct job_waiter *w)
{
	static const char *const WHY[OWN_END + 1] = { [TIME_OVER] = "--timeout is over",
		                                      [INTERRUPTED] = "interrupted",
		                                      [NO_OUTPUT] =
		                                          "writing to standard output failed" };
	const char *job = w->view.job;
	const char *why = w->e.http ? err_msg(&w->e) : WHY[w->reason];
	if (w->own && w->own->exit_code)
		return waiter_conclude_command(w);
	if (w->reason == ENDED && w->view.quiet)
		return log_mux_missing(w->mux) ? EXIT_REFUSED : EXIT_OK;
	if (w->own)
		return waiter_conclude_own(w);
	if (w->reason == ENDED)
		return waiter_verdict(w);
	if (w->reason == GONE) {
		term_print(&w->view.term, "%s was deleted", job);
		return EXIT_REFUSED;
	}
	if (w->reason != INTERRUPTED || !w->view.quiet)
		term_print(&w->view.term, "%s; %s goes on; to stop it: rest-lit stop %s", why, job,
		           job);
	return w->reason == REFUSED ? EXIT_USAGE : EXIT_SERVER;
}

static void waiter_free(struct job_waiter *w)
{
	if (w->asking)
		client_stop(w->asking);
	if (w->watching)
		client_stop(w->watching);
	if (w->stopping)
		client_stop(w->stopping);
	log_mux_free(w->mux);
	term_show(&w->view.term, SPAN("")); /* erases the block */
	str_done(&w->view.term.text);
	arena_done(&w->view.arena);
	str_done(&w->view.line);
	err_done(&w->e);
	if (w->signal_fd >= 0 && !w->own)
		(void)close(w->signal_fd); /* read only */
}

static void waiter_open(struct job_waiter *w, const char *job, const struct log_wanted *logs,
                        struct arena *a)
{
	w->own = w->remote->own;
	w->code = -1;
	w->path = remote_path(job, "", a);
	w->watch_path = remote_path(job, "/watch", a);
	w->stop = stop_call(job, a);
	static const struct log_wanted PLAIN = { .plain = true };
	view_init(&w->view, w->own ? strchr(job, '~') + 1 : job);
	w->view.own = w->own;
	w->view.several = w->remote->o->tag.n || w->remote->o->sweep.n;
	w->view.plain = w->own && w->own->exit_code;
	w->view.term.block &= !w->view.plain;
	logs = w->view.plain ? &PLAIN : logs;
	/* People who redirect the output of `run` want all of it; without a block there is nothing
	 * else. */
	const struct term *term = &w->view.term;
	const struct log_wanted some = { .brief = true,
		                         .kept = term->block && w->own && term->terminal };
	w->keeps = !logs && some.kept;
	if (logs || w->keeps || w->own)
		w->mux = log_mux_new(w->remote, &w->view.term, logs ?: &some);
}

int wait_signals(bool hangup)
{
	struct sigaction before;
	sigset_t set;
	(void)sigemptyset(&set); /* these cannot fail */
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	if (hangup && sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		(void)sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int wait_for_job(struct remote *r, const char *job, const struct log_wanted *logs, bool quiet)
{
	ARENA_AUTO arena = { 0 };
	struct job_waiter w = { .remote = r };
	waiter_open(&w, job, logs, &arena);
	w.view.quiet = quiet;
	w.signal_fd = w.own ? w.own->signal_fd : wait_signals(false);
	while (w.reason == WAITING) {
		int64_t now = clock_ms();
		if (!w.asking && now >= w.due_ms)
			waiter_ask(&w);
		if (!w.watching && !w.no_events && now >= w.watch_ms)
			waiter_watch(&w);
		waiter_run_once(&w);
	}
	if (w.reason == ENDED && w.mux) {
		/* A server in this process ends each log, and the reader of the output may pause.
		 */
		int64_t end = w.own ? INT64_MAX : clock_ms() + DRAIN_MS;
		waiter_drain(&w, end < r->end_ms ? end : r->end_ms);
		if (!log_mux_idle(w.mux) && !w.keeps)
			term_message(&w.view.term, "the rest of the logs is skipped");
		w.reason = ENDED;
	}
	int code = waiter_conclude(&w);
	waiter_free(&w);
	return code;
}

int wait_for_logs(struct remote *r, const char *job, struct span detail,
                  const struct log_wanted *logs)
{
	ARENA_AUTO arena = { 0 };
	struct job_waiter w = { .remote = r, .signal_fd = -1 };
	waiter_open(&w, job, logs, &arena);
	(void)log_mux_update(w.mux, detail); /* the logs are read anyway */
	waiter_drain(&w, r->end_ms);
	int code = w.view.term.lost || !log_mux_idle(w.mux) ? EXIT_SERVER
	           : log_mux_missing(w.mux)                 ? EXIT_REFUSED
	                                                    : EXIT_OK;
	waiter_free(&w);
	return code;
}
