/* Pods of jobs that have code. */
#include "base/code/code.h"
#include "tests/unit/translate/build_kit.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void give_code(struct bench *b, enum profile profile, const char *path)
{
	set_up(b, profile);
	b->job.code = (struct job_code){ .sha256 = SPAN(SHA),
		                         .path = span_of(path),
		                         .where = { "/extras/code/path", 9, 3 } };
}

static const char *code_label(json_t *framework)
{
	json_t *label = json_object_get(at(framework, "metadata/labels"), "rest-lit/code");
	assert_non_null(label);
	return json_string_value(label);
}

/* The value that counts: an overlay has an empty one before. */
static const char *last_env(json_t *list, const char *name)
{
	const char *found = NULL;
	size_t i = 0;
	json_t *v = NULL;
	json_array_foreach (list, i, v)
		if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0)
			found = json_string_value(json_object_get(v, "value"));
	return found;
}

TEST(test_build_of_code_mounts_all_parts_into_init)
{
	char name[CODE_OBJECT + 1];
	code_object_name(name, "alice", SPAN(SHA));
	FREE_AUTO char *part_2 = xasprintf("%s-2", name);
	for (int way = 0; way < 4; way++) {
		BENCH(b, give_code, way & 1 ? PROFILE_OPENPAI : PROFILE_PLAIN, "/src");
		if (way & 2) {
			b.set.program[0] = (struct runtime_program){ "pai-runtime-amd64-0", "amd64",
				                                     "x86_64", "01", SPAN("f0VM") };
			b.set.n_programs = 1;
		}
		b.job.code.commit = SPAN("9fceb02");
		b.facts.code = (struct code_fact){ 3, (1 << 20) + 1 };
		OBJECT_AUTO *f = built_object(&b, 0);
		assert_string_equal(code_label(f), name + 5);
		assert_text(f, APP "workingDir", "/src");
		assert_null(at(f, INIT "workingDir"));
		assert_string_equal(env(f, APP, "PAI_CODE_DIR"), "/src");
		assert_string_equal(env(f, APP, "PAI_CODE_COMMIT"), "9fceb02");
		assert_null(env(f, APP, "PAI_CODE_SHA256"));
		assert_string_equal(env(f, INIT, "PAI_CODE_DIR"), "/src");
		assert_string_equal(last_env(at(f, INIT "env"), "PAI_CODE_SHA256"), SHA);
		assert_string_equal(env(f, INIT, "PAI_CODE_BYTES"), "1048577");
		assert_string_equal(env(f, INIT, "PAI_CODE_PARTS"), "3");
		assert_text(named(at(f, APP "volumeMounts"), "code"), "mountPath", "/src");
		assert_null(named(at(f, APP "volumeMounts"), "code-0"));
		assert_text(named(at(f, INIT "volumeMounts"), "code"), "mountPath", "/src");
		json_t *part = named(at(f, INIT "volumeMounts"), "code-2");
		assert_text(part, "mountPath", "/usr/local/pai-code/2");
		assert_true(json_is_true(at(part, "readOnly")));
		assert_null(named(at(f, POD "volumes"), "code-3"));
		assert_text(named(at(f, POD "volumes"), "code-2"), "configMap/name", part_2);
		assert_text(named(at(f, POD "volumes"), "code"), "emptyDir/sizeLimit", "10242Mi");
	}
}

TEST(test_build_of_code_without_facts_names_one_part_of_the_user)
{
	BENCH(b, give_code, PROFILE_PLAIN, "/src");
	char name[CODE_OBJECT + 1];
	OBJECT_AUTO *f = built_object(&b, 0);
	code_object_name(name, "alice", SPAN(SHA));
	assert_string_equal(code_label(f), name + 5);
	FREE_AUTO char *part = xasprintf("%s-0", name);
	assert_text(named(at(f, POD "volumes"), "code-0"), "configMap/name", part);
	assert_null(named(at(f, POD "volumes"), "code-1"));
	assert_string_equal(env(f, INIT, "PAI_CODE_BYTES"), "268435456");
	assert_string_equal(env(f, INIT, "PAI_CODE_COMMIT"), "");
}

TEST(test_build_without_code_names_none)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	built(&b);
	assert_null(memmem(b.out.v[0].body.p, b.out.v[0].body.n, "code", 4));
}

TEST(test_build_of_code_in_a_storage_is_400)
{
	static const struct storage_fact STORAGE[] = { { .name = { "nfs", 3 }, .share = true } };
	static const struct {
		const char *path, *at;
		bool good;
	} CASES[] = {
		{ "/data", "", false },        { "/data/code", "", false },
		{ "/dat", "", true },          { "/data2", "", true },
		{ "/mnt", "/mnt/x/", false },  { "/mnt/x", "/mnt/x/", false },
		{ "/mnt/y", "/mnt/x/", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		BENCH(b, give_code, PROFILE_PLAIN, CASES[i].path);
		const struct storage_request request = {
			.name = { "nfs", 3 },
			.mount_path = span_of(*CASES[i].at ? CASES[i].at : "/data")
		};
		b.facts.storages = STORAGE;
		b.facts.n_storages = 1;
		b.job.storages = &request;
		b.job.n_storages = 1;
		if (CASES[i].good) {
			built(&b);
			continue;
		}
		refused(&b, 400);
		assert_string_equal(b.e.notes.v[0].at, "/extras/code/path");
		assert_int_equal(b.e.notes.v[0].line, 9);
		assert_non_null(strstr(b.e.notes.v[0].msg, "because a storage is mounted at"));
	}
}
