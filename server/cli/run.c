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
#include "server/jobs/jobs.h"
#include "server/setup.h"
#include "translate/job.h"

enum {
	TICK_MS = 1000,
	DRAIN_MS = 5000,     /* for output, after the end */
	DRAIN_TICK_MS = 100, /* a log may be moving */
	SUBMIT_MS = 30000,
	DETAIL_MAX = 128 << 20,
	TEXT_MAX = 256 * 1024,
	DEPTH = 64,
	UID_MAX = 64
};

/* The queue's word for a job that is larger than the machine. */
static const char NEVER[] = "can never start";

enum following { FOLLOW_RUN, FOLLOW_DRAIN, FOLLOW_END };

struct following_run {
	struct run *r;
	struct term term;
	struct run_logs *logs;
	enum following stage;
	bool submitted, stop, stop_sent, killed, interrupted, stream;
	int64_t end_ms; /* of FOLLOW_DRAIN */
	int code;       /* before the job exists: the exit code; else -1 */

	struct arena arena; /* of detail and progress */
	struct span detail, uid;
	struct progress progress; /* state JOB_STATE_MAX: unknown */
	struct str line;          /* the last line printed */
	struct str patch;
};

static void run_say(struct following_run *f, const char *text)
{
	term_print_time(&f->term, span_of(text));
}

/* ---- stop ------------------------------------------------------------------------------------ */

static void run_stopped(void *arg, const struct store_reply *reply)
{
	struct following_run *f = arg;
	if (reply->outcome == STORE_OK || f->stage != FOLLOW_RUN)
		return;
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_printf(&text, "the job cannot be stopped, its tasks are killed: %.*s",
	           (int)reply->message.n, reply->message.p);
	run_say(f, str_c(&text));
	f->killed = true;
	engine_kill(f->r->engine);
	f->stage = FOLLOW_END;
}

/* Once the job exists. */
static void run_send_stop(struct following_run *f)
{
	if (!f->stop || f->stop_sent || !f->submitted || !f->uid.n)
		return;
	f->stop_sent = true;
	f->patch = (struct str)STR_INIT(TEXT_MAX);
	str_puts(&f->patch, "{\"metadata\":{\"uid\":");
	str_json(&f->patch, f->uid);
	str_puts(&f->patch, "},\"spec\":{\"executionType\":\"Stop\"}}");
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
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_printf(&text, "%s: stopping %s; Ctrl-C%s kills its tasks at once", why, f->r->name,
	           why[0] == 'C' ? " again" : "");
	run_say(f, str_c(&text));
	f->stop = f->interrupted = true;
}

static void run_kill(struct following_run *f)
{
	run_say(f, "Ctrl-C again: the tasks are killed");
	f->killed = true;
	engine_kill(f->r->engine);
	f->stage = FOLLOW_END;
}

static void run_look_at_signals(struct following_run *f)
{
	struct signalfd_siginfo info;
	while (read(f->r->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (f->stage == FOLLOW_DRAIN)
			f->stage = FOLLOW_END;
		else if (f->stop && info.ssi_signo == SIGINT && !f->killed)
			run_kill(f);
		else
			run_stop(f, info.ssi_signo == SIGINT   ? "Ctrl-C"
			            : info.ssi_signo == SIGHUP ? "the terminal is closed"
			                                       : "SIGTERM");
	}
}

/* ---- the job --------------------------------------------------------------------------------- */

/* The roles of a Framework have the converted names. */
static void run_add_gpus(struct following_run *f)
{
	const struct job *job = f->r->job;
	for (size_t i = 0; i < f->progress.n_roles; i++)
		for (size_t k = 0; k < job->n_roles; k++)
			if (strcmp(f->progress.role[i].name, job->roles[k].object_name) == 0)
				f->progress.role[i].gpus = job->roles[k].gpu;
}

static void run_take_framework(struct following_run *f, struct span framework)
{
	struct arena fresh = { 0 };
	struct progress p;
	ERR_AUTO e = { 0 };
	STR_AUTO detail = STR_INIT(DETAIL_MAX);
	framework = arena_span(&fresh, framework);
	if (!scan_valid(framework, SCAN_DEPTH_MAX) ||
	    job_detail_of(&detail, framework, f->r->exits, &fresh, &e) < 0) {
		arena_done(&fresh);
		return;
	}
	struct span shown = arena_span(&fresh, str_view(&detail));
	if (progress_read(&p, shown, &fresh, &e) < 0) {
		arena_done(&fresh);
		return;
	}
	arena_done(&f->arena);
	f->arena = fresh;
	f->detail = shown;
	f->uid = scan_text(scan_path(framework, "metadata", "uid"), &f->arena);
	f->progress = p;
	run_add_gpus(f);
	run_logs_update(f->logs, f->uid, shown);
	if (f->stage == FOLLOW_RUN && job_state_final(p.state)) {
		f->stage = FOLLOW_DRAIN;
		f->end_ms = clock_ms() + DRAIN_MS;
	}
}

static void run_take_notes(struct following_run *f, struct span notes)
{
	while (notes.n) {
		size_t n = span_chr(notes, '\n');
		if (n)
			term_print(&f->term, span_to(notes, n));
		notes = span_from(notes, n < notes.n ? n + 1 : n);
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
	bool gone = in->gone;
	(void)pthread_mutex_unlock(&in->lock);
	run_take_notes(f, str_view(&notes));
	if (framework.n)
		run_take_framework(f, str_view(&framework));
	str_done(&framework);
	str_done(&notes);
	if (gone && f->stage == FOLLOW_RUN) {
		run_say(f, "the job was removed");
		f->stage = FOLLOW_END;
	}
}

/* ---- display --------------------------------------------------------------------------------- */

/* The engine knows why a job waits. */
static void run_ask_why(struct following_run *f, struct arena *a)
{
	struct span why;
	f->progress.waiting = "";
	if (!f->uid.n || job_state_final(f->progress.state) || f->progress.stopping ||
	    !engine_waiting(f->r->engine, f->uid, a, &why))
		return;
	STR_AUTO text = STR_INIT(TEXT_MAX);
	visible_text(&text, why);
	f->progress.waiting = arena_dup(a, str_view(&text));
	if (!span_starts(why, NEVER) || f->stage != FOLLOW_RUN || f->stop)
		return;
	term_done(&f->term);
	(void)fprintf(stderr, "rest-lit: %s %s\n", f->r->name, f->progress.waiting);
	f->code = EXIT_USAGE;
	f->stage = FOLLOW_END;
}

static void run_draw(struct following_run *f, struct arena *a)
{
	STR_AUTO block = STR_INIT(TEXT_MAX);
	struct frame frame = { f->r->name, term_columns(), term_rows(), clock_wall_ms(), NULL, 0 };
	if (!f->stream)
		frame.n_tasks = run_logs_tasks(f->logs, a, &frame.task);
	progress_block(&block, &f->progress, &frame);
	term_block(&f->term, str_view(&block));
}

static void run_print_line(struct following_run *f)
{
	STR_AUTO line = STR_INIT(TEXT_MAX);
	progress_line(&line, &f->progress);
	if (f->progress.state == JOB_WAITING && !f->progress.n_roles && !f->progress.waiting[0])
		return; /* of no interest: the engine looks at it now */
	if (span_eq(str_view(&line), str_view(&f->line)))
		return;
	term_print_time(&f->term, str_view(&line));
	f->line.n = 0;
	str_span(&f->line, str_view(&line));
}

static void run_display(struct following_run *f)
{
	ARENA_AUTO arena = { 0 };
	if (f->detail.n == 0)
		return;
	run_ask_why(f, &arena);
	if (f->code >= 0)
		return;
	if (f->term.block)
		run_draw(f, &arena);
	else
		run_print_line(f);
	f->progress.waiting = "";
	term_show(&f->term);
}

/* ---- loop ------------------------------------------------------------------------------------ */

static void run_submitted(void *arg, const struct err *e, bool again)
{
	struct following_run *f = arg;
	(void)again; /* there is no key */
	f->submitted = true;
	if (!e->http)
		return;
	term_done(&f->term);
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
	(void)poll(fds, sizeof(fds) / sizeof(fds[0]), run_pause_ms(f, more)); /* read below */
	store_reap(r->store);
	run_take_inbox(f);
	run_look_at_signals(f);
	run_send_stop(f);
	if (f->term.lost && f->stage == FOLLOW_RUN)
		run_stop(f, "writing to standard output failed");
	if (f->stage == FOLLOW_DRAIN && !more &&
	    (run_logs_over(f->logs) || clock_ms() >= f->end_ms))
		f->stage = FOLLOW_END;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* The verdict, and the last lines of the task whose failure ended the job, unless they are the last
 * that were printed.  They say more than the diagnostics, which quote them. */
static void run_put_verdict(struct following_run *f, struct str *out)
{
	ARENA_AUTO arena = { 0 };
	STR_AUTO tail = STR_INIT(TEXT_MAX);
	struct span status = f->progress.status;
	int64_t index = 0;
	struct span role = scan_text(scan_get(status, "appExitTriggerTaskRoleName"), &arena);
	(void)scan_int(scan_get(status, "appExitTriggerTaskIndex"), 0, INT32_MAX, &index);
	const char *task =
	    arena_printf(&arena, "%.*s[%lld]", (int)role.n, role.p, (long long)index);
	f->progress.brief = run_logs_tail(f->logs, &tail, task);
	progress_verdict(out, &f->progress, f->r->name);
	bool shown = f->stream && f->r->job->total_tasks == 1;
	if (f->progress.state == JOB_FAILED && !shown)
		str_span(out, str_view(&tail));
}

static int run_conclude(struct following_run *f)
{
	const enum job_state state = f->progress.state;
	if (f->code >= 0)
		return f->code;
	run_display(f);
	if (f->term.block && f->detail.n)
		term_keep(&f->term);
	/* The block says all about a success. */
	if (job_state_final(state) && !(f->term.block && state == JOB_SUCCEEDED)) {
		STR_AUTO text = STR_INIT(TEXT_MAX);
		run_put_verdict(f, &text);
		text.n -= text.n > 0; /* the last LF */
		term_print(&f->term, str_view(&text));
	}
	if (f->interrupted || f->killed || f->term.lost)
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
	struct following_run f = { .r = r, .code = -1 };
	f.progress.state = JOB_STATE_MAX;
	f.line = (struct str)STR_INIT(TEXT_MAX);
	term_init(&f.term);
	/* People who redirect the output want all of it; without a block there is nothing else. */
	f.stream = r->o->logs || !f.term.terminal || !f.term.block;
	f.logs = run_logs_new(r->engine, &f.term, r->o, f.stream);
	run_submit(&f, &options);
	while (f.stage != FOLLOW_END)
		run_turn(&f);
	int code = run_conclude(&f);
	store_free(TAKE(r->store)); /* calls back what is pending */
	term_done(&f.term);
	run_logs_free(f.logs);
	arena_done(&f.arena);
	str_done(&f.line);
	str_done(&f.patch);
	return code;
}
