#pragma once
/*
 * Counts tests and their checks.  The last lines of a test program's output are `N checks` and
 * `N passed, M failed` (tests).
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

/* Begin a test, which ends when the next one begins.  Returns false if the test is not wanted. */
bool tally_test(struct tally *t, const char *name);

/* One check: if not `ok`, the line "FAIL " and the text is printed, and the test fails.  Returns
 * ok. */
bool tally_check(struct tally *t, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Print the last lines.  The exit status: 0 if a test passed and none failed. */
int tally_end(struct tally *t);
