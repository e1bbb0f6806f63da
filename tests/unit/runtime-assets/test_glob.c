/* glob_matches, compared with the C library. */
#include "runtime-assets/common/files.h"

#include <fnmatch.h>

#include "tests/unit/base/cmocka.h"

TEST(test_glob_matches_like_fnmatch)
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
	for (size_t i = 0; i < ARRAY_SIZE(PATTERNS); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(NAMES); j++) {
			bool want = fnmatch(PATTERNS[i], NAMES[j], 0) == 0;
			if (glob_matches(PATTERNS[i], NAMES[j]) != want)
				fail_msg("%s and %s: want %d", PATTERNS[i], NAMES[j], want);
		}
	}
}

TEST(test_glob_with_an_open_class_matches_nothing)
{
	assert_false(glob_matches("[a", "a"));
	assert_false(glob_matches("[a", "[a"));
	assert_false(glob_matches("[", "["));
	assert_false(glob_matches("[!", "a"));
}
