/*
 * The logs of several tasks, with "worker[0] | " before each line: one task of each role first,
 * then more, up to `max-logs`; or, for `rest-lit logs` without -f, the whole logs, task after task.
 * The last lines of each are kept.
 *
 * When a stream ends, the log is opened again at the offset of the next byte.  If the server does
 * not know it, what comes is printed, after a line that says so.  After the end of a task its log
 * is opened a last time: the pod may have been removed early, and the server may have kept the end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "server/cli/cli_internal.h"

enum {
	NAME_MAX_BYTES = 256,
	ANSWER_MAX = 64 * 1024,
	SILENCE_S = 120, /* of a log that is not followed */
	ONCE_MAX = 1000, /* tasks */
	LOST_MAX = 3,
	TIME_MAX = 40,
	RUNTIME_MAX = 80,    /* bytes of the beginning of a line of pai-runtime */
	ENDS_MAX = 64 << 20, /* bytes of lines for --tail */
	LAST_LINES = 10,
	LAST_WIDTH = 512,   /* bytes that are kept of a line */
	PLAIN_MAX = 1 << 20 /* bytes of a line of pai-runtime, and of a piece */
};

struct task_stream {
	struct log_mux *mux;
	char *name;           /* "worker[0]" */
	const char *file;     /* "all", or of a command "stdout" or "stderr" */
	char *log, *next_log; /* paths; next_log: of a later attempt */
	bool done;            /* the task has ended */
	bool heard;           /* a stream of this attempt was opened */
	bool running;
	bool final;                       /* the last stream was opened after the end of the task */
	bool closed;                      /* there is no log, or it was read to its end */
	struct client_exchange *exchange; /* NULL: the next one begins at due_ms, unless closed */
	char *path;                       /* of the exchange */
	int64_t at;      /* offset of the next byte in the log; -1: the server does not know it */
	char start[48];  /* X-Log-Start: of which part of the log; "": of all */
	bool came;       /* bytes of this attempt came */
	struct str ends; /* the last lines so far, while `tail` is read */
	size_t n_ends, ends_at;
	bool caught; /* they are printed, and what follows is new */
	bool fresh;  /* bytes came in this stream */
	unsigned failures;
	int64_t due_ms;
	struct line_splitter lines;
	bool mid_line;               /* the beginning of a line of a command is printed */
	struct str last[LAST_LINES]; /* the line i at i % LAST_LINES */
	size_t n_last;
};

struct log_mux {
	struct remote *remote;
	struct term *term;
	struct log_wanted wanted;
	struct task_stream *stream;
	size_t n, max;
	size_t missing; /* logs that could not be read */
	bool told;      /* printed that there are more tasks */
};

/* ---- one stream ------------------------------------------------------------------------------ */

static void stream_show_line(const struct task_stream *v, struct span line, bool cut)
{
	const char *name = v->mux->wanted.alone ? NULL : v->name;
	term_log(v->mux->term, name, (size_t)(v - v->mux->stream), line, cut);
}

/* Keeps a line, and no more than the last of them. */
static void stream_keep_line(struct task_stream *v, struct span line)
{
	struct str *ends = &v->ends;
	ends->max = (size_t)2 * ENDS_MAX;
	str_span(ends, line);
	str_char(ends, '\n');
	v->n_ends++;
	while ((int64_t)v->n_ends >= v->mux->wanted.tail || ends->n - v->ends_at > ENDS_MAX) {
		v->ends_at += 1 + span_chr(span_from(str_view(ends), v->ends_at), '\n');
		v->n_ends--;
	}
	if (v->ends_at < ends->n / 2)
		return;
	ends->n -= v->ends_at;
	memmove(ends->p, ends->p + v->ends_at, ends->n);
	v->ends_at = 0;
}

/* Prints bytes of a command. */
static void stream_print_bytes(const struct task_stream *v, struct span bytes)
{
	bool out = strcmp(v->file, "stdout") == 0;
	bool lost = fwrite(bytes.p, 1, bytes.n, out ? stdout : stderr) != bytes.n;
	v->mux->term->lost |= lost && out;
}

static void stream_print_line(void *arg, struct span line, bool cut)
{
	struct task_stream *v = arg;
	const struct log_wanted *wanted = &v->mux->wanted;
	/* A line of pai-runtime, "[TIME] [openpai-runtime] ...", and whether it tells that
	 * something goes wrong; the exit code is in the verdict anyway. */
	bool runtime = !v->mid_line && line.n && line.p[0] == '[' &&
	               span_find(line, 0, "] [openpai-runtime] ") < TIME_MAX;
	bool tells = (span_find(line, 0, "[ERROR]") != SIZE_MAX ||
	              span_find(line, 0, "[WARNING]") != SIZE_MAX) &&
	             span_find(line, 0, "] USER COMMAND ") == SIZE_MAX;
	if (runtime && (wanted->plain || (wanted->brief && !tells)))
		return;
	if (wanted->plain) {
		stream_print_bytes(v, line);
		stream_print_bytes(v, SPAN("\n"));
		v->mid_line = false;
		return;
	}
	struct span shown = visible_part(line);
	if (span_trim(shown).n) {
		struct str *last = &v->last[v->n_last++ % LAST_LINES];
		last->max = LAST_WIDTH;
		last->n = 0;
		str_span(last, span_to(shown, shown.n < LAST_WIDTH ? shown.n : LAST_WIDTH));
	}
	if (wanted->tail && !v->caught)
		stream_keep_line(v, line);
	else if (!wanted->kept)
		stream_show_line(v, line, cut);
}

/* The first bytes of a stream: says what is missing before them, or that this is not known.  false:
 * they are not wanted, a kept output after what was written since a time. */
static bool stream_place(struct task_stream *v)
{
	const struct log_wanted *wanted = &v->mux->wanted;
	bool timeless = wanted->since && client_header(v->exchange, "X-Log-Dropped");
	const char *offset = client_header(v->exchange, "X-Log-Offset");
	struct span start = span_of(client_header(v->exchange, "X-Log-Start") ?: "");
	int64_t expected = v->at;
	bool first = !v->came;
	if (timeless && v->heard)
		return false;
	if (timeless)
		term_message(v->mux->term,
		             "the output of %s is kept without times: all of it follows", v->name);
	bool same = first || span_is(start, v->start);
	if (!offset || parse_i64(span_of(offset), 0, INT64_MAX, &v->at) < 0)
		v->at = -1;
	(void)snprintf(v->start, sizeof(v->start), "%.*s", span_digits(start) ? (int)start.n : 0,
	               start.p);
	if ((v->at >= 0 && v->at == expected && same) || (first && (v->at < 0 || wanted->since)))
		return true;
	lines_end(&v->lines, stream_print_line, v);
	if (wanted->kept || (wanted->tail && !v->caught))
		return true;
	if (!same || v->at < expected || expected < 0)
		term_message(v->mux->term, "%s: lines may be repeated or missing from here on",
		             v->name);
	else
		term_message(v->mux->term, "%s: %lld bytes before the next line are not kept",
		             v->name, (long long)(v->at - expected));
	return true;
}

static bool stream_take_piece(void *arg, struct span bytes)
{
	struct task_stream *v = arg;
	if (!v->fresh && !stream_place(v))
		return false;
	v->fresh = v->came = true;
	v->at += v->at < 0 ? 0 : (int64_t)bytes.n;
	if (v->mux->wanted.plain && strcmp(v->file, "stdout") == 0)
		stream_print_bytes(v, bytes);
	else
		lines_feed(&v->lines, bytes, stream_print_line, v);
	/* A line of a command is printed as it comes, unless pai-runtime may have begun it. */
	struct str *line = &v->lines.line;
	if (v->mux->wanted.plain && line->n &&
	    (v->mid_line || line->p[0] != '[' || line->n > RUNTIME_MAX)) {
		stream_print_bytes(v, str_view(line));
		v->mid_line = true;
		line->n = 0;
	}
	return !v->mux->term->lost;
}

/* The log was read to its present end: prints the lines that are kept. */
static void stream_catch_up(struct task_stream *v)
{
	struct span rest = span_from(str_view(&v->ends), v->ends_at);
	v->caught = true;
	while (rest.n)
		stream_show_line(v, span_next(&rest, '\n'), false);
	str_done(&v->ends);
	v->ends_at = v->n_ends = 0;
}

/* Ends the log of an attempt; continues with the next one, if any. */
static void stream_end_attempt(struct task_stream *v)
{
	lines_end(&v->lines, stream_print_line, v);
	if (v->log)
		stream_catch_up(v);
	v->closed = true;
	if (!v->next_log)
		return;
	free(v->log);
	v->log = TAKE(v->next_log);
	v->at = 0;
	v->came = false;
	v->start[0] = '\0';
	v->heard = v->final = false;
	v->failures = 0;
	v->due_ms = 0;
	v->closed = false;
}

static void stream_retry(struct task_stream *v, const struct client_answer *a)
{
	v->failures++;
	v->due_ms = clock_ms() + remote_pause_ms(v->mux->remote, a, v->failures + 1);
}

static void stream_absent(struct task_stream *v, const char *why)
{
	if (!v->mux->remote->own)
		term_message(v->mux->term, "no log of %s: %s", v->name, why);
	v->mux->missing++;
}

/* The log is not complete.  It may not exist yet, or no longer. */
static void stream_failed(struct task_stream *v, const struct client_answer *a)
{
	const struct pace *pace = v->mux->remote->pace;
	bool lasting = a->hopeless || a->status == 401 || a->status == 403;
	bool gone = v->next_log || (v->done && (!remote_may_retry(a) || v->failures >= LOST_MAX));
	if (!lasting && !gone) {
		stream_retry(v, a);
		if (a->status == 404) /* the pod is being created: poll */
			v->due_ms = clock_ms() + (v->running ? pace->gap : pace->early);
		return;
	}
	if (lasting || (!v->came && !v->heard)) {
		ERR_AUTO e = { 0 };
		remote_error(v->mux->remote, a, &e);
		stream_absent(v, err_msg(&e));
	}
	stream_end_attempt(v);
}

static void stream_ended(void *arg, const struct client_answer *a)
{
	struct task_stream *v = arg;
	v->exchange = NULL;
	bool over = v->done || v->next_log;
	bool whole = !a->problem && a->status / 100 == 2;
	if (v->fresh)
		v->failures = 0;
	v->heard |= whole;
	if (!whole)
		stream_failed(v, a);
	else if ((over && v->final) || v->mux->wanted.plain)
		stream_end_attempt(v); /* it is not tried again */
	else
		stream_retry(v, a);
	if (whole && v->mux->wanted.tail && !v->caught) {
		stream_catch_up(v);
		v->due_ms = 0;
	}
	if (whole && over && !v->closed && !v->final)
		v->due_ms = 0;
}

/* Opens the log at the offset of the next byte. */
static void stream_start(struct task_stream *v)
{
	ERR_AUTO e = { 0 };
	const struct log_wanted *wanted = &v->mux->wanted;
	bool follow = !wanted->once && (!wanted->tail || v->caught);
	char place[96] = "";
	if (v->at > 0)
		(void)snprintf(place, sizeof(place), "&from=%lld&start=%s", (long long)v->at,
		               v->start);
	free(v->path);
	v->path = xasprintf("%s/%s?follow=%s%s%s%s", v->log, v->file, follow ? "true" : "false",
	                    place, wanted->since ? "&since=" : "", wanted->since ?: "");
	v->fresh = false;
	v->final = v->done || v->next_log;
	const struct client_call call = { .method = "GET",
		                          .path = v->path,
		                          .max = ANSWER_MAX,
		                          .silence_s = follow ? 0 : SILENCE_S,
		                          .piece = stream_take_piece,
		                          .ended = stream_ended,
		                          .arg = v };
	v->exchange = client_start(v->mux->remote->client, &call, &e);
	if (!v->exchange)
		stream_retry(v, &(struct client_answer){ 0 });
}

/* ---- choice of tasks ------------------------------------------------------------------------- */

bool log_task_named(const char *task, struct span role, int64_t index)
{
	ARENA_AUTO a = { 0 };
	struct span text = span_of(task);
	int n = (int)role.n;
	long long i = index;
	return span_eq(text, role) || span_is(text, arena_printf(&a, "%lld", i)) ||
	       span_is(text, arena_printf(&a, "%.*s-%lld", n, role.p, i)) ||
	       span_is(text, arena_printf(&a, "%.*s[%lld]", n, role.p, i));
}

/* The name is in every line: short and visible. */
static const char *log_mux_name(const struct task_walk *w, struct arena *a)
{
	return arena_printf(a, "%s[%lld]", visible_line(a, span_cut(w->role, NAME_MAX_BYTES)),
	                    (long long)w->index);
}

static struct task_stream *log_mux_find(struct log_mux *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->stream[i].name, name) == 0)
			return &m->stream[i];
	return NULL;
}

/* The next task whose log is wanted. */
static bool log_mux_next(const struct log_mux *m, struct task_walk *w)
{
	while (progress_next_task(w))
		if (!m->wanted.task || log_task_named(m->wanted.task, w->role, w->index))
			return true;
	return false;
}

/* Adds the first task of each role, then the second ones, while there is room; or, for `once` and
 * for jobs of this process, all tasks in their order. */
static void log_mux_choose(struct log_mux *m, struct span detail, struct arena *a)
{
	static const char *const FILES[] = { "all", "stdout", "stderr" };
	bool in_order = m->wanted.once || m->remote->own;
	size_t tasks = 0;
	bool more = m->n < m->max || !m->told;
	for (size_t round = 0; more; round++) {
		struct task_walk w = progress_tasks(detail);
		const char *role = NULL;
		size_t nth = 0; /* of its role */
		for (tasks = 0, more = false; log_mux_next(m, &w); tasks++) {
			nth = w.role.p == role ? nth + 1 : 0;
			role = w.role.p;
			if (nth != round && !in_order) {
				more |= nth > round && m->n < m->max;
				continue;
			}
			const char *name = log_mux_name(&w, a);
			if (m->n == m->max || log_mux_find(m, name))
				continue;
			size_t max = m->wanted.plain ? PLAIN_MAX : (size_t)m->remote->o->max_line;
			for (size_t i = m->wanted.plain ? 1 : 0; i < (m->wanted.plain ? 3 : 1);
			     i++) {
				struct task_stream *v = &m->stream[m->n++];
				*v = (struct task_stream){ .mux = m,
					                   .name = xstrdup(name),
					                   .file = FILES[i],
					                   .closed = true,
					                   .lines = LINES_INIT(max) };
				v->lines.keeps_cr = m->wanted.plain;
			}
		}
	}
	if (m->remote->own && tasks)
		m->wanted.alone = tasks == 1;
	if (tasks <= m->n || m->told)
		return;
	STR_AUTO text = STR_INIT((size_t)8 * NAME_MAX_BYTES * (m->n + 1));
	m->told = true;
	for (size_t i = 0; i < m->n && !in_order; i++)
		str_printf(&text, "%s%s", i ? ", " : "", m->stream[i].name);
	if (in_order)
		str_printf(&text, "the first %zu tasks", m->n);
	term_message(m->term, "logs of %s; not of %zu other tasks", str_c(&text), tasks - m->n);
}

/* The path of the log of the try before this one, .../attempts/A/.../attempts/R/logs: R - 1, else A
 * - 1; p NULL: this is the first. */
static struct span stream_log_before(struct span log, struct arena *a)
{
	static const char KEY[] = "/attempts/";
	size_t at = span_find(log, 0, KEY);
	size_t first = at;
	for (size_t next = at; next != SIZE_MAX; next = span_find(log, next + 1, KEY))
		at = next;
	for (int i = 0; i < 2 && at != SIZE_MAX; i++, at = first) {
		struct span number = span_from(log, at + strlen(KEY));
		int64_t n;
		number = span_to(number, span_chr(number, '/'));
		struct span rest = span_from(log, (size_t)(number.p + number.n - log.p));
		if (parse_i64(number, 1, INT32_MAX, &n) == 0)
			return span_of(arena_printf(a, "%.*s%lld%.*s", (int)(number.p - log.p),
			                            log.p, (long long)n - 1, (int)rest.n, rest.p));
	}
	return (struct span){ NULL, 0 };
}

/* Returns true if the task has succeeded: it is not repeated. */
static bool stream_update(struct task_stream *v, struct span task, struct arena *a)
{
	enum job_state state = job_state_named(scan_text(scan_get(task, "taskState"), a));
	struct span log = scan_text(scan_get(task, "containerLog"), a);
	bool done = job_state_final(state) || v->mux->wanted.once;
	bool running = state == JOB_RUNNING;
	if ((done && !v->done) || (running && !v->running))
		v->due_ms = 0; /* it may be there now, or is to be opened for the last time */
	if (done && !v->done && v->mux->remote->own && v->exchange && !v->mux->wanted.plain) {
		/* Its files stay, and have all now. */
		client_stop(TAKE(v->exchange));
	}
	v->done = done;
	v->running = running;
	bool over = state == JOB_SUCCEEDED;
	bool placed = scan_type(scan_get(task, "containerNodeName")) == SCAN_STRING;
	struct span before = state == JOB_WAITING && v->mux->wanted.once ? stream_log_before(log, a)
	                                                                 : (struct span){ NULL, 0 };
	if (before.p && !v->log && !v->next_log) {
		term_message(v->mux->term, "%s waits; this is the output of the try before",
		             v->name);
		placed = true;
		log = before;
	}
	if ((state == JOB_WAITING && !placed) || log.n < 2 || log.p[0] != '/') {
		if (v->mux->wanted.once)
			stream_absent(v, "it is waiting");
		return over;
	}
	if (v->log && span_is(log, v->log))
		return over;
	free(v->next_log);
	v->next_log = xstrndup(log.p, log.n);
	v->due_ms = 0;
	if (v->closed)
		stream_end_attempt(v);
	return over;
}

bool log_mux_update(struct log_mux *m, struct span detail)
{
	ARENA_AUTO arena = { 0 };
	log_mux_choose(m, detail, &arena);
	bool over = m->n > 0;
	for (struct task_walk w = progress_tasks(detail); log_mux_next(m, &w);) {
		const char *name = log_mux_name(&w, &arena);
		for (struct task_stream *v = m->stream; v < m->stream + m->n; v++)
			if (strcmp(v->name, name) == 0)
				over &= stream_update(v, w.task, &arena);
	}
	return over;
}

int64_t log_mux_run_once(struct log_mux *m)
{
	int64_t next = INT64_MAX;
	for (struct task_stream *v = m->stream; v < m->stream + m->n && !m->term->lost; v++) {
		if (m->wanted.once && v->exchange)
			break; /* one after the other */
		if (v->exchange || v->closed)
			continue;
		int64_t left = v->due_ms - clock_ms();
		if (left <= 0)
			stream_start(v);
		else if (left < next)
			next = left;
		if (m->wanted.once)
			break;
	}
	return next;
}

bool log_mux_idle(const struct log_mux *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (!m->stream[i].closed)
			return false;
	return true;
}

size_t log_mux_missing(const struct log_mux *m)
{
	return m->missing;
}

/* ---- the last lines -------------------------------------------------------------------------- */

/* Appends a line without colours (CSI ... m), which a block does not have. */
static void log_mux_show(struct str *out, struct span line)
{
	STR_AUTO text = STR_INIT(LAST_WIDTH);
	for (size_t i = 0; i < line.n; i++) {
		bool begins = span_starts(span_from(line, i), "\x1b[");
		size_t end = begins ? span_skip_class(line, i + 2, "0-9;") : line.n;
		if (end < line.n && line.p[end] == 'm')
			i = end;
		else
			str_char(&text, line.p[i]);
	}
	visible_text(out, str_view(&text));
}

size_t log_mux_tasks(const struct log_mux *m, struct arena *a, const struct task_progress **out)
{
	struct task_progress *all = ARENA_NEW(a, struct task_progress, m->n);
	size_t n = 0;
	for (const struct task_stream *v = m->stream; v < m->stream + m->n; v++) {
		/* A line that is not complete can be a progress bar. */
		STR_AUTO line = STR_INIT((size_t)8 * LAST_WIDTH);
		log_mux_show(&line, visible_part(str_view(&v->lines.line)));
		if (!span_trim(str_view(&line)).n && v->n_last) {
			line.n = 0;
			log_mux_show(&line, str_view(&v->last[(v->n_last - 1) % LAST_LINES]));
		}
		if (line.n)
			all[n++] = (struct task_progress){ v->name, arena_dup(a, str_view(&line)),
				                           v->running };
	}
	*out = all;
	return n;
}

bool log_mux_tail(struct log_mux *m, struct str *out, const char *task)
{
	const struct task_stream *v = log_mux_find(m, task);
	if (!v || !v->n_last)
		return false;
	if (m->wanted.alone && !m->wanted.kept)
		return true;
	str_printf(out, "the last lines of %s:\n", v->name);
	for (size_t i = v->n_last < LAST_LINES ? 0 : v->n_last - LAST_LINES; i < v->n_last; i++) {
		str_puts(out, "  ");
		log_mux_show(out, str_view(&v->last[i % LAST_LINES]));
		str_char(out, '\n');
	}
	return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* All streams are allocated at once, because requests keep pointers to them. */
struct log_mux *log_mux_new(struct remote *r, struct term *s, const struct log_wanted *wanted)
{
	struct log_mux *m = xcalloc(1, sizeof(*m));
	*m = (struct log_mux){ .remote = r, .term = s, .wanted = *wanted };
	m->max = wanted->once ? ONCE_MAX : (size_t)r->o->max_logs;
	m->stream = xcalloc(m->max, sizeof(*m->stream));
	return m;
}

void log_mux_free(struct log_mux *m)
{
	if (!m)
		return;
	for (struct task_stream *v = m->stream; v < m->stream + m->n; v++) {
		if (v->exchange)
			client_stop(v->exchange);
		lines_end(&v->lines, stream_print_line, v);
		str_done(&v->lines.line);
		str_done(&v->ends);
		for (size_t i = 0; i < LAST_LINES; i++)
			str_done(&v->last[i]);
		free(v->name);
		free(v->log);
		free(v->next_log);
		free(v->path);
	}
	free(m->stream);
	free(m);
}
