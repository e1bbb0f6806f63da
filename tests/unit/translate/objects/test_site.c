/* Overlays of an administrator for all pods and Frameworks, and the choice of nodes. */
#include "tests/unit/translate/build_kit.h"

#include "schema/schema.h"

FIXTURE(set_up_schemas)
{
	schema_init();
	return 0;
}

/* ---- overlays of the site -------------------------------------------------------------------- */

static const struct template_file TOLERATION[] = {
	{ "site-taskrole.yaml", SPAN("task:\n  pod:\n    spec:\n      tolerations:\n"
	                             "        - key: ${config.device}\n"
	                             "          operator: Exists\n") },
	{ "site-framework.yaml", SPAN("metadata:\n  labels:\n    team: ${job.virtualCluster}\n") },
	{ NULL, { NULL, 0 } }
};

TEST(test_site_overlays_are_in_every_framework)
{
	for (unsigned bits = 0; bits < 16; bits++) {
		BENCH(b, set_up, bits & 1 ? PROFILE_OPENPAI : PROFILE_PLAIN);
		b.replace = TOLERATION;
		b.mark = bits & 2 ? &MARK : NULL;
		b.job.dialect = dialect_get(bits & 4 ? DIALECT_V1 : DIALECT_V2);
		b.role[0].gpu = bits & 8 ? 0 : 1;
		b.job.n_roles = 2;
		built(&b);
		json_auto_t *v = object(&b, b.out.n - 1);
		assert_text(v, "metadata/labels/team", "default");
		assert_text(v, "metadata/labels/userName", "alice");
		assert_text(v, POD "tolerations/0/key", "nvidia.com/gpu");
		assert_text(v, "spec/taskRoles/1/task/pod/spec/tolerations/0/operator", "Exists");
	}
}

TEST(test_site_overlay_is_applied_last)
{
	static const struct template_file LAST[] = {
		{ "site-taskrole.yaml",
		  SPAN("task:\n  pod:\n    spec:\n      containers:\n        - name: app\n"
		       "          env:\n            - name: LAST\n              value: x\n") },
		{ NULL, { NULL, 0 } }
	};
	BENCH(b, set_up, PROFILE_PLAIN);
	b.replace = LAST;
	b.role[0].gpu = 0; /* cpu-only.yaml appends, too */
	json_auto_t *v = built_object(&b, 0);
	json_t *env = at(v, APP "env");
	assert_non_null(named(env, "NVIDIA_VISIBLE_DEVICES"));
	assert_text(json_array_get(env, json_array_size(env) - 1), "name", "LAST");
}

/* The result is the same as without them. */
TEST(test_site_overlay_that_is_blank_changes_nothing)
{
	static const struct template_file BLANK[] = { { "site-taskrole.yaml", SPAN("# later\n") },
		                                      { "site-framework.yaml", SPAN("") },
		                                      { NULL, { NULL, 0 } } };
	BENCH(shipped, set_up, PROFILE_PLAIN);
	BENCH(blank, set_up, PROFILE_PLAIN);
	blank.replace = BLANK;
	built(&shipped);
	built(&blank);
	assert_true(span_eq(shipped.out.v[0].body, blank.out.v[0].body));
}

/* ---- nodes by gpuType --------------------------------------------------------------------- */

static const struct template_file BY_GPU_TYPE[] = {
	{ "site-taskrole.yaml",
	  SPAN("task:\n  pod:\n    spec:\n      nodeSelector:\n        gpu: ${job.gpuType}\n") },
	{ NULL, { NULL, 0 } }
};

TEST(test_gpu_type_chooses_nodes)
{
	BENCH(with, set_up, PROFILE_PLAIN);
	BENCH(without, set_up, PROFILE_PLAIN);
	with.replace = without.replace = BY_GPU_TYPE;
	with.job.gpu_type = SPAN("K80");
	built(&with);
	built(&without);
	json_auto_t *v = object(&with, 0);
	json_auto_t *w = object(&without, 0);
	assert_text(v, POD "nodeSelector/gpu", "K80");
	assert_int_equal(json_object_size(at(w, POD "nodeSelector")), 0);
}

static size_t warnings_with(const struct template_file *replace)
{
	NOTES_AUTO warnings = { 0 };
	struct settings set;
	translate_settings_default(&set);
	struct translator *t = translator_new(&set, replace, no_err());
	struct span text =
	    SPAN("{\"jobName\":\"j\",\"image\":\"i\",\"gpuType\":\"K80\",\"taskRoles\":"
	         "[{\"name\":\"m\",\"taskNumber\":1,\"command\":\"x\"}]}");
	assert_non_null(job_read(t, DIALECT_V1, text, "alice", &unit.a, &warnings, no_err()));
	translator_free(t);
	return warnings.n;
}

/* The warning is given only where no template uses the type. */
TEST(test_gpu_type_without_effect_gives_a_warning)
{
	assert_int_equal(warnings_with(NULL), 1);
	assert_int_equal(warnings_with(TOLERATION), 1);
	assert_int_equal(warnings_with(BY_GPU_TYPE), 0);
}

TEST_GROUP(set_up_schemas, NULL)
