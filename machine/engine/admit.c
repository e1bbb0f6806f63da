/* Admission: decides before a job is stored if this machine can run it at all. */
#include <stdlib.h>

#include "base/json/scan.h"
#include "base/posix/lock.h"
#include "machine/engine/engine_internal.h"

static const char TOGETHER[] = "the tasks of this job, which start together, ask";

/* Checks one task, or all that start together. */
static int admit_exceeds(struct engine *e, const struct engine_asked *job,
                         const struct amounts *need, const char *of, struct err *err)
{
	const char *each = of == TOGETHER ? "" : " for a task";
	STR_AUTO text = STR_INIT(1024);
	LOCK_AUTO(&e->lock);
	const struct queue_bounds b = { job->virtual_cluster, engine_limit_of(e, job->user) };
	if (queue_never(e->queue, &b, need, each, &text))
		return err_set(err, INVALID_PROTOCOL, "%s for %s", of, str_c(&text));
	if (need->ports <= ENGINE_PORTS_HELD / 2)
		return 0;
	return err_set(err, INVALID_PROTOCOL,
	               "%s for %lld ports%s, of which 2 of each task are ssh and http; tasks that "
	               "start together can have %d",
	               of, (long long)need->ports, each, ENGINE_PORTS_HELD / 2);
}

/* Sums up the needs of a job that shall be scaled: of its tasks that are not Completed, if they
 * start together.  false: no task of it is known, for instance between two attempts. */
static bool admit_scales(struct engine *e, const struct engine_asked *job, struct amounts *sum)
{
	ARENA_AUTO a = { 0 };
	if (!job->role.n)
		return false;
	struct span uid = scan_text(scan_path(job->framework, "metadata", "uid"), &a);
	LOCK_AUTO(&e->lock);
	const struct engine_job *known = engine_find(e, uid);
	const struct queue_job *queued = known ? known->queued : NULL;
	if (queued && queued->gang) {
		amounts_add(sum, &queued->sum.held, 1);
		amounts_add(sum, &queued->sum.wanted, 1);
	}
	return queued && !TAILQ_EMPTY(&queued->tasks);
}

int engine_admit(struct engine *e, const struct engine_asked *job, struct err *err)
{
	static const int64_t ENDLESS = INT64_MAX >> 12; /* more memory than there is */
	static const double GIB = 1 << 30;
	const struct amounts *has = &e->inventory.total;
	ARENA_AUTO a = { 0 };
	struct amounts sum = { 0 };
	double cpus = 0;
	double memory = 0;
	bool known = admit_scales(e, job, &sum);
	struct span role;
	struct scan roles = scan_begin(scan_inside(job->framework, "spec", "taskRoles"));
	for (size_t i = 0; scan_item(&roles, &role); i++) {
		ERR_AUTO why = { 0 };
		struct span name = scan_text(scan_get(role, "name"), &a);
		struct span template = scan_path(role, "task", "pod");
		bool asked = !job->role.n || span_eq(job->role, name);
		int64_t n = 0;
		(void)scan_int(scan_get(role, "taskNumber"), 0, INT32_MAX, &n); /* else none */
		if (asked && job->role.n && job->number <= n)
			return 0; /* scaled down, which makes room */
		if (asked && job->role.n)
			n = job->number - (known ? n : 0);
		if (n == 0 || (known && !asked))
			continue;
		/* The pod as far as it is known before it is made. */
		const struct pod *pod =
		    pod_read(doc_quiet(template, &BUDGET_DEFAULT, &a), &e->pods, &a, &why);
		const char *of = arena_printf(&a, "role %.*s", (int)name.n, name.p);
		struct amounts need = pod ? pod->need : (struct amounts){ 0 };
		cpus += (double)need.cpus * (double)n;
		memory += (double)need.memory * (double)n;
		if (e->set.foreground) /* the tasks of its job share them */
			need.cpus = need.memory = 0;
		bool bad = pod ? admit_exceeds(e, job, &need, arena_printf(&a, "%s asks", of), &why)
		               : err_wrap(&why, "%s", of);
		if (bad && !asked)
			continue; /* it was admitted when the machine was larger */
		int64_t most = ENDLESS / (need.memory + 1);
		if (!bad && pod && pod->gang)
			amounts_add(&sum, &need, n < most ? n : most);
		if (!bad && !job->role.n)
			bad = admit_exceeds(e, job, &sum, TOGETHER, &why);
		if (bad)
			return err_at(err, why.http, why.code, job->where ? job->where[i] : NOWHERE,
			              "%s", err_msg(&why));
	}
	if (e->set.foreground && (cpus > (double)has->cpus || memory > (double)has->memory))
		engine_notice(e, ENGINE_NOTE,
		              "the job asks for %.4g CPUs and %.4g GiB; this machine has %.4g and "
		              "%.4g, which its tasks share",
		              cpus / 1000, memory / GIB, (double)has->cpus / 1000,
		              (double)has->memory / GIB);
	return job->role.n ? admit_exceeds(e, job, &sum, TOGETHER, err) : 0;
}
