/* Pods of users in the Framework: merged fields, and the grants of their volumes. */
#include <jansson.h>

#include "base/object.h"
#include "tests/unit/translate/parse_kit.h"

#define VOLUME(source)                                                                             \
	LAUNCHER("", "{spec: {restartPolicy: Never, volumes: [{name: v, " source                   \
	             "}], containers: [{name: a, image: i, command: [x], volumeMounts: [{name: "   \
	             "v, mountPath: /v}]}]}}")

static const struct storage_fact STORAGES[] = {
	{ .name = { "pv", 2 }, .share = true },
	{ .name = { "ro", 2 }, .share = true, .read_only = true },
	{ .name = { "own", 3 } },
};
static const struct directory_fact DIRECTORIES[] = { { { "/data", 5 }, false } };
static const struct facts FACTS = { .any_virtual_cluster = true,
	                            .storages = STORAGES,
	                            .n_storages = 3,
	                            .directories = DIRECTORIES,
	                            .n_directories = 1 };

static int build(struct run *r, struct objects *out)
{
	return job_build(r->translator, r->job, &FACTS, NULL, &r->arena, out, &r->err);
}

static void assert_volume(const char *text, const char *refusal)
{
	struct objects out = { 0 };
	RUN_AUTO r = run_good(text);
	int rc = build(&r, &out);
	assert_int_equal(rc, refusal ? -1 : 0);
	if (refusal) {
		assert_int_equal(r.err.http, 403);
		assert_within(notes_lines(&r, &r.err.notes), refusal);
	}
}

TEST(test_volumes_need_a_grant_of_their_storage)
{
	assert_volume(VOLUME("emptyDir: {}"), NULL);
	assert_volume(VOLUME("persistentVolumeClaim: {claimName: pv}"), NULL);
	assert_volume(VOLUME("persistentVolumeClaim: {claimName: ro, readOnly: true}"), NULL);
	assert_volume(VOLUME("persistentVolumeClaim: {claimName: ro}"),
	              "volumes[0].persistentVolumeClaim: storage `ro` may only be read: add "
	              "`readOnly: true` (user alice)");
	assert_volume(VOLUME("persistentVolumeClaim: {claimName: own}"),
	              "storage `own` has a directory per user");
	assert_volume(VOLUME("persistentVolumeClaim: {claimName: other}"),
	              "storage `other` is not granted");
	assert_volume(VOLUME("hostPath: {path: /data/x}"), NULL);
	assert_volume(VOLUME("hostPath: {path: /database}"),
	              "the directory `/database` is not granted");
	assert_volume(VOLUME("nfs: {server: fs, path: /data}"), "`nfs://fs/data` is not granted");
}

static json_t *pod_of(struct objects *out)
{
	struct span body = objects_framework(out)->body;
	json_auto_t *v = json_loadb(body.p, body.n, 0, NULL);
	json_t *role = json_array_get(json_object_get(json_object_get(v, "spec"), "taskRoles"), 0);
	json_t *pod = json_incref(json_object_get(json_object_get(role, "task"), "pod"));
	return pod;
}

TEST(test_user_pods_are_merged_under_the_template)
{
	struct objects out = { 0 };
	RUN_AUTO r = run_good(LAUNCHER(
	    "", "{metadata: {labels: {mine: x}}, spec: {restartPolicy: Never, initContainers: "
		"[{name: get, image: i, command: [y]}], containers: [{name: a, image: i, command: "
		"[x], env: [{name: A, value: $(PAI_TASK_INDEX)}], resources: {limits: {cpu: 500m, "
		"memory: 1Gi}, requests: {cpu: 100m}}}]}}"));
	assert_int_equal(build(&r, &out), 0);
	json_auto_t *pod = pod_of(&out);
	const char *mine = NULL;
	const char *user = NULL;
	const char *init[2] = { NULL, NULL };
	const char *container = NULL;
	const char *variable = NULL;
	const char *value = NULL;
	json_t *resources = NULL;
	assert_int_equal(json_unpack(pod,
	                             "{s:{s:{s:s, s:s}}, s:{s:[{s:s}, {s:s}], s:[{s:s, s:[{s:s, "
	                             "s:s}], s:o}]}}",
	                             "metadata", "labels", "mine", &mine, "userName", &user, "spec",
	                             "initContainers", "name", &init[0], "name", &init[1],
	                             "containers", "name", &container, "env", "name", &variable,
	                             "value", &value, "resources", &resources),
	                 0);
	assert_string_equal(mine, "x");
	assert_string_equal(user, "alice");
	assert_string_equal(init[0], "init");
	assert_string_equal(init[1], "get");
	assert_string_equal(container, "app");
	assert_string_equal(variable, "A");
	assert_string_equal(value, "$(PAI_TASK_INDEX)");
	json_auto_t *want = json_pack("{s:{s:s, s:s}, s:{s:s}}", "limits", "cpu", "500m", "memory",
	                              "1Gi", "requests", "cpu", "100m");
	assert_true(json_equal(resources, want));
	/* The same pod is what the API server checks. */
	assert_int_equal(out.n_checks, 1);
	assert_string_equal(out.check[0].name, "w");
	json_auto_t *check = json_loadb(out.check[0].body.p, out.check[0].body.n, 0, NULL);
	assert_true(json_equal(json_object_get(check, "template"), pod));
}

/* A v2 job has nothing to check. */
TEST(test_jobs_without_pods_have_no_checks)
{
	struct objects out = { 0 };
	RUN_AUTO r = run_good(V2(""));
	assert_int_equal(build(&r, &out), 0);
	assert_int_equal(out.n_checks, 0);
}
