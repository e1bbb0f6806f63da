/* Programs of this machine. */

#include "tests/unit/base/cmocka.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/child.h"

/* The line for a machine that has only this tool. */
static const char *install_with(const char *tool, struct arena *a)
{
	const char *path = unit_file(tool, SPAN("#!/bin/sh\n"));
	assert_int_equal(chmod(path, 0755), 0);
	const char *line = program_install("skopeo umoci", a);
	assert_int_equal(unlink(path), 0);
	return line;
}

static void set_path(const char *path)
{
	assert_int_equal(setenv("PATH", path, 1), 0); /* NOLINT(concurrency-mt-unsafe) */
}

TEST(test_program_install_is_the_command_of_the_distribution)
{
	ARENA_AUTO a = { 0 };
	const char *now = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe) */
	const char *before = arena_dup(&a, span_of(now ? now : ""));
	set_path(unit_path(""));
	assert_string_equal(install_with("apt-get", &a),
	                    "apt-get install -y skopeo umoci (as root)");
	assert_string_equal(install_with("dnf", &a), "dnf install -y skopeo umoci (as root)");
	assert_string_equal(install_with("zypper", &a), "zypper install -y skopeo umoci (as root)");
	assert_string_equal(install_with("pacman", &a), "install the packages skopeo umoci");
	set_path(before);
}

TEST_GROUP(NULL, NULL)
