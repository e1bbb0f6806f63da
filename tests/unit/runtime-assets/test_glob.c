/* glob_matches, compared with the C library. */
#include "runtime-assets/files.h"

#include <fnmatch.h>
#include <stdlib.h>

#include "tests/unit/base/cmocka.h"

static void test_glob_as_fnmatch(void **state)
{
	static const char *const PATTERNS[] = {
		"",           "a",        "*",         "a*",   "*a",    "*.py", "a*b*c",
		"?",          "a?c",      "**",        "[ab]", "[a-c]", "[!a]", "[^a]",
		"[]a]",       "[!]a]",    "[a-]",      "[-a]", "\\*",   "\\a",  "[a-c]*[x-z]",
		"*[0-9].txt", "*a*a*a*b", "x[ab][!c]", "a/b*", "*.*",   "[?]",  "[*]",
	};
	static const char *const NAMES[] = {
		"",       "a",    "b",   "c",    "]",  "-",        "*",      "?",     "abc",
		"aXbYc",  "a.py", "py",  "ac",   "ab", "train.py", "a9.txt", "a.txt", "aaaaaaaab",
		"aaaaaa", "xab",  "xac", "a/bc", ".a", "\\",       "a\\",    "bz",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(PATTERNS) / sizeof(PATTERNS[0]); i++) {
		for (size_t j = 0; j < sizeof(NAMES) / sizeof(NAMES[0]); j++) {
			bool want = fnmatch(PATTERNS[i], NAMES[j], 0) == 0;
			if (glob_matches(PATTERNS[i], NAMES[j]) != want)
				fail_msg("%s and %s: want %d", PATTERNS[i], NAMES[j], want);
		}
	}
}

TEST(test_glob_unfinished)
{
	assert_false(glob_matches("[a", "a"));
	assert_false(glob_matches("[a", "[a"));
	assert_false(glob_matches("[", "["));
	assert_false(glob_matches("[!", "a"));
}

int main(void)
{
	static const struct CMUnitTest TESTS[] = {
		cmocka_unit_test(test_glob_as_fnmatch),
		cmocka_unit_test(test_glob_unfinished),
	};
	return cmocka_run_group_tests(TESTS, NULL, NULL);
}
