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

TEST(test_program_install_is_the_command_of_the_distribution)
{
	ARENA_AUTO a = { 0 };
	/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
	const char *before = arena_dup(&a, span_of(getenv("PATH")));
	assert_int_equal(setenv("PATH", unit_path(""), 1), 0);
	/* NOLINTEND(concurrency-mt-unsafe) */
	assert_string_equal(install_with("apt-get", &a),
	                    "apt-get install -y skopeo umoci (as root)");
	assert_string_equal(install_with("dnf", &a), "dnf install -y skopeo umoci (as root)");
	assert_string_equal(install_with("zypper", &a), "zypper install -y skopeo umoci (as root)");
	assert_string_equal(install_with("pacman", &a), "install the packages skopeo umoci");
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
	assert_int_equal(setenv("PATH", before, 1), 0);
}

TEST_GROUP(NULL, NULL)
