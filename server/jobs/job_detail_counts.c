/* How many tasks are in which state. */
#include "server/jobs/job_detail_task.h"

static void put_counts(struct str *out, const size_t counts[JOB_STATE_MAX])
{
	bool first = true;
	str_char(out, '{');
	for (int i = 0; i < JOB_STATE_MAX; i++) {
		if (counts[i] == 0)
			continue;
		str_printf(out, "%s\"%s\":%zu", first ? "" : ",", JOB_STATES[i], counts[i]);
		first = false;
	}
	str_char(out, '}');
}

static void count(struct span tasks, size_t counts[JOB_STATE_MAX], size_t *n, struct arena *a)
{
	struct scan s = scan_begin(tasks);
	struct span item;
	for (; *n < SHOWN_TASKS && scan_item(&s, &item); ++*n) {
		struct span state = scan_text(scan_get(item, "state"), a);
		struct span code = scan_path(item, "attemptStatus", "completionStatus", "code");
		int64_t c = 0;
		bool has_code = scan_int(code, INT32_MIN, INT32_MAX, &c);
		enum job_state is = job_state_of(state, has_code, c);
		/* Between two tries of a pod that was refused. */
		if (is == JOB_RUNNING &&
		    scan_type(scan_path(item, "attemptStatus", "podUID")) == SCAN_NULL)
			is = JOB_WAITING;
		counts[is]++;
	}
}

void job_counts(struct str *out, struct span doc, struct arena *a)
{
	struct span list;
	struct span status;
	size_t roles = 0;
	size_t tasks = 0;
	str_char(out, '{');
	if (!cached_roles(scan_path(doc, "status", "attemptStatus"), a, &list))
		list = (struct span){ NULL, 0 };
	struct scan s = scan_begin(list);
	for (; roles < SHOWN_ROLES && scan_item(&s, &status); roles++) {
		size_t counts[JOB_STATE_MAX] = { 0 };
		if (roles)
			str_char(out, ',');
		str_json(out, scan_text(scan_get(status, "name"), a));
		str_char(out, ':');
		count(scan_get(status, "taskStatuses"), counts, &tasks, a);
		put_counts(out, counts);
	}
	str_char(out, '}');
}
