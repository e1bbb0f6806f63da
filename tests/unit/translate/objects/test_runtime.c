/* The two ways of pai-runtime into pods: an image or a ConfigMap. */
#include "tests/unit/translate/build_kit.h"

AUTO_FREE(translator)

#define CONFIGMAP       "pai-runtime-amd64-0123456789abcdef"
#define SOURCE          "projected/sources/"
#define CONFIGMAP_ARM64 "pai-runtime-arm64-fedcba9876543210"
static const struct runtime_program PROGRAMS[] = {
	{ CONFIGMAP, "amd64", "x86_64", "0123456789abcdef01", { "f0VMRg==", 8 } },
	{ CONFIGMAP_ARM64, "arm64", "aarch64", "fedcba987654321001", { "f0VMRh==", 8 } },
};

static void by_configmap(struct bench *b, enum profile profile)
{
	set_up(b, profile);
	b->set.program[0] = PROGRAMS[0];
	b->set.n_programs = 1;
}

static void by_two_configmaps(struct bench *b, enum profile profile)
{
	by_configmap(b, profile);
	b->set.program[1] = PROGRAMS[1];
	b->set.n_programs = 2;
	b->set.runtime_init_image = "busybox:1.36";
}

TEST(test_image_pull_policy_depends_on_the_tag)
{
	static const struct {
		const char *image, *want;
	} CASES[] = {
		{ "rest-lit/pai-runtime:0.2.0", "IfNotPresent" },
		{ "host:5000/a/b:1", "IfNotPresent" },
		{ "host:5000/a/b:latest-1", "IfNotPresent" },
		{ "a", "Always" },
		{ "a:latest", "Always" },
		{ "host:5000/a", "Always" },
		{ "host:5000/a:latest", "Always" },
		{ "a@sha256:0123", "IfNotPresent" },
		{ "a:latest@sha256:0123", "IfNotPresent" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_string_equal(image_pull_policy(span_of(CASES[i].image)), CASES[i].want);
}

TEST(test_build_by_image_runs_its_command)
{
	for (int profile = 0; profile < 2; profile++) {
		BENCH(b, set_up, profile ? PROFILE_OPENPAI : PROFILE_PLAIN);
		OBJECT_AUTO *f = built_object(&b, 0);
		assert_text(f, INIT "image", RUNTIME_IMAGE);
		assert_text(f, INIT "imagePullPolicy", profile ? "Always" : "IfNotPresent");
		assert_null(at(f, INIT "command"));
		assert_null(named(at(f, POD "volumes"), "pai-runtime"));
		assert_null(at(f, POD "nodeSelector"));
	}
}

TEST(test_build_by_configmap_runs_the_mounted_program)
{
	/* A variable of the image counts unless the container sets it, so the container sets it. */
	static const char *const SETTINGS[] = {
		"USER_CMD",
		"KUBE_APISERVER_ADDRESS",
		"REST_SERVER_URI",
		"GANG_ALLOCATION",
		"BARRIER_CHECK_INTERVAL_SEC",
		"BARRIER_CHECK_TIMEOUT_SEC",
		"INIT_CONFIG",
		"RUNTIME_CONFIG",
		"PAI_CODE_SHA256",
		"PAI_CURRENT_TASK_ROLE_NAME",
	};
	for (int profile = 0; profile < 2; profile++) {
		BENCH(b, by_configmap, profile ? PROFILE_OPENPAI : PROFILE_PLAIN);
		built(&b);
		assert_int_equal(b.out.n, 1); /* the ConfigMap belongs to no job */
		OBJECT_AUTO *f = object(&b, 0);
		assert_text(f, INIT "command/0", "/usr/local/pai-bin/pai-runtime");
		assert_text(f, INIT "command/1", "init");
		json_t *mount = named(at(f, INIT "volumeMounts"), "pai-runtime");
		assert_text(mount, "mountPath", "/usr/local/pai-bin");
		assert_true(json_is_true(at(mount, "readOnly")));
		json_t *volume = named(at(f, POD "volumes"), "pai-runtime");
		assert_text(volume, SOURCE "0/configMap/name", CONFIGMAP);
		assert_text(volume, SOURCE "0/configMap/items/0/path", "pai-runtime");
		assert_null(at(volume, SOURCE "1"));
		assert_int_equal(json_integer_value(at(volume, "projected/defaultMode")), 0555);
		assert_null(named(at(f, APP "volumeMounts"), "pai-runtime"));
		assert_string_equal(env(f, INIT, "NVIDIA_VISIBLE_DEVICES"), "void");
		json_t *arch = json_object_get(at(f, POD "nodeSelector"), "kubernetes.io/arch");
		assert_string_equal(json_string_value(arch), "amd64");
		for (size_t i = 0; i < ARRAY_SIZE(SETTINGS); i++)
			assert_non_null(env(f, INIT, SETTINGS[i]));
		/* root where logs go to a directory of the node, which belongs to root */
		assert_int_equal(at(f, INIT "securityContext/runAsUser") != NULL, profile);
	}
}

/* The paths are what the shell finds: ARCHITECTURE/pai-runtime, ARCHITECTURE as `uname -m` prints
 * it. */
TEST(test_build_for_two_architectures_lets_the_shell_choose)
{
	for (int profile = 0; profile < 2; profile++) {
		BENCH(b, by_two_configmaps, profile ? PROFILE_OPENPAI : PROFILE_PLAIN);
		OBJECT_AUTO *f = built_object(&b, 0);
		assert_text(f, INIT "image", "busybox:1.36"); /* the configured one */
		assert_text(f, INIT "imagePullPolicy", "IfNotPresent");
		assert_text(f, INIT "command/0", "/bin/sh");
		assert_text(f, INIT "command/1", "-c");
		assert_text(f, INIT "command/2",
		            "exec /usr/local/pai-bin/$(uname -m)/pai-runtime init");
		assert_null(at(f, INIT "command/3"));
		json_t *volume = named(at(f, POD "volumes"), "pai-runtime");
		assert_text(volume, SOURCE "0/configMap/name", CONFIGMAP);
		assert_text(volume, SOURCE "0/configMap/items/0/path", "x86_64/pai-runtime");
		assert_text(volume, SOURCE "1/configMap/name", CONFIGMAP_ARM64);
		assert_text(volume, SOURCE "1/configMap/items/0/path", "aarch64/pai-runtime");
		assert_null(json_object_get(at(f, POD "nodeSelector"), "kubernetes.io/arch"));
	}
}

TEST(test_build_by_configmap_takes_the_image_of_each_role)
{
	BENCH(b, by_configmap, PROFILE_PLAIN);
	b.job.n_roles = 2;
	b.role[1].image = SPAN("other:2");
	OBJECT_AUTO *f = built_object(&b, 0);
	assert_text(f, INIT "image", "img");
	assert_text(f, INIT "imagePullPolicy", "Always");
	assert_text(f, "spec/taskRoles/1/task/pod/spec/initContainers/0/image", "other:2");
}

static struct translator *translator_of(const struct bench *b)
{
	struct translator *t = translator_new(&b->set, NULL, no_err());
	assert_non_null(t);
	return t;
}

TEST(test_runtime_object_is_the_configmap)
{
	BENCH(b, by_configmap, PROFILE_PLAIN);
	b.set.namespace_name = "jobs";
	AUTO(translator_auto) struct translator *t = translator_of(&b);
	struct object o;
	assert_false(runtime_object(t, 1, &b.a, &o));
	assert_true(runtime_object(t, 0, &b.a, &o));
	assert_int_equal(o.kind, KIND_CONFIGMAP);
	assert_string_equal(o.name, CONFIGMAP);
	assert_int_equal(o.uid_at, 0);
	OBJECT_AUTO *v = json_loadb(o.body.p, o.body.n, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(v);
	assert_text(v, "kind", "ConfigMap");
	assert_text(v, "metadata/name", CONFIGMAP);
	assert_text(v, "metadata/namespace", "jobs");
	assert_text(v, "binaryData/pai-runtime", "f0VMRg==");
	assert_true(json_is_true(at(v, "immutable")));
}

TEST(test_runtime_object_exists_for_each_architecture)
{
	BENCH(b, by_two_configmaps, PROFILE_PLAIN);
	AUTO(translator_auto) struct translator *t = translator_of(&b);
	for (size_t i = 0; i < RUNTIME_PROGRAMS; i++) {
		struct object o;
		assert_true(runtime_object(t, i, &b.a, &o));
		assert_string_equal(o.name, PROGRAMS[i].configmap);
		OBJECT_AUTO *v = json_loadb(o.body.p, o.body.n, JSON_REJECT_DUPLICATES, NULL);
		assert_text(v, "metadata/name", PROGRAMS[i].configmap);
		assert_string_equal(json_string_value(json_object_get(at(v, "metadata/labels"),
		                                                      "rest-lit/runtime-arch")),
		                    PROGRAMS[i].arch);
		assert_text(v, "binaryData/pai-runtime", PROGRAMS[i].base64.p);
	}
	struct object none;
	assert_false(runtime_object(t, RUNTIME_PROGRAMS, &b.a, &none));
}

TEST(test_runtime_object_is_absent_with_an_image)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	AUTO(translator_auto) struct translator *t = translator_of(&b);
	struct object o;
	assert_false(runtime_object(t, 0, &b.a, &o));
}

/* This is the largest size that fits into a ConfigMap. */
TEST(test_runtime_object_may_have_one_mebibyte)
{
	enum { SIZE = 4 * ((1 << 20) + 2) / 3 };
	BENCH(b, by_configmap, PROFILE_PLAIN);
	char *text = arena_alloc(&b.a, SIZE);
	memset(text, 'A', SIZE);
	b.set.program[0].base64 = (struct span){ text, SIZE };
	AUTO(translator_auto) struct translator *t = translator_of(&b);
	struct object o;
	assert_true(runtime_object(t, 0, &b.a, &o));
	assert_true(o.body.n > SIZE && o.body.n < SIZE + 2048);
}

/* ---- where the output of a task goes ---- */

#define OUTPUT_MOUNT "/var/run/secrets/rest-lit"

TEST(test_build_without_output_url_mounts_nothing)
{
	for (int profile = 0; profile < 2; profile++) {
		BENCH(b, set_up, profile ? PROFILE_OPENPAI : PROFILE_PLAIN);
		OBJECT_AUTO *f = built_object(&b, 0);
		assert_null(named(at(f, APP "env"), "PAI_OUTPUT_URL"));
		assert_null(named(at(f, APP "volumeMounts"), "output-access"));
		assert_null(named(at(f, POD "volumes"), "output-access"));
	}
}

/* The user's container gets the token, whose audience is rest-lit, not the API server. */
TEST(test_build_with_output_url_mounts_a_token)
{
	for (int profile = 0; profile < 2; profile++) {
		BENCH(b, set_up, profile ? PROFILE_OPENPAI : PROFILE_PLAIN);
		b.set.output_url = "https://rest-lit.example.svc:9187";
		OBJECT_AUTO *f = built_object(&b, 0);
		assert_text(named(at(f, APP "env"), "PAI_OUTPUT_URL"), "value", b.set.output_url);
		json_t *mount = named(at(f, APP "volumeMounts"), "output-access");
		assert_text(mount, "mountPath", OUTPUT_MOUNT);
		assert_null(named(at(f, INIT "volumeMounts"), "output-access"));
		json_t *sources =
		    at(named(at(f, POD "volumes"), "output-access"), "projected/sources");
		assert_int_equal(json_array_size(sources), 2);
		json_t *token = at(json_array_get(sources, 0), "serviceAccountToken");
		assert_text(token, "audience", OUTPUT_AUDIENCE);
		assert_text(token, "path", "token");
		json_t *ca = at(json_array_get(sources, 1), "configMap");
		assert_text(ca, "name", OUTPUT_CA);
		assert_true(json_is_true(at(ca, "optional")));
	}
}
