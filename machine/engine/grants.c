/* Which pods get CPUs, memory and GPUs: what the scheduler does in a cluster. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json/scan.h"
#include "base/lock.h"
#include "machine/engine/engine_internal.h"

enum {
	PROBE_MS = 1000,
	END_MARGIN_MS = 15000, /* from the end of the grace until a task is killed and gone */
};
static const double GIB = 1 << 30;

/* ---- grants ---------------------------------------------------------------------------------- */

struct engine_grant *grant_of(struct engine_job *job, const char *role, int64_t index)
{
	struct engine_grant *g = job->grants;
	while (g && (g->index != index || strcmp(g->role, role) != 0))
		g = g->next;
	return g;
}

void grant_unlock(struct engine *e, struct engine_grant *g)
{
	for (size_t i = 0; g && i < e->inventory.gpus_n; i++) {
		if (e->gpu[i].grant != g || e->gpu[i].fd < 0)
			continue;
		(void)close(e->gpu[i].fd); /* read-only */
		e->gpu[i].fd = -1;
	}
}

/* Adds it to the sums of its job and of all (amounts_add), or takes it out.  Locked. */
static void grant_count(const struct engine_grant *g,
                        void (*count)(struct amounts *, const struct amounts *))
{
	struct engine_share *const sums[] = { &g->job->share, &g->job->e->sum };
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		count(g->given ? &sums[i]->held : &sums[i]->wanted, &g->need);
		*(g->given ? &sums[i]->running : &sums[i]->waiting) +=
		    count == amounts_add ? 1 : SIZE_MAX;
	}
}

static void grant_give(struct engine_grant *g, bool given)
{
	LOCK_AUTO(&g->job->e->lock);
	grant_count(g, amounts_subtract);
	g->given = given;
	grant_count(g, amounts_add);
}

static void grant_take_back(struct engine *e, struct engine_grant *g)
{
	grant_unlock(e, g);
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		if (e->gpu[i].grant == g)
			e->gpu[i].grant = NULL;
	}
	grant_give(g, false);
}

/* What was given to it waits again. */
static void grant_undo(struct engine *e, struct engine_grant *g)
{
	if (g->pod)
		pod_drop_ports(g->pod);
	grant_take_back(e, g);
	LOCK_AUTO(&e->lock);
	queue_undo(e->queue, g->task);
}

void grants_time(struct engine_job *job)
{
	int64_t more_ms = job->grace_s * 1000 + END_MARGIN_MS;
	if (!job->queued || !job->limit_s)
		return;
	LOCK_AUTO(&job->e->lock);
	queue_time(job->queued, job->limit_s * 1000 + more_ms,
	           job->stops_ms == ENGINE_NEVER ? ENGINE_NEVER : job->stops_ms + more_ms);
	job->e->schedule = true;
}

void grants_undo_late(struct engine_job *job)
{
	int64_t by_ms = job->queued ? queue_start_by(job->queued) : ENGINE_NEVER;
	for (const struct engine_pod *p = job->pods; p; p = p->next)
		if (p->state == POD_STARTED)
			return; /* what waits for the other tasks of the job must not be killed */
	if (by_ms != ENGINE_NEVER)
		engine_due(job, by_ms + 1);
	if (clock_ms() <= by_ms)
		return;
	for (struct engine_grant *g = job->grants; g; g = g->next) {
		if (!g->given)
			continue;
		grant_undo(job->e, g);
		if (!g->pod || g->pod->state == POD_ENDED)
			continue;
		g->pod->state = POD_QUEUED; /* the pull of its image goes on */
		g->pod->due_ms = 0;
		pod_say(g->pod, NULL);
	}
	job->look = job->e->schedule = true;
}

void grant_end(struct engine_job *job, struct engine_grant *g)
{
	struct engine *e = job->e;
	struct engine_grant **at = &job->grants;
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	grant_take_back(e, g);
	if (g->pod)
		g->pod->grant = NULL;
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	grant_count(g, amounts_subtract);
	queue_end(e->queue, g->task);
	(void)pthread_mutex_unlock(&e->lock);
	e->schedule = true;
	free(g->role);
	free(g);
}

void grant_nodes(const struct engine *e, const struct engine_grant *g, struct str *out)
{
	bool first = true;
	for (size_t i = 0; g && i < e->inventory.gpus_n; i++) {
		if (e->gpu[i].grant != g)
			continue;
		str_puts(out, first ? "" : ",");
		str_json(out, span_of(e->gpu[i].gpu->node));
		first = false;
	}
}

/* The GPUs that a task had before a restart. */
static void grant_find_gpus(struct engine *e, struct engine_grant *g, struct span nodes)
{
	ARENA_AUTO a = { 0 };
	struct span value;
	struct scan s = scan_begin(nodes);
	while (scan_item(&s, &value)) {
		struct span node = scan_text(value, &a);
		for (size_t i = 0; i < e->inventory.gpus_n; i++) {
			if (span_is(node, e->gpu[i].gpu->node) && !e->gpu[i].grant)
				e->gpu[i].grant = g;
		}
	}
}

/* In the foreground there is one job, so its tasks share the CPUs and the memory that there are. */
static struct amounts engine_total(struct engine *e)
{
	struct amounts all = e->inventory.total;
	struct amounts wanted = { 0 };
	if (e->set.foreground) {
		amounts_add(&wanted, &e->sum.held);
		amounts_add(&wanted, &e->sum.wanted);
	}
	bool more = wanted.cpus > all.cpus || wanted.memory > all.memory;
	if (more && !e->shares)
		engine_notice(e, ENGINE_NOTE,
		              "the job asks for %.4g CPUs and %.4g GiB; this machine has %.4g and "
		              "%.4g, which its tasks share",
		              (double)wanted.cpus / 1000, (double)wanted.memory / GIB,
		              (double)all.cpus / 1000, (double)all.memory / GIB);
	e->shares |= more;
	all.cpus = wanted.cpus > all.cpus ? wanted.cpus : all.cpus;
	all.memory = wanted.memory > all.memory ? wanted.memory : all.memory;
	return all;
}

static void grant_new(struct engine_job *job, struct engine_pod *p)
{
	struct engine *e = job->e;
	struct engine_grant *g = xcalloc(1, sizeof(*g));
	bool holds = p->state >= POD_STARTED;
	g->job = job;
	g->role = xstrdup(p->role);
	g->index = p->index;
	g->given = holds;
	g->need = p->need;
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	job->gang = p->gang;
	queue_gang(job->queued, p->gang);
	g->task = (holds ? queue_hold : queue_want)(e->queue, job->queued, &p->need, g);
	grant_count(g, amounts_add);
	(void)pthread_mutex_unlock(&e->lock);
	g->next = job->grants;
	job->grants = g;
	job->grace_s = p->grace_s > job->grace_s ? p->grace_s : job->grace_s;
	grants_time(job);
	if (holds && p->gpus_found)
		grant_find_gpus(e, g, span_of(p->gpus_found));
	g->pod = p;
	p->grant = g;
	e->schedule = true;
}

void grants_enter(struct engine_job *job)
{
	for (struct engine_pod *p = job->queued ? job->pods : NULL; p; p = p->next) {
		if (p->grant || p->dying || p->state == POD_REMOVED)
			continue;
		struct engine_grant *g = grant_of(job, p->role, p->index);
		if (!g) {
			grant_new(job, p);
			continue;
		}
		g->pod = p;
		p->grant = g;
		if (!g->given || p->state != POD_QUEUED)
			continue;
		if (!pod_take_ports(p)) {
			pod_bind(p);
		} else { /* it waits as if it were new */
			grant_undo(job->e, g);
			job->e->schedule = true;
		}
	}
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static int64_t gpus_of(const struct engine *e, const struct engine_grant *g, bool unlocked)
{
	int64_t n = 0;
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		n += e->gpu[i].grant == g && (!unlocked || e->gpu[i].fd < 0);
	return n;
}

/* Locks one GPU for a grant; false: somebody has it. */
static bool gpu_lock(struct engine *e, struct engine_gpu *gpu, struct engine_grant *g)
{
	ERR_AUTO err = { 0 };
	int fd = gpu_take(gpu->gpu, &err);
	gpu->foreign = fd < 0;
	if (fd == -2 && !gpu->told)
		engine_notice(e, ENGINE_WARNING, "a GPU cannot be used: %s", err_msg(&err));
	gpu->told = fd == -2;
	if (fd < 0) {
		gpu->grant = NULL;
		return false;
	}
	gpu->grant = g;
	gpu->fd = fd;
	return true;
}

bool grant_lock(struct engine *e, struct engine_grant *g)
{
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		if (e->gpu[i].grant == g && e->gpu[i].fd < 0)
			(void)gpu_lock(e, &e->gpu[i], g); /* else another one */
	}
	for (size_t i = 0; i < e->inventory.gpus_n && gpus_of(e, g, false) < g->need.gpus; i++) {
		if (!e->gpu[i].grant)
			(void)gpu_lock(e, &e->gpu[i], g);
	}
	return gpus_of(e, g, false) >= g->need.gpus;
}

/* Finds out what other programs hold, of those that no job of this engine has. */
static void gpus_look(struct engine *e)
{
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		struct engine_gpu *g = &e->gpu[i];
		if (!g->grant && (e->probe || g->foreign))
			g->foreign = !gpu_is_free(g->gpu);
	}
	if (e->probe)
		e->ports_away = 0;
	e->probe = false;
}

/* Those that other programs held at the last look. */
static int64_t gpus_foreign(const struct engine *e)
{
	int64_t n = 0;
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		n += !e->gpu[i].grant && e->gpu[i].foreign;
	return n;
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* All tasks of one job that were picked together, or those of a job without gang one by one. */
static bool gang_start(struct engine *e, struct engine_grant *const *grant, size_t n)
{
	bool ok = true;
	for (size_t i = 0; i < n && ok; i++)
		ok = grant_lock(e, grant[i]) && !(grant[i]->pod && pod_take_ports(grant[i]->pod));
	for (size_t i = 0; i < n; i++) {
		struct engine_grant *g = grant[i];
		if (!ok) {
			grant_undo(e, g);
			continue;
		}
		grant_give(g, true);
		if (g->pod && g->pod->state == POD_QUEUED)
			pod_bind(g->pod);
	}
	return ok;
}

/* false: something was taken by others; pick again. */
static bool schedule_once(struct engine *e)
{
	gpus_look(e);
	struct amounts foreign = { .gpus = gpus_foreign(e), .ports = e->ports_away };
	struct amounts total = engine_total(e);
	void *const *owners;
	bool ok = true;
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	queue_now(e->queue, clock_ms());
	queue_machine(e->queue, &total, &foreign);
	size_t n = queue_pick(e->queue, &owners);
	(void)pthread_mutex_unlock(&e->lock);
	struct engine_grant *const *grant = (struct engine_grant *const *)owners;
	for (size_t i = 0; i < n;) {
		size_t end = i + 1;
		while (grant[i]->job->gang && end < n && grant[end]->job == grant[i]->job)
			end++;
		ok = gang_start(e, grant + i, end - i) && ok;
		i = end;
	}
	return ok;
}

void engine_shares(struct engine *e, struct arena *a, struct engine_shares *out)
{
	*out = (struct engine_shares){ .total = e->inventory.total };
	out->gpus = ARENA_NEW(a, const struct engine_share *, e->inventory.gpus_n);
	LOCK_AUTO(&e->lock);
	out->v = ARENA_NEW(a, struct engine_share, e->sum.running + e->sum.waiting);
	const struct engine_job *job = NULL;
	TAILQ_FOREACH(job, &e->live, live)
	{
		if (job->share.running + job->share.waiting == 0)
			continue;
		struct engine_share *s = &out->v[out->n++];
		*s = job->share;
		s->framework = arena_span(a, span_of(job->name ?: ""));
		s->place = queue_place(job->queued);
		for (size_t k = 0; s->held.gpus > 0 && k < e->inventory.gpus_n; k++)
			out->gpus[k] = e->gpu[k].shown == job ? s : out->gpus[k];
	}
}

void engine_schedule(struct engine *e)
{
	int64_t now = clock_ms();
	if (now >= e->probe_ms) {
		e->probe_ms = ENGINE_NEVER;
		e->schedule = e->probe = true;
	}
	if (!e->schedule)
		return;
	e->schedule = false;
	for (size_t i = 0; i <= e->inventory.gpus_n + 1 && !schedule_once(e); i++)
		;
	int64_t foreign = gpus_foreign(e);        /* also those that are free by now */
	const struct engine_share *all = &e->sum; /* which only this thread changes */
	if ((all->wanted.gpus > 0 && foreign > 0) || (all->wanted.ports > 0 && e->ports_away > 0) ||
	    queue_partial(e->queue))
		e->probe_ms = now + PROBE_MS;
	counter_set(&e->waiting, all->waiting);
	counter_set(&e->running, all->running);
	counter_set(&e->gpus_held, (uint64_t)all->held.gpus);
	counter_set(&e->gpus_away, (uint64_t)foreign);
	LOCK_AUTO(&e->lock);
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		e->gpu[i].shown = e->gpu[i].grant ? e->gpu[i].grant->job : NULL;
}

void engine_figures(const struct engine *e, struct engine_figures *out)
{
	*out = (struct engine_figures){
		.waiting = counter_get(&e->waiting),
		.running = counter_get(&e->running),
		.gpus = e->inventory.gpus_n,
		.gpus_held = counter_get(&e->gpus_held),
		.gpus_foreign = counter_get(&e->gpus_away),
	};
}
