/* Manifests of the Framework launcher and of FrameworkController: task roles whose pods are those
 * of Kubernetes.  docs/DIALECTS.md says what is kept. */
#include "translate/dialects/dialects.h"
#include "translate/dialects/raw_pod.h"
#include "translate/job/names.h"

static const struct int_field MAX_RETRIES = { "maxRetryCount", -2, INT32_MAX, 0 };
static const struct int_field MIN_FAILED_TASKS = { "minFailedTaskCount", -1, INT32_MAX, 1 };
static const struct int_field MIN_SUCCEEDED_TASKS = { "minSucceededTaskCount", -1, INT32_MAX, -1 };

static void launcher_retries(struct parse_context *r, const struct field *policy, bool *fancy,
                             int64_t *max)
{
	*fancy = parse_is_true(policy->n, "fancyRetryPolicy");
	*max = parse_int(r, policy, &MAX_RETRIES);
}

static void launcher_role(void *context, const struct field *its, struct role *role)
{
	struct parse_context *r = context;
	static const char *const UNUSED[] = { "podGracefulDeletionTimeoutSec", NULL };
	const struct int_field tasks = { "taskNumber", 1, r->set->max_instances, 1 };
	struct field policy = field_get(its, "frameworkAttemptCompletionPolicy");
	struct field task = field_get(its, "task");
	struct field retries = field_get(&task, "retryPolicy");
	struct raw_source source = { field_get(&task, "pod"), SPAN("") };
	struct field spec = field_get(&source.template, "spec");
	struct raw_found found = { 0 };
	parse_role_name(r, role, its, parse_text(its->n, "name"));
	role->instances = parse_int(r, its, &tasks);
	role->min_failed = parse_int(r, &policy, &MIN_FAILED_TASKS);
	role->min_succeeded = parse_int(r, &policy, &MIN_SUCCEEDED_TASKS);
	launcher_retries(r, &retries, &role->task_fancy_retry, &role->task_retry_max);
	raw_unused_warn(r, &task, UNUSED);
	raw_role_read(r, &source, SPAN(""), role, &found);
	if (spec.n && !node_get(spec.n, "restartPolicy"))
		parse_warn(r, &spec,
		           "has no restartPolicy, which is Never here: with Always, as in "
		           "Kubernetes, no task ends");
	else if (found.restart_policy.n && !span_is(found.restart_policy, "Never"))
		parse_refuse(r, &spec,
		             "`restartPolicy` must be Never: task.retryPolicy starts a task again");
	if (found.command &&
	    span_find(role->command, 0, arena_dup(r->a, r->job->name)) != SIZE_MAX) {
		struct field command = field_get(found.main, "command");
		parse_warn(r, &command,
		           "has the name %s, but the Framework is called %s, see PAI_JOB_NAME",
		           arena_quoted(r->a, r->job->name), r->job->hash);
	}
}

void launcher_read(struct parse_context *r)
{
	struct job *job = r->job;
	struct field spec = field_get(TOP(r), "spec");
	struct field list = field_get(&spec, "taskRoles");
	struct field retries = field_get(&spec, "retryPolicy");
	job->gang = true;
	parse_virtual_cluster(r, &(struct field){ .top = true });
	raw_metadata_read(r);
	launcher_retries(r, &retries, &job->fancy_retry, &job->retry_max);
	job->retry_where = field_place(r->a, &retries);
	parse_role_list(r, &list, launcher_role, r);
}
