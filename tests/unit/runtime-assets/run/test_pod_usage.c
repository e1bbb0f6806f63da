/* What the task has used: the lines of nvidia-smi, and the line at the end. */
#include "runtime-assets/run/run_internal.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/base/cmocka.h"

#include "base/posix/clock.h"

/* The use of a pod with the GPUs a and b, which began `ms` ago.  Returns where nvidia-smi writes.
 */
static int usage_of(struct pod_usage *u, int64_t ms)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*u = (struct pod_usage){ .root = "/nonexistent",
		                 .begin_ms = clock_ms() - ms,
		                 .cpu_us = -1,
		                 .uuid = { SPAN("GPU-a"), SPAN("GPU-b") },
		                 .uuids = 2,
		                 .out = ends[0] };
	return ends[1];
}

/* Writes a line `n` times, and reads it each time. */
static void usage_lines(struct pod_usage *u, int in, const char *line, int n)
{
	for (int i = 0; i < n && u->out >= 0; i++) {
		assert_int_equal(write(in, line, strlen(line)), strlen(line));
		pod_usage_take(u);
	}
}

/* The line at the end, without figures of memory and CPUs; "" if there is none. */
static const char *usage_text(struct pod_usage *u)
{
	STR_AUTO text = STR_INIT(USAGE_TEXT_MAX);
	const struct memory_use none = { -1, -1, -1, -1 };
	usage_line_end(u);
	bool is = pod_usage_put(u, &none, &text);
	assert_int_equal(is, text.n > 0);
	return arena_dup(&unit.a, str_view(&text));
}

TEST(test_lines_of_nvidia_smi_become_a_mean_and_the_greatest_memory)
{
	static const struct {
		const char *line;
		int n;
		const char *line2;
		int n2;
		const char *text;
	} CASES[] = {
		{ "0, GPU-a, 0, 1000, 40960\n", 6, "0, GPU-a, 100, 27136, 40960\n", 7,
		  "used: GPU 0: 54 % busy (26.5 of 40 GiB)" },
		{ "0, GPU-a, 0, 3, 81559\n", 12, "1, GPU-b, 0, 64, 81559\n", 12,
		  "used: GPU 0: not used, GPU 1: 0 % busy (0.1 of 79.6 GiB)" },
		{ "31, GPU-b, 7, [N/A], 40960\n", 12, "", 0, "used: GPU 31: 7 % busy" },
		{ "0, GPU-a, 0, [N/A], [N/A]\n", 12, "", 0, "used: GPU 0: 0 % busy" },
		{ "0, GPU-a, 9, 2, 1\n", 12, "", 0, "used: GPU 0: 9 % busy" },
		/* fewer than a minute */
		{ "0, GPU-a, 50, 1000, 40960\n", 11, "", 0, "" },
		/* other lines */
		{ "0, GPU-a, [N/A], 1000, 40960\n", 20, "", 0, "" },
		{ "0, GPU-a, 101, 1000, 40960\n", 20, "0, GPU-a, -1, 1000, 40960\n", 20, "" },
		{ "0, GPU-c, 50, 1000, 40960\n", 20, "32, GPU-a, 50, 1000, 40960\n", 20, "" },
		{ "0, GPU-a, 50, 1000, 40960, 1\n", 20, "0, GPU-a\n", 20, "" },
		{ "\n", 20, "[Sat Nov 28 22:00:01 2026] GPU 0000:01:00.0: Critical XID\n", 20, "" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		struct pod_usage u;
		int in = usage_of(&u, 0);
		usage_lines(&u, in, CASES[i].line, CASES[i].n);
		usage_lines(&u, in, CASES[i].line2, CASES[i].n2);
		assert_string_equal(usage_text(&u), CASES[i].text);
		(void)close(in);
	}
}

TEST(test_lines_of_nvidia_smi_have_limits)
{
	struct pod_usage u;
	int in = usage_of(&u, 0);
	static char longer[USAGE_LINE_MAX + 100];
	memset(longer, ' ', sizeof(longer));
	memcpy(longer, "0, GPU-a, 100, 1000, 40960", 26);
	longer[sizeof(longer) - 2] = '\n';
	longer[sizeof(longer) - 1] = '\0';
	usage_lines(&u, in, longer, 20);
	assert_int_equal(u.gpu[0].samples, 0);
	/* A line in two pieces. */
	usage_lines(&u, in, "0, GPU-a, 10", 1);
	usage_lines(&u, in, "0, 1000, 40960\n0, GPU-a, 0, 1", 1);
	assert_int_equal(u.gpu[0].samples, 1);
	assert_int_equal(u.gpu[0].busy, 100);
	usage_line_end(&u);
	(void)close(in);
	/* More bytes than nvidia-smi writes: nothing of it counts. */
	in = usage_of(&u, 0);
	static const char row[] = "0, GPU-a, 100, 1000, 40960\n";
	usage_lines(&u, in, row, 20);
	u.bytes = 60000;
	usage_lines(&u, in, row, 1);
	assert_true(u.out >= 0);
	assert_int_equal(u.gpu[0].samples, 21);
	u.bytes = INT64_C(1) << 40;
	usage_lines(&u, in, row, 1);
	assert_int_equal(u.out, -1);
	assert_string_equal(usage_text(&u), "");
	(void)close(in);
}

TEST(test_gpus_count_only_if_nvidia_smi_has_answered_most_of_the_time)
{
	static const struct {
		int64_t seconds;
		bool told;
	} CASES[] = { { 50, true }, { 90, false }, { 100000, false } };
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		struct pod_usage u;
		int in = usage_of(&u, 1000 * CASES[i].seconds);
		usage_lines(&u, in, "0, GPU-a, 100, 1000, 40960\n", 12);
		assert_int_equal(*usage_text(&u) != '\0', CASES[i].told);
		(void)close(in);
		/* It ended by itself; the end of the task counts. */
		in = usage_of(&u, 1000 * CASES[i].seconds);
		usage_lines(&u, in, "0, GPU-a, 100, 1000, 40960\n", 12);
		(void)close(in);
		pod_usage_take(&u);
		assert_int_equal(u.out, -1);
		assert_int_equal(u.end_ms, 0);
		assert_int_equal(*usage_text(&u) != '\0', CASES[i].told);
	}
}

TEST(test_a_use_that_has_not_begun_has_no_line)
{
	struct pod_usage u = { .out = -1 };
	assert_string_equal(usage_text(&u), "");
}
