/* The store of one machine: answers, other namespaces, lists. */
#include "tests/unit/machine/local_kit.h"

/* ---- what comes back --------------------------------------------------------------- */

TEST_WITH(test_answers_have_only_metadata_by_default, setup, teardown)
{
	create(KIND_SECRET, "s",
	       "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"s\"},\"data\":{\"k\":\"aHVudGVy\"}}");
	struct kept k = get(KIND_SECRET, "s");
	assert_non_null(strstr(k.body, "\"name\":\"s\""));
	assert_null(strstr(k.body, "aHVudGVy"));
	k = get_whole(store, KIND_SECRET, "s");
	assert_non_null(strstr(k.body, "\"kind\":\"Secret\""));
	assert_non_null(strstr(k.body, "aHVudGVy"));
}

TEST_WITH(test_reply_has_the_date, setup, teardown)
{
	int64_t now = time(NULL);
	assert_in_range(get(KIND_SECRET, "s").date_s, now - 60, now + 600);
}

TEST_WITH(test_refusal_names_verb_resource_and_namespace, setup, teardown)
{
	struct kept k = create(KIND_FRAMEWORK, "f", "{");
	assert_non_null(
	    strstr(k.message, "create frameworks.frameworkcontroller.microsoft.com \"f\": "));
	k = elsewhere(STORE_CREATE, "f", "{");
	assert_non_null(strstr(k.message, "create secrets in namespace pai-user \"f\": "));
}

/* ---- other namespaces -------------------------------------------------------------- */

static const char USER[] = "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"616c\"},"
			   "\"data\":{\"a\":\"MQ==\",\"b\":\"Mg==\"}}";

TEST_WITH(test_namespaces_have_separate_objects, setup, teardown)
{
	struct kept made = elsewhere(STORE_CREATE, "616c", USER);
	assert_int_equal(made.status, 201);
	assert_non_null(strstr(made.body, "\"namespace\":\"pai-user\""));
	assert_int_equal(get(KIND_SECRET, "616c").outcome, STORE_NOT_FOUND);
	assert_int_equal(create(KIND_SECRET, "616c", USER).status, 201);
	assert_string_not_equal(get(KIND_SECRET, "616c").uid, made.uid);
	assert_string_equal(elsewhere(STORE_GET, "616c", "").uid, made.uid);
	close_store();
	assert_int_equal(stored("SELECT count(*) FROM object WHERE namespace = 'pai-user'"), 1);
	open_store();
	assert_string_equal(elsewhere(STORE_GET, "616c", "").uid, made.uid);
}

TEST_WITH(test_patch_in_a_namespace_removes_a_key, setup, teardown)
{
	elsewhere(STORE_CREATE, "616c", USER);
	struct kept k = elsewhere(
	    STORE_PATCH, "616c",
	    "{\"metadata\":{\"resourceVersion\":\"1\"},\"data\":{\"a\":null,\"c\":\"Mw==\"}}");
	assert_int_equal(k.status, 200);
	assert_non_null(strstr(k.body, "\"data\":{\"b\":\"Mg==\",\"c\":\"Mw==\"}"));
	k = elsewhere(STORE_PATCH, "616c", "{\"metadata\":{\"resourceVersion\":\"1\"}}");
	assert_int_equal(k.outcome, STORE_CONFLICT);
}

TEST_WITH(test_delete_in_a_namespace_keeps_other_namespaces, setup, teardown)
{
	create(KIND_SECRET, "616c", USER);
	elsewhere(STORE_CREATE, "616c", USER);
	assert_int_equal(elsewhere(STORE_DELETE, "616c", "").outcome, STORE_OK);
	assert_int_equal(elsewhere(STORE_GET, "616c", "").outcome, STORE_NOT_FOUND);
	assert_int_equal(get(KIND_SECRET, "616c").outcome, STORE_OK);
}

TEST_WITH(test_name_cannot_reach_another_namespace, setup, teardown)
{
	elsewhere(STORE_CREATE, "616c", USER);
	assert_int_equal(get(KIND_SECRET, "pai-user~616c").status, 422);
	assert_int_equal(create(KIND_SECRET, "pai-user~616d",
	                        "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"pai-user~616d\"}}")
	                     .status,
	                 422);
}

TEST_WITH(test_namespace_cannot_leave_the_directory, setup, teardown)
{
	struct kept k = ask(store, (struct store_request){ .verb = STORE_GET,
	                                                   .kind = KIND_SECRET,
	                                                   .namespace_name = "../..",
	                                                   .name = "x" });
	assert_int_equal(k.status, 422);
}

/* ---- list -------------------------------------------------------------------------- */

TEST_WITH(test_list_refuses_an_unknown_selector, setup, teardown)
{
	static const char *const QUERIES[] = {
		"labelSelector=a",
		"limit=1&fieldSelector=metadata.name%3Da",
	};
	for (size_t i = 0; i < sizeof(QUERIES) / sizeof(QUERIES[0]); i++)
		assert_int_equal(list(KIND_FRAMEWORK, QUERIES[i]).status, 400);
	assert_int_equal(list(KIND_FRAMEWORK, "limit=1&continue=x&resourceVersion=0").status, 200);
}

TEST_WITH(test_list_has_objects_of_one_namespace, setup, teardown)
{
	create_secret("x");
	elsewhere(STORE_CREATE, "616c", USER);
	struct kept k = list(KIND_SECRET, NULL);
	assert_non_null(strstr(k.body, "\"name\":\"x\""));
	assert_null(strstr(k.body, "616c"));
	k = elsewhere(STORE_LIST, NULL, "");
	assert_non_null(strstr(k.body, "\"b\":\"Mg==\""));
	assert_null(strstr(k.body, "\"x\""));
}

TEST_WITH(test_list_has_only_metadata_by_default, setup, teardown)
{
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	struct kept k = list(KIND_FRAMEWORK, NULL);
	assert_non_null(strstr(k.body, "\"name\":\"f\""));
	assert_null(strstr(k.body, "\"spec\""));
	assert_string_equal(k.version, "1");
}

TEST_WITH(test_kinds_that_are_not_stored_are_absent, setup, teardown)
{
	assert_int_equal(get(KIND_SERVICEACCOUNT, "x").outcome, STORE_NOT_FOUND);
	struct kept k = list(KIND_CLAIM, NULL);
	assert_int_equal(k.outcome, STORE_OK);
	assert_non_null(strstr(k.body, "\"items\":[]"));
	k = ask(store, (struct store_request){ .verb = STORE_CREATE,
	                                       .kind = KIND_TOKENREVIEW,
	                                       .body = { SPAN("{}") } });
	assert_int_equal(k.outcome, STORE_REFUSED);
	assert_int_equal(k.status, 405);
}

/* clang-format on */
