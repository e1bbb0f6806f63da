#pragma once
/* Counting what passed.  The last line that a test program prints is `N passed, M failed`. */
#include <stdbool.h>
#include <stddef.h>

struct tally {
	size_t passed, failed;
};

/* One fact: passed if `ok`; if not, the line "FAIL " and the text is printed.  Returns ok. */
bool tally_check(struct tally *t, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Print the last line.  The exit status: 0 if something passed and nothing failed. */
int tally_end(const struct tally *t);
