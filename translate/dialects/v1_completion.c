/*
 * v1: when the job ends.  killAllOnCompletedTaskNumber K meant "succeed when K tasks of
 * any roles have succeeded, fail when one fails".  A Framework counts per role, so the
 * rules below never end a job earlier than K did, and are exact where servers run until
 * they are killed and one role does the work, which is what K was made for.
 */
#include <inttypes.h>

#include "translate/dialects/v1.h"
#include "translate/dialects/warnings.h"

static bool any_given(const struct job *job)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		if (job->roles[i].min_failed_given || job->roles[i].min_succeeded_given)
			return true;
	}
	return false;
}

/* What a role did not give: one failure ends the job, success is waited for. */
static void fill_defaults(struct job *job)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		struct role *role = &job->roles[i];
		role->min_failed_given = role->min_failed != V1_NOT_GIVEN;
		role->min_succeeded_given = role->min_succeeded != V1_NOT_GIVEN;
		if (role->min_failed == V1_NOT_GIVEN)
			role->min_failed = 1;
		if (role->min_succeeded == V1_NOT_GIVEN)
			role->min_succeeded = -1;
	}
}

/* Every role that can have K successes ends the job with them. */
static void count_per_role(struct job *job)
{
	for (size_t i = 0; i < job->n_roles; i++) {
		if (job->roles[i].instances >= job->kill_all)
			job->roles[i].min_succeeded = job->kill_all;
	}
}

void v1_completion_done(struct reading *r)
{
	static const struct int_field K = { "killAllOnCompletedTaskNumber", 0, INT32_MAX, 0 };
	struct job *job = r->job;
	const struct node *n = node_get(r->root, K.name);
	struct path p = PATH_KEY(NULL, span_of(K.name));
	bool given = any_given(job);
	job->kill_all = reading_int(r, NULL, r->root, &K);
	fill_defaults(job);
	if (job->kill_all == 0)
		return;
	if (given) {
		reading_warn(r, &p, n, WARN_KILL_GIVEN);
		return;
	}
	if (job->kill_all > job->total_tasks) {
		reading_refuse(r, &p, n, "must be at most %" PRId64 " (all tasks), is %" PRId64,
		               job->total_tasks, job->kill_all);
		return;
	}
	if (job->kill_all == job->total_tasks)
		return;
	count_per_role(job);
	if (job->n_roles > 1)
		reading_warn(r, &p, n, WARN_KILL_ROLES);
}
