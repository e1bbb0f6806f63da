/* JSON patches: test, replace, add. */

#include "tests/unit/base/cmocka.h"

#include "machine/store/local_internal.h"

static const char OBJECT[] = "{\"a\":{\"b/c\":[1,{\"n\":2}],\"d~e\":\"x\"},\"t\":[3]}";

static const struct {
	const char *patch;
	enum json_patched is;
	const char *result; /* NULL: whatever */
} ROWS[] = {
	{ "[]", PATCH_DONE, OBJECT },
	{ "[{\"op\":\"test\",\"path\":\"/a/b~1c/1/n\",\"value\":2}]", PATCH_DONE, OBJECT },
	{ "[{\"op\":\"test\",\"path\":\"/a/d~0e\",\"value\":\"x\"}]", PATCH_DONE, OBJECT },
	{ "[{\"op\":\"replace\",\"path\":\"/a/b~1c/1/n\",\"value\":7}]", PATCH_DONE,
	  "{\"a\":{\"b/c\":[1,{\"n\":7}],\"d~e\":\"x\"},\"t\":[3]}" },
	{ "[{\"op\":\"replace\",\"path\":\"/t/0\",\"value\":{}}]", PATCH_DONE,
	  "{\"a\":{\"b/c\":[1,{\"n\":2}],\"d~e\":\"x\"},\"t\":[{}]}" },
	{ "[{\"op\":\"test\",\"path\":\"/t/0\",\"value\":3},{\"op\":\"replace\",\"path\":\"/t\","
	  "\"value\":null}]",
	  PATCH_DONE, "{\"a\":{\"b/c\":[1,{\"n\":2}],\"d~e\":\"x\"},\"t\":null}" },
	{ "[{\"op\":\"test\",\"path\":\"/t/0\",\"value\":\"3\"}]", PATCH_TEST_FAILED, NULL },
	{ "[{\"op\":\"test\",\"path\":\"/t/1\",\"value\":3}]", PATCH_TEST_FAILED, NULL },
	{ "[{\"op\":\"test\",\"path\":\"/t/-1\",\"value\":3}]", PATCH_TEST_FAILED, NULL },
	{ "[{\"op\":\"test\",\"path\":\"/t/0/x\",\"value\":3}]", PATCH_TEST_FAILED, NULL },
	{ "[{\"op\":\"test\",\"path\":\"t\",\"value\":3}]", PATCH_TEST_FAILED, NULL },
	{ "[{\"op\":\"replace\",\"path\":\"/new\",\"value\":3}]", PATCH_TEST_FAILED, NULL },
	{ "[{\"op\":\"add\",\"path\":\"/a/new\",\"value\":3},{\"op\":\"add\",\"path\":\"/t\","
	  "\"value\":4}]",
	  PATCH_DONE, "{\"a\":{\"b/c\":[1,{\"n\":2}],\"d~e\":\"x\",\"new\":3},\"t\":4}" },
	{ "[{\"op\":\"add\",\"path\":\"/no/new\",\"value\":3}]", PATCH_TEST_FAILED, NULL },
	{ "[{\"op\":\"add\",\"path\":\"/t/0/new\",\"value\":3}]", PATCH_TEST_FAILED, NULL },
	{ "[{\"op\":\"add\",\"path\":\"/t/0\",\"value\":3}]", PATCH_MALFORMED, NULL },
	{ "[{\"op\":\"remove\",\"path\":\"/t\",\"value\":3}]", PATCH_MALFORMED, NULL },
	{ "[{\"op\":\"test\",\"path\":\"/t\"}]", PATCH_MALFORMED, NULL },
	{ "[1]", PATCH_MALFORMED, NULL },
	{ "{}", PATCH_MALFORMED, NULL },
};

TEST(test_apply)
{
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		json_t *object = json_loads(OBJECT, 0, NULL);
		json_t *patch = json_loads(ROWS[i].patch, 0, NULL);
		if (json_patch_apply(object, patch) != ROWS[i].is)
			fail_msg("%s: another verdict", ROWS[i].patch);
		if (ROWS[i].result) {
			json_t *wanted = json_loads(ROWS[i].result, 0, NULL);
			if (!json_equal(object, wanted))
				fail_msg("%s: another object", ROWS[i].patch);
			json_decref(wanted);
		}
		json_decref(object);
		json_decref(patch);
	}
}

/* A token that is too long for any name of a member. */
TEST(test_apply_long)
{
	char path[600];
	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	json_t *object = json_object();
	json_t *patch = json_pack("[{s:s, s:s, s:i}]", "op", "test", "path", path, "value", 1);
	assert_int_equal(json_patch_apply(object, patch), PATCH_TEST_FAILED);
	json_decref(object);
	json_decref(patch);
}
