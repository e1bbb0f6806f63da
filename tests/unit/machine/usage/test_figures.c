/* Figures of tasks in simulated time: idle GPUs, CPU time, and what a restart restores. */

#include "tests/unit/base/cmocka.h"

#include <stdlib.h>

#include "base/json/scan.h"
#include "machine/usage/usage_internal.h"

static const struct gpu GPUS[] = { { .name = "g0" }, { .name = "g1" } };

static struct usage_entry *entry_new(size_t gpus)
{
	struct usage_entry *t = xcalloc(1, sizeof(*t) + gpus * sizeof(struct usage_device));
	t->begin_boot_ms = 1000;
	t->cpu_ms = t->memory = t->peak = -1;
	t->gpus_n = gpus;
	for (size_t i = 0; i < gpus; i++)
		t->gpu[i].gpu = (unsigned)i;
	figures_restore(t, SPAN(""), SPAN(""));
	return t;
}

static void entry_free(struct usage_entry *t)
{
	figures_free(t);
	free(t);
}

enum { UNKNOWN, IDLE, BUSY, NO_PROCESS, MIG_USED };

static const struct usage_look LOOKS[] = {
	[UNKNOWN] = { { .busy = -1, .memory = -1, .total = -1, .watts = -1 }, false, false },
	[IDLE] = { { .known = true, .busy = 0, .memory = 1 << 20, .total = 1 << 30, .watts = 20 },
	           true,
	           true },
	[BUSY] = { { .known = true, .busy = 80, .memory = 2 << 20, .total = 1 << 30, .watts = 100 },
	           true,
	           true },
	/* Others work on it. */
	[NO_PROCESS] = { { .known = true, .busy = 90, .memory = -1, .total = -1, .watts = -1 },
	                 true,
	                 false },
	[MIG_USED] = { { .known = true, .busy = -1, .memory = -1, .total = -1, .watts = -1 },
	               true,
	               true },
};

/* Samples for so many seconds; the boot time afterwards. */
static int64_t entry_run(struct usage_entry *t, int64_t boot_ms, int64_t seconds, int first,
                         int second)
{
	const struct usage_look looks[] = { LOOKS[first], LOOKS[second] };
	const struct procs_task procs = { .cpu_ms = -1, .memory = -1, .memory_most = -1 };
	for (int64_t end_ms = boot_ms + seconds * 1000; boot_ms < end_ms;) {
		boot_ms += USAGE_ROUND_MS;
		figures_sample(t, &procs, looks, boot_ms);
	}
	return boot_ms;
}

TEST(test_figures_a_gpu_is_idle_from_the_start_and_after_its_use)
{
	for (int i = 0; i < 100; i++) {
		struct usage_entry *t = entry_new(1);
		int64_t work_s = i % 2 ? 60 + 37 * i : 0;
		int64_t now = entry_run(t, t->begin_boot_ms, work_s, BUSY, UNKNOWN);
		assert_int_equal(t->idle_run_ms, 0);
		now = entry_run(t, now, 1800, i % 4 < 2 ? IDLE : NO_PROCESS, UNKNOWN);
		assert_in_range(t->idle_run_ms, 1800000 - 10000, 1800000);
		assert_int_equal(t->gpu[0].used, work_s > 0);
		(void)entry_run(t, now, 5, BUSY, UNKNOWN);
		assert_int_equal(t->idle_run_ms, 0);
		entry_free(t);
	}
}

TEST(test_figures_what_is_unknown_is_not_idle)
{
	struct usage_entry *t = entry_new(1);
	int64_t now = entry_run(t, t->begin_boot_ms, 7200, UNKNOWN, UNKNOWN);
	assert_int_equal(t->idle_run_ms, 0);
	assert_int_equal(t->gpu[0].idle_ms, -1);
	/* A pause of at most 15 minutes does not end the time, and does not count. */
	now = entry_run(t, now, 600, IDLE, UNKNOWN);
	now = entry_run(t, now, 600, UNKNOWN, UNKNOWN);
	assert_false(t->not_idle); /* nor does it take back what was told */
	now = entry_run(t, now, 600, IDLE, UNKNOWN);
	assert_in_range(t->idle_run_ms, 1200000 - 10000, 1200000 + 10000);
	now = entry_run(t, now, 1000, UNKNOWN, UNKNOWN);
	assert_true(t->not_idle);
	(void)entry_run(t, now, 60, IDLE, UNKNOWN);
	assert_in_range(t->idle_run_ms, 50000, 70000);
	entry_free(t);
}

TEST(test_figures_a_task_is_idle_if_all_its_gpus_are)
{
	struct usage_entry *t = entry_new(2);
	int64_t now = entry_run(t, t->begin_boot_ms, 3600, IDLE, BUSY);
	assert_int_equal(t->idle_run_ms, 0);
	now = entry_run(t, now, 3600, IDLE, UNKNOWN);
	assert_int_equal(t->idle_run_ms, 0);
	now = entry_run(t, now, 3600, MIG_USED, MIG_USED);
	assert_int_equal(t->idle_run_ms, 0);
	(void)entry_run(t, now, 600, IDLE, NO_PROCESS);
	assert_in_range(t->idle_run_ms, 590000, 610000);
	assert_in_range(t->gpu[0].idle_ms, 7790000, 7810000);
	entry_free(t);
}

static double figures_value(struct span figures, const char *key)
{
	ARENA_AUTO a = { 0 };
	struct span v = scan_get(figures, key);
	return span_is(v, "null") ? -1 : strtod(arena_dup(&a, v), NULL);
}

TEST(test_figures_survive_a_restart_of_the_server)
{
	struct usage_entry *t = entry_new(2);
	int64_t now = entry_run(t, t->begin_boot_ms, 600, BUSY, IDLE);
	now = entry_run(t, now, 900, IDLE, IDLE);
	STR_AUTO figures = STR_INIT(1 << 16);
	STR_AUTO curves = STR_INIT(1 << 16);
	STR_AUTO again = STR_INIT(1 << 16);
	figures_put(t, GPUS, &figures, &curves);
	struct usage_entry *u = entry_new(2);
	figures_restore(u, str_view(&figures), str_view(&curves));
	u->looked_ms = t->looked_ms;
	figures_put(u, GPUS, &again, NULL);
	assert_string_equal(str_c(&again), str_c(&figures));
	assert_int_equal(u->idle_run_ms, t->idle_run_ms);
	(void)entry_run(u, now, 900, IDLE, IDLE);
	assert_in_range(u->idle_run_ms, 1790000, 1810000);
	entry_free(u);

	/* Another number of GPUs, damaged or missing texts: all begins anew. */
	const struct span bad[][2] = {
		{ SPAN(""), SPAN("") },
		{ SPAN("{\"gpus\":7}"), str_view(&curves) },
		{ SPAN("{"), str_view(&curves) },
		{ str_view(&figures), span_to(str_view(&curves), curves.n / 2) },
		{ str_view(&figures), SPAN("\1\1") },
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		u = entry_new(2);
		figures_restore(u, bad[i][0], bad[i][1]);
		assert_int_equal(u->cpus.samples + u->gpu[0].busy.samples, 0);
		assert_int_equal(u->idle_run_ms, 0);
		assert_false(u->gpu[0].used);
		entry_free(u);
	}
	entry_free(t);
}

TEST(test_figures_give_cpu_time_and_memory_or_null)
{
	struct usage_entry *t = entry_new(0);
	STR_AUTO none = STR_INIT(1 << 16);
	STR_AUTO some = STR_INIT(1 << 16);
	figures_put(t, GPUS, &none, NULL);
	assert_string_equal(str_c(&none),
	                    "{\"cpuSeconds\":null,\"memoryMB\":null,\"memoryMostMB\":null,"
	                    "\"memoryAtMost\":true,\"seconds\":null,\"gpus\":[],\"idleRunMs\":0,"
	                    "\"sampledBootMs\":0}");
	for (int i = 1; i <= 10; i++) {
		const struct procs_task p = { .cpu_ms = i * INT64_C(10000),
			                      .memory = (int64_t)i << 20,
			                      .memory_most = -1 };
		figures_sample(t, &p, NULL, t->begin_boot_ms + (int64_t)i * USAGE_ROUND_MS);
	}
	/* A process has ended that was not waited for. */
	const struct procs_task less = { .cpu_ms = 90000, .memory = 1 << 20, .memory_most = -1 };
	figures_sample(t, &less, NULL, t->begin_boot_ms + INT64_C(11) * USAGE_ROUND_MS);
	figures_put(t, GPUS, &some, NULL);
	assert_true(figures_value(str_view(&some), "cpuSeconds") == 100);
	assert_true(figures_value(str_view(&some), "memoryMB") == 1);
	assert_true(figures_value(str_view(&some), "memoryMostMB") == 10);
	assert_true(t->cpus.most == 2);
	entry_free(t);
}
