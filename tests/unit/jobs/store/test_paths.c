/* Paths of the API, and names that are refused. */
#include "tests/unit/base/cmocka.h"

#include "jobs/store/paths.h"

static void path_is(enum object_kind kind, const char *name, const char *expected)
{
	STR_AUTO out = STR_INIT(1024);
	assert_int_equal(path_write(&out, kind, "jobs", name), 0);
	assert_string_equal(str_c(&out), expected);
}

TEST(test_path_write_gives_the_path_of_all_namespaces)
{
	STR_AUTO out = STR_INIT(1024);
	assert_int_equal(path_write(&out, KIND_POD, NULL, NULL), 0);
	assert_string_equal(str_c(&out), "/api/v1/pods");
	assert_int_equal(path_write(&out, KIND_POD, NULL, "p"), -1);
	assert_string_equal(str_c(&out), "/api/v1/pods");
}

TEST(test_path_write_gives_the_expected_path)
{
	/* Gives the path of an object. */
	path_is(KIND_FRAMEWORK, "abc",
	        "/apis/frameworkcontroller.microsoft.com/v1/namespaces/jobs/frameworks/abc");
	path_is(KIND_SECRET, "abc-configcred", "/api/v1/namespaces/jobs/secrets/abc-configcred");
	path_is(KIND_SERVICEACCOUNT, "a", "/api/v1/namespaces/jobs/serviceaccounts/a");
	path_is(KIND_CONFIGMAP, "a.b", "/api/v1/namespaces/jobs/configmaps/a.b");
	/* Gives the path of a collection. */
	path_is(KIND_SECRET, NULL, "/api/v1/namespaces/jobs/secrets");
	/* Leaves out the namespace of cluster kinds. */
	path_is(KIND_PRIORITYCLASS, "p", "/apis/scheduling.k8s.io/v1/priorityclasses/p");
	path_is(KIND_ACCESS_REVIEW, NULL, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
	path_is(KIND_VERSION, NULL, "/version");
	path_is(KIND_API_GROUP, "kueue.x-k8s.io", "/apis/kueue.x-k8s.io");
}

TEST(test_path_write_refuses_invalid_names)
{
	static const char *const BAD[] = {
		"",     ".",        "..",  "a/b",   "../../kube-system/secrets/x",
		"a..b", "-a",       "a-",  ".a",    "a.",
		"A",    "a b",      "a\n", "a%2fb", "a?b",
		"a#b",  "\xc3\xa4", "a_b",
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		STR_AUTO out = STR_INIT(1024);
		assert_int_equal(path_write(&out, KIND_SECRET, "jobs", BAD[i]), -1);
		assert_int_equal(path_write(&out, KIND_SECRET, BAD[i], "x"), -1);
		assert_int_equal(out.n, 0);
	}
}

TEST(test_segment_ok_takes_253_bytes)
{
	char name[255];
	memset(name, 'a', 254);
	name[254] = '\0';
	assert_false(segment_ok(name));
	name[253] = '\0';
	assert_true(segment_ok(name));
}

TEST(test_resource_name_has_the_group)
{
	STR_AUTO out = STR_INIT(256);
	resource_name(&out, KIND_PRIORITYCLASS);
	assert_string_equal(str_c(&out), "priorityclasses.scheduling.k8s.io");
}
