/* The Framework in both profiles and for both generations; facts about the cluster. */
#include "tests/unit/translate/build_kit.h"

/* ---- the Framework ------------------------------------------------------------------------- */

TEST(test_build_plain_asks_nothing_of_the_node)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	OBJECT_AUTO *f = built_object(&b, 0);
	assert_null(at(f, POD "hostNetwork"));
	assert_null(at(f, POD "priorityClassName"));
	assert_null(at(f, POD "affinity"));
	assert_null(at(f, APP "securityContext/capabilities/add"));
	assert_true(json_is_false(at(f, POD "automountServiceAccountToken")));
	assert_null(named(at(f, APP "volumeMounts"), "api-access"));
	assert_non_null(named(at(f, INIT "volumeMounts"), "api-access"));
	assert_null(memmem(b.out.v[0].body.p, b.out.v[0].body.n, "hostPath", 8));
	assert_string_equal(env(f, INIT, "KUBE_APISERVER_ADDRESS"),
	                    "https://kubernetes.default.svc");
}

TEST(test_build_cpu_only_names_no_device)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	b.role[0].gpu = 0;
	OBJECT_AUTO *f = built_object(&b, 0);
	assert_null(json_object_get(at(f, APP "resources/limits"), "nvidia.com/gpu"));
	assert_string_equal(env(f, APP, "NVIDIA_VISIBLE_DEVICES"), "none");
}

TEST(test_build_ports_are_json_in_a_text_and_dollars_are_doubled)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	b.role[0].command = SPAN("echo $$ $(X) $Y ${job.user}");
	OBJECT_AUTO *f = built_object(&b, 0);
	json_t *annotations = at(f, ROLE "task/pod/metadata/annotations");
	assert_string_equal(
	    json_string_value(json_object_get(annotations, "rest-server/port-scheduling-spec")),
	    "{\"schedulePortStart\":15000,\"schedulePortEnd\":40000,\"ports\":"
	    "{\"ssh\":{\"count\":1},\"http\":{\"count\":2}}}");
	assert_string_equal(env(f, INIT, "USER_CMD"), "echo $$$$ $$(X) $Y ${job.user}");
}

/* ---- first generation ------------------------------------------------------------------------ */

static const struct env_var OWN[] = { { { "MY", 2 }, { "$(X)", 4 } } };

TEST(test_build_v1_sets_variables_and_policies)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	b.job.dialect = dialect_get(DIALECT_V1);
	b.job.data_dir = SPAN("hdfs://$(x)");
	b.job.kill_all = 2;
	b.role[0].env = OWN;
	b.role[0].n_env = 1;
	b.role[0].min_failed_given = true;
	OBJECT_AUTO *f = built_object(&b, 0);
	/* both spellings of a role */
	assert_string_equal(env(f, APP, "PAI_TASK_ROLE_TASK_COUNT_role_0"), "3");
	assert_string_equal(env(f, APP, "PAI_TASK_ROLE_TASK_COUNT_role0"), "3");
	assert_string_equal(env(f, APP, "PAI_RESOURCE_role0"),
	                    "cpu_count:4,memMB:1024,shmMB:64,gpu_count:1");
	assert_string_equal(env(f, APP, "PAI_MIN_FAILED_INSTANCE_role0"), "1");
	assert_string_equal(env(f, APP, "PAI_MIN_SUCCEEDED_INSTANCE_role0"), "");
	assert_string_equal(env(f, APP, "PAI_DATA_DIR"), "hdfs://$$(x)");
	assert_string_equal(env(f, APP, "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM"), "2");
	/* its own variables come first, and not to init */
	assert_text(f, APP "env/0/name", "MY");
	assert_text(f, APP "env/0/value", "$$(X)");
	assert_null(env(f, INIT, "MY"));
	assert_text(named(at(f, POD "volumes"), "dshm"), "emptyDir/sizeLimit", "64Mi");
}

/* ---- facts
 * --------------------------------------------------------------------------------------- */

TEST(test_build_refuses_a_cluster_that_is_not_granted)
{
	static const struct span VC[] = { { "a", 1 }, { "b", 1 } };
	BENCH(b, set_up, PROFILE_PLAIN);
	b.facts.any_virtual_cluster = false;
	b.facts.virtual_clusters = VC;
	b.facts.n_virtual_clusters = 2;
	refused(&b, 403);
	assert_string_equal(b.e.code, "ForbiddenUserError");
	assert_string_equal(b.e.notes.v[0].at, "/defaults/virtualCluster");
	b.job.virtual_cluster = SPAN("b");
	err_done(&b.e);
	b.e = (struct err){ 0 };
	built(&b);
}

static const struct storage_fact STORAGES[] = {
	{ .name = { "nfs", 3 }, .share = true, .is_default = true },
	{ .name = { "own", 3 }, .share = false, .read_only = true, .is_default = true },
	{ .name = { "other", 5 }, .share = true },
	{ .name = { "PAI_SHARE", 9 }, .share = true },
};

static void make_storages(struct bench *b, enum profile profile, const struct storage_request *v,
                          size_t n)
{
	set_up(b, profile);
	b->facts.storages = STORAGES;
	b->facts.n_storages = 4;
	b->job.storages_default = n == 0;
	b->job.storages = v;
	b->job.n_storages = n;
}

TEST(test_build_no_storages_mount_nothing)
{
	BENCH(b, make_storages, PROFILE_PLAIN, NULL, 0);
	b.job.storages_default = false;
	OBJECT_AUTO *f = built_object(&b, 0);
	assert_null(named(at(f, POD "volumes"), "nfs-volume"));
}

TEST(test_build_one_storage_twice_is_one_volume)
{
	static const struct storage_request TWICE[] = {
		{ .name = { "nfs", 3 } }, { .name = { "nfs", 3 }, .mount_path = { "/data", 5 } }
	};
	BENCH(b, make_storages, PROFILE_PLAIN, TWICE, 2);
	OBJECT_AUTO *f = built_object(&b, 0);
	size_t i = 0;
	size_t mounts = 0;
	size_t volumes = 0;
	json_t *v = NULL;
	json_array_foreach (at(f, APP "volumeMounts"), i, v)
		mounts += strcmp(json_string_value(json_object_get(v, "name")), "nfs-volume") == 0;
	json_array_foreach (at(f, POD "volumes"), i, v)
		volumes += strcmp(json_string_value(json_object_get(v, "name")), "nfs-volume") == 0;
	assert_int_equal(mounts, 2);
	assert_int_equal(volumes, 1);
}

TEST(test_build_unknown_storage_is_404)
{
	static const struct storage_request UNKNOWN[] = {
		{ .name = { "nix", 3 }, .where = { "/extras/storages/0/name", 9, 1 } }
	};
	BENCH(b, make_storages, PROFILE_PLAIN, UNKNOWN, 1);
	refused(&b, 404);
	assert_string_equal(b.e.code, "NoStorageError");
	assert_int_equal(b.e.notes.v[0].line, 9);
}

TEST(test_build_one_path_twice_is_400)
{
	static const struct storage_request SAME[] = { { .name = { "nfs", 3 } },
		                                       { .name = { "other", 5 },
		                                         .mount_path = { "/mnt/nfs/", 9 },
		                                         .mount_where = { "/x", 5, 1 } } };
	BENCH(b, make_storages, PROFILE_PLAIN, SAME, 2);
	refused(&b, 400);
	assert_string_equal(b.e.notes.v[0].at, "/x");
}

TEST(test_build_volume_names_are_labels_in_plain)
{
	static const struct storage_request SHARE[] = { { .name = { "PAI_SHARE", 9 } } };
	BENCH(b, make_storages, PROFILE_PLAIN, SHARE, 1);
	BENCH(o, make_storages, PROFILE_OPENPAI, SHARE, 1);
	built(&b);
	built(&o);
	OBJECT_AUTO *plain = object(&b, 0);
	OBJECT_AUTO *openpai = object(&o, 0);
	json_t *list = at(plain, POD "volumes");
	const char *name = json_string_value(
	    json_object_get(json_array_get(list, json_array_size(list) - 1), "name"));
	assert_memory_equal(name, "pai-share-", 10);
	assert_int_equal(strlen(name), strlen("pai-share-12345678-volume"));
	assert_non_null(named(at(openpai, POD "volumes"), "PAI_SHARE-volume"));
}
