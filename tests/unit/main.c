/* Runs the tests of a program, in the order of the file.  UNIT_TEST=TEXT in the environment: only
 * those whose names contain it. */

#include "tests/unit/base/cmocka.h"

enum { TESTS_MAX = 128 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t n_tests;
static CMFixtureFunction group_begin, group_end;

void unit_add(const char *name, CMUnitTestFunction run, CMFixtureFunction begin,
              CMFixtureFunction end)
{
	if (n_tests == TESTS_MAX)
		abort();
	tests[n_tests++] = (struct CMUnitTest){ name, run, begin, end, NULL };
}

void unit_group(CMFixtureFunction begin, CMFixtureFunction end)
{
	group_begin = begin;
	group_end = end;
}

__attribute__((weak)) int main(void)
{
	static char pattern[256];
	const char *text = getenv("UNIT_TEST"); /* NOLINT(concurrency-mt-unsafe): at start */
	if (text && *text) {
		(void)snprintf(pattern, sizeof(pattern), "*%s*", text);
		cmocka_set_test_filter(pattern);
	}
	return _cmocka_run_group_tests("tests", tests, n_tests, group_begin, group_end);
}
