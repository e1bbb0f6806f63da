/* Which key was meant. */
#include "base/err.h"

#include "tests/unit/base/cmocka.h"

static unsigned distance(const char *a, const char *b)
{
	return edit_distance(span_of(a), span_of(b), 100);
}

TEST(test_edit_distance_equal)
{
	assert_int_equal(distance("instances", "instances"), 0);
	assert_int_equal(distance("", ""), 0);
}

TEST(test_edit_distance_one_step)
{
	assert_int_equal(distance("intances", "instances"), 2);
	assert_int_equal(distance("insstances", "instances"), 2);
	assert_int_equal(distance("imstances", "instances"), 2);
}

TEST(test_edit_distance_swapped)
{
	assert_int_equal(distance("isntances", "instances"), 2);
	assert_int_equal(distance("ba", "ab"), 2);
}

TEST(test_edit_distance_case_counts_half)
{
	assert_int_equal(distance("dockerimage", "dockerImage"), 1);
	assert_int_equal(distance("MEMORYmb", "memoryMB"), 8);
}

TEST(test_edit_distance_all_different)
{
	assert_int_equal(distance("abc", "xyz"), 6);
	assert_int_equal(distance("", "abc"), 6);
}

TEST(test_edit_distance_limit)
{
	assert_int_equal(edit_distance(SPAN("abc"), SPAN("xyz"), 4), 5);
	assert_int_equal(edit_distance(SPAN("a"), SPAN("abcdefgh"), 4), 5);
}

static void test_edit_distance_long_keys_are_not_compared(void **state)
{
	char key[200];
	(void)state;
	memset(key, 'a', sizeof(key));
	struct span k = { key, sizeof(key) };
	assert_int_equal(edit_distance(k, k, 4), 5);
}

TEST(test_edit_limit_grows)
{
	assert_int_equal(edit_limit(1), 0);
	assert_int_equal(edit_limit(3), 2);
	assert_int_equal(edit_limit(7), 4);
	assert_int_equal(edit_limit(11), 6);
	assert_int_equal(edit_limit(1000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edit_distance_equal),
		cmocka_unit_test(test_edit_distance_one_step),
		cmocka_unit_test(test_edit_distance_swapped),
		cmocka_unit_test(test_edit_distance_case_counts_half),
		cmocka_unit_test(test_edit_distance_all_different),
		cmocka_unit_test(test_edit_distance_limit),
		cmocka_unit_test(test_edit_distance_long_keys_are_not_compared),
		cmocka_unit_test(test_edit_limit_grows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
