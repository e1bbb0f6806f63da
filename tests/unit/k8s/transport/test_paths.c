/* Paths of the API, and what may not become one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include "k8s/transport/paths.h"

static void path_is(enum object_kind kind, const char *name, const char *expected)
{
	STR_AUTO out = STR_INIT(1024);
	assert_int_equal(path_write(&out, kind, "jobs", name), 0);
	assert_string_equal(str_c(&out), expected);
}

static void test_path_write_object(void **state)
{
	(void)state;
	path_is(KIND_FRAMEWORK, "abc",
	        "/apis/frameworkcontroller.microsoft.com/v1/namespaces/jobs/frameworks/abc");
	path_is(KIND_SECRET, "abc-configcred", "/api/v1/namespaces/jobs/secrets/abc-configcred");
	path_is(KIND_SERVICEACCOUNT, "a", "/api/v1/namespaces/jobs/serviceaccounts/a");
	path_is(KIND_CONFIGMAP, "a.b", "/api/v1/namespaces/jobs/configmaps/a.b");
}

static void test_path_write_collection(void **state)
{
	(void)state;
	path_is(KIND_SECRET, NULL, "/api/v1/namespaces/jobs/secrets");
}

static void test_path_write_cluster_scoped(void **state)
{
	(void)state;
	path_is(KIND_PRIORITYCLASS, "p", "/apis/scheduling.k8s.io/v1/priorityclasses/p");
	path_is(KIND_ACCESS_REVIEW, NULL, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
	path_is(KIND_VERSION, NULL, "/version");
	path_is(KIND_API_GROUP, NULL, "/apis/frameworkcontroller.microsoft.com");
}

static void test_path_write_refuses_names(void **state)
{
	(void)state;
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

static void test_segment_ok_length(void **state)
{
	(void)state;
	char name[255];
	memset(name, 'a', 254);
	name[254] = '\0';
	assert_false(segment_ok(name));
	name[253] = '\0';
	assert_true(segment_ok(name));
}

static void test_resource_name_group(void **state)
{
	(void)state;
	STR_AUTO out = STR_INIT(256);
	resource_name(&out, KIND_PRIORITYCLASS);
	assert_string_equal(str_c(&out), "priorityclasses.scheduling.k8s.io");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path_write_object),
		cmocka_unit_test(test_path_write_collection),
		cmocka_unit_test(test_path_write_cluster_scoped),
		cmocka_unit_test(test_path_write_refuses_names),
		cmocka_unit_test(test_segment_ok_length),
		cmocka_unit_test(test_resource_name_group),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
