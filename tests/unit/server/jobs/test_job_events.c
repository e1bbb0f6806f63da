/* Events in answers, without those of another job. */

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "server/jobs/jobs_internal.h"

#define MADE INT64_C(1700000000000)

static struct event event(const char *pod_uid, int64_t first_ms)
{
	return (struct event){
		.uid = SPAN("e-1"),
		.framework = SPAN("f00"),
		.role = SPAN("worker"),
		.pod = SPAN("f00-worker-3"),
		.pod_uid = span_of(pod_uid),
		.type = SPAN("Warning"),
		.reason = SPAN("FailedScheduling"),
		.message = SPAN("0/3 nodes: \"no\"\n"),
		.component = SPAN("default-scheduler"),
		.host = SPAN(""),
		.index = 3,
		.count = 7,
		.first_ms = first_ms,
		.last_ms = first_ms + 61001,
	};
}

static json_t *show(const struct event *all, size_t n, const char *type)
{
	STR_AUTO out = STR_INIT(5 << 20);
	job_events_show(&out, all, n, MADE, span_of(type));
	json_t *j = json_loads(str_c(&out), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(j);
	assert_int_equal(json_integer_value(json_object_get(j, "totalCount")),
	                 json_array_size(json_object_get(j, "data")));
	return j;
}

static size_t count(const struct event *all, size_t n, const char *type)
{
	json_auto_t *j = show(all, n, type);
	size_t found = json_array_size(json_object_get(j, "data"));
	return found;
}

TEST(test_events_show_null_for_an_unknown_time)
{
	struct event e = event("p-1", -1);
	e.last_ms = INT64_MAX; /* a year of nine digits */
	json_auto_t *j = show(&e, 1, "");
	const json_t *shown = json_array_get(json_object_get(j, "data"), 0);
	assert_true(json_is_null(json_object_get(shown, "firstTimestamp")));
}

TEST(test_event_of_a_framework_is_past_when_it_is_not_repeated)
{
	struct job_entry job = { .name = "f00", .state = JOB_WAITING, .created_ms = MADE };
	struct event all[] = { event("p-1", MADE), event("f-1", MADE) }; /* the latest first */
	all[0].type = SPAN("Normal");
	all[0].reason = SPAN("Pulling");
	all[1].role = all[1].pod = SPAN("");
	all[1].reason = SPAN("QuotaExceeded");
	assert_ptr_equal(job_row_event(&job, all + 1, 1), &all[1]);
	assert_ptr_equal(job_row_event(&job, all, 2), &all[1]); /* other pods are refused still */
	all[0].last_ms = all[1].last_ms + 60001;
	assert_null(job_row_event(&job, all, 2));
}

/* Later events of a pod of an earlier job are left out, too. */
TEST(test_events_show_none_of_an_earlier_job)
{
	const struct event all[] = { event("old", MADE + 1000), event("new", MADE + 500),
		                     event("old", MADE - 1000), event("", MADE - 1),
		                     event("", MADE) };
	assert_int_equal(count(all, 5, ""), 2);
}

/* These events have the largest allowed size. */
TEST(test_events_show_the_largest_events)
{
	static char text[4096];
	static struct event all[EVENTS_PER_FRAMEWORK];
	memset(text, 1, sizeof(text));
	for (size_t i = 0; i < EVENTS_PER_FRAMEWORK; i++) {
		all[i] = event("p", MADE);
		all[i].message = (struct span){ text, sizeof(text) };
		all[i].reason = all[i].host = all[i].component = (struct span){ text, 256 };
	}
	assert_int_equal(count(all, EVENTS_PER_FRAMEWORK, ""), EVENTS_PER_FRAMEWORK);
}
