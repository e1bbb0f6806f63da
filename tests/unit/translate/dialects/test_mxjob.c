/* MxJobs; tests/golden/dialects.c has the examples of the operators. */
#include "tests/unit/translate/parse_kit.h"

#define ENTRY(type, more) "  - {mxReplicaType: " type ", " more "template: " TEMPLATE("") "}\n"
#define KUBEFLOW(more)    MXJOB("kubeflow.org/v1alpha1", more, "template: " TEMPLATE(""))
#define DIST(more)                                                                                 \
	"apiVersion: mxnet.mlkube.io/v1beta1\nkind: MxJob\nmetadata: {name: j}\nspec:\n"           \
	"  jobMode: dist\n  replicaSpecs:\n" more
#define ALL_TYPES                                                                                  \
	ENTRY("SERVER", "replicas: 2, ")                                                           \
	ENTRY("SCHEDULER", "PsRootPort: 9000, ") ENTRY("WORKER", "replicas: 3, ")

static const char *command_of(struct run *r, size_t role)
{
	return arena_dup(&r->arena, r->job->roles[role].command);
}

static void assert_env(const struct role *role, size_t i, const char *name, const char *value)
{
	assert_true(i < role->n_env);
	assert_true(span_is(role->env[i].name, name));
	assert_true(span_is(role->env[i].value, value));
}

TEST(test_distributed_mxjobs_become_roles)
{
	RUN_AUTO r = run_good(DIST(ALL_TYPES));
	const struct role *role = r.job->roles;
	assert_int_equal(r.job->n_roles, 3);
	assert_string_equal(r.job->dialect->name, "mxjob");
	assert_true(r.job->fancy_retry && r.job->gang);
	assert_int_equal(r.job->retry_max, 6);
	assert_string_equal(role[0].object_name, "server");
	assert_int_equal(role[0].instances, 2);
	assert_int_equal(role[0].min_succeeded, -1);
	assert_int_equal(role[1].min_succeeded, 1);
	assert_int_equal(role[2].min_failed, 1);
	assert_env(&role[2], 0, "DMLC_PS_ROOT_PORT", "9000");
	assert_env(&role[2], 1, "DMLC_NUM_SERVER", "2");
	assert_env(&role[2], 2, "DMLC_NUM_WORKER", "3");
	assert_env(&role[2], 3, "DMLC_ROLE", "worker");
	assert_int_equal(role[2].n_env, 4);
	assert_string_equal(command_of(&r, 1),
	                    "export DMLC_PS_ROOT_URI=\"${PAI_HOST_IP_scheduler_0}\"\n"
	                    "exec 'python' 'a.py'");
}

TEST(test_local_mxjobs_have_one_role)
{
	RUN_AUTO r = run_good(MXJOB_LOCAL("", "template: " TEMPLATE("restartPolicy: Never, ")));
	assert_int_equal(r.job->roles[0].n_env, 0);
	assert_int_equal(r.job->roles[0].min_succeeded, 1);
	assert_int_equal(r.job->retry_max, 0);
	assert_false(r.job->fancy_retry);
	assert_string_equal(command_of(&r, 0), "exec 'python' 'a.py'");
}

/* Only the chief counts; the others are started again. */
TEST(test_chief_alone_decides_the_end_of_the_job)
{
	RUN_AUTO r = run_good(KUBEFLOW("") ENTRY("SCHEDULER", ""));
	assert_int_equal(r.job->roles[0].min_succeeded, 1);
	assert_int_equal(r.job->roles[0].task_retry_max, 0);
	assert_int_equal(r.job->roles[1].min_failed, -1);
	assert_int_equal(r.job->roles[1].min_succeeded, -1);
	assert_int_equal(r.job->roles[1].task_retry_max, -1);
	assert_env(&r.job->roles[0], 0, "DMLC_PS_ROOT_PORT", "9091");
	assert_env(&r.job->roles[0], 1, "DMLC_NUM_SERVER", "0");
	assert_env(&r.job->roles[0], 4, "DMLC_USE_KUBERNETES", "1");
	run_done(&r);
	r = run_good(KUBEFLOW("  terminationPolicy: {chief: {replicaName: SCHEDULER}}\n")
	                 ENTRY("SCHEDULER", ""));
	assert_int_equal(r.job->roles[0].task_retry_max, -1);
	assert_int_equal(r.job->roles[1].min_succeeded, 1);
}

/* The shell expands the variables that Kubernetes would expand in command and args. */
TEST(test_words_of_a_command_are_quoted_for_the_shell)
{
	RUN_AUTO r = run_good(
	    MXJOB_LOCAL("", "template: {spec: {containers: [{name: mxnet, image: i, "
	                    "env: [{name: A, value: x}], command: [sh, -c], args: [\"it's $(A)\", "
	                    "'$$(A)', '$(B) $A', '$(PAI_TASK_INDEX)', '', 'a\n\n  b']}]}}"));
	assert_string_equal(command_of(&r, 0), "exec 'sh' '-c' 'it'\\''s '\"${A}\"'' '$(A)' "
	                                       "'$(B) $A' ''\"${PAI_TASK_INDEX}\"'' '' 'a\nb'");
}

TEST(test_mxjobs_with_wrong_replicas_are_refused)
{
	assert_all_refused((const struct refusal[]){
	    { MXJOB("mlkube.io/v1beta1", "", "template: " TEMPLATE("")),
	      "spec: misses the key `jobMode`" },
	    { DIST(ENTRY("WORKER", "")),
	      "7:3: spec.replicaSpecs: a distributed job needs an entry of "
	      "type SCHEDULER" },
	    { DIST(ENTRY("SCHEDULER", "")), "needs an entry of type SERVER" },
	    { DIST(ALL_TYPES ENTRY("SERVER", "")),
	      "10:5: spec.replicaSpecs[3]: there is another entry of type SERVER above" },
	    { DIST(ENTRY("SCHEDULER", "replicas: 2, ")), "must be at most 1, is 2" },
	    { DIST(ENTRY("MASTER", "")), "spec.replicaSpecs[0].mxReplicaType: " },
	    { MXJOB_LOCAL("", "replicas: 2, template: " TEMPLATE("")),
	      "a local job has one entry" },
	    { KUBEFLOW("  terminationPolicy: {chief: {replicaName: SERVER}}\n"),
	      "replicaName: the chief is a SERVER, but no entry has this type" },
	    { "apiVersion: mlkube.io/v1beta1\nkind: MxJob\nmetadata: {name: j, namespace: other}\n"
	      "spec: {jobMode: local, replicaSpecs: [{template: " TEMPLATE("") "}]}\n",
	      "3:32: metadata.namespace: must be default" },
	    { MXJOB_LOCAL("", "template: {spec: {containers: [{name: mxnet, image: i}]}}"),
	      "containers[0]: `command` is missing" },
	    { NULL, NULL },
	});
}
