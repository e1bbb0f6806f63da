/* The output of the tasks of a `run`, from the files of the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "k8s/cache/job_entry.h"
#include "k8s/logs/log_file.h"
#include "server/cli/run_internal.h"

enum {
	TASKS_MAX = 256, /* whose output is read */
	PIECES_MAX = 64, /* of a task at a time, so that one does not hide the others */
	LAST_LINES = 10, /* kept of a task */
	LAST_WIDTH = 512,
	MISSES_MAX = 5,
	EVENTS_MAX = 4096
};

struct run_log {
	struct run_logs *all;
	char *role, *name;             /* name: "worker[0]" */
	int64_t index, attempt, retry; /* attempt < 0: it has not begun */
	bool running, ended;           /* ended: the task */
	bool over;                     /* this log was read to its end */
	struct log_file *file;
	unsigned misses; /* of the log of an ended task: it may be moving */
	struct lines lines;
	struct str last[LAST_LINES]; /* the line i at i % LAST_LINES */
	size_t n_last;
};

struct run_logs {
	struct engine *engine;
	struct term *term;
	size_t max_line;
	bool stream, told;
	bool runtime; /* also the lines of pai-runtime */
	int inotify;
	char *uid;
	struct run_log *v;
	size_t n;
};

/* ---- lines ----------------------------------------------------------------------------------- */

/* Without colours (CSI ... m), which a block does not have. */
static void run_log_show(struct str *out, struct span line)
{
	STR_AUTO text = STR_INIT(LAST_WIDTH);
	for (size_t i = 0; i < line.n; i++) {
		size_t end = i + 2;
		if (line.n - i < 3 || line.p[i] != '\x1b' || line.p[i + 1] != '[') {
			str_char(&text, line.p[i]);
			continue;
		}
		while (end < line.n && (is_digit(line.p[end]) || line.p[end] == ';'))
			end++;
		if (end < line.n && line.p[end] == 'm')
			i = end;
		else
			str_char(&text, line.p[i]);
	}
	visible_text(out, str_view(&text));
}

static void run_log_keep(struct run_log *v, struct span line)
{
	struct str *at = &v->last[v->n_last++ % LAST_LINES];
	at->max = LAST_WIDTH;
	at->n = 0;
	str_span(at, span_to(line, line.n < LAST_WIDTH ? line.n : LAST_WIDTH));
}

/* What pai-runtime does is of interest if it goes wrong; the exit code is in the verdict. */
static bool run_log_hides(const struct run_log *v, struct span line)
{
	bool bad = span_find(line, 0, "[ERROR]") != SIZE_MAX ||
	           span_find(line, 0, "[WARNING]") != SIZE_MAX;
	return !v->all->runtime && log_line_of_runtime(line) &&
	       (!bad || span_find(line, 0, "] USER COMMAND ") != SIZE_MAX);
}

static void run_log_line(void *arg, struct span line, bool cut)
{
	struct run_log *v = arg;
	struct span shown = visible_part(line);
	const struct log_name name = { v->all->n > 1 ? v->name : NULL, (size_t)(v - v->all->v) };
	if (run_log_hides(v, line))
		return;
	if (span_trim(shown).n)
		run_log_keep(v, shown);
	if (v->all->stream)
		term_log(v->all->term, &name, line, cut);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool run_log_find(void *arg, struct arena *a, struct log_files *out)
{
	const struct run_log *v = arg;
	const struct engine_task task = { .framework_uid = span_of(v->all->uid),
		                          .role = span_of(v->role),
		                          .index = v->index,
		                          .attempt = v->attempt,
		                          .retry = v->retry };
	return engine_log_find(v->all->engine, &task, a, out);
}

static void run_log_close(struct run_log *v)
{
	lines_end(&v->lines, run_log_line, v);
	log_file_free(v->file);
	v->file = NULL;
	v->over = true;
}

static void run_log_open(struct run_log *v)
{
	const struct log_file_request request = { .find = run_log_find,
		                                  .arg = v,
		                                  .streams = LOG_FILE_STDOUT | LOG_FILE_STDERR,
		                                  .follow = true };
	int status = 0;
	if (v->attempt < 0 || v->over || v->file)
		return;
	v->file = log_file_open(&request, &status); /* later, if nothing was written yet */
	if (!v->file && v->ended && ++v->misses > MISSES_MAX)
		v->over = true;
}

/* true: there is more. */
static bool run_log_read(struct run_log *v)
{
	struct span piece;
	run_log_open(v);
	for (int i = 0; i < PIECES_MAX && v->file; i++) {
		switch (log_file_next(v->file, &piece)) {
		case LOG_FILE_PIECE:
			lines_feed(&v->lines, piece, run_log_line, v);
			continue;
		case LOG_FILE_QUIET:
			(void)log_file_watch(v->file, v->all->inotify); /* else every second */
			return false;
		case LOG_FILE_END:
		case LOG_FILE_BROKEN:
			run_log_close(v);
			return false;
		}
	}
	return v->file != NULL;
}

bool run_logs_read(struct run_logs *l)
{
	char events[EVENTS_MAX];
	bool more = false;
	while (read(l->inotify, events, sizeof(events)) > 0)
		; /* every log is looked at anyway */
	for (size_t i = 0; i < l->n; i++)
		more |= run_log_read(&l->v[i]);
	return more;
}

int run_logs_fd(const struct run_logs *l)
{
	return l->inotify;
}

bool run_logs_over(const struct run_logs *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].attempt >= 0 && !l->v[i].over)
			return false;
	return true;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static struct run_log *run_logs_get(struct run_logs *l, struct span role, int64_t index)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].index == index && span_is(role, l->v[i].role))
			return &l->v[i];
	if (l->n == TASKS_MAX)
		return NULL;
	struct run_log *v = &l->v[l->n++];
	*v = (struct run_log){ .all = l, .index = index, .attempt = -1 };
	v->role = xstrndup(role.p, role.n);
	v->name = xasprintf("%s[%lld]", v->role, (long long)index);
	v->lines = LINES_INIT(l->max_line);
	return v;
}

/* ".../attempts/A/taskRoles/ROLE/taskIndex/INDEX/attempts/R/logs" */
static bool run_log_attempt(struct span path, int64_t *attempt, int64_t *retry)
{
	static const char KEY[] = "/attempts/";
	enum { KEY_N = sizeof(KEY) - 1 };
	size_t first = span_find(path, 0, KEY);
	size_t second = first == SIZE_MAX ? first : span_find(path, first + KEY_N, KEY);
	if (second == SIZE_MAX)
		return false;
	struct span a = span_from(path, first + KEY_N);
	struct span r = span_from(path, second + KEY_N);
	return parse_i64(span_to(a, span_chr(a, '/')), 0, INT32_MAX, attempt) == 0 &&
	       parse_i64(span_to(r, span_chr(r, '/')), 0, INT32_MAX, retry) == 0;
}

static void run_log_update(struct run_log *v, struct span task, struct arena *a)
{
	int64_t attempt;
	int64_t retry;
	enum job_state state = job_state_named(scan_text(scan_get(task, "taskState"), a));
	v->ended = job_state_final(state);
	v->running = state == JOB_RUNNING;
	if (!run_log_attempt(scan_text(scan_get(task, "containerLog"), a), &attempt, &retry) ||
	    (attempt == v->attempt && retry == v->retry))
		return;
	while (run_log_read(v)) /* its end, which is in files */
		;
	run_log_close(v);
	v->attempt = attempt;
	v->retry = retry;
	v->over = false;
	v->misses = 0;
}

void run_logs_update(struct run_logs *l, struct span uid, struct span detail)
{
	ARENA_AUTO arena = { 0 };
	size_t missing = 0;
	if (!l->uid)
		l->uid = xstrndup(uid.p, uid.n);
	for (struct task_walk w = progress_tasks(detail); progress_next_task(&w);) {
		struct run_log *v = run_logs_get(l, w.role, w.index);
		missing += v == NULL;
		if (v)
			run_log_update(v, w.task, &arena);
	}
	if (missing && !l->told)
		term_say(l->term, "the output of the first %d tasks is shown", TASKS_MAX);
	l->told |= missing > 0;
}

size_t run_logs_tasks(const struct run_logs *l, struct arena *a, const struct task_progress **out)
{
	struct task_progress *all = ARENA_NEW(a, struct task_progress, l->n);
	size_t n = 0;
	for (const struct run_log *v = l->v; v < l->v + l->n; v++) {
		/* A line that is not complete can be a progress bar. */
		STR_AUTO line = STR_INIT((size_t)8 * LAST_WIDTH);
		run_log_show(&line, visible_part(str_view(&v->lines.line)));
		if (!span_trim(str_view(&line)).n && v->n_last) {
			line.n = 0;
			run_log_show(&line, str_view(&v->last[(v->n_last - 1) % LAST_LINES]));
		}
		if (line.n)
			all[n++] = (struct task_progress){ v->name, arena_dup(a, str_view(&line)),
				                           v->running };
	}
	*out = all;
	return n;
}

bool run_logs_tail(const struct run_logs *l, struct str *out, const char *task)
{
	bool any = false;
	for (const struct run_log *v = l->v; v < l->v + l->n; v++) {
		if (strcmp(v->name, task) != 0 || v->n_last == 0)
			continue;
		any = true;
		str_printf(out, "the last lines of %s:\n", v->name);
		for (size_t i = v->n_last < LAST_LINES ? 0 : v->n_last - LAST_LINES; i < v->n_last;
		     i++) {
			str_puts(out, "  ");
			run_log_show(out, str_view(&v->last[i % LAST_LINES]));
			str_char(out, '\n');
		}
	}
	return any;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct run_logs *run_logs_new(struct engine *engine, struct term *t, const struct options *o,
                              bool stream)
{
	struct run_logs *l = xcalloc(1, sizeof(*l));
	*l = (struct run_logs){ .engine = engine, .term = t, .stream = stream };
	l->max_line = (size_t)o->max_line;
	l->runtime = o->logs;
	l->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC); /* -1: poll ignores it */
	l->v = xcalloc(TASKS_MAX, sizeof(*l->v));
	return l;
}

void run_logs_free(struct run_logs *l)
{
	if (!l)
		return;
	for (struct run_log *v = l->v; v < l->v + l->n; v++) {
		log_file_free(v->file);
		lines_done(&v->lines);
		free(v->role);
		free(v->name);
		for (size_t i = 0; i < LAST_LINES; i++)
			str_done(&v->last[i]);
	}
	if (l->inotify >= 0)
		(void)close(l->inotify); /* read only */
	free(l->uid);
	free(l->v);
	free(l);
}
