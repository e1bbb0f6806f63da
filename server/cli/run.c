/*
 * Follows the job of a `run` to its end.  One thread: it reads what the directory and the engine
 * have put into the inbox, signals, and the output of the tasks.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json/scan.h"
#include "k8s/cache/job_entry.h"
#include "k8s/submit/submission.h"
#include "server/cli/run_internal.h"
#include "server/cluster/cluster.h"
#include "server/jobs/jobs.h"
#include "server/setup.h"
#include "translate/job.h"

enum {
	TICK_MS = 1000,
	DRAIN_MS = 5000,     /* for output, after the end */
	DRAIN_TICK_MS = 100, /* a log may be moving */
	SUBMIT_MS = 30000,
	DETAIL_MAX = 128 << 20,
	TEXT_MAX = 256 * 1024
};

enum following { FOLLOW_RUN, FOLLOW_DRAIN, FOLLOW_END };

struct following_run {
	struct run *r;
	struct view view;
	struct run_logs *logs;
	enum following stage;
	bool submitted, stop, stop_sent, killed, interrupted, stream;
	int64_t end_ms; /* of FOLLOW_DRAIN */
	int code;       /* before the job exists: the exit code; else -1 */
	char *uid;      /* of the Framework; NULL: unknown */
	struct str patch;
	int64_t deadline_ms;             /* of the job, by clock_boot_ms */
	int64_t limit_s;                 /* from the start to the deadline */
	char limit[JOB_STOP_REASON_MAX]; /* reason of a stop at the deadline; "" before */
};

/* ---- stop ------------------------------------------------------------------------------------ */

static void run_kill(struct following_run *f)
{
	f->killed = true;
	engine_kill(f->r->engine);
	f->stage = FOLLOW_END;
}

static void run_stopped(void *arg, const struct store_reply *reply)
{
	struct following_run *f = arg;
	if (reply->outcome == STORE_OK || f->stage != FOLLOW_RUN)
		return;
	term_say(&f->view.term, "the job cannot be stopped, its tasks are killed: %.*s",
	         (int)reply->message.n, reply->message.p);
	run_kill(f);
}

/* Once the job exists. */
static void run_send_stop(struct following_run *f)
{
	if (!f->stop || f->stop_sent || !f->submitted || !f->uid)
		return;
	f->stop_sent = true;
	f->patch = (struct str)STR_INIT(TEXT_MAX);
	job_stop_patch(&f->patch,
	               &(struct job_stop){ f->uid, NULL, f->limit[0] ? f->limit : NULL });
	store_request(f->r->store, &(struct store_request){
				       .verb = STORE_PATCH,
				       .kind = KIND_FRAMEWORK,
				       .name = f->r->object,
				       .body = { str_view(&f->patch) },
				       .urgent = true,
				       .deadline_ms = clock_ms() + SUBMIT_MS,
				       .done = run_stopped,
				       .arg = f,
				   });
}

static void run_stop(struct following_run *f, const char *why)
{
	if (f->stop)
		return;
	term_say(&f->view.term, "%s: stopping %s; Ctrl-C%s kills its tasks at once", why,
	         f->r->name, why[0] == 'C' ? " again" : "");
	f->stop = f->interrupted = true;
}

static void run_look_at_limit(struct following_run *f)
{
	if (f->stop || f->stage != FOLLOW_RUN || clock_boot_ms() < f->deadline_ms)
		return;
	job_limit_reason(f->limit, f->limit_s);
	term_say(&f->view.term, "%s has run for %lld seconds, its time limit: stopping it",
	         f->r->name, (long long)f->limit_s);
	f->stop = true;
}

static void run_look_at_signals(struct following_run *f)
{
	struct signalfd_siginfo info;
	while (read(f->r->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (f->stage == FOLLOW_DRAIN) {
			f->stage = FOLLOW_END;
		} else if (f->stop && info.ssi_signo == SIGINT && !f->killed) {
			term_say(&f->view.term, "Ctrl-C again: the tasks are killed");
			run_kill(f);
		} else {
			run_stop(f, info.ssi_signo == SIGINT   ? "Ctrl-C"
			            : info.ssi_signo == SIGHUP ? "the terminal is closed"
			                                       : "SIGTERM");
		}
	}
}

/* ---- the job --------------------------------------------------------------------------------- */

static void run_note_deadline(struct following_run *f, struct span framework)
{
	struct job_entry *c = job_entry_new(framework);
	if (!c)
		return;
	int64_t left_ms = job_entry_left_ms(c);
	f->deadline_ms = left_ms == INT64_MAX ? left_ms : clock_boot_ms() + left_ms;
	f->limit_s = c->max_duration_s;
	job_entry_drop(c);
}

/* The roles of a Framework have the converted names. */
static void run_add_gpus(struct progress *p, const struct job *job)
{
	for (size_t i = 0; i < p->n_roles; i++)
		for (size_t k = 0; k < job->n_roles; k++)
			if (strcmp(p->role[i].name, job->roles[k].object_name) == 0)
				p->role[i].gpus = job->roles[k].gpu;
}

static void run_take_framework(struct following_run *f, struct span framework)
{
	ARENA_AUTO arena = { 0 };
	ERR_AUTO e = { 0 };
	STR_AUTO detail = STR_INIT(DETAIL_MAX);
	if (!scan_valid(framework, SCAN_DEPTH_MAX) ||
	    job_detail_of(&detail, framework, f->r->exits, &arena, &e) < 0 ||
	    view_take(&f->view, str_view(&detail), &e) < 0)
		return;
	run_add_gpus(&f->view.progress, f->r->job);
	run_note_deadline(f, framework);
	struct span uid = scan_text(scan_path(framework, "metadata", "uid"), &arena);
	if (!f->uid && uid.n)
		f->uid = xstrndup(uid.p, uid.n);
	run_logs_update(f->logs, uid, f->view.detail);
	if (f->stage == FOLLOW_RUN && job_state_final(f->view.progress.state)) {
		f->stage = FOLLOW_DRAIN;
		f->end_ms = clock_ms() + DRAIN_MS;
	}
}

static void run_take_inbox(struct following_run *f)
{
	struct run_inbox *in = f->r->inbox;
	eventfd_t n;
	(void)eventfd_read(in->fd, &n); /* EAGAIN: nothing is new */
	(void)pthread_mutex_lock(&in->lock);
	struct str framework = in->framework;
	struct str notes = in->notes;
	in->framework = (struct str)STR_INIT(framework.max);
	in->notes = (struct str)STR_INIT(notes.max);
	FREE_AUTO char *no_image = TAKE(in->no_image);
	bool gone = in->gone;
	(void)pthread_mutex_unlock(&in->lock);
	if (notes.n)
		term_print(&f->view.term, "%.*s", (int)notes.n - 1, notes.p); /* lines */
	if (framework.n)
		run_take_framework(f, str_view(&framework));
	str_done(&framework);
	str_done(&notes);
	if (no_image && f->stage == FOLLOW_RUN) {
		term_print(&f->view.term,
		           "%s: %s; three pulls have failed for this reason, so the job ends",
		           f->r->name, no_image);
		f->code = EXIT_SERVER;
		f->stage = FOLLOW_END;
	}
	if (gone && f->stage == FOLLOW_RUN) {
		term_say(&f->view.term, "the job was removed");
		f->stage = FOLLOW_END;
	}
}

/* ---- display --------------------------------------------------------------------------------- */

/* The engine knows why a job waits. */
static void run_ask_why(struct following_run *f, struct arena *a)
{
	struct progress *p = &f->view.progress;
	struct span why;
	p->waiting = "";
	if (!f->uid || job_state_final(p->state) || p->stopping)
		return;
	if (!engine_waiting(f->r->engine, span_of(f->uid), a, &why))
		return;
	STR_AUTO text = STR_INIT(TEXT_MAX);
	visible_text(&text, why);
	p->waiting = arena_dup(a, str_view(&text));
}

static void run_display(struct following_run *f)
{
	ARENA_AUTO arena = { 0 };
	const struct progress *p = &f->view.progress;
	const struct task_progress *tasks = NULL;
	size_t n = 0;
	run_ask_why(f, &arena);
	/* At first it is of no interest: the engine looks at it now. */
	if (f->code >= 0 || (p->state == JOB_WAITING && !p->n_roles && !p->waiting[0]))
		return;
	if (!f->stream)
		n = run_logs_tasks(f->logs, &arena, &tasks);
	view_show(&f->view, tasks, n);
	f->view.progress.waiting = "";
}

/* ---- loop ------------------------------------------------------------------------------------ */

static void run_submitted(void *arg, const struct err *e, bool again)
{
	struct following_run *f = arg;
	(void)again; /* there is no key */
	f->submitted = true;
	if (!e->http)
		return;
	term_done(&f->view.term);
	f->code = complain(e, NULL, e->http < 500 ? EXIT_USAGE : EXIT_SERVER);
	f->stage = FOLLOW_END;
}

static int run_pause_ms(const struct following_run *f, bool more)
{
	int ms = f->stage == FOLLOW_DRAIN ? DRAIN_TICK_MS : TICK_MS;
	int store = store_timeout_ms(f->r->store);
	if (more)
		return 0;
	return store >= 0 && store < ms ? store : ms;
}

static void run_turn(struct following_run *f)
{
	struct run *r = f->r;
	store_start(r->store);
	bool more = run_logs_read(f->logs);
	run_display(f);
	struct pollfd fds[] = { { .fd = store_fd(r->store), .events = POLLIN },
		                { .fd = r->inbox->fd, .events = POLLIN },
		                { .fd = r->signal_fd, .events = POLLIN },
		                { .fd = run_logs_fd(f->logs), .events = POLLIN } };
	(void)poll(fds, ARRAY_SIZE(fds), run_pause_ms(f, more)); /* read below */
	store_reap(r->store);
	run_take_inbox(f);
	run_look_at_signals(f);
	run_look_at_limit(f);
	run_send_stop(f);
	if (f->view.term.lost && f->stage == FOLLOW_RUN)
		run_stop(f, "writing to standard output failed");
	if (f->stage == FOLLOW_DRAIN && !more &&
	    (run_logs_over(f->logs) || clock_ms() >= f->end_ms))
		f->stage = FOLLOW_END;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* The last lines of the task that failed first.  They say more than the diagnostics, which quote
 * them.  Nothing if they are the last that were printed. */
static void run_put_tail(struct following_run *f, struct str *out)
{
	ARENA_AUTO arena = { 0 };
	struct progress *p = &f->view.progress;
	p->brief = run_logs_tail(f->logs, out, progress_failed_task(p, &arena));
	if (p->state != JOB_FAILED || (f->stream && f->r->job->total_tasks == 1))
		out->n = 0;
}

static int run_conclude(struct following_run *f)
{
	const enum job_state state = f->view.progress.state;
	if (f->code >= 0)
		return f->code;
	run_display(f);
	if (f->view.term.block)
		term_keep(&f->view.term);
	/* The block says all about a success. */
	if (job_state_final(state) && !(f->view.term.block && state == JOB_SUCCEEDED)) {
		STR_AUTO tail = STR_INIT(TEXT_MAX);
		run_put_tail(f, &tail);
		(void)view_verdict(&f->view, str_view(&tail));
	}
	if (f->interrupted || f->killed || f->view.term.lost)
		return EXIT_SERVER;
	return state == JOB_SUCCEEDED ? EXIT_OK : EXIT_REFUSED;
}

static void run_submit(struct following_run *f, struct submission_options *s)
{
	struct run *r = f->r;
	*s = (struct submission_options){ .submission_id = r->submission,
		                          .display_name = r->name,
		                          .user = job_user(r->job),
		                          .deadline_ms = clock_ms() + SUBMIT_MS };
	submission_start(r->store, r->objects, s, run_submitted, f);
}

int run_follow(struct run *r)
{
	struct submission_options options;
	struct following_run f = { .r = r, .code = -1, .deadline_ms = INT64_MAX };
	view_init(&f.view, r->name);
	/* People who redirect the output want all of it; without a block there is nothing else. */
	f.stream = r->o->logs || !f.view.term.terminal || !f.view.term.block;
	f.logs = run_logs_new(r->engine, &f.view.term, r->o, f.stream);
	run_submit(&f, &options);
	while (f.stage != FOLLOW_END)
		run_turn(&f);
	int code = run_conclude(&f);
	store_free(TAKE(r->store)); /* calls back what is pending */
	run_logs_free(f.logs);
	view_done(&f.view);
	free(f.uid);
	str_done(&f.patch);
	return code;
}
