/* The query of a list, and the jobs that it selects. */

#include "tests/unit/base/cmocka.h"

#include "server/jobs/jobs_internal.h"
#include "tests/unit/server/job_list_kit.h"

static void read_query(struct job_query *q, const char *query, bool v1, struct arena *a)
{
	if (job_query_read(q, query, v1, a, no_err()) < 0)
		fail_msg("%s: %s", query, err_msg(&unit.e));
}

TEST(test_query_without_parameters_has_the_defaults)
{
	struct job_query q;
	read_query(&q, "", false, &unit.a);
	assert_int_equal(q.offset, 0);
	assert_int_equal(q.limit, 5000);
	assert_int_equal(q.order, ORDER_SUBMITTED);
	assert_true(q.descending);
	assert_false(q.with_total);
	/* Clients of v1 know of no pages. */
	read_query(&q, "", true, &unit.a);
	assert_int_equal(q.limit, 50000);
	/* Empty values count as absent, unknown parameters are ignored, the last of repeated ones
	 * counts. */
	read_query(&q, "limit=&offset&what=1&username[]=x&limit=7&limit=8&keyword=", false,
	           &unit.a);
	assert_int_equal(q.limit, 8);
	assert_int_equal(q.offset, 0);
	assert_int_equal(q.users.n, 0);
}

TEST(test_query_numbers_are_read_up_to_their_maximum)
{
	struct job_query q;
	read_query(&q, "offset=2147483647&limit=0&withTotalCount=true", false, &unit.a);
	assert_int_equal(q.offset, 2147483647);
	assert_int_equal(q.limit, 0);
	assert_true(q.with_total);
	read_query(&q, "limit=50000&withTotalCount=True", false, &unit.a);
	assert_int_equal(q.limit, 50000);
	assert_false(q.with_total);
}

TEST(test_query_numbers_out_of_range_are_refused)
{
	static const struct {
		const char *query, *says;
	} CASES[] = {
		{ "limit=50001", "limit must be a whole number from 0 to 50000, is \"50001\"" },
		{ "limit=-1", "limit must be a whole number from 0 to 50000, is \"-1\"" },
		{ "limit=ten", "is \"ten\"" },
		{ "limit=1.5", "is \"1.5\"" },
		{ "limit=+1", "is \" 1\"" },
		{ "limit=NaN", "is \"NaN\"" },
		{ "limit=99999999999999999999", "is \"99999999999999999999\"" },
		{ "limit=1%00", "limit must be" },
		{ "offset=-1", "offset must be a whole number from 0 to 2147483647, is \"-1\"" },
		{ "offset=2147483648", "offset must be" },
		{ "limit=7&limit=x", "is \"x\"" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct job_query q;
		if (job_query_read(&q, CASES[i].query, false, &unit.a, no_err()) == 0)
			fail_msg("%s is taken", CASES[i].query);
		assert_int_equal(unit.e.http, 400);
		assert_string_equal(unit.e.code, "InvalidParametersError");
		if (!strstr(err_msg(&unit.e), CASES[i].says))
			fail_msg("%s: %s", CASES[i].query, err_msg(&unit.e));
	}
}

/* test_page_sorts_by_each_order has the known ones. */
TEST(test_query_order_that_is_unknown_is_the_default)
{
	static const char *const CASES[] = {
		"order=name,ASC",      "order=jobName", "order=jobName,asc",
		"order=jobName,ASC,x", "order=,ASC",    "order=jobName,ASC&order=nothing",
	};
	struct job_query q;
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		read_query(&q, CASES[i], false, &unit.a);
		if (q.order != ORDER_SUBMITTED || !q.descending)
			fail_msg("%s", CASES[i]);
	}
	read_query(&q, "order=completionTime%2CASC", false, &unit.a);
	assert_int_equal(q.order, ORDER_COMPLETED);
	assert_false(q.descending);
}

/* ---- the choice ---- */

static void choose(const char *query, const struct job_entry *job, bool v1, bool want)
{
	struct job_query q;
	read_query(&q, query, v1, &unit.a);
	if (job_query_takes(&q, job) != want)
		fail_msg("%s", query);
}

struct chosen {
	const char *query;
	bool is;
};

TEST(test_lists_select_by_texts)
{
	const struct job_entry job =
	    JOB(.job = "r\xc3\xa9sum\xc3\xa9_1", .user = "j.doe", .cluster = "vision");
	static const struct chosen CASES[] = {
		{ "", true },
		{ "username=j.doe", true },
		{ "username=zoe,j.doe,bob", true },
		{ "username=j.do", false },
		{ "username=j.doe2", false },
		{ "username=J.DOE", false },
		{ "username=,", true },
		{ "username=%00", false },
		{ "vc=vision", true },
		{ "vc=default,visio", false },
		{ "vc=vision&username=bob", false },
		{ "vc=vision&username=j.doe", true },
		{ "keyword=sum", true },
		{ "keyword=doe", true },
		{ "keyword=isio", true },
		{ "keyword=Doe", false },
		{ "keyword=doevis", false },
		{ "keyword=sum,doe", false },
		/* Raw, and as it should be sent. */
		{ "keyword=r\xc3\xa9s", true },
		{ "keyword=r%C3%A9s", true },
		{ "keyword=%00", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		choose(CASES[i].query, &job, false, CASES[i].is);
}

TEST(test_lists_select_by_state)
{
	const struct job_entry running = JOB(.state = JOB_RUNNING);
	const struct job_entry stopping = JOB(.state = JOB_STOPPING);
	choose("state=RUNNING", &running, false, true);
	choose("state=running", &running, false, true);
	choose("state=WAITING,RUNNING", &running, false, true);
	choose("state=WAITING,FAILED", &running, false, false);
	choose("state=nonsense", &running, false, false);
	choose("state=RUNNING", &stopping, false, false);
	choose("state=STOPPING", &stopping, false, true);
	/* v1 shows it as RUNNING. */
	choose("state=RUNNING", &stopping, true, true);
	choose("state=STOPPING", &stopping, true, false);
}

TEST(test_lists_select_by_priority)
{
	const struct job_entry none = JOB(.job = "default-job");
	const struct job_entry prod = JOB(.priority = "prod");
	choose("jobPriority=default", &none, false, true);
	choose("jobPriority=test,default", &none, false, true);
	choose("jobPriority=prod", &none, false, false);
	choose("jobPriority=prod,oppo", &prod, false, true);
	choose("jobPriority=default", &prod, false, false);
	/* Both, not either. */
	choose("jobPriority=default&keyword=default-job", &none, false, true);
	choose("jobPriority=default&keyword=other", &none, false, false);
	choose("jobPriority=default&keyword=train", &prod, false, false);
}

TEST(test_lists_select_by_tags)
{
	const struct job_entry bare = JOB();
	const struct job_entry job = JOB(.tags = "[\"a\",\"b c\",\"d\\\"e\\\",\\\"f\"]");
	static const struct chosen CASES[] = {
		{ "tagsContain=a", true },
		{ "tagsContain=x,b+c", true },
		{ "tagsContain=b", false },
		{ "tagsContain=d%22e%22", false },
		{ "tagsContain=f", false },
		{ "tagsNotContain=a", false },
		{ "tagsNotContain=x,y", true },
		{ "tagsNotContain=x,b%20c", false },
		{ "tagsContain=a&tagsNotContain=b+c", false },
		{ "tagsContain=a&tagsNotContain=b", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		choose(CASES[i].query, &job, false, CASES[i].is);
	choose("tagsContain=a", &bare, false, false);
	choose("tagsNotContain=a", &bare, false, true);
}

/* A row without its condition in job_query_takes selects all jobs, whatever its value is. */
TEST(test_each_filter_of_lists_excludes_a_job)
{
	const struct job_entry job = JOB(.tags = "[\"x\"]");
	for (const struct parameter *p = JOB_FILTERS; p->name; p++) {
		struct job_query x;
		struct job_query nothing;
		read_query(&x, arena_printf(&unit.a, "%s=x", p->name), false, &unit.a);
		read_query(&nothing, arena_printf(&unit.a, "%s=nothing", p->name), false, &unit.a);
		if (job_query_takes(&x, &job) && job_query_takes(&nothing, &job))
			fail_msg("%s", p->name);
	}
}

TEST(test_lists_of_v2_leave_out_legacy_jobs)
{
	const struct job_entry job = JOB(.legacy = true);
	choose("", &job, false, false);
	choose("username=alice", &job, false, false);
	choose("", &job, true, true);
}
