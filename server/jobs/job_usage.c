/*
 * GET /api/v2/jobs/{job}/usage: what the tasks of a job have used on this machine, and notes about
 * what they asked for and did not use.  The thread of an edit reads the rows of the store, which
 * waits for the disk.
 */
#include <stdlib.h>

#include "base/enc.h"
#include "machine/engine/engine.h"
#include "machine/usage/curve.h"
#include "server/http/edit.h"
#include "server/jobs/jobs_internal.h"

enum {
	BODY_MOST = 64 << 20,
	CURVES_MOST = 32 << 20, /* beyond so many bytes no more curves are written */
	NOTE_MAX = 1024,
	FIGURES_DEPTH = 8,
	FORMAT = 1,
};

/* ---- notes ----------------------------------------------------------------------------------- */

struct usage_notes {
	struct str *out;
	const char *task; /* "worker[0]: ", or "" */
	size_t n;
};

/* The text is freed. */
static void usage_note(struct usage_notes *w, char *text)
{
	FREE_AUTO char *line = xasprintf("%s%s", w->task, text);
	if (w->n++ < USAGE_NOTES)
		json_put_word(w->out, NULL, line);
	free(text);
}

/* An unknown figure counts neither as used nor as unused. */
static void usage_note_gpus(struct usage_notes *w, struct span gpus)
{
	static const double LOW = 15; /* percent */
	STR_AUTO unused = STR_INIT(NOTE_MAX);
	size_t n_unused = 0;
	size_t n_busy = 0;
	double busy = 0;
	struct scan walk = scan_begin(gpus);
	for (struct span gpu; scan_item(&walk, &gpu);) {
		double mean = scan_figure(scan_get(gpu, "busy"));
		if (span_is(scan_get(gpu, "used"), "false"))
			str_printf(&unused, "%s%.0f", n_unused++ ? ", " : "",
			           scan_figure(scan_get(gpu, "index")));
		else if (mean >= 0 && span_is(scan_get(gpu, "used"), "true") && ++n_busy)
			busy += mean;
	}
	if (n_unused)
		usage_note(w, n_unused == 1 ? xasprintf("GPU %s was never used", str_c(&unused))
		                            : xasprintf("GPUs %s were never used", str_c(&unused)));
	if (n_busy && busy / (double)n_busy < LOW)
		usage_note(w, xasprintf("the use of its GPUs is low: busy for %.0f %% of the time",
		                        busy / (double)n_busy));
}

/* The thresholds are those of Jobstats. */
static void usage_note_task(struct usage_notes *w, const struct attempt *t)
{
	enum { HELD_LEAST_MS = 5 * 60 * 1000 };
	static const double ENOUGH = 0.7;
	static const double SLACK_MB = 8192;
	static const double ONE = 1.05;
	static const double GIB_MB = 1024;
	struct span figures = t->figures;
	double asked = (double)(t->memory >> 20);
	double most = scan_figure(scan_get(figures, "memoryMostMB"));
	double cpus = scan_figure(scan_get(figures, "cpuSeconds")) * 1000 / (double)t->held_ms;
	if (t->held_ms < HELD_LEAST_MS)
		return;
	usage_note_gpus(w, scan_get(figures, "gpus"));
	if (most >= 0 && span_is(scan_get(figures, "memoryAtMost"), "false") &&
	    most < ENOUGH * asked && asked - most > SLACK_MB)
		usage_note(w, xasprintf("it used %.1f of the %.1f GiB of memory that it asked for",
		                        most / GIB_MB, asked / GIB_MB));
	if (cpus >= 0 && cpus < ONE && t->cpus >= 2000)
		usage_note(w, xasprintf("it used %.1f of its %lld CPUs on average", cpus,
		                        (long long)(t->cpus / 1000)));
}

static bool usage_same_task(const struct attempt *a, const struct attempt *b)
{
	return a->index == b->index && span_eq(a->role, b->role);
}

/* About the last attempt of each task. */
static void usage_put_notes(struct str *out, const struct attempt *v, size_t n)
{
	struct usage_notes w = { .out = out, .task = "" };
	bool several = n && !usage_same_task(v, v + n - 1);
	json_put_open(out, "notes", '[');
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n && usage_same_task(v + i, v + i + 1))
			continue;
		FREE_AUTO char *task =
		    xasprintf("%.*s[%lld]: ", (int)v[i].role.n, v[i].role.p, (long long)v[i].index);
		w.task = several ? task : "";
		usage_note_task(&w, v + i);
	}
	str_char(out, ']');
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A pair of curves, which has begun with {. */
static bool usage_put_pair(struct str *out, const char *first, struct span *packed)
{
	static const double MIB_BYTES = 1 << 20;
	struct curve use = { 0 };
	struct curve memory = { 0 };
	bool good = curve_unpack(packed, &use) && curve_unpack(packed, &memory);
	if (good) {
		curve_json(out, first, &use, 1);
		curve_json(out, "memoryMB", &memory, MIB_BYTES);
	}
	curve_done(&use);
	curve_done(&memory);
	return good;
}

/* The form is that of usage_state.curves; null if it is damaged. */
static void usage_put_curves(struct str *out, struct span packed)
{
	bool good = packed.n >= 2 && packed.p[0] == FORMAT && out->n < CURVES_MOST;
	size_t gpus = good ? (unsigned char)packed.p[1] : 0;
	size_t before = out->n;
	struct span rest = span_from(packed, good ? 2 : packed.n);
	json_put_open(out, "curves", '{');
	good = good && usage_put_pair(out, "cpus", &rest);
	json_put_open(out, "gpus", '[');
	for (size_t i = 0; i < gpus && good; i++) {
		json_put_open(out, NULL, '{');
		good = usage_put_pair(out, "busy", &rest);
		str_char(out, '}');
	}
	str_puts(out, "]}");
	if (!good) {
		out->n = before;
		json_put_null(out, "curves");
	}
}

static void usage_put_row(struct str *out, const struct attempt *t, bool curves)
{
	json_put_open(out, NULL, '{');
	json_put_text(out, "taskRole", t->role);
	json_put_int(out, "taskIndex", t->index);
	json_put_int(out, "jobAttempt", t->attempt);
	json_put_int(out, "taskAttempt", t->retry);
	json_put_bool(out, "running", !t->ended);
	json_put_int(out, "boundTime", t->bound_ms);
	json_put_int(out, "heldSeconds", t->held_ms / 1000);
	json_put_int(out, "gpuNumber", t->gpus);
	json_put_figure(out, "cpuNumber", (double)t->cpus / 1000);
	json_put_int(out, "memoryMB", t->memory >> 20);
	json_put_known(out, "exitCode", t->ended, t->exit);
	json_put_raw(out, "figures", t->figures.n ? t->figures : (struct span){ NULL, 0 });
	usage_put_curves(out, curves ? t->curves : SPAN(""));
	str_char(out, '}');
}

/* By role, index, attempt and retry; of one pod that which has ended first. */
static int usage_row_compare(const void *a, const void *b)
{
	const struct attempt *x = a;
	const struct attempt *y = b;
	const int64_t order[][2] = { { x->index, y->index },
		                     { x->attempt, y->attempt },
		                     { x->retry, y->retry },
		                     { y->ended, x->ended },
		                     { y->held_ms, x->held_ms } };
	int c = span_compare(x->role, y->role);
	for (size_t i = 0; i < ARRAY_SIZE(order) && c == 0; i++)
		c = (order[i][0] > order[i][1]) - (order[i][0] < order[i][1]);
	return c;
}

void job_usage_show(struct str *out, struct attempt *v, size_t n)
{
	size_t rows = 0;
	if (n)
		qsort(v, n, sizeof(*v), usage_row_compare);
	for (size_t i = 0; i < n; i++) {
		if (rows && span_eq(v[rows - 1].uid, v[i].uid))
			continue; /* the store's row of a task that runs, or has ended just now */
		v[rows] = v[i];
		if (scan_type(v[i].figures) != SCAN_OBJECT ||
		    !scan_valid(v[i].figures, FIGURES_DEPTH))
			v[rows].figures = SPAN("");
		rows++;
	}
	json_put_open(out, NULL, '{');
	json_put_open(out, "tasks", '[');
	for (size_t i = 0; i < rows && i < USAGE_TASKS; i++)
		usage_put_row(out, &v[i], i < USAGE_CURVES);
	str_char(out, ']');
	json_put_int(out, "tasksTotal", (int64_t)rows);
	usage_put_notes(out, v, rows);
	str_puts(out, "}\n");
}

/* ---- the route ------------------------------------------------------------------------------- */

bool machine_refuses(struct request *r)
{
	if (r->loop->server->engine)
		return false;
	answer_refuse(r, 404, "NoMachineError",
	              "this server does not run jobs on its own machine; it would with --local");
	return true;
}

/* Running tasks are asked for first: one that ends meanwhile is in both lists, not in none. */
static void usage_look(struct edit *t)
{
	const struct server *s = t->r->loop->server;
	const struct job_entry *job = t->arg;
	struct attempt *live = NULL;
	struct attempt *stored = NULL;
	size_t n_live = 0;
	size_t n = 0;
	engine_attempts(s->engine, span_of(job->uid), &t->arena, &live, &n_live);
	if (attempts_of(s->local, span_of(job->uid), USAGE_CURVES, &t->arena, &stored, &n, &t->e) <
	    0)
		return;
	struct attempt *all = ARENA_NEW(&t->arena, struct attempt, n_live + n);
	for (size_t i = 0; i < n_live + n; i++)
		all[i] = i < n_live ? live[i] : stored[i - n_live];
	t->body.max = BODY_MOST;
	job_usage_show(&t->body, all, n_live + n);
	if (t->body.full)
		(void)err_set(&t->e, UNKNOWN_ERROR, "the figures of this job are too long");
}

static void usage_looked(struct edit *t)
{
	if (!answer_has_room(t->r))
		return;
	answer_hold(t->r);
	answer_json(t->r, 200);
}

static void usage_found(struct request *r, const struct job_entry *job)
{
	if (!machine_refuses(r) && answer_has_room(r))
		edit_start(r, usage_look, usage_looked, (void *)(uintptr_t)job); /* NOLINT */
}

void job_usage_get(struct request *r)
{
	job_find(r, usage_found);
}
