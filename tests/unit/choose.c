/* UNIT_TEST=TEXT in the environment of a unit test: only the tests whose names contain it. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/base/cmocka.h"

__attribute__((constructor)) static void unit_choose(void)
{
	static char pattern[256];
	const char *text = getenv("UNIT_TEST"); /* NOLINT(concurrency-mt-unsafe): at start */
	if (!text || !*text)
		return;
	(void)snprintf(pattern, sizeof(pattern), "*%s*", text);
	cmocka_set_test_filter(pattern);
}
