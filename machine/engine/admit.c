/* Which jobs this machine can run at all; asked before a job is stored. */
#include <stdlib.h>

#include "base/json/scan.h"
#include "k8s/transport/reply.h"
#include "machine/engine/engine_internal.h"

/* What a job may have at once: the machine, and the quota of its virtual cluster. */
struct admit_room {
	struct amounts most;
	const char *whose; /* "this machine has" */
};

/* The second one only with a quota. */
static void admit_rooms(const struct engine *e, struct span virtual_cluster, struct arena *a,
                        struct admit_room room[static 2])
{
	room[0] = (struct admit_room){ e->inventory.total, "this machine has" };
	for (size_t i = 0; i < e->set.n_quotas; i++) {
		const struct engine_quota *q = &e->set.quotas[i];
		if (!span_is(virtual_cluster, q->virtual_cluster))
			continue;
		room[1] = (struct admit_room){ engine_quota(q),
			                       arena_printf(a, "the quota of virtual cluster %s is",
			                                    q->virtual_cluster) };
		return;
	}
}

static const char TOGETHER[] = "the tasks of this job, which start together, ask";

/* One task, or all that start together. */
static int admit_exceeds(const struct admit_room room[static 2], const struct amounts *need,
                         const char *of, struct place where, struct err *err)
{
	const char *each = of == TOGETHER ? "" : " for a task";
	for (size_t k = 0; k < 2 && room[k].whose; k++) {
		STR_AUTO wanted = STR_INIT(1024);
		STR_AUTO there = STR_INIT(1024);
		if (queue_exceeds(need, &room[k].most, &wanted, &there))
			return err_at(err, INVALID_PROTOCOL, where, "%s for %s%s; %s %s", of,
			              str_c(&wanted), each, room[k].whose, str_c(&there));
	}
	if (need->ports <= ENGINE_PORTS_HELD / 2)
		return 0;
	return err_at(err, INVALID_PROTOCOL, where,
	              "%s for %lld ports%s; tasks that start together can have %d", of,
	              (long long)need->ports, each, ENGINE_PORTS_HELD / 2);
}

/* The tasks of a role that are still to run; of one that shall be scaled, then. */
static int64_t admit_tasks(const struct engine_asked *job, struct span role, struct span name,
                           struct arena *a)
{
	struct span one;
	struct span task;
	int64_t n = 0;
	(void)scan_int(scan_get(role, "taskNumber"), 0, INT32_MAX, &n); /* else none */
	if (!job->role.n)
		return n;
	if (span_eq(job->role, name))
		n = job->number > n ? job->number : 0; /* scaled down, which makes room */
	struct scan roles =
	    scan_begin(scan_path(job->framework, "status", "attemptStatus", "taskRoleStatuses"));
	while (scan_item(&roles, &one)) {
		struct scan tasks = scan_begin(scan_get(one, "taskStatuses"));
		bool same = span_eq(scan_text(scan_get(one, "name"), a), name);
		while (same && scan_item(&tasks, &task))
			n -= span_is(scan_text(scan_get(task, "state"), a), "Completed");
	}
	return n;
}

int engine_admit(const struct engine *e, const struct engine_asked *job, struct err *err)
{
	ARENA_AUTO a = { 0 };
	struct admit_room room[2] = { 0 };
	admit_rooms(e, job->virtual_cluster, &a, room);
	struct amounts sum = { 0 };
	struct span role;
	struct scan roles = scan_begin(scan_path(job->framework, "spec", "taskRoles"));
	for (size_t i = 0; scan_item(&roles, &role); i++) {
		ERR_AUTO why = { 0 };
		struct place where = job->where ? job->where[i] : NOWHERE;
		struct span name = scan_text(scan_get(role, "name"), &a);
		struct span template = scan_path(role, "task", "pod");
		bool asked = !job->role.n || span_eq(job->role, name);
		int64_t n = admit_tasks(job, role, name, &a);
		if (n <= 0 && asked && job->role.n)
			return 0;
		if (n <= 0)
			continue;
		/* As far as it is known before there is one. */
		JSON_AUTO *object = reply_parse(template);
		const struct pod *pod = pod_read(object, &e->pods, &a, &why);
		const char *of = arena_printf(&a, "role %.*s", (int)name.n, name.p);
		struct amounts need = pod ? pod->need : (struct amounts){ 0 };
		if (e->set.foreground) /* its tasks share them: engine_total */
			need.cpus = need.memory = 0;
		bool bad = !pod || admit_exceeds(room, &need, arena_printf(&a, "%s asks", of),
		                                 where, &why) < 0;
		if (bad && !asked)
			continue; /* it was admitted when the machine was larger */
		if (!pod)
			return err_at(err, why.http, why.code, where, "%s: %s", of, err_msg(&why));
		if (bad) {
			err_move(err, &why);
			return -1;
		}
		/* No overflow: no term is more than the machine has, and n is below 2^31. */
		for (int64_t t = 0; t < n && pod->gang && sum.memory < INT64_MAX / 2; t++)
			amounts_add(&sum, &need);
		if (!job->role.n && admit_exceeds(room, &sum, TOGETHER, where, err) < 0)
			return -1;
	}
	return job->role.n ? admit_exceeds(room, &sum, TOGETHER, NOWHERE, err) : 0;
}
