/* Manifests of the launcher and of FrameworkController. */
#include "tests/unit/translate/parse_kit.h"

#define NEVER TEMPLATE("restartPolicy: Never, ")
#define SPEC(more)                                                                                 \
	"apiVersion: frameworkcontroller.microsoft.com/v1\nkind: Framework\n"                      \
	"metadata: {name: j}\nspec:\n" more

TEST(test_launcher_jobs_have_the_defaults)
{
	RUN_AUTO r = run_good(LAUNCHER("", NEVER));
	const struct role *role = r.job->roles;
	assert_string_equal(r.job->dialect->name, "launcher");
	assert_true(span_is(r.job->id, "alice~j-1"));
	assert_false(r.job->fancy_retry);
	assert_int_equal(r.job->retry_max, 0);
	assert_int_equal(role->instances, 2);
	assert_int_equal(role->min_failed, 1);
	assert_int_equal(role->min_succeeded, -1);
	assert_int_equal(role->task_retry_max, 0);
	assert_int_equal(role->n_env, 0);
	assert_true(span_is(role->command, "exec 'python' 'a.py'"));
	assert_int_equal(r.warnings.n, 0);
}

TEST(test_launcher_policies_are_read)
{
	RUN_AUTO r = run_good(SPEC(
	    "  executionType: Start\n  retryPolicy: {fancyRetryPolicy: true, maxRetryCount: -2}\n"
	    "  taskRoles:\n  - name: W-1\n    taskNumber: 1\n"
	    "    frameworkAttemptCompletionPolicy: {minFailedTaskCount: -1, minSucceededTaskCount: "
	    "1}\n"
	    "    task: {retryPolicy: {fancyRetryPolicy: true, maxRetryCount: 3}, pod: " NEVER
	    "}\n"));
	const struct role *role = r.job->roles;
	assert_true(r.job->fancy_retry && role->task_fancy_retry);
	assert_int_equal(r.job->retry_max, -2);
	assert_string_equal(role->object_name, "w1");
	assert_int_equal(role->min_failed, -1);
	assert_int_equal(role->min_succeeded, 1);
	assert_int_equal(role->task_retry_max, 3);
}

TEST(test_launcher_refuses_unsupported_policies)
{
	assert_all_refused((const struct refusal[]){
	    { LAUNCHER("", TEMPLATE("restartPolicy: OnFailure, ")),
	      "pod.spec: `restartPolicy` must be Never: task.retryPolicy" },
	    { LAUNCHER("frameworkAttemptCompletionPolicy: {minFailedTaskCount: 0}, ", NEVER),
	      "minFailedTaskCount: must not be 0" },
	    { SPEC("  executionType: Create\n  taskRoles: []\n"), "spec.executionType: " },
	    { SPEC("  taskRoles:\n  - {name: w, taskNumber: 1, task: {pod: " NEVER "}}\n"
	           "  - {name: W, taskNumber: 1, task: {pod: " NEVER "}}\n"),
	      "roles w and W both become w" },
	    { SPEC("  taskRoles: [{name: w, taskNumber: 1, task: {}}]\n"), "misses the key `pod`" },
	    { SPEC("  taskRoles: [{name: w, task: {pod: " NEVER "}}]\n"), "`taskNumber`" },
	    { NULL, NULL },
	});
}
