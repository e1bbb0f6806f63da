#pragma once
/*
 * A unit program without a list of its tests: each adds itself, and main runs all of them.
 *
 *	TEST(test_name) { ... }
 *	TEST_WITH(test_name, set_up, tear_down) { ... }	uses `state`; each may be NULL
 */
#include "tests/unit/base/cmocka.h"
#include <stdlib.h>

enum { TESTS_MAX = 64 };
static struct CMUnitTest tests_all[TESTS_MAX];
static size_t tests_n;

#define TEST_WITH(name, set_up, tear_down)                                                       \
	static void name(void **state);                                                            \
	__attribute__((constructor)) static void name##_add(void)                                  \
	{                                                                                          \
		if (tests_n == TESTS_MAX)                                                          \
			abort();                                                                   \
		tests_all[tests_n++] =                                                             \
		    (struct CMUnitTest){ #name, name, set_up, tear_down, NULL };                   \
	}                                                                                          \
	static void name(void **state __attribute__((unused)))
#undef TEST
#define TEST(name) TEST_WITH(name, NULL, NULL)

int main(void)
{
	return cmocka_run_group_tests(tests_all, NULL, NULL); /* rows without a name are none */
}
