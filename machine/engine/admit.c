/* Which jobs this machine can run at all; asked before a job is stored. */
#include <stdlib.h>

#include "base/json/scan.h"
#include "base/lock.h"
#include "machine/engine/engine_internal.h"

static const char TOGETHER[] = "the tasks of this job, which start together, ask";

/* One task, or all that start together. */
static int admit_exceeds(struct engine *e, const struct engine_asked *job,
                         const struct amounts *need, const char *of, struct err *err)
{
	const char *each = of == TOGETHER ? "" : " for a task";
	STR_AUTO text = STR_INIT(1024);
	LOCK_AUTO(&e->lock);
	if (queue_never(e->queue, job->virtual_cluster, need, each, &text))
		return err_set(err, INVALID_PROTOCOL, "%s for %s", of, str_c(&text));
	if (need->ports <= ENGINE_PORTS_HELD / 2)
		return 0;
	return err_set(err, INVALID_PROTOCOL,
	               "%s for %lld ports%s; tasks that start together can have %d", of,
	               (long long)need->ports, each, ENGINE_PORTS_HELD / 2);
}

/* The tasks of a role that are still to run; of one that shall be scaled, then. */
static int64_t admit_tasks(const struct engine_asked *job, struct span role, struct span name,
                           struct arena *a)
{
	struct span one;
	struct span list;
	struct fw_view status;
	struct fw_view task;
	int64_t n = 0;
	(void)scan_int(scan_get(role, "taskNumber"), 0, INT32_MAX, &n); /* else none */
	if (!job->role.n)
		return n;
	if (span_eq(job->role, name))
		n = job->number > n ? job->number : 0; /* scaled down, which makes room */
	fw_view_read(scan_get(job->framework, "status"), a, &status);
	if (!fw_view_roles(&status, a, &list))
		return n;
	for (struct scan roles = scan_begin(list); scan_item(&roles, &one);) {
		struct scan tasks = scan_begin(scan_get(one, "taskStatuses"));
		bool same = span_eq(scan_text(scan_get(one, "name"), a), name);
		while (same && scan_more(&tasks))
			n -= fw_view_next(&tasks, a, &task) && span_is(task.state, "Completed");
	}
	return n;
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
	struct span role;
	struct scan roles = scan_begin(scan_path(job->framework, "spec", "taskRoles"));
	for (size_t i = 0; scan_item(&roles, &role); i++) {
		ERR_AUTO why = { 0 };
		struct span name = scan_text(scan_get(role, "name"), &a);
		struct span template = scan_path(role, "task", "pod");
		bool asked = !job->role.n || span_eq(job->role, name);
		int64_t n = admit_tasks(job, role, name, &a);
		if (n <= 0 && asked && job->role.n)
			return 0;
		if (n <= 0)
			continue;
		/* As far as it is known before there is one. */
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
		if (!bad && pod->gang)
			amounts_add(&sum, &need,
			            n < ENDLESS / (need.memory + 1) ? n
			                                            : ENDLESS / (need.memory + 1));
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
