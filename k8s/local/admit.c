/* Which jobs this machine can run at all; asked before a job is stored. */
#include <stdlib.h>

#include "base/json/scan.h"
#include "k8s/local/engine_internal.h"
#include "k8s/local/ports.h"

/* What a job may have at once: the machine, and the quota of its virtual cluster. */
struct admit_room {
	struct amounts most;
	const char *whose; /* "this machine has" */
};

/* Returns how many there are: 1, or 2 with a quota. */
static size_t admit_rooms(const struct engine *e, struct span virtual_cluster, struct arena *a,
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
		return 2;
	}
	return 1;
}

/* The pod of a task of the role, as far as it is known before there is one. */
static const struct pod *admit_read_pod(const struct engine *e, struct span template,
                                        struct arena *a, struct err *err)
{
	STR_AUTO text = STR_INIT(POD_OBJECT_MAX);
	str_puts(&text, "{\"metadata\":{\"name\":\"task\",\"uid\":\"task\"},\"spec\":");
	str_span(&text, scan_get(template, "spec"));
	str_char(&text, '}');
	return world_read_pod(e, text.full ? SPAN("") : str_view(&text), e->ip, a, err);
}

int engine_admit(const struct engine *e, const struct engine_asked *job, struct err *err)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO why = { 0 };
	struct admit_room room[2];
	size_t rooms = admit_rooms(e, job->virtual_cluster, &a, room);
	struct amounts sum = { 0 };
	struct span role;
	struct scan roles = scan_begin(scan_path(job->framework, "spec", "taskRoles"));
	for (size_t i = 0; scan_item(&roles, &role); i++) {
		struct place where = job->where ? job->where[i] : NOWHERE;
		struct span name = scan_text(scan_get(role, "name"), &a);
		struct span template = scan_path(role, "task", "pod");
		int64_t n = 0;
		(void)scan_int(scan_get(role, "taskNumber"), 0, INT32_MAX, &n); /* else none */
		if (span_eq(job->role, name) && job->number <= n)
			return 0; /* scaled down, which makes room */
		n = span_eq(job->role, name) ? job->number : n;
		const struct pod *pod = admit_read_pod(e, template, &a, &why);
		if (!pod)
			return err_at(err, why.http, why.code, where, "role %.*s: %s", (int)name.n,
			              name.p, err_msg(&why));
		bool gang = world_gang(pod);
		struct amounts need = pod_amounts(pod, template);
		if (e->set.foreground) /* its tasks share them: engine_total */
			need.cpus = need.memory = 0;
		for (size_t k = 0; k < rooms && n > 0; k++) {
			STR_AUTO wanted = STR_INIT(1024);
			STR_AUTO there = STR_INIT(1024);
			if (queue_exceeds(&need, &room[k].most, &wanted, &there))
				return err_at(err, INVALID_PROTOCOL, where,
				              "role %.*s asks for %s for a task; %s %s",
				              (int)name.n, name.p, str_c(&wanted), room[k].whose,
				              str_c(&there));
			/* After the first room none of its terms is large. */
			for (int64_t t = 0; t < n && gang && k == 0; t++)
				amounts_add(&sum, &need);
			if (gang && queue_exceeds(&sum, &room[k].most, &wanted, &there))
				return err_at(err, INVALID_PROTOCOL, where,
				              "the tasks of this job, which start together, ask "
				              "for %s; %s %s",
				              str_c(&wanted), room[k].whose, str_c(&there));
		}
	}
	return 0;
}
