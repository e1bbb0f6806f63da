#include "server/cli/await.h"

#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json/scan.h"
#include "k8s/transport/store.h"
#include "server/cli/commands.h"
#include "server/cli/echo.h"
#include "server/cli/progress.h"
#include "server/cli/screen.h"

enum {
	SECOND = 1000,
	DETAIL_MAX = 128 << 20,
	DETAIL_MS = 60000,
	TEXT_MAX = 256 * 1024,
	GAP_MS = 500, /* between two answers, and as much as CALM times what one took */
	CALM = 5,
	POLL_MS = 2000,  /* without events */
	WHY_MS = 5000,   /* why it waits is no event of the job */
	SURE_MS = 30000, /* with them, to be sure */
	DRAW_MS = 1000,
	DRAIN_MS = 15000, /* for logs, after the end */
	SILENCE_S = 120   /* of events; servers send something every 30 s */
};

/* Why waiting ended. */
enum reason { WAITING, ENDED, GONE, REFUSED, NO_SERVER, TIME_OVER, INTERRUPTED, NO_OUTPUT };

struct await {
	struct remote *remote;
	const char *job, *path, *watch_path;
	struct screen screen;
	struct echo *echo; /* NULL without --logs */
	int signal_fd;
	enum reason reason;
	struct err e; /* why, if it was refused or no server was there */

	struct exchange *asking;
	int64_t asked_ms, came_ms, due_ms; /* of the job itself */
	bool changed;                      /* since it was asked for */
	unsigned failures;
	int64_t bad_ms; /* since when there is no answer */
	bool told;      /* that there is none */

	struct exchange *watching;
	bool no_events;   /* this server has none */
	int64_t watch_ms; /* when to ask for them again */
	unsigned watch_failures;
	struct lines lines;
	bool data; /* in the event that comes now */

	struct arena arena; /* of detail and progress */
	struct span detail;
	struct progress progress;
	struct str line; /* what was printed last */
};

static int64_t wall_clock_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail with this clock */
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void stop(struct await *w, enum reason reason)
{
	if (w->reason == WAITING)
		w->reason = reason;
}

static void due_at(struct await *w, int64_t ms)
{
	if (ms < w->due_ms)
		w->due_ms = ms;
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void tell(struct await *w, const char *text)
{
	screen_tell(&w->screen, span_of(text));
}

static void draw(struct await *w)
{
	STR_AUTO block = STR_INIT(TEXT_MAX);
	if (!w->screen.block || !w->detail.n)
		return;
	const struct frame frame = { w->job, screen_columns(), screen_rows(), wall_clock_ms() };
	progress_block(&block, &w->progress, &frame);
	screen_block(&w->screen, str_view(&block));
}

static void show_line(struct await *w)
{
	STR_AUTO line = STR_INIT(TEXT_MAX);
	progress_line(&line, &w->progress);
	if (w->screen.block || span_eq(str_view(&line), str_view(&w->line)))
		return;
	screen_tell(&w->screen, str_view(&line));
	w->line.n = 0;
	str_span(&w->line, str_view(&line));
}

/* ---- the job itself -------------------------------------------------------------------------- */

static void take_detail(struct await *w, struct span body)
{
	struct arena fresh = { 0 };
	struct progress p;
	ERR_AUTO e = { 0 };
	struct span detail = arena_span(&fresh, body);
	if (progress_read(&p, detail, &fresh, &e) < 0) {
		arena_done(&fresh);
		stop(w, NO_SERVER);
		err_move(&w->e, &e);
		return;
	}
	arena_done(&w->arena);
	w->arena = fresh;
	w->detail = detail;
	w->progress = p;
	show_line(w);
	if (w->echo)
		echo_update(w->echo, detail);
	if (job_state_final(p.state))
		stop(w, ENDED);
}

static void no_detail(struct await *w, const struct client_answer *a)
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
			screen_tell(&w->screen, str_view(&text));
		w->told = true;
		return;
	}
	stop(w, a->status == 404 ? GONE : remote_exit(&e) == EXIT_USAGE ? REFUSED : NO_SERVER);
	err_move(&w->e, &e);
}

/* When it may be asked for again at the earliest. */
static int64_t next_ms(const struct await *w)
{
	int64_t gap = CALM * (w->came_ms - w->asked_ms);
	return w->came_ms + (gap > GAP_MS ? gap : GAP_MS);
}

static void detail_came(void *arg, const struct client_answer *a)
{
	struct await *w = arg;
	w->asking = NULL;
	w->came_ms = clock_ms();
	if (a->status != 200 || a->problem) {
		no_detail(w, a);
		return;
	}
	w->failures = 0;
	if (w->told)
		tell(w, "the server answers again");
	w->told = false;
	take_detail(w, a->body);
	w->due_ms = w->came_ms + (!w->watching                       ? POLL_MS
	                          : w->progress.state == JOB_WAITING ? WHY_MS
	                                                             : SURE_MS);
	if (w->changed)
		due_at(w, next_ms(w));
}

static void ask(struct await *w)
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
		stop(w, NO_SERVER);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* An event ends with an empty line; a comment, to show that the server lives, is none. */
static void take_event_line(void *arg, struct span line, bool cut)
{
	struct await *w = arg;
	(void)cut; /* what the event says is of no interest */
	if (line.n) {
		w->data |= span_starts(line, "data:");
		return;
	}
	w->changed |= w->data;
	if (w->data && !w->asking)
		due_at(w, next_ms(w));
	w->data = false;
}

static bool take_events(void *arg, struct span bytes)
{
	struct await *w = arg;
	w->watch_failures = 0;
	lines_feed(&w->lines, bytes, take_event_line, w);
	return true;
}

static void events_ended(void *arg, const struct client_answer *a)
{
	struct await *w = arg;
	w->watching = NULL;
	w->no_events = a->status >= 400 && !remote_may_retry(a);
	w->watch_ms = clock_ms() + remote_pause_ms(a, ++w->watch_failures);
	lines_done(&w->lines);
	w->lines = LINES_INIT(TEXT_MAX);
	w->data = false;
	due_at(w, clock_ms() + POLL_MS);
}

static void watch(struct await *w)
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

static void look_at_signals(struct await *w)
{
	struct signalfd_siginfo info;
	if (read(w->signal_fd, &info, sizeof(info)) == sizeof(info))
		stop(w, INTERRUPTED);
}

static void shorten(int64_t *ms, int64_t at_ms, int64_t now)
{
	if (at_ms != INT64_MAX && at_ms - now < *ms)
		*ms = at_ms - now;
}

/* Let things happen, for some time at most. */
static void turn(struct await *w)
{
	int64_t now = clock_ms();
	int64_t ms = SURE_MS;
	int64_t logs = w->echo ? echo_turn(w->echo) : INT64_MAX;
	shorten(&ms, logs == INT64_MAX ? logs : now + logs, now);
	shorten(&ms, w->asking ? INT64_MAX : w->due_ms, now);
	shorten(&ms, w->watching || w->no_events ? INT64_MAX : w->watch_ms, now);
	shorten(&ms, w->remote->end_ms, now);
	if (w->screen.block)
		shorten(&ms, now + DRAW_MS, now);
	draw(w);
	screen_show(&w->screen);
	client_turn(w->remote->client, ms, w->signal_fd);
	look_at_signals(w);
	if (w->screen.lost)
		stop(w, NO_OUTPUT);
	if (clock_ms() >= w->remote->end_ms)
		stop(w, TIME_OVER);
}

static void wait_for_end(struct await *w)
{
	while (w->reason == WAITING) {
		int64_t now = clock_ms();
		if (!w->asking && now >= w->due_ms)
			ask(w);
		if (!w->watching && !w->no_events && now >= w->watch_ms)
			watch(w);
		turn(w);
	}
}

/* What tasks have printed at last. */
static void drain(struct await *w)
{
	int64_t end = clock_ms() + DRAIN_MS;
	end = end < w->remote->end_ms ? end : w->remote->end_ms;
	w->reason = WAITING;
	w->due_ms = w->watch_ms = INT64_MAX;
	if (w->watching)
		client_stop(TAKE(w->watching));
	while (w->reason == WAITING && clock_ms() < end && !echo_idle(w->echo))
		turn(w);
	if (!echo_idle(w->echo))
		tell(w, "logs may go on; they are not waited for any longer");
	w->reason = ENDED;
}

/* ---- what became of it ----------------------------------------------------------------------- */

static void say(struct await *w, const char *what)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_printf(&text, "%s; %s goes on; to stop it: rest-lit stop %s", what, w->job, w->job);
	screen_say(&w->screen, str_view(&text));
}

static int verdict(struct await *w)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	progress_verdict(&text, &w->progress, w->job);
	struct span view = str_view(&text);
	view.n -= view.n > 0; /* the last LF */
	screen_say(&w->screen, view);
	return w->progress.state == JOB_SUCCEEDED ? EXIT_OK : EXIT_REFUSED;
}

static int conclude(struct await *w)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	switch (w->reason) {
	case ENDED:
		return verdict(w);
	case GONE:
		str_printf(&text, "%s is not there any more", w->job);
		screen_say(&w->screen, str_view(&text));
		return EXIT_REFUSED;
	case REFUSED:
	case NO_SERVER:
		say(w, err_msg(&w->e));
		return w->reason == REFUSED ? EXIT_USAGE : EXIT_SERVER;
	case TIME_OVER:
		say(w, "--timeout is over");
		return EXIT_SERVER;
	case NO_OUTPUT:
		say(w, "standard output takes no more");
		return EXIT_SERVER;
	case WAITING:
	case INTERRUPTED:
		break;
	}
	say(w, "not waited for any longer");
	return EXIT_SERVER;
}

static void give_up_all(struct await *w)
{
	if (w->asking)
		client_stop(w->asking);
	if (w->watching)
		client_stop(w->watching);
	echo_free(w->echo);
	lines_done(&w->lines);
	screen_done(&w->screen);
	str_done(&w->line);
	arena_done(&w->arena);
	err_done(&w->e);
	if (w->signal_fd >= 0)
		(void)close(w->signal_fd); /* it was only read */
}

int await_job(struct remote *r, const char *job, bool logs)
{
	ARENA_AUTO arena = { 0 };
	sigset_t set;
	struct await w = { .remote = r, .job = job };
	w.path = remote_path(job, "", &arena);
	w.watch_path = remote_path(job, "/watch", &arena);
	w.lines = LINES_INIT(TEXT_MAX);
	w.line = (struct str)STR_INIT(TEXT_MAX);
	screen_init(&w.screen);
	w.echo = logs ? echo_new(r, &w.screen) : NULL;
	(void)sigemptyset(&set);                      /* cannot fail */
	(void)sigaddset(&set, SIGINT);                /* the same */
	(void)sigaddset(&set, SIGTERM);               /* the same */
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* the same */
	w.signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	wait_for_end(&w);
	if (w.reason == ENDED && w.echo)
		drain(&w);
	int code = conclude(&w);
	give_up_all(&w);
	return code;
}
