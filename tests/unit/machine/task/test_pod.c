/* Pods: environment, mounts, volumes, and errors. */

#include "tests/unit/base/cmocka.h"

#include "jobs/store/reply.h"
#include "machine/task/pod.h"

static const struct pod_storage STORAGES[] = { { "data", "/srv/data" } };
static const struct pod_settings HERE = { "here",        "10.0.0.1",        "u", STORAGES, 1,
	                                  "/var/x/code", "/var/x/results/f" };

/* A pod with this container and these volumes. */
static struct pod *read_with(const char *container, const char *volumes, struct arena *a,
                             struct err *e)
{
	const char *text = arena_printf(
	    a,
	    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"labels\":{"
	    "\"l\":\"L\"},\"annotations\":{\"k\":\"K\"}},\"spec\":{\"containers\":[{\"name\":"
	    "\"app\",\"command\":[\"c\"]%s%s}],\"volumes\":[%s]}}",
	    *container ? "," : "", container, volumes);
	return pod_read(doc_quiet(span_of(text), &BUDGET_DEFAULT, a), &HERE, a, e);
}

static int get_object(void *arg, const struct pod_source *s, struct arena *a, struct pod_data *out,
                      struct err *e)
{
	(void)arg;
	if (s->secret || strcmp(s->name, "m") != 0)
		return 1;
	return pod_data_read(SPAN("{\"data\":{\"X\":\"1\",\"Y\":\"2\",\"a b\":\"3\"},"
	                          "\"binaryData\":{\"Z\":\"Yg==\"}}"),
	                     false, a, out, e);
}
static const struct pod_objects OBJECTS = { get_object, NULL };

/* A needed object may be created later. */
TEST(test_missing_sources_are_reported_if_they_are_needed)
{
	struct pod_data data;
	assert_int_equal(pod_source_get(&(struct pod_source){ "none", false, true }, &OBJECTS,
	                                &unit.a, &data, no_err()),
	                 0);
	assert_int_equal(data.n, 0);
	assert_int_equal(pod_source_get(&(struct pod_source){ "none", true, false }, &OBJECTS,
	                                &unit.a, &data, no_err()),
	                 -1);
	assert_int_equal(unit.e.http, 503);
	assert_non_null(strstr(err_msg(&unit.e), "Secret none"));
}

TEST(test_environment_has_values_of_all_sources)
{
	struct pod *p = read_with(
	    "\"envFrom\":[{\"configMapRef\":{\"name\":\"m\"}}],\"env\":["
	    "{\"name\":\"L\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.labels['l']\"}}}"
	    ","
	    "{\"name\":\"IP\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"status.podIP\"}}},"
	    "{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":"
	    "\"metadata.annotations['none']\"}}},"
	    "{\"name\":\"X\",\"value\":\"new$(X)\"},"
	    "{\"name\":\"E\",\"value\":\"$(Y)$(NO)$$(Y)$$$(X)$x$(\"},"
	    "{\"name\":\"K\",\"value\":\"2\"}]",
	    "", &unit.a, no_err());
	if (!p)
		fail_msg("%s", err_msg(&unit.e));
	struct words env = { .a = &unit.a };
	assert_int_equal(pod_env_resolve(&p->app, &OBJECTS, &env, no_err()), 0);
	static const char *const WANTED[] = {
		"Z=b", "X=new1", "Y=2", "L=L", "IP=10.0.0.1", "N=", "E=2$(NO)$(Y)$new1$x$(", "K=2"
	};
	for (size_t i = 0; i < sizeof(WANTED) / sizeof(WANTED[0]); i++) {
		if (!env.v[i] || strcmp(env.v[i], WANTED[i]) != 0)
			fail_msg("%s, not %s", env.v[i], WANTED[i]);
	}
	assert_null(env.v[8]);
	assert_string_equal(words_expand(&env, "$(K)-$$"), "2-$");
}

TEST(test_mounts_have_volumes_paths_and_sizes)
{
	struct pod *p = read_with(
	    "\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/b/c/\",\"subPath\":\"x//y\"},"
	    "{\"name\":\"d\",\"mountPath\":\"/a\",\"readOnly\":true},"
	    "{\"name\":\"s\",\"mountPath\":\"/dev/shm\"},{\"name\":\"t\",\"mountPath\":\"/t\"}],"
	    "\"resources\":{\"requests\":{\"cpu\":9,\"memory\":1073741824},\"limits\":{\"cpu\":"
	    "\"1500m\","
	    "\"nvidia.com/gpu\":2,\"github.com/fuse\":1}}",
	    "{\"name\":\"v\",\"emptyDir\":{}},"
	    "{\"name\":\"d\",\"persistentVolumeClaim\":{\"claimName\":\"data\"}},"
	    "{\"name\":\"s\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"64Mi\"}},"
	    "{\"name\":\"t\",\"projected\":{\"sources\":[{\"configMap\":{\"name\":\"c\"}},"
	    "{\"serviceAccountToken\":{\"path\":\"token\"}}]}}",
	    &unit.a, no_err());
	assert_non_null(p);
	assert_int_equal(p->app.n_mounts, 4);
	assert_string_equal(p->app.mount[0].path, "/a");
	assert_string_equal(p->app.mount[0].volume->dir, "/srv/data");
	assert_true(p->app.mount[0].read_only);
	assert_string_equal(p->app.mount[1].path, "/b/c");
	assert_string_equal(p->app.mount[1].sub_path, "x/y");
	assert_int_equal(p->app.mount[2].volume->size, 64 << 20);
	assert_null(p->app.mount[3].volume->from.name);
	assert_int_equal(p->need.cpus, 1500);
	assert_int_equal(p->need.memory, 1 << 30);
	assert_int_equal(p->need.gpus, 2);
	assert_int_equal(p->grace_s, 30);
}

#define HASH40 "0123456789abcdef0123456789abcdef01234567"

TEST(test_configmap_with_code_is_a_directory_of_the_machine)
{
	static const struct {
		const char *name, *dir;
	} CASES[] = {
		{ "code-" HASH40 "-0", "/var/x/code/code-" HASH40 },
		{ "code-" HASH40 "-1", NULL },
		{ "code-" HASH40, NULL },
		{ "code-0/../../../../0123456789abcdef0123456789-0", NULL },
		{ "coda-" HASH40 "-0", NULL },
		{ "code", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		const char *volume =
		    arena_printf(&unit.a, "{\"name\":\"code-0\",\"configMap\":{\"name\":\"%s\"}}",
		                 CASES[i].name);
		struct pod *p = read_with("\"workingDir\":\"/src\"", volume, &unit.a, no_err());
		assert_non_null(p);
		assert_string_equal(p->app.directory, "/src");
		const struct pod_volume *v = &p->volume[0];
		assert_int_equal(v->kind, CASES[i].dir ? POD_STORAGE : POD_DIRECTORY);
		assert_string_equal(CASES[i].dir ? v->dir : v->from.name,
		                    CASES[i].dir ? CASES[i].dir : CASES[i].name);
		assert_int_equal(v->read_only, CASES[i].dir != NULL);
		assert_true(!CASES[i].dir || !v->from.name);
	}
}

TEST(test_volume_of_results_is_the_directory_of_the_job)
{
	const struct pod *p = read_with(
	    "\"volumeMounts\":[{\"name\":\"r\",\"mountPath\":\"/w/results\"}]",
	    "{\"name\":\"r\",\"persistentVolumeClaim\":{\"claimName\":\"rest-lit-results\"}}",
	    &unit.a, no_err());
	assert_non_null(p);
	assert_int_equal(p->volume[0].kind, POD_STORAGE);
	assert_string_equal(p->volume[0].dir, "/var/x/results/f");
	assert_false(p->app.mount[0].read_only);
}

static const struct {
	const char *container, *volumes, *says;
} REFUSED[] = {
	{ "", "{\"name\":\"h\",\"hostPath\":{\"path\":\"/etc\"}}", "volume h is the directory" },
	{ "", "{\"name\":\"n\",\"nfs\":{\"server\":\"s\",\"path\":\"/\"}}", "volume n (nfs)" },
	{ "", "{\"name\":\"c\",\"persistentVolumeClaim\":{\"claimName\":\"other\"}}", "`other`" },
	{ "", "{\"name\":\"../x\",\"emptyDir\":{}}", "not valid" },
	{ "", "{\"name\":\"a\",\"emptyDir\":{}},{\"name\":\"a\",\"emptyDir\":{}}", "two volumes" },
	{ "", "{\"name\":\"h\",\"emptyDir\":{\"medium\":\"HugePages\"}}", "medium" },
	{ "",
	  "{\"name\":\"s\",\"secret\":{\"secretName\":\"s\",\"items\":[{\"key\":\"k\",\"path\":"
	  "\"../k\"}]}}",
	  "has items" },
	{ "\"env\":[{\"name\":\"A\",\"valueFrom\":{\"secretKeyRef\":{}}}]", "", "variable A" },
	{ "", "{\"name\":\"p\",\"projected\":{\"sources\":[]}}", "projected" },
	{ "\"volumeMounts\":[{\"name\":\"none\",\"mountPath\":\"/a\"}]", "", "not there" },
	{ "\"volumeMounts\":[{\"name\":\"a\",\"mountPath\":\"/x/../y\"}]",
	  "{\"name\":\"a\",\"emptyDir\":{}}", "absolute" },
	{ "\"volumeMounts\":[{\"name\":\"a\",\"mountPath\":\"/y\"},{\"name\":\"a\",\"mountPath\":"
	  "\"/y/\"}]",
	  "{\"name\":\"a\",\"emptyDir\":{}}", "two volumes are mounted" },
	{ "\"resources\":{\"limits\":{\"cpu\":\"many\"}}", "", "no quantity" },
	{ "\"env\":[{\"name\":\"A\",\"valueFrom\":{\"resourceFieldRef\":{}}}]", "", "variable A" },
	{ "\"env\":[{\"name\":\"A=\"}]", "", "valid name" },
	{ "\"args\":[1]", "", "no text" },
};

TEST(test_pods_that_one_machine_cannot_run_are_refused)
{
	for (size_t i = 0; i < sizeof(REFUSED) / sizeof(REFUSED[0]); i++) {
		struct pod *p =
		    read_with(REFUSED[i].container, REFUSED[i].volumes, &unit.a, no_err());
		if (p || !strstr(err_msg(&unit.e), REFUSED[i].says))
			fail_msg("%s %s: %s", REFUSED[i].container, REFUSED[i].volumes,
			         err_msg(&unit.e));
		assert_int_equal(unit.e.http, 400);
	}
}
