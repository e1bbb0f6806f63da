#include "server/cli/await.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json/scan.h"
#include "k8s/cache/job_state.h"
#include "k8s/transport/store.h"
#include "server/cli/commands.h"
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
static void await_run_once(struct await *w)
{
	int64_t now = clock_ms();
	int64_t ms = SURE_MS;
	int64_t logs = w->echo ? echo_run_once(w->echo) : INT64_MAX;
	shorten(&ms, logs == INT64_MAX ? logs : now + logs, now);
	shorten(&ms, w->asking ? INT64_MAX : w->due_ms, now);
	shorten(&ms, w->watching || w->no_events ? INT64_MAX : w->watch_ms, now);
	shorten(&ms, w->remote->end_ms, now);
	if (w->screen.block)
		shorten(&ms, now + DRAW_MS, now);
	draw(w);
	screen_show(&w->screen);
	client_run_once(w->remote->client, ms, w->signal_fd);
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
		await_run_once(w);
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
		await_run_once(w);
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

/*
 * A log is followed by a link, which is asked for each time.  A server ends a long stream, or dies:
 * then the log is asked for again, and what was printed of it is passed over.  When a task has
 * ended, its log is asked for a last time: the pod may have gone before all of it came, and the
 * server may have kept the end.
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

struct voice {
	struct echo *echo;
	char *role, *prefix;
	int64_t index;
	char *log, *next_log; /* paths; the second of a later attempt, when this one is over */
	bool done;            /* the task has ended */
	bool heard;           /* a stream of this attempt was opened */
	bool final;           /* ... and the last one was asked for after its end */
	enum stage stage;
	struct exchange *exchange;
	char *path; /* of the exchange */
	uint64_t printed, skip;
	uint64_t runtime; /* bytes of the former that pai-runtime has written, not the task */
	uint64_t begin;   /* bytes of the log that are before what the stream will have */
	bool fresh;       /* something new came in this stream */
	unsigned failures;
	int64_t due_ms;
	struct lines lines;
};

struct echo {
	struct remote *remote;
	struct screen *screen;
	struct voice *voice;
	size_t n, max;
	bool told; /* that there are more */
};

/* ---- one stream ------------------------------------------------------------------------------ */

/* "[time] [openpai-runtime] ..." */
static bool is_runtime(struct span line)
{
	size_t at = span_find(line, 0, "] [openpai-runtime] ");
	return line.n && line.p[0] == '[' && at < TIME_MAX;
}

static void print_line(void *arg, struct span line, bool cut)
{
	struct voice *v = arg;
	if (is_runtime(line))
		v->runtime += line.n + 1;
	screen_log(v->echo->screen, v->prefix, line, cut);
}

static bool take_piece(void *arg, struct span bytes)
{
	struct voice *v = arg;
	size_t known = v->skip < bytes.n ? (size_t)v->skip : bytes.n;
	v->skip -= known;
	bytes = (struct span){ bytes.p + known, bytes.n - known };
	v->fresh |= bytes.n > 0;
	v->printed += bytes.n;
	lines_feed(&v->lines, bytes, print_line, v);
	return !v->echo->screen->lost;
}

/* The attempt whose log this was is over: on to the next, if there is one. */
static void end_voice(struct voice *v)
{
	lines_end(&v->lines, print_line, v);
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

static void again_later(struct voice *v, const struct client_answer *a)
{
	v->failures++;
	v->stage = STAGE_REST;
	v->due_ms = clock_ms() + remote_pause_ms(a, v->failures + 1);
}

/* Nothing, or not all, came.  A log may not be there yet; of a task that has ended it may be gone.
 */
static void failed(struct voice *v, const struct client_answer *a)
{
	bool lasting = a->hopeless || a->status == 401 || a->status == 403;
	bool gone = v->next_log || (v->done && (!remote_may_retry(a) || v->failures >= LOST_MAX));
	if (!lasting && !gone) {
		again_later(v, a);
		if (a->status == 404) /* its pod is being made: soon, however long that takes */
			v->due_ms = clock_ms() + EARLY_MS;
		return;
	}
	if (lasting || (v->printed == 0 && !v->heard)) {
		ERR_AUTO e = { 0 };
		STR_AUTO text = STR_INIT(LINKS_MAX);
		remote_error(v->echo->remote, a, &e);
		str_printf(&text, "no log of %s[%lld]: %s", v->role, (long long)v->index,
		           err_msg(&e));
		screen_tell(v->echo->screen, str_view(&text));
	}
	end_voice(v);
}

static void stream_ended(void *arg, const struct client_answer *a)
{
	struct voice *v = arg;
	v->exchange = NULL;
	bool over = v->done || v->next_log;
	bool whole = !a->problem && a->status / 100 == 2;
	if (v->fresh)
		v->failures = 0;
	v->heard |= whole;
	if (!whole)
		failed(v, a);
	else if (over && v->final)
		end_voice(v);
	else
		again_later(v, a);
	if (whole && over && v->stage == STAGE_REST && !v->final)
		v->due_ms = 0;
}

static void start(struct voice *v, enum stage stage, const struct client_call *call)
{
	ERR_AUTO e = { 0 };
	v->stage = stage;
	v->exchange = client_start(v->echo->remote->client, call, &e);
	if (!v->exchange)
		again_later(v, &(struct client_answer){ 0 });
}

static void open_stream(struct voice *v, struct span uri)
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
		                          .piece = take_piece,
		                          .ended = stream_ended,
		                          .arg = v };
	start(v, STAGE_STREAM, &call);
}

/* Of the places of a log, that with everything in it, else the first.  A path of this server. */
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

/* A pod's log has all of it.  What the server has kept of one that is gone begins later, and has
 * what the task has written only. */
static void find_begin(struct voice *v, struct span body)
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
	struct voice *v = arg;
	ARENA_AUTO arena = { 0 };
	struct span uri = { "", 0 };
	v->exchange = NULL;
	bool good = a->status / 100 == 2 && !a->problem && scan_valid(a->body, 16);
	if (good) {
		uri = choose_link(a->body, &arena);
		find_begin(v, a->body);
	}
	if (uri.n)
		open_stream(v, uri);
	else
		failed(v, a);
}

static void ask_for_links(struct voice *v)
{
	v->final = v->done || v->next_log;
	const struct client_call call = { .method = "GET",
		                          .path = v->log,
		                          .max = LINKS_MAX,
		                          .timeout_ms = LINKS_MS,
		                          .ended = links_ended,
		                          .arg = v };
	start(v, STAGE_LINKS, &call);
}

/* ---- which tasks ----------------------------------------------------------------------------- */

static struct voice *find_voice(struct echo *e, const char *role, int64_t index)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->voice[i].index == index && strcmp(e->voice[i].role, role) == 0)
			return &e->voice[i];
	return NULL;
}

static void add_voice(struct echo *e, const char *role, int64_t index)
{
	struct voice *v = &e->voice[e->n++];
	*v =
	    (struct voice){ .echo = e, .role = xstrdup(role), .index = index, .stage = STAGE_OVER };
	v->prefix = xasprintf("%s[%lld] | ", role, (long long)index);
	v->lines = LINES_INIT((size_t)e->remote->o->max_line);
}

/* A name that stands in every line must be short, and visible. */
static const char *role_name(struct span name, struct arena *a)
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

/* The n-th task of each role, if it is not there yet. */
static size_t add_round(struct echo *e, struct span roles, size_t round, struct arena *a)
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
		const char *text = role_name(name, a);
		if (e->n < e->max && !find_voice(e, text, index))
			add_voice(e, text, index);
	}
	return tasks;
}

static size_t count_tasks(struct span roles)
{
	size_t n = 0;
	struct scan walk = scan_begin(roles);
	for (struct span name, role; scan_member(&walk, &name, &role);)
		n += scan_count(scan_get(role, "taskStatuses"));
	return n;
}

static void tell_which(struct echo *e, size_t tasks)
{
	STR_AUTO text = STR_INIT((size_t)2 * NAME_MAX_BYTES * (e->n + 1));
	e->told = true;
	str_puts(&text, "logs of ");
	for (size_t i = 0; i < e->n; i++)
		str_printf(&text, "%s%s[%lld]", i ? ", " : "", e->voice[i].role,
		           (long long)e->voice[i].index);
	str_printf(&text, "; not of %zu other tasks", tasks - e->n);
	screen_tell(e->screen, str_view(&text));
}

static void choose(struct echo *e, struct span roles, struct arena *a)
{
	for (size_t round = 0; e->n < e->max && round < e->max; round++)
		if (add_round(e, roles, round, a) == 0)
			break;
	size_t tasks = e->told || e->n < e->max ? 0 : count_tasks(roles);
	if (tasks > e->n)
		tell_which(e, tasks);
}

static void update_voice(struct voice *v, struct span task, struct arena *a)
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
		end_voice(v);
}

void echo_update(struct echo *e, struct span detail)
{
	ARENA_AUTO arena = { 0 };
	struct span roles = scan_get(detail, "taskRoles");
	choose(e, roles, &arena);
	struct scan walk = scan_begin(roles);
	for (struct span name, role; scan_member(&walk, &name, &role);) {
		const char *text = role_name(name, &arena);
		struct scan items = scan_begin(scan_get(role, "taskStatuses"));
		struct voice *v;
		int64_t index;
		for (struct span task; scan_item(&items, &task);)
			if (task_index(task, &index) && (v = find_voice(e, text, index)))
				update_voice(v, task, &arena);
	}
}

int64_t echo_run_once(struct echo *e)
{
	int64_t next = INT64_MAX;
	for (struct voice *v = e->voice; v < e->voice + e->n; v++) {
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

bool echo_idle(const struct echo *e)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->voice[i].stage != STAGE_OVER)
			return false;
	return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct echo *echo_new(struct remote *r, struct screen *s)
{
	struct echo *e = xcalloc(1, sizeof(*e));
	*e = (struct echo){ .remote = r, .screen = s, .max = (size_t)r->o->max_logs };
	e->voice = xcalloc(e->max, sizeof(*e->voice));
	return e;
}

void echo_free(struct echo *e)
{
	if (!e)
		return;
	for (struct voice *v = e->voice; v < e->voice + e->n; v++) {
		if (v->exchange)
			client_stop(v->exchange);
		lines_end(&v->lines, print_line, v);
		lines_done(&v->lines);
		free(v->role);
		free(v->prefix);
		free(v->log);
		free(v->next_log);
		free(v->path);
	}
	free(e->voice);
	free(e);
}
