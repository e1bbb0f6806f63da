/* The parameters of a report, and its rows. */

#include "tests/unit/base/cmocka.h"

#include "machine/store/attempts.h"
#include "server/http/request.h"
#include "server/jobs/jobs_internal.h"

#define NOW INT64_C(1796000000000) /* in November 2026 */

static int read_query(const char *query, struct attempts_query *q)
{
	struct request r = { .query = query };
	int code = report_query_read(&r, NOW, q, no_err());
	arena_done(&r.arena);
	return code;
}

TEST(test_report_times_are_numbers_dates_or_times)
{
	static const struct {
		const char *query;
		int64_t since, until;
	} CASES[] = {
		{ "since=0", 0, NOW },
		{ "since=1793491200000", 1793491200000, NOW },
		{ "since=2026-11-01", 1793491200000, NOW },
		{ "since=2026-11-01T00:00:00Z&until=", 1793491200000, NOW },
		{ "since=2026-11-01T00%3A00%3A00.5Z", 1793491200500, NOW },
		{ "since=2026-11-01&until=2026-11-02", 1793491200000, 1793577600000 },
		{ "since=2026-11-01&until=2027-11-01", 1793491200000, 1825027200000 },
		{ "since=0001-01-01", -62135596800000, NOW },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct attempts_query q;
		if (read_query(CASES[i].query, &q) < 0)
			fail_msg("%s: %s", CASES[i].query, err_msg(&unit.e));
		assert_int_equal(q.since_ms, CASES[i].since);
		assert_int_equal(q.until_ms, CASES[i].until);
		assert_true(q.by_user && !q.by_virtual_cluster && !q.by_week);
	}
}

TEST(test_report_by_is_a_list_of_columns)
{
	struct attempts_query q;
	assert_int_equal(read_query("since=0&by=week", &q), 0);
	assert_true(!q.by_user && !q.by_virtual_cluster && q.by_week);
	assert_int_equal(read_query("since=0&by=user,virtualCluster,week,user", &q), 0);
	assert_true(q.by_user && q.by_virtual_cluster && q.by_week);
}

TEST(test_report_parameters_that_are_wrong_are_refused)
{
	static const struct {
		const char *query, *says;
	} CASES[] = {
		{ "", "since must be milliseconds since 1970, a date as 2026-11-01 (UTC)" },
		{ "since", "is \"\"" },
		{ "until=2026-11-01", "since must be" },
		{ "since=yesterday", "is \"yesterday\"" },
		{ "since=-1", "is \"-1\"" },
		{ "since=30d", "is \"30d\"" },
		{ "since=2026-02-30", "is \"2026-02-30\"" },
		{ "since=0000-01-01", "is \"0000-01-01\"" }, /* a year 0 */
		{ "since=253402300800000", "is \"253402300800000\"" },
		{ "since=99999999999999999999", "since must be" },
		{ "since=2026-11-01T00:00:00%2b01:00", "since must be" },
		{ "since=2026-11-0%00", "since must be" },
		{ "since=2026-11-01&until=x", "until must be" },
		{ "since=2027-01-01",
		  "since must be before until, which is now" }, /* in the future */
		{ "since=2026-11-02&until=2026-11-01",
		  "since is 2026-11-02T00:00:00Z, until 2026-11-01" },
		{ "since=2026-11-01&until=2026-11-01", "since must be before until" },
		{ "since=0&by=job", "by must be a list of user, virtualCluster and week" },
		{ "since=0&by=user,,week", "is \"user,,week\"" },
		{ "since=0&by=User", "is \"User\"" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct attempts_query q;
		if (read_query(CASES[i].query, &q) == 0)
			fail_msg("%s is taken", CASES[i].query);
		assert_int_equal(unit.e.http, 400);
		assert_string_equal(unit.e.code, "InvalidParametersError");
		if (!strstr(err_msg(&unit.e), CASES[i].says))
			fail_msg("%s: %s", CASES[i].query, err_msg(&unit.e));
	}
}

TEST(test_report_rows_have_the_columns_that_were_asked_for)
{
	STR_AUTO out = STR_INIT(4096);
	struct attempts_query q = { .since_ms = 1, .until_ms = 2, .by_virtual_cluster = true };
	const struct attempts_sum sum = { .user = SPAN(""),
		                          .virtual_cluster = SPAN("a\"b"),
		                          .gpu_ms = 45000000,
		                          .gpu_idle_ms = 11700000,
		                          .cpu_ms = 5400000,
		                          .energy_j = 36000,
		                          .attempts = 12,
		                          .failed = 2 };
	report_show(&out, &q, &sum, 1, true);
	assert_string_equal(
	    str_c(&out),
	    "{\"since\":1,\"until\":2,\"rows\":[{\"virtualCluster\":\"a\\\"b\",\"gpuHours\":12.5,"
	    "\"gpuIdleHours\":3.25,\"cpuHours\":1.5,\"energyWh\":10,\"attempts\":12,\"failed\":2}],"
	    "\"more\":true}\n");
	out.n = 0;
	report_show(&out, &q, NULL, 0, false);
	assert_string_equal(str_c(&out), "{\"since\":1,\"until\":2,\"rows\":[],\"more\":false}\n");
}
