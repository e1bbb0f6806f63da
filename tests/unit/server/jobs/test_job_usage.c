/* The answer about the use of a job: rows of two sources, curves, and notes by their thresholds. */

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "machine/store/attempts.h"
#include "machine/usage/curve.h"
#include "server/jobs/jobs_internal.h"

#define GIB ((int64_t)1 << 30)

/* A task that ran for an hour with 4 CPUs and 64 GiB, and used them. */
static struct attempt ran(const char *figures)
{
	return (struct attempt){ .uid = SPAN("p-1"),
		                 .role = SPAN("worker"),
		                 .gpus = 2,
		                 .cpus = 4000,
		                 .memory = 64 * GIB,
		                 .bound_ms = 1767225600000,
		                 .held_ms = 3600000,
		                 .ended = true,
		                 .figures = span_of(figures) };
}

static json_t *show(struct attempt *v, size_t n)
{
	STR_AUTO out = STR_INIT(64 << 20);
	job_usage_show(&out, v, n);
	json_t *j = json_loads(str_c(&out), JSON_REJECT_DUPLICATES, NULL);
	if (!j)
		fail_msg("is not JSON: %.300s", str_c(&out));
	return j;
}

static const json_t *row(const json_t *usage, size_t i)
{
	return json_array_get(json_object_get(usage, "tasks"), i);
}

static int64_t number(const json_t *usage, size_t i, const char *key)
{
	return json_integer_value(json_object_get(row(usage, i), key));
}

/* The only note of one task; "" if there is none. */
static void assert_note(struct attempt t, const char *wanted)
{
	json_auto_t *usage = show(&t, 1);
	const json_t *notes = json_object_get(usage, "notes");
	const char *found = json_string_value(json_array_get(notes, 0));
	if (json_array_size(notes) != (wanted[0] != 0) || strcmp(found ?: "", wanted) != 0)
		fail_msg("%zu notes, \"%s\", not \"%s\", of %.*s", json_array_size(notes),
		         found ?: "", wanted, (int)t.figures.n, t.figures.p);
}

#define USED    "\"cpuSeconds\":7200,\"memoryMostMB\":60000,\"memoryAtMost\":false"
#define GPUS(x) "{" USED ",\"gpus\":[" x "]}"

TEST(test_usage_notes_follow_the_thresholds)
{
	static const struct {
		const char *figures, *note;
	} CASES[] = {
		{ "{" USED "}", "" },
		/* GPUs: used, never used, low; the bound is 15 %. */
		{ GPUS("{\"index\":0,\"busy\":80,\"used\":true}"), "" },
		{ GPUS("{\"index\":0,\"busy\":0,\"used\":false}"), "GPU 0 was never used" },
		{ GPUS("{\"index\":2,\"busy\":80,\"used\":true},{\"index\":5,\"busy\":0,\"used\":"
		       "false}"),
		  "GPU 5 was never used" },
		{ GPUS("{\"index\":2,\"busy\":0,\"used\":false},{\"index\":5,\"busy\":0,\"used\":"
		       "false}"),
		  "GPUs 2, 5 were never used" },
		{ GPUS("{\"index\":0,\"busy\":14.9,\"used\":true}"),
		  "the use of its GPUs is low: busy for 15 % of the time" },
		{ GPUS("{\"index\":0,\"busy\":15,\"used\":true}"), "" },
		/* What is unknown gives no note. */
		{ GPUS("{\"index\":0,\"busy\":null,\"used\":null}"), "" },
		{ GPUS("{\"index\":0,\"busy\":null,\"used\":true}"), "" },
		{ GPUS("{\"index\":0,\"busy\":1,\"used\":null}"), "" },
		{ "{\"cpuSeconds\":null,\"memoryMostMB\":null,\"memoryAtMost\":false,\"gpus\":[]}",
		  "" },
		{ "{}", "" },
		{ "", "" },
		{ "{\"gpus\":", "" }, /* damaged */
		/* Memory: below 70 %, and 8 GiB less. */
		{ "{\"cpuSeconds\":7200,\"memoryMostMB\":2048,\"memoryAtMost\":false}",
		  "it used 2.0 of the 64.0 GiB of memory that it asked for" },
		{ "{\"cpuSeconds\":7200,\"memoryMostMB\":2048,\"memoryAtMost\":true}", "" },
		{ "{\"cpuSeconds\":7200,\"memoryMostMB\":45876,\"memoryAtMost\":false}", "" },
		/* CPUs: 1 of 4. */
		{ "{\"cpuSeconds\":3600,\"memoryMostMB\":60000,\"memoryAtMost\":false}",
		  "it used 1.0 of its 4 CPUs on average" },
		{ "{\"cpuSeconds\":4000,\"memoryMostMB\":60000,\"memoryAtMost\":false}", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_note(ran(CASES[i].figures), CASES[i].note);
}

TEST(test_usage_notes_need_a_difference_and_five_minutes)
{
	struct attempt t = ran("{\"cpuSeconds\":1,\"memoryMostMB\":1,\"memoryAtMost\":false}");
	t.memory = 8 * GIB;
	t.cpus = 1000;
	assert_note(t, "");
	t = ran(GPUS("{\"index\":0,\"busy\":0,\"used\":false}"));
	t.held_ms = 299999;
	assert_note(t, "");
	t.cpus = 0; /* 7200 s in 5 minutes */
	t.held_ms = 300000;
	assert_note(t, "GPU 0 was never used");
	t.held_ms = 0;
	assert_note(t, "");
}

TEST(test_usage_notes_name_the_task_and_its_last_attempt)
{
	struct attempt v[] = { ran(GPUS("{\"index\":0,\"busy\":0,\"used\":false}")),
		               ran(GPUS("{\"index\":0,\"busy\":99,\"used\":true}")),
		               ran(GPUS("{\"index\":1,\"busy\":0,\"used\":false}")) };
	v[1].uid = SPAN("p-2");
	v[1].retry = 1; /* the next attempt of the first one used it */
	v[2].uid = SPAN("p-3");
	v[2].index = 3;
	json_auto_t *usage = show(v, 3);
	const json_t *notes = json_object_get(usage, "notes");
	assert_int_equal(json_array_size(notes), 1);
	assert_string_equal(json_string_value(json_array_get(notes, 0)),
	                    "worker[3]: GPU 1 was never used");
}

TEST(test_usage_rows_are_sorted_and_bounded)
{
	enum { N = USAGE_TASKS + 500 };
	STR_AUTO packed = STR_INIT(4096);
	struct curve c = { 0 };
	static char uid[N][16];
	struct attempt *v = ARENA_NEW(&unit.a, struct attempt, N);
	curve_add(&c, 0, 1.5);
	str_put(&packed, "\1\0", 2);
	curve_pack(&packed, &c);
	curve_pack(&packed, &c);
	curve_done(&c);
	for (size_t i = 0; i < N; i++) {
		(void)snprintf(uid[i], sizeof(uid[i]), "p-%zu", i);
		v[i] = ran(GPUS("{\"index\":0,\"busy\":0,\"used\":false}"));
		v[i].uid = span_of(uid[i]);
		v[i].index = (int64_t)(N - 1 - i);
		v[i].curves = str_view(&packed);
	}
	json_auto_t *usage = show(v, N);
	assert_int_equal(json_array_size(json_object_get(usage, "tasks")), USAGE_TASKS);
	assert_int_equal(json_integer_value(json_object_get(usage, "tasksTotal")), N);
	assert_int_equal(json_array_size(json_object_get(usage, "notes")), USAGE_NOTES);
	assert_int_equal(number(usage, 0, "taskIndex"), 0);
	assert_int_equal(number(usage, 1999, "taskIndex"), 1999);
	assert_true(json_is_object(json_object_get(row(usage, USAGE_CURVES - 1), "curves")));
	assert_true(json_is_null(json_object_get(row(usage, USAGE_CURVES), "curves")));
	assert_true(json_is_object(json_object_get(row(usage, USAGE_CURVES), "figures")));
}

TEST(test_usage_of_a_running_task_replaces_the_stored_row)
{
	struct attempt v[] = { ran("{\"seconds\":600}"), ran("{\"seconds\":900}") };
	v[0].ended = v[1].ended = false;
	v[0].held_ms = 600000; /* the store's, of ten minutes before */
	json_auto_t *live = show(v, 2);
	assert_int_equal(json_integer_value(json_object_get(live, "tasksTotal")), 1);
	assert_int_equal(number(live, 0, "heldSeconds"), 3600);
	assert_true(json_is_true(json_object_get(row(live, 0), "running")));
	assert_true(json_is_null(json_object_get(row(live, 0), "exitCode")));

	/* It has ended between both looks. */
	struct attempt w[] = { ran("{}"), ran("{}") };
	w[0].ended = false;
	w[0].held_ms += 5000;
	w[1].exit = 3;
	json_auto_t *ended = show(w, 2);
	assert_int_equal(json_integer_value(json_object_get(ended, "tasksTotal")), 1);
	assert_int_equal(number(ended, 0, "exitCode"), 3);
}

TEST(test_usage_without_rows_is_empty)
{
	json_auto_t *usage = show(NULL, 0);
	assert_int_equal(json_array_size(json_object_get(usage, "tasks")), 0);
	assert_int_equal(json_integer_value(json_object_get(usage, "tasksTotal")), 0);
}

TEST(test_usage_curves_that_are_damaged_are_null)
{
	STR_AUTO packed = STR_INIT(1 << 16);
	struct curve c = { 0 };
	struct attempt t = ran("{}");
	curve_add(&c, 0, 2);
	str_put(&packed, "\1\1", 2);
	for (int i = 0; i < 4; i++)
		curve_pack(&packed, &c);
	curve_done(&c);
	t.curves = str_view(&packed);
	json_auto_t *whole = show(&t, 1);
	const json_t *curves = json_object_get(row(whole, 0), "curves");
	const json_t *mean = json_object_get(json_object_get(curves, "cpus"), "mean");
	double first = json_number_value(json_array_get(mean, 0));
	assert_true(first > 1.999 && first < 2.001); /* of 65535 steps */
	const json_t *gpus = json_object_get(curves, "gpus");
	assert_int_equal(json_array_size(gpus), 1);
	assert_true(json_is_object(json_object_get(json_array_get(gpus, 0), "memoryMB")));
	for (size_t n = 0; n < packed.n; n++) {
		t.curves.n = n;
		json_auto_t *cut = show(&t, 1);
		assert_true(json_is_null(json_object_get(row(cut, 0), "curves")));
	}
	packed.p[0] = 2; /* a later form */
	t.curves = str_view(&packed);
	json_auto_t *later = show(&t, 1);
	assert_true(json_is_null(json_object_get(row(later, 0), "curves")));
}
