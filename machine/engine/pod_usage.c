/* Follows what machine/usage/ samples: rows for the store, GPUs that do nothing, GPUs with
 * processes of others. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "base/posix/process.h"
#include "machine/engine/engine_internal.h"
#include "machine/store/attempts.h"

enum {
	ROWS_MS = 600000, /* between rows of a task that runs */
	BOUND_TEXT = 128,
	FDINFO_TEXT = 1024,
	SHARED_TEXT = 1024,
	CURVES_MOST = 200, /* tasks of a job whose curves are asked for */
};

/* ---- the time of the resources --------------------------------------------------------------- */

void pod_note_bound(struct engine_pod *p)
{
	if (p->bound_ms > 0 && p->bound_boot_ms > 0)
		return;
	p->bound_ms = clock_wall_ms();
	p->bound_boot_ms = clock_boot_ms();
}

/* Written at the start, so that a restart knows it. */
void pod_write_bound(const struct engine_pod *p)
{
	char boot[PROCESS_BOOT_MAX];
	FREE_AUTO char *path = xasprintf("%s/bound", p->dir);
	process_boot(boot);
	FREE_AUTO char *text =
	    xasprintf("%s %lld %lld\n", boot, (long long)p->bound_boot_ms, (long long)p->bound_ms);
	FD_AUTO fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd >= 0) /* else the time of the restart counts */
		(void)fd_write_all(fd, span_of(text));
}

void pod_read_bound(struct engine_pod *p)
{
	char boot[PROCESS_BOOT_MAX];
	char text[BOUND_TEXT];
	FREE_AUTO char *path = xasprintf("%s/bound", p->dir);
	(void)fd_read_at(AT_FDCWD, path, text, sizeof(text)); /* else it is empty */
	struct span rest = span_trim(span_of(text));
	process_boot(boot);
	bool same = span_is(span_next(&rest, ' '), boot);
	int64_t boot_ms = 0;
	if (parse_i64(span_next(&rest, ' '), 1, INT64_MAX / 2, &boot_ms) == 0 &&
	    parse_i64(rest, 1, INT64_MAX / 2, &p->bound_ms) == 0)
		p->bound_boot_ms = same ? boot_ms : -1; /* the task ended with that boot */
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct usage_state UNKNOWN = {
	.figures = { "", 0 }, .curves = { "", 0 }, .cpu_ms = -1, .idle_ms = -1, .energy_j = -1
};

/* The row of a pod that has resources; in the arena. */
static void pod_row(const struct engine_pod *p, const struct usage_state *used, struct arena *a,
                    struct attempt *out)
{
	const struct engine_job *job = p->job;
	const struct queue_job *q = job->queued;
	struct span name = span_of(job->label ?: "");
	struct span user = span_chr(name, '~') < name.n ? span_next(&name, '~') : SPAN("");
	*out = (struct attempt){
		.uid = arena_span(a, span_of(p->uid)),
		.framework = arena_span(a, span_of(job->uid)),
		.job = arena_span(a, name),
		.user = arena_span(a, q ? span_of(q->user->name) : user),
		.virtual_cluster = arena_span(a, span_of(q ? q->pool[QUEUE_QUOTA]->name : "")),
		.role = arena_span(a, span_of(p->role)),
		.index = p->index,
		.attempt = p->attempt,
		.retry = p->retry,
		.gpus = p->need.gpus,
		.cpus = p->need.cpus,
		.memory = p->need.memory,
		.bound_ms = p->bound_ms,
		.held_ms = p->bound_boot_ms < 0 ? 0 : clock_boot_ms() - p->bound_boot_ms,
		.cpu_ms = used->cpu_ms,
		.idle_ms = used->idle_ms,
		.energy_j = used->energy_j,
		.figures = used->figures,
		.curves = used->curves,
	};
}

/* A new row of the next transaction; its texts belong to rows_arena. */
static struct attempt *rows_add(struct engine *e)
{
	if (e->rows_n == e->rows_room) {
		e->rows_room = 2 * e->rows_room + 16;
		e->rows = xrealloc(e->rows, e->rows_room * sizeof(*e->rows));
	}
	return &e->rows[e->rows_n++];
}

void pod_usage_begin(struct engine_pod *p, bool found)
{
	struct engine *e = p->e;
	ARENA_AUTO a = { 0 };
	ERR_AUTO err = { 0 };
	struct attempt row = { .figures = SPAN(""), .curves = SPAN("") };
	char info[FDINFO_TEXT];
	int64_t pid = 0;
	unsigned *gpu = ARENA_NEW(&a, unsigned, e->inventory.gpus_n + 1);
	size_t n = 0;
	pod_note_bound(p);
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		if (p->allocation && e->inventory.gpus[i].holder == p->allocation)
			gpu[n++] = (unsigned)i;
	(void)fd_read_at(AT_FDCWD, arena_printf(&a, "/proc/self/fdinfo/%d", p->pidfd), info,
	                 sizeof(info)); /* else it is empty */
	const char *at = strstr(info, "\nPid:\t");
	struct span rest = span_of(at ? at + 6 : "");
	(void)parse_i64(span_next(&rest, '\n'), 1, INT32_MAX, &pid); /* else 0 */
	if (found) /* else its figures begin anew */
		(void)attempts_find(e->set.store, span_of(p->uid), &a, &row, &err);
	struct usage_entry *t =
	    usage_add(e->usage, &(struct usage_task){ .uid = p->uid,
	                                              .shim = (pid_t)pid,
	                                              .begin_boot_ms = p->bound_boot_ms,
	                                              .gpu = gpu,
	                                              .gpus_n = n,
	                                              .figures = row.figures,
	                                              .curves = row.curves });
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	p->usage = t;
	(void)pthread_mutex_unlock(&e->lock);
	if (e->rows_ms == ENGINE_NEVER)
		e->rows_ms = clock_ms() + ROWS_MS;
}

void pod_usage_end(struct engine_pod *p, int64_t cpu_ms)
{
	struct engine *e = p->e;
	struct arena *a = &e->rows_arena;
	ERR_AUTO err = { 0 };
	struct usage_state used = UNKNOWN;
	struct attempt row;
	struct attempt stored;
	const struct framework_container *c = &p->task.container[1];
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	struct usage_entry *t = TAKE(p->usage);
	if (t)
		usage_end(e->usage, t, cpu_ms, a, &used);
	(void)pthread_mutex_unlock(&e->lock);
	if (p->bound_ms == 0 || e->set.once)
		return;
	pod_row(p, &used, a, &row);
	/* A task that has ended while this server did not run. */
	if (!t && c->terminated && c->finished_s * 1000 - p->bound_ms < row.held_ms)
		row.held_ms = c->finished_s * 1000 - p->bound_ms;
	if (!t && attempts_find(e->set.store, row.uid, a, &stored, &err) == 0) {
		row.held_ms = row.held_ms > stored.held_ms ? row.held_ms : stored.held_ms;
		row.cpu_ms = stored.cpu_ms;
		row.idle_ms = stored.idle_ms;
		row.energy_j = stored.energy_j;
		row.figures = stored.figures;
		row.curves = stored.curves;
	}
	row.held_ms = row.held_ms > 0 ? row.held_ms : 0;
	row.ended = true;
	row.exit = c->terminated ? c->code : -1;
	*rows_add(e) = row;
	p->bound_ms = 0;
}

void engine_store_rows(struct engine *e)
{
	ERR_AUTO err = { 0 };
	if (e->rows_n == 0)
		return;
	/* No row is better than no job: they are not tried again. */
	if (attempts_put(e->set.store, e->rows, e->rows_n, &err) < 0)
		engine_notice(e, ENGINE_WARNING, "figures of %zu tasks are lost: %s", e->rows_n,
		              err_msg(&err));
	e->rows_n = 0;
	arena_done(&e->rows_arena);
	e->rows_arena = (struct arena){ 0 };
}

/* ---- each round of the sampler --------------------------------------------------------------- */

/* The GPUs of a job do nothing if those of all its tasks do.  Before their first use, the time of
 * the option passes twice, because data are being fetched. */
static void job_judge_gpus(struct engine_job *job)
{
	const struct engine *e = job->e;
	int64_t idle_ms = INT64_MAX;
	bool used = false;
	bool not_idle = false;
	for (const struct engine_pod *p = job->pods; p; p = p->next) {
		ARENA_AUTO a = { 0 };
		struct usage_state now;
		if (!p->usage || p->need.gpus == 0)
			continue;
		usage_read(e->usage, p->usage, USAGE_NUMBERS, &a, &now);
		idle_ms = now.gpus_idle_ms < idle_ms ? now.gpus_idle_ms : idle_ms;
		used |= now.gpus_used;
		not_idle |= now.gpus_not_idle;
	}
	if (not_idle)
		job_set_gpu_idle(job, 0);
	else if (idle_ms != INT64_MAX && idle_ms >= e->set.gpu_idle_ms * (used ? 1 : 2))
		job_set_gpu_idle(job, clock_wall_ms() - idle_ms);
}

/* Tells once that a process of others came after the task. */
static void pod_tell_shared(struct engine_pod *p, size_t gpu, const struct usage_gpu *now)
{
	if (p->gpu_shared || now->outside_n == 0)
		return;
	p->gpu_shared = true;
	STR_AUTO text = STR_INIT(SHARED_TEXT);
	usage_put_outside(&text, gpu, now);
	pod_event(p, "Warning", "GPUShared", "its GPU is used by another program, too: %s",
	          str_c(&text));
}

void engine_note_rows(struct engine *e)
{
	const struct engine_job *job;
	bool any = false;
	LOCK_AUTO(&e->lock);
	TAILQ_FOREACH(job, &e->live, live)
	for (const struct engine_pod *p = job->pods; p; p = p->next) {
		struct usage_state used = UNKNOWN;
		if (p->state != POD_STARTED || p->bound_ms == 0 || e->set.once)
			continue;
		if (p->usage)
			usage_read(e->usage, p->usage, USAGE_ALL, &e->rows_arena, &used);
		pod_row(p, &used, &e->rows_arena, rows_add(e));
		any = true;
	}
	e->rows_ms = any ? clock_ms() + ROWS_MS : ENGINE_NEVER;
}

void engine_look_at_usage(struct engine *e)
{
	ARENA_AUTO a = { 0 };
	const char *why;
	if (clock_ms() >= e->rows_ms)
		engine_note_rows(e);
	if (!atomic_exchange(&e->usage_changed, false))
		return;
	const struct usage_gpu *now = usage_gpus(e->usage, &a, &why);
	const struct engine_job *judged = NULL;
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		struct engine_pod *p =
		    e->inventory.gpus[i].holder ? e->inventory.gpus[i].holder->pod : NULL;
		if (!p || p->state != POD_STARTED)
			continue;
		pod_tell_shared(p, i, &now[i]);
		if (p->job != judged && e->set.gpu_idle_ms > 0)
			job_judge_gpus(p->job);
		judged = p->job;
	}
}

/* ---- questions of other threads -------------------------------------------------------------- */

void engine_attempts(struct engine *e, struct span framework_uid, struct arena *a,
                     struct attempt **v, size_t *n)
{
	size_t pods = 0;
	LOCK_AUTO(&e->lock);
	const struct engine_job *job = engine_find(e, framework_uid);
	for (const struct engine_pod *p = job ? job->pods : NULL; p; p = p->next)
		pods++;
	*v = ARENA_NEW(a, struct attempt, pods + 1);
	*n = 0;
	for (const struct engine_pod *p = job ? job->pods : NULL; p; p = p->next) {
		struct usage_state used = UNKNOWN;
		if (p->state <= POD_QUEUED || p->state >= POD_EXITED || p->bound_ms == 0)
			continue;
		if (p->usage)
			usage_read(e->usage, p->usage, *n < CURVES_MOST ? USAGE_ALL : USAGE_FIGURES,
			           a, &used);
		pod_row(p, &used, a, &(*v)[(*n)++]);
	}
}

void engine_used(struct engine *e, const struct engine_job *job, struct engine_used *out)
{
	double busy = 0;
	int64_t with_gpus = 0;
	*out = (struct engine_used){ .gpus_idle_ms = INT64_MAX };
	for (const struct engine_pod *p = job->pods; p; p = p->next) {
		ARENA_AUTO a = { 0 };
		struct usage_state now;
		if (!p->usage)
			continue;
		usage_read(e->usage, p->usage, USAGE_NUMBERS, &a, &now);
		out->cpus = out->cpus < 0 || now.cpus < 0 ? -1 : out->cpus + now.cpus;
		out->memory = out->memory < 0 || now.memory < 0 ? -1 : out->memory + now.memory;
		out->memory_at_most |= now.memory_at_most;
		if (p->need.gpus == 0)
			continue;
		with_gpus++;
		busy = busy < 0 || now.busy < 0 ? -1 : busy + now.busy;
		out->gpu_memory = out->gpu_memory < 0 || now.gpu_memory < 0
		                      ? -1
		                      : out->gpu_memory + now.gpu_memory;
		if (now.gpus_idle_ms < out->gpus_idle_ms)
			out->gpus_idle_ms = now.gpus_idle_ms;
	}
	out->busy = busy < 0 || with_gpus == 0 ? -1 : busy / (double)with_gpus;
	out->gpus_idle_ms = with_gpus ? out->gpus_idle_ms : 0;
	out->gpu_memory = with_gpus ? out->gpu_memory : -1;
}
