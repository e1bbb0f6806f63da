/* Suggestions for misspelt keys. */
#include "base/err.h"

#include "tests/unit/base/cmocka.h"

TEST(test_edit_distance_counts_edits_up_to_the_limit)
{
	static const struct {
		const char *a, *b;
		unsigned limit, distance;
	} CASES[] = {
		{ "instances", "instances", 100, 0 },
		{ "", "", 100, 0 },
		{ "intances", "instances", 100, 2 },
		{ "insstances", "instances", 100, 2 },
		{ "imstances", "instances", 100, 2 },
		{ "isntances", "instances", 100, 2 }, /* swapped */
		{ "ba", "ab", 100, 2 },
		{ "dockerimage", "dockerImage", 100, 1 }, /* case counts half */
		{ "MEMORYmb", "memoryMB", 100, 8 },
		{ "abc", "xyz", 100, 6 },
		{ "", "abc", 100, 6 },
		{ "abc", "xyz", 4, 5 }, /* beyond the limit */
		{ "a", "abcdefgh", 4, 5 },
	};
	char key[200];
	struct span k = { key, sizeof(key) };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_int_equal(
		    edit_distance(span_of(CASES[i].a), span_of(CASES[i].b), CASES[i].limit),
		    CASES[i].distance);
	/* Long keys are not compared. */
	memset(key, 'a', sizeof(key));
	assert_int_equal(edit_distance(k, k, 4), 5);
}

TEST(test_guess_try_finds_the_nearest_key_or_none)
{
	static const struct {
		const char *name, *best, *whole;
	} CASES[] = {
		{ "x", NULL, NULL }, /* too short to be misspelt */
		{ "gpv", "gpu", "gpu" },
		{ "gvv", NULL, NULL },
		{ "aemxry", "memory", "memory" }, /* two steps of six letters */
		{ "aemxrz", NULL, NULL },
		{ "amstaaces", "instances", "instances" }, /* three of more */
		{ "amstaacez", NULL, NULL },
		{ "instancse", "instances", "instances" },
		{ "inst", "instances", NULL }, /* the beginning of one */
	};
	char key[200] = "";
	static const char *const NAMES[] = { "cpu", "gpu", "memory", "instances", "instance0" };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct guess any = { .name = span_of(CASES[i].name) };
		struct guess whole = { .name = any.name, .whole = true };
		for (size_t k = 0; k < ARRAY_SIZE(NAMES); k++) {
			guess_try(&any, NAMES[k]);
			guess_try(&whole, NAMES[k]);
		}
		assert_string_equal(any.best ? any.best : "", CASES[i].best ? CASES[i].best : "");
		assert_string_equal(whole.best ? whole.best : "",
		                    CASES[i].whole ? CASES[i].whole : "");
	}
	memset(key, 'a', sizeof(key) - 1);
	struct guess longer = { .name = span_of(key), .whole = true };
	guess_try(&longer, key);
	assert_null(longer.best);
}
