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

#include "base/arena.h"
#include "base/err.h"
#include "tests/lib/auto.h"

/* What each test has: empty when it begins, freed when it has ended. */
extern struct unit {
	struct arena a;
	struct err e;
} unit;
/* The error of the test, made empty for the call that it is given to. */
struct err *no_err(void);

/* What a test of many rows is at: printed if it fails.  NULL at its begin. */
extern const char *unit_row;

/* A path in a directory of the test, or of the file if the begin of its group calls this first;
 * "": the directory.  It is made by the first call, and removed with all in it at the end.  The
 * text is valid for the next 15 calls. */
const char *unit_path(const char *name);
/* Writes a file there, of these bytes; its path. */
const char *unit_file(const char *name, struct span text);
/* The bytes of a file, in the arena of the test. */
struct span unit_read(const char *path);
/* Appends the text n times. */
static inline void str_many(struct str *out, const char *text, size_t n)
{
	while (n-- > 0)
		str_puts(out, text);
}

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
