#pragma once
/* cmocka wants the first four before it; tests need the last three. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* clang-format on */

/* A test of a file with the functions that run before and after it, or a group without a name. */
struct unit_test {
	const char *file, *name;
	CMUnitTestFunction run;
	CMFixtureFunction begin, end;
};
/* Called before main, in the order of the file. */
void unit_add(struct unit_test test);

/* A test: TEST(test_name) { ... } */
#define TEST(name) TEST_WITH(name, NULL, NULL)
/* A test with functions that run before and after it, or NULL; they share `state`. */
#define TEST_WITH(name, begin, end)                                                                \
	static void name(void **state);                                                            \
	__attribute__((constructor)) static void name##_add(void)                                  \
	{                                                                                          \
		unit_add((struct unit_test){ __BASE_FILE__, #name, name, begin, end });            \
	}                                                                                          \
	static void name(void **state __attribute__((unused)))
/* Such a function: FIXTURE(set_up) { ... return 0; } */
#define FIXTURE(name) static int name(void **state __attribute__((unused)))
/* Functions, or NULL, that run before and after all tests of a file. */
#define TEST_GROUP(begin, end)                                                                     \
	__attribute__((constructor)) static void unit_group_add(void)                              \
	{                                                                                          \
		unit_add((struct unit_test){ __BASE_FILE__, NULL, NULL, begin, end });             \
	}
