/* Pages of lists: each order, and pages of random jobs, which are parts of the whole list. */

#include "tests/unit/base/cmocka.h"

#include "server/jobs/jobs_internal.h"
#include "tests/unit/server/job_list_kit.h"

enum { MANY = 300, CASES = 2000, NAME = 33, QUERY_MAX = 256 };

/* ---- orders ---- */

static void make_page(struct job_page *p, const struct job_entry *jobs, size_t n, const char *query,
                      bool v1)
{
	struct job_query q;
	assert_int_equal(job_query_read(&q, query, v1, &unit.a, no_err()), 0);
	job_page_begin(p, &q);
	for (size_t i = 0; i < n; i++)
		job_page_add(p, &jobs[i]);
	job_page_end(p);
	assert_int_equal(p->total, n);
}

/* The names of the page, such as "c a b". */
static void page_of_is(bool v1, const struct job_entry *jobs, size_t n, const char *query,
                       const char *want)
{
	STR_AUTO names = STR_INIT(QUERY_MAX);
	JOB_PAGE_AUTO p;
	make_page(&p, jobs, n, query, v1);
	for (size_t i = 0; i < p.n; i++)
		str_printf(&names, "%s%s", i ? " " : "", p.v[i].job->name);
	if (strcmp(str_c(&names), want) != 0)
		fail_msg("%s: %s, not %s", query, str_c(&names), want);
}

static void page_is(const struct job_entry *jobs, size_t n, const char *query, const char *want)
{
	page_of_is(false, jobs, n, query, want);
}

TEST(test_page_sorts_by_each_order)
{
	const struct job_entry jobs[] = {
		JOB(.name = "a", .job = "long_name_1", .user = "bob", .cluster = "vc", .retries = 2,
		    .tasks = 5, .gpus = 8, .state = JOB_WAITING, .created_ms = 3000),
		JOB(.name = "b", .job = "long_name_10", .user = "alice", .cluster = "vc1",
		    .retries = 0, .tasks = 6, .gpus = 64, .state = JOB_STOPPED, .priority = "test",
		    .created_ms = 1000, .completed_ms = 9000),
		JOB(.name = "c", .job = "long_name", .user = "\xc3\xa9mile", .cluster = "a",
		    .retries = 1, .tasks = 4, .gpus = 0, .state = JOB_STOPPING, .priority = "prod",
		    .created_ms = 2000, .completed_ms = 4000),
	};
	static const struct {
		const char *order, *ascending, *descending;
	} WANT[] = {
		{ "submissionTime", "b c a", "a c b" },
		{ "jobName", "c a b", "b a c" },
		{ "username", "b a c", "c a b" },
		{ "vc", "c a b", "b a c" },
		{ "retries", "b c a", "a c b" },
		{ "totalTaskNumber", "c a b", "b a c" },
		{ "totalGpuNumber", "c a b", "b a c" },
		{ "state", "b c a", "a c b" },
		/* Jobs without the value are last, and first in descending order. */
		{ "completionTime", "c b a", "a b c" },
		{ "jobPriority", "c b a", "a b c" },
		{ "nonsense", "a c b", "a c b" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(WANT); i++) {
		char query[QUERY_MAX];
		(void)snprintf(query, sizeof(query), "order=%s,ASC", WANT[i].order);
		page_is(jobs, ARRAY_SIZE(jobs), query, WANT[i].ascending);
		(void)snprintf(query, sizeof(query), "order=%s,DESC", WANT[i].order);
		page_is(jobs, ARRAY_SIZE(jobs), query, WANT[i].descending);
	}
}

TEST(test_page_sorts_names_with_a_long_beginning)
{
	const struct job_entry jobs[] = {
		JOB(.name = "c", .job = "evaluate_of_16byt"),
		JOB(.name = "b", .job = "evaluate_of_16by2"),
		JOB(.name = "a", .job = "evaluate_of_16by"),
		JOB(.name = "d", .job = "\xc3\xa9"),
		JOB(.name = "o", .job = "evaluate_of_16b"),
	};
	page_is(jobs, ARRAY_SIZE(jobs), "order=jobName,ASC", "o a b c d");
	page_is(jobs, ARRAY_SIZE(jobs), "order=jobName,DESC", "d c b a o");
}

TEST(test_page_of_v1_sorts_by_the_states_of_v1)
{
	const struct job_entry jobs[] = {
		JOB(.name = "a", .state = JOB_RUNNING),
		JOB(.name = "b", .state = JOB_STOPPING, .created_ms = 2000),
		JOB(.name = "c", .state = JOB_FAILED),
	};
	page_of_is(false, jobs, ARRAY_SIZE(jobs), "order=state,ASC", "c a b");
	page_of_is(true, jobs, ARRAY_SIZE(jobs), "order=state,ASC", "c b a");
}

/* Equal jobs are sorted by time, latest first, then by name. */
TEST(test_page_sorts_equal_jobs_by_time_and_name)
{
	const struct job_entry jobs[] = {
		JOB(.name = "d"),
		JOB(.name = "b"),
		JOB(.name = "c", .created_ms = 2000),
		JOB(.name = "a"),
	};
	page_is(jobs, ARRAY_SIZE(jobs), "order=username,ASC", "c a b d");
	page_is(jobs, ARRAY_SIZE(jobs), "order=username,DESC", "c a b d");
	page_is(jobs, ARRAY_SIZE(jobs), "order=submissionTime,ASC", "a b d c");
	page_is(jobs, ARRAY_SIZE(jobs), "", "c a b d");
}

TEST(test_page_has_offset_and_limit)
{
	const struct job_entry jobs[] = { JOB(.name = "a"), JOB(.name = "b"), JOB(.name = "c") };
	page_is(jobs, ARRAY_SIZE(jobs), "limit=0", "");
	page_is(jobs, ARRAY_SIZE(jobs), "limit=0&offset=2", "");
	page_is(jobs, ARRAY_SIZE(jobs), "limit=2", "a b");
	page_is(jobs, ARRAY_SIZE(jobs), "limit=2&offset=1", "b c");
	page_is(jobs, ARRAY_SIZE(jobs), "limit=2&offset=2", "c");
	page_is(jobs, ARRAY_SIZE(jobs), "offset=3", "");
	page_is(jobs, ARRAY_SIZE(jobs), "offset=2147483647&limit=50000", "");
	page_is(jobs, 0, "", "");
}

/* A count without filters comes from the view, other counts come from the jobs. */
TEST(test_page_counts_are_the_same_with_filters)
{
	static const char *const QUERIES[] = { "limit=0",
		                               "limit=0&state=RUNNING",
		                               "limit=0&state=RUNNING,FAILED&order=jobName,ASC",
		                               "limit=0&username=user1",
		                               "limit=0&keyword=user1",
		                               "limit=10" };
	enum { JOBS = 200, QUERIES_N = ARRAY_SIZE(QUERIES), BOTH = 2 * QUERIES_N };
	struct cache *c = cache_new(1 << 20);
	size_t want[2][QUERIES_N] = { { 0 } };
	for (size_t i = 0; i < JOBS; i++) {
		FREE_AUTO char *text = xasprintf("{\"metadata\":{\"name\":\"f%zu\",\"labels\":{"
		                                 "\"userName\":\"user%zu\"}}}",
		                                 i, i % 3);
		struct job_entry *job = job_entry_new(span_of(text));
		job->state = (enum job_state)(i % JOB_STATE_MAX);
		job->creating = i % 5 == 0;
		job->legacy = i % 7 == 0;
		for (size_t k = 0; k < BOTH; k++) {
			struct job_query q;
			(void)job_query_read(&q, QUERIES[k / 2], k % 2, &unit.a, no_err());
			want[k % 2][k / 2] += job_query_takes(&q, job);
		}
		cache_put(c, job);
	}
	for (size_t k = 0; k < BOTH; k++) {
		struct job_query q;
		CACHE_VIEW_AUTO *view = cache_view(c);
		JOB_PAGE_AUTO p;
		assert_int_equal(job_query_read(&q, QUERIES[k / 2], k % 2, &unit.a, no_err()), 0);
		job_page_begin(&p, &q);
		job_page_gather(&p, view);
		job_page_end(&p);
		assert_int_equal(p.total, want[k % 2][k / 2]);
		assert_true(p.total > 0 && p.total < JOBS);
	}
	cache_free(c);
}

/* The page keeps little more than the requested number of jobs. */
TEST(test_page_keeps_few_jobs_in_memory)
{
	const struct job_entry job = JOB();
	struct job_query q;
	assert_int_equal(job_query_read(&q, "limit=100&offset=50", false, &unit.a, no_err()), 0);
	JOB_PAGE_AUTO p;
	job_page_begin(&p, &q);
	for (size_t i = 0; i < 100000; i++) {
		job_page_add(&p, &job);
		assert_true(p.n <= 300 && p.cap <= 600);
	}
	job_page_end(&p);
	assert_int_equal(p.n, 100);
	assert_int_equal(p.total, 100000);
}

/* ---- parts of the whole list ---- */

static uint64_t seed = 20261122;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)(seed >> 33) % n;
}

#define ANY(list) (list)[below(ARRAY_SIZE(list))]

static const char *const USERS[] = { "alice", "bob", "carol.long-name", "carol.long-name2", "" };
static const char *const CLUSTERS[] = { "default", "vc", "vision", "speech" };
static const char *const NAMES[] = { "train_1", "train_2",         "train_20",
	                             "e",       "evaluate_of_16b", "evaluate_of_16by2" };
static const char *const PRIORITIES[] = { "", "prod", "test", "oppo" };
static const char *const FIELDS[] = { "jobName",    "submissionTime", "username",
	                              "vc",         "retries",        "totalTaskNumber",
	                              "state",      "totalGpuNumber", "completionTime",
	                              "jobPriority" };

static void make_job(struct job_entry *job, char name[static NAME], unsigned i)
{
	(void)snprintf(name, NAME, "%032x", i);
	*job = JOB(.name = name, .job = ANY(NAMES), .user = ANY(USERS), .cluster = ANY(CLUSTERS),
	           .priority = ANY(PRIORITIES), .state = (enum job_state)below(JOB_STATE_MAX),
	           .retries = (int32_t)below(3), .tasks = (int32_t)below(4),
	           .gpus = (int64_t)below(5), .created_ms = 1000 + (int64_t)below(50) * 1000,
	           .completed_ms = (int64_t)below(20) * 1000);
}

/* A page chooses its jobs while they come; the whole list is sorted at its end. */
TEST(test_page_is_a_part_of_the_whole_list)
{
	static struct job_entry jobs[MANY];
	static char names[MANY][NAME];
	for (unsigned i = 0; i < CASES; i++) {
		if (i % 100 == 0)
			for (unsigned j = 0; j < MANY; j++)
				make_job(&jobs[j], names[j], below(1000) * MANY + j);
		size_t n = below(5) ? MANY : below(MANY);
		size_t offset = below(3) ? 0 : below(MANY);
		size_t limit = below(3) ? below(20) : below(2 * MANY);
		const char *order =
		    arena_printf(&unit.a, "order=%s,%s", ANY(FIELDS), below(2) ? "ASC" : "DESC");
		JOB_PAGE_AUTO all;
		JOB_PAGE_AUTO page;
		make_page(&all, jobs, n, order, false);
		make_page(&page, jobs, n,
		          arena_printf(&unit.a, "%s&offset=%zu&limit=%zu", order, offset, limit),
		          false);
		size_t first = offset < n ? offset : n;
		assert_int_equal(all.n, n);
		assert_int_equal(page.n, limit < n - first ? limit : n - first);
		for (size_t k = 0; k < page.n; k++)
			if (page.v[k].job != all.v[first + k].job)
				fail_msg("%s: at %zu+%zu %s", order, offset, k,
				         page.v[k].job->name);
	}
}
