/* Assigns CPUs, memory and GPUs to pods, as the scheduler does in a cluster. */
#include <stdlib.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/lock.h"
#include "machine/engine/engine_internal.h"

enum {
	PROBE_MS = 1000,
	END_MARGIN_MS = 15000, /* from the end of the grace until a task is killed and gone */
};

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* A process of others is on it, or it is not yet known whether one is. */
static bool gpu_is_used(struct engine *e, const struct gpu *gpu, const struct engine_allocation *g)
{
	enum usage_verdict verdict = USAGE_FREE;
	if (!e->set.ignore_foreign)
		verdict = usage_verdict(e->usage, (unsigned)(gpu - e->inventory.gpus));
	if (verdict == USAGE_UNKNOWN && g->pod)
		pod_event(g->pod, "Warning", "GPUUnknown",
		          "nothing is known of processes on %s: its driver does not answer",
		          gpu->name);
	return verdict == USAGE_TAKEN || verdict == USAGE_WAIT;
}

/* Locks one GPU for a allocation, if it is not locked; false: somebody has it. */
static bool gpu_lock(struct engine *e, struct gpu *gpu, struct engine_allocation *g)
{
	ERR_AUTO err = { 0 };
	if (gpu->fd >= 0)
		return true;
	int fd = gpu_is_used(e, gpu, g) ? -1 : gpu_take(gpu, &err);
	if (fd == -2 && !gpu->told)
		engine_notice(e, ENGINE_WARNING, "a GPU cannot be used: %s", err_msg(&err));
	LOCK_AUTO(&e->lock);
	gpu->told = fd == -2;
	e->queue->foreign.gpus += (fd < 0) - gpu->foreign;
	gpu->foreign = fd < 0;
	gpu->holder = fd < 0 ? NULL : g;
	gpu->fd = fd < 0 ? -1 : fd;
	return fd >= 0;
}

bool allocation_lock(struct engine *e, struct engine_allocation *g)
{
	int64_t n = 0;
	/* GPUs that the task had are tried first, then others. */
	for (int own = 1; own >= 0; own--)
		for (size_t i = 0; i < e->inventory.gpus_n && n < g->task.need.gpus; i++) {
			struct gpu *gpu = &e->inventory.gpus[i];
			n += gpu->holder == (own ? g : NULL) && gpu_lock(e, gpu, g);
		}
	return n >= g->task.need.gpus;
}

void allocation_unlock(struct engine *e, struct engine_allocation *g, bool keep)
{
	LOCK_AUTO(&e->lock);
	for (size_t i = 0; g && i < e->inventory.gpus_n; i++) {
		struct gpu *gpu = &e->inventory.gpus[i];
		if (gpu->holder != g)
			continue;
		if (gpu->fd >= 0)
			(void)close(gpu->fd); /* read-only */
		gpu->fd = -1;
		gpu->holder = keep ? g : NULL;
	}
}

/* Finds the GPUs that a task had before a restart. */
static void allocation_find_gpus(struct engine *e, struct engine_allocation *g)
{
	struct span rest = span_of(g->pod->gpus ?: "");
	LOCK_AUTO(&e->lock);
	while (rest.n > 0) {
		int64_t i = INT64_MAX;
		(void)parse_i64(span_next(&rest, ','), 0, INVENTORY_GPUS, &i);
		if (i < (int64_t)e->inventory.gpus_n && !e->inventory.gpus[i].holder)
			e->inventory.gpus[i].holder = g;
	}
}

/* ---- allocations
 * ---------------------------------------------------------------------------------- */

static struct queue_task *allocations_first(const struct engine_job *job)
{
	return job->queued ? TAILQ_FIRST(&job->queued->tasks) : NULL;
}

static bool allocation_is_of(const struct engine_allocation *g, const char *role, int64_t index)
{
	return g->index == index && strcmp(g->role, role) == 0;
}

/* Takes the allocation back; the task waits again. */
static void allocation_undo(struct engine *e, struct engine_allocation *g)
{
	if (g->pod) {
		pod_drop_ports(g->pod);
		g->pod->bound_ms = g->pod->bound_boot_ms = 0;
	}
	allocation_unlock(e, g, false);
	LOCK_AUTO(&e->lock);
	queue_undo(e->queue, &g->task);
	e->schedule = true;
}

void allocations_time(struct engine_job *job)
{
	int64_t more_ms = job->grace_s * 1000 + END_MARGIN_MS;
	if (!job->queued || !job->limit_s)
		return;
	LOCK_AUTO(&job->e->lock);
	job->queued->limit_ms = job->limit_s * 1000 + more_ms;
	if (job->stops_ms != ENGINE_NEVER)
		job->queued->end_ms = job->stops_ms + more_ms;
	job->e->schedule = true;
}

void allocations_undo_late(struct engine_job *job)
{
	int64_t by_ms = job->queued ? queue_start_by(job->queued) : ENGINE_NEVER;
	for (const struct engine_pod *p = job->pods; p; p = p->next)
		if (pod_is_started(p))
			return; /* a job that waits for its other tasks must not be killed */
	if (by_ms != ENGINE_NEVER)
		engine_due(job, by_ms + 1);
	if (clock_ms() <= by_ms)
		return;
	for (struct queue_task *t = allocations_first(job); t; t = TAILQ_NEXT(t, link)) {
		struct engine_allocation *g = (struct engine_allocation *)t;
		if (!t->holds)
			continue;
		allocation_undo(job->e, g);
		if (!g->pod || (g->pod->state != POD_BOUND && g->pod->state != POD_PULLING))
			continue;
		pod_become(g->pod, POD_QUEUED); /* the pull of its image goes on */
		g->pod->due_ms = 0;
		pod_notify(g->pod, NULL);
	}
	job->look = true;
}

void allocations_end(struct engine_job *job, const char *role, int64_t index)
{
	struct engine *e = job->e;
	for (struct queue_task *t = allocations_first(job), *next; t; t = next) {
		struct engine_allocation *g = (struct engine_allocation *)t;
		next = TAILQ_NEXT(t, link);
		if (role && !allocation_is_of(g, role, index))
			continue;
		allocation_unlock(e, g, false);
		if (g->pod)
			g->pod->allocation = NULL;
		e->schedule = true;
		LOCK_AUTO(&e->lock);
		queue_time_now(e->queue, clock_ms()); /* it has held until now */
		queue_end(e->queue, t);
		free(g->role);
		free(g);
	}
}

void allocation_enter(struct engine_pod *p)
{
	struct engine *e = p->e;
	struct engine_job *job = p->job;
	struct queue_task *t = allocations_first(job);
	while (t && !allocation_is_of((struct engine_allocation *)t, p->role, p->index))
		t = TAILQ_NEXT(t, link);
	if (!job->queued)
		return;
	struct engine_allocation *g = p->allocation =
	    t ? (struct engine_allocation *)t : xcalloc(1, sizeof(*g));
	g->pod = p;
	if (t && t->holds && p->state == POD_QUEUED) {
		if (!pod_take_ports(p))
			pod_bind(p);
		else /* it waits as if it were new */
			allocation_undo(e, g);
	}
	if (t)
		return;
	g->role = xstrdup(p->role);
	g->index = p->index;
	g->task.need = p->need;
	if (e->set.foreground) /* the tasks of its job share them */
		g->task.need.cpus = g->task.need.memory = 0;
	if (pod_is_started(p))
		allocation_find_gpus(e, g);
	job->grace_s = p->grace_s > job->grace_s ? p->grace_s : job->grace_s;
	allocations_time(job);
	e->schedule = true;
	LOCK_AUTO(&e->lock);
	job->queued->gang = p->gang;
	queue_add_task(e->queue, job->queued, &g->task, pod_is_started(p));
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* false: something was taken by others; pick again. */
static bool engine_schedule_once(struct engine *e)
{
	struct queue_tasks started;
	bool all = true;
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	queue_time_now(e->queue, clock_ms());
	queue_pick(e->queue, &started);
	(void)pthread_mutex_unlock(&e->lock);
	for (struct queue_task *first = TAILQ_FIRST(&started), *t, *end; first; first = end) {
		bool ok = true;
		/* All tasks of a gang that were picked, or one of a job without gang. */
		for (end = first;
		     end && (end == first || (first->job == end->job && first->job->gang));
		     end = TAILQ_NEXT(end, start)) {
			struct engine_allocation *g = (struct engine_allocation *)end;
			ok = ok && allocation_lock(e, g) && !(g->pod && pod_take_ports(g->pod));
		}
		for (t = first; t != end; t = TAILQ_NEXT(t, start)) {
			struct engine_allocation *g = (struct engine_allocation *)t;
			if (!ok)
				allocation_undo(e, g);
			else if (g->pod && g->pod->state == POD_QUEUED)
				pod_bind(g->pod);
		}
		all = all && ok;
	}
	return all;
}

void engine_schedule(struct engine *e)
{
	int64_t now = clock_ms();
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	bool limited = e->limits.changed;
	e->limits.changed = false;
	for (struct queue_group *u = limited ? e->queue->users : NULL; u; u = u->next)
		u->total = *engine_limit_of(e, span_of(u->name));
	(void)pthread_mutex_unlock(&e->lock);
	e->schedule |= limited;
	if (now >= e->probe_ms) { /* resources of other programs may be free */
		e->probe_ms = ENGINE_NEVER;
		e->schedule = true;
		LOCK_AUTO(&e->lock);
		e->queue->foreign = (struct amounts){ 0 };
		for (size_t i = 0; i < e->inventory.gpus_n; i++)
			e->inventory.gpus[i].foreign = false;
	}
	if (!e->schedule)
		return;
	for (size_t i = 0; i <= e->inventory.gpus_n + 1 && !engine_schedule_once(e); i++)
		;
	e->schedule = false;
	/* Only this thread changes the queue. */
	if (e->queue->machine.sum.waiting && (e->queue->foreign.gpus || e->queue->foreign.ports ||
	                                      e->queue->whole_ms < e->queue->now_ms))
		e->probe_ms = now + PROBE_MS;
}

/* ---- questions of other threads -------------------------------------------------------------- */

void engine_shares(struct engine *e, struct arena *a, struct engine_shares *out)
{
	LOCK_AUTO(&e->lock);
	*out = (struct engine_shares){ .total = e->inventory.total,
		                       .foreign = e->queue->foreign,
		                       .all = e->queue->machine.sum,
		                       .node = e->pods.node_name,
		                       .mounts = e->set.mounts,
		                       .n_mounts = e->set.n_mounts };
	if (!a)
		return;
	out->gpus = ARENA_NEW(a, const struct engine_share *, e->inventory.gpus_n);
	out->gpu_name = ARENA_NEW(a, const char *, e->inventory.gpus_n);
	out->gpu_uuid = ARENA_NEW(a, const char *, e->inventory.gpus_n);
	for (size_t k = 0; k < e->inventory.gpus_n; k++) {
		out->gpu_name[k] = e->inventory.gpus[k].name;
		out->gpu_uuid[k] = e->inventory.gpus[k].uuid;
	}
	out->gpu = usage_gpus(e->usage, a, &out->no_figures);
	out->v = ARENA_NEW(a, struct engine_share, out->all.running + out->all.waiting);
	const struct engine_job *job = NULL;
	TAILQ_FOREACH(job, &e->live, live)
	{
		if (!allocations_first(job))
			continue;
		struct engine_share *s = &out->v[out->n++];
		*s = (struct engine_share){ arena_span(a, span_of(job->name ?: "")),
			                    job->queued->sum,
			                    job->queued->place,
			                    { .cpus = -1 } };
		engine_used(e, job, &s->used);
		for (size_t k = 0; s->sum.held.gpus > 0 && k < e->inventory.gpus_n; k++) {
			const struct engine_allocation *g = e->inventory.gpus[k].holder;
			out->gpus[k] = g && g->task.job == job->queued ? s : out->gpus[k];
		}
	}
}

void engine_gpus_held(struct engine *e, void (*put)(void *arg, const char *name, int64_t gpu_ms),
                      void *arg)
{
	LOCK_AUTO(&e->lock);
	const struct queue *q = e->queue;
	int64_t later_ms = q->now_ms ? clock_ms() - q->now_ms : 0;
	for (const struct queue_group *p = q->machine.next; p; p = p->next)
		put(arg, p->name, p->gpu_ms + later_ms * p->sum.held.gpus);
}
