#pragma once
/* Directories and variables of tests. */
#include <stdlib.h>

#include "base/str.h"
#include "tests/unit/base/cmocka.h"

/* A directory of its own, to stand for `/`. */
struct root {
	char path[32];
};

static inline struct root root_make(void)
{
	struct root r = { "/tmp/test-runtime-XXXXXX" };
	assert_non_null(mkdtemp(r.path));
	return r;
}

static inline void root_remove(const struct root *r)
{
	STR_AUTO command = STR_INIT(100);
	str_printf(&command, "rm -r %s", r->path);
	assert_int_equal(system(str_c(&command)), 0); // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}

/* NULL: not set. */
static inline void variable(const char *name, const char *value)
{
	// NOLINTNEXTLINE(concurrency-mt-unsafe)
	assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}
