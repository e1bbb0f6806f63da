/*
 * GET /api/v2/machine: the resources of this machine, the jobs that hold or want them, and what its
 * GPUs do.  The engine publishes this after each decision; the names of jobs are those of the list,
 * which all users see, as they see programs outside of jobs, with ps.
 */
#include <stdlib.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "machine/engine/engine.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/jobs/jobs_internal.h"

/* The most jobs that each of the two lists shows, and bytes of their reasons. */
enum { MACHINE_JOBS = 500, MACHINE_REASON = 500 };

struct machine_row {
	const struct engine_share *share;
	const struct job_entry *job;
};

/* Orders by the place in the queue, jobs without one last; then by age. */
static int machine_compare(const void *a, const void *b)
{
	const struct machine_row *x = a;
	const struct machine_row *y = b;
	size_t left = x->share->place - 1; /* 0 becomes the largest */
	size_t right = y->share->place - 1;
	if (left != right)
		return left < right ? -1 : 1;
	if (x->job->submitted_ms != y->job->submitted_ms)
		return x->job->submitted_ms < y->job->submitted_ms ? -1 : 1;
	return strcmp(x->job->name, y->job->name);
}

static void machine_put_amounts(struct str *out, const struct amounts *a, const char *suffix)
{
	str_printf(out, ",\"gpus%s\":%lld,\"memoryMB%s\":%lld,\"cpus%s\":", suffix,
	           (long long)a->gpus, suffix, (long long)(a->memory >> 20), suffix);
	number_put(out, (double)a->cpus / 1000);
}

static void machine_put_mb(struct str *out, const char *key, int64_t bytes)
{
	json_put_known(out, key, bytes >= 0, bytes >> 20);
}

static void machine_put_used(struct str *out, const struct engine_used *u)
{
	json_put_open(out, "used", '{');
	json_put_figure(out, "cpus", u->cpus);
	machine_put_mb(out, "memoryMB", u->memory);
	json_put_bool(out, "memoryAtMost", u->memory_at_most);
	json_put_figure(out, "busy", u->busy);
	machine_put_mb(out, "gpuMemoryMB", u->gpu_memory);
	json_put_known(out, "gpuIdleSince", u->gpus_idle_ms > 0, clock_wall_ms() - u->gpus_idle_ms);
	str_char(out, '}');
}

static void machine_put_row(struct request *r, const struct engine_shares *all,
                            const struct machine_row *row, bool waiting)
{
	struct str *out = &r->reply.body;
	const struct engine_share *s = row->share;
	struct span why = { "", 0 };
	json_put_open(out, NULL, '{');
	json_put_word(out, "name", row->job->job);
	json_put_word(out, "username", job_entry_shown_user(row->job));
	json_put_int(out, "tasks", (int64_t)(waiting ? s->sum.waiting : s->sum.running));
	machine_put_amounts(out, waiting ? &s->sum.wanted : &s->sum.held, "");
	if (!waiting) {
		json_put_open(out, "gpuIndexes", '[');
		for (int64_t i = 0; i < all->total.gpus && s->sum.held.gpus; i++)
			if (all->gpus[i] == s)
				json_put_int(out, NULL, i);
		str_char(out, ']');
		machine_put_used(out, &s->used);
		str_char(out, '}');
		return;
	}
	if (s->place)
		json_put_int(out, "position", (int64_t)s->place);
	/* The reason is for users who may see the job's Events. */
	if (job_access_allowed(r, row->job, JOB_SEE))
		why = engine_waiting(r->loop->server->engine, span_of(row->job->uid), &r->arena);
	json_put_text(out, "message", span_cut(why, MACHINE_REASON));
	str_char(out, '}');
}

/* Returns the number of jobs, also of those that are not shown. */
static size_t machine_put_rows(struct request *r, const struct engine_shares *all,
                               const struct machine_row *row, size_t rows, bool waiting)
{
	size_t n = 0;
	json_put_open(&r->reply.body, waiting ? "queue" : "running", '[');
	for (size_t i = 0; i < rows; i++) {
		bool takes = waiting ? row[i].share->sum.waiting : row[i].share->sum.running;
		if (takes && n++ < MACHINE_JOBS)
			machine_put_row(r, all, row + i, waiting);
	}
	str_char(&r->reply.body, ']');
	return n;
}

static void machine_put_gpus(struct str *out, const struct engine_shares *all,
                             const struct machine_row *row, size_t rows)
{
	STR_AUTO job = STR_INIT(JOB_ID_MAX);
	char shown[4 * QUOTE_MAX];
	json_put_open(out, "gpuStates", '[');
	for (int64_t i = 0; i < all->total.gpus; i++) {
		const struct usage_gpu *g = &all->gpu[i];
		job.n = 0;
		for (size_t k = 0; k < rows && !job.n; k++)
			if (row[k].share == all->gpus[i])
				job_id_text(&job, row[k].job);
		json_put_open(out, NULL, '{');
		json_put_int(out, "index", i);
		json_put_word(out, "name", all->gpu_name[i]);
		json_put_word(out, "uuid", all->gpu_uuid[i]);
		json_put_word(out, "job", job.n ? str_c(&job) : NULL);
		json_put_bool(out, "known", g->known);
		json_put_figure(out, "busy", g->busy);
		machine_put_mb(out, "memoryMB", g->memory);
		machine_put_mb(out, "totalMB", g->total);
		json_put_figure(out, "powerW", g->watts);
		json_put_known(out, "idleSince", g->idle_ms > 0, clock_wall_ms() - g->idle_ms);
		json_put_open(out, "outside", '[');
		for (size_t k = 0; k < g->outside_n; k++) {
			const struct usage_process *p = &g->outside[k];
			json_put_open(out, NULL, '{');
			json_put_int(out, "pid", p->pid);
			/* Names of programs may have any bytes. */
			json_put_word(out, "user", quote(shown, span_of(p->user)));
			json_put_word(out, "program", quote(shown, span_of(p->program)));
			machine_put_mb(out, "memoryMB", p->memory);
			str_char(out, '}');
		}
		str_puts(out, "]}");
	}
	str_char(out, ']');
	json_put_word(out, "gpuFigures", all->no_figures);
}

/* The name, and the directories that tasks see in their places though they may be in hidden ones.
 */
static void machine_put_files(struct str *out, const struct engine_shares *all)
{
	json_put_word(out, "node", all->node);
	json_put_open(out, "mounts", '[');
	for (size_t i = 0; i < all->n_mounts; i++)
		if (strcmp(all->mounts[i].path, all->mounts[i].source) == 0)
			json_put_word(out, NULL, all->mounts[i].path);
	str_char(out, ']');
}

void machine_get(struct request *r)
{
	const struct server *s = r->loop->server;
	struct str *out = &r->reply.body;
	struct engine_shares all;
	struct amounts held = { 0 };
	size_t n = 0;
	if (machine_refuses(r))
		return;
	CACHE_VIEW_AUTO *view = cache_view(s->cache);
	engine_want_gpus(s->engine);
	engine_shares(s->engine, &r->arena, &all);
	struct machine_row *row = ARENA_NEW(&r->arena, struct machine_row, all.n);
	for (size_t i = 0; i < all.n; i++) {
		row[n] = (struct machine_row){ &all.v[i], view_find(view, all.v[i].framework) };
		amounts_add(&held, &all.v[i].sum.held, 1);
		n += row[n].job != NULL; /* else it was just removed */
	}
	qsort(row, n, sizeof(*row), machine_compare);
	str_printf(out, "{\"hostFiles\":%s,\"results\":%s,\"gpusForeign\":%lld",
	           s->host_files ? "true" : "false",
	           translator_settings(s->translator)->results == RESULTS_ON_MACHINE ? "true"
	                                                                             : "false",
	           (long long)all.foreign.gpus);
	machine_put_files(out, &all);
	machine_put_amounts(out, &all.total, "");
	machine_put_amounts(out, &held, "Held");
	machine_put_gpus(out, &all, row, n);
	size_t running = machine_put_rows(r, &all, row, n, false);
	size_t waiting = machine_put_rows(r, &all, row, n, true);
	str_printf(out, ",\"jobsRunning\":%zu,\"jobsWaiting\":%zu}\n", running, waiting);
	answer_json(r, 200);
}
