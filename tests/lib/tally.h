#pragma once
/*
 * Counting tests, and the checks in them.  The last lines that a test program prints are
 * `N checks` and `N passed, M failed`; those are tests.
 */
#include <stdbool.h>
#include <stddef.h>

struct tally {
	char **wanted; /* run only the tests whose names contain one of these; NULL-terminated, or
	                  NULL */
	bool running;  /* a test has begun */
	size_t passed, failed; /* tests */
	size_t checks, wrong;  /* checks; those that failed in this test */
};

/* Begin the test of this name, which ends where the next one begins.  false: it is not wanted. */
bool tally_test(struct tally *t, const char *name);

/* One check: if not `ok`, the line "FAIL " and the text is printed, and the test fails.  Returns
 * ok. */
bool tally_check(struct tally *t, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Print the last lines.  The exit status: 0 if a test passed and none failed. */
int tally_end(struct tally *t);
