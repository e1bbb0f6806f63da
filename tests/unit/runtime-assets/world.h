#pragma once
/* Variables of tests. */
#include <stdlib.h>

#include "base/str.h"
#include "tests/unit/base/cmocka.h"

/* NULL: not set. */
static inline void variable(const char *name, const char *value)
{
	// NOLINTNEXTLINE(concurrency-mt-unsafe)
	assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}
