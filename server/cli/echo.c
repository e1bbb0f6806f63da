/*
 * A log is followed by a link, which is asked for each time.  A server ends a long stream, or dies:
 * then the log is asked for again, and what was printed of it is passed over.  When a task has
 * ended, its log is asked for a last time: the pod may have gone before all of it came, and the
 * server may have kept the end.
 */
#include "server/cli/echo.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/json/scan.h"
#include "k8s/cache/job_state.h"
#include "k8s/transport/store.h"
#include "server/cli/screen.h"

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
	str_printf(&text, "; not of %zu other tasks (--max-logs)", tasks - e->n);
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

int64_t echo_turn(struct echo *e)
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
