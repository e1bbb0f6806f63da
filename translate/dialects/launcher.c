/* Manifests of the Framework launcher and of FrameworkController: task roles whose pods are those
 * of Kubernetes.  docs/DIALECTS.md says what is kept. */
#include "translate/dialects/raw_pod.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

static const struct int_field MAX_RETRIES = { "maxRetryCount", -2, INT32_MAX, 0 };
static const struct int_field MIN_FAILED_TASKS = { "minFailedTaskCount", -1, INT32_MAX, 1 };
static const struct int_field MIN_SUCCEEDED_TASKS = { "minSucceededTaskCount", -1, INT32_MAX, -1 };

static void launcher_retries(struct parse_context *r, const struct path *up, const struct node *map,
                             bool *fancy, int64_t *max)
{
	const struct node *policy = node_get(map, "retryPolicy");
	const struct node *is_fancy = node_get(policy, "fancyRetryPolicy");
	struct path p = PATH_KEY(up, SPAN("retryPolicy"));
	*fancy = node_is(is_fancy, NODE_BOOL) && is_fancy->boolean;
	*max = parse_int(r, &p, policy, &MAX_RETRIES);
}

static void launcher_role(void *context, const struct path *p, const struct node *n,
                          struct role *role)
{
	struct parse_context *r = context;
	static const char *const UNUSED[] = { "podGracefulDeletionTimeoutSec", NULL };
	const struct int_field tasks = { "taskNumber", 1, r->set->max_instances, 1 };
	const struct node *policy = node_get(n, "frameworkAttemptCompletionPolicy");
	const struct node *task = node_get(n, "task");
	struct path policy_path = PATH_KEY(p, SPAN("frameworkAttemptCompletionPolicy"));
	struct path task_path = PATH_KEY(p, SPAN("task"));
	struct path pod = PATH_KEY(&task_path, SPAN("pod"));
	const struct node *spec = node_get(node_get(task, "pod"), "spec");
	struct path spec_path = PATH_KEY(&pod, SPAN("spec"));
	struct raw_source source = { &pod, node_get(task, "pod"), SPAN("") };
	struct raw_found found = { 0 };
	parse_role_name(r, role, p, n, parse_text(n, "name"));
	role->instances = parse_int(r, p, n, &tasks);
	role->min_failed = parse_int(r, &policy_path, policy, &MIN_FAILED_TASKS);
	role->min_succeeded = parse_int(r, &policy_path, policy, &MIN_SUCCEEDED_TASKS);
	launcher_retries(r, &task_path, task, &role->task_fancy_retry, &role->task_retry_max);
	raw_unused_warn(r, &task_path, task, UNUSED);
	raw_role_read(r, &source, SPAN(""), role, &found);
	if (spec && !node_get(spec, "restartPolicy"))
		parse_warn(r, &spec_path, spec, WARN_RESTART);
	else if (found.restart_policy.n && !span_is(found.restart_policy, "Never"))
		parse_refuse(r, &spec_path, spec,
		             "`restartPolicy` must be Never: task.retryPolicy starts a task again");
	if (found.command &&
	    span_find(role->command, 0, arena_dup(r->a, r->job->name)) != SIZE_MAX) {
		struct path at = PATH_KEY(found.main, SPAN("command"));
		parse_warn(r, &at, found.command, WARN_OLD_NAME, quoted(r->a, r->job->name),
		           r->job->hash);
	}
}

void launcher_read(struct parse_context *r)
{
	struct job *job = r->job;
	const struct node *spec = node_get(r->root, "spec");
	const struct node *list = node_get(spec, "taskRoles");
	struct path spec_path = PATH_KEY(NULL, SPAN("spec"));
	struct path p = PATH_KEY(&spec_path, SPAN("taskRoles"));
	job->gang = true;
	parse_virtual_cluster(r, NULL, NULL);
	raw_metadata_read(r);
	struct path retries = PATH_KEY(&spec_path, SPAN("retryPolicy"));
	launcher_retries(r, &spec_path, spec, &job->fancy_retry, &job->retry_max);
	job->retry_where = path_place(r->a, &retries, node_get(spec, "retryPolicy"));
	parse_role_list(r, &p, list, launcher_role, r);
}
