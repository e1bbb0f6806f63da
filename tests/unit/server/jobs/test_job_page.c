/* Pages of lists: each order, and a comparison with a naive list for random jobs and queries. */

#include "tests/unit/base/cmocka.h"

#include "server/jobs/jobs_internal.h"
#include "tests/unit/server/job_list_kit.h"

enum { MANY = 300, CASES = 20000, NAME = 33, QUERY_MAX = 256 };

/* ---- orders ---- */

/* The names of the page, such as "c a b". */
static void page_is(const struct job_entry *jobs, size_t n, const char *query, const char *want)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	STR_AUTO names = STR_INIT(QUERY_MAX);
	struct job_query q;
	assert_int_equal(job_query_read(&q, query, false, &a, &e), 0);
	JOB_PAGE_AUTO p;
	job_page_begin(&p, &q);
	for (size_t i = 0; i < n; i++)
		job_page_add(&p, &jobs[i]);
	job_page_end(&p);
	for (size_t i = 0; i < p.n; i++)
		str_printf(&names, "%s%s", i ? " " : "", p.v[i].job->name);
	if (strcmp(str_c(&names), want) != 0)
		fail_msg("%s: %s, not %s", query, str_c(&names), want);
	assert_int_equal(p.total, n);
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
			ARENA_AUTO a = { 0 };
			ERR_AUTO e = { 0 };
			struct job_query q;
			(void)job_query_read(&q, QUERIES[k / 2], k % 2, &a, &e);
			want[k % 2][k / 2] += job_query_takes(&q, job);
		}
		cache_put(c, job);
	}
	for (size_t k = 0; k < BOTH; k++) {
		ARENA_AUTO a = { 0 };
		ERR_AUTO e = { 0 };
		struct job_query q;
		CACHE_VIEW_AUTO *view = cache_view(c);
		JOB_PAGE_AUTO p;
		assert_int_equal(job_query_read(&q, QUERIES[k / 2], k % 2, &a, &e), 0);
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
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct job_query q;
	assert_int_equal(job_query_read(&q, "limit=100&offset=50", false, &a, &e), 0);
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

/* ---- against a list that does it the long way ---- */

static uint64_t seed = 20261122;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)(seed >> 33) % n;
}

#define ANY(list) (list)[below(ARRAY_SIZE(list))]

static const char *const USERS[] = { "alice", "bob", "carol.long-name", "carol.long-name2", "" };
static const char *const CLUSTERS[] = { "default", "vc", "vision", "speech" };
static const char *const NAMES[] = {
	"train_1",          "train_2",  "train_20",        "train_200",        "e",
	"\xc3\xa9",         "evaluate", "evaluate_of_16b", "evaluate_of_16by", "evaluate_of_16byt",
	"evaluate_of_16by2"
};
static const char *const PRIORITIES[] = { "", "prod", "test", "oppo" };
static const char *const TAGS[] = { "[]", "[]", "[\"x\"]", "[\"x\",\"y\"]", "[\"y\"]" };
static const char *const WORDS[] = { "a", "train", "train_20", "vi", "long-name2", "e" };
static const char *const FIELDS[] = { "jobName",    "submissionTime", "username",
	                              "vc",         "retries",        "totalTaskNumber",
	                              "state",      "totalGpuNumber", "completionTime",
	                              "jobPriority" };

/* The query, parsed in the simplest way. */
struct plain {
	const char *user, *cluster, *priority, *keyword, *tag, *no_tag, *field;
	int state;
	bool descending, v1;
	size_t offset, limit;
};

static void make_job(struct job_entry *job, char name[static NAME], unsigned i)
{
	(void)snprintf(name, NAME, "%032x", i);
	*job = JOB(.name = name, .job = ANY(NAMES), .user = ANY(USERS), .cluster = ANY(CLUSTERS),
	           .priority = ANY(PRIORITIES), .tags = ANY(TAGS),
	           .state = (enum job_state)below(JOB_STATE_MAX), .legacy = below(10) == 0,
	           .retries = (int32_t)below(3), .tasks = (int32_t)below(4),
	           .gpus = (int64_t)below(5), .created_ms = 1000 + (int64_t)below(50) * 1000,
	           .completed_ms = (int64_t)below(20) * 1000);
}

static void make_query(struct plain *p, char query[static QUERY_MAX])
{
	*p = (struct plain){
		.user = below(4) ? NULL : USERS[below(4)],
		.cluster = below(4) ? NULL : ANY(CLUSTERS),
		.priority = below(4) ? NULL : ANY(PRIORITIES),
		.keyword = below(4) ? NULL : ANY(WORDS),
		.tag = below(6) ? NULL : "x",
		.no_tag = below(6) ? NULL : "y",
		.field = ANY(FIELDS),
		.state = below(4) ? -1 : (int)below(JOB_STATE_MAX),
		.descending = below(2),
		.v1 = below(4) == 0,
		.offset = below(3) ? 0 : below(MANY),
		.limit = below(3) ? below(20) : below(2 * MANY),
	};
	STR_AUTO out = STR_INIT(QUERY_MAX - 1);
	str_printf(&out, "offset=%zu&limit=%zu&order=%s,%s", p->offset, p->limit, p->field,
	           p->descending ? "DESC" : "ASC");
	if (p->user)
		str_printf(&out, "&username=nobody,%s", p->user);
	if (p->cluster)
		str_printf(&out, "&vc=%s,zzz", p->cluster);
	if (p->priority)
		str_printf(&out, "&jobPriority=%s", p->priority[0] ? p->priority : "default");
	if (p->keyword)
		str_printf(&out, "&keyword=%s", p->keyword);
	if (p->tag)
		str_printf(&out, "&tagsContain=%s", p->tag);
	if (p->no_tag)
		str_printf(&out, "&tagsNotContain=%s", p->no_tag);
	if (p->state >= 0)
		str_printf(&out, "&state=%s", JOB_STATES[p->state]);
	(void)snprintf(query, QUERY_MAX, "%s", str_c(&out));
}

static bool plainly_is(const struct plain *p, const struct job_entry *j)
{
	enum job_state shown = p->v1 && j->state == JOB_STOPPING ? JOB_RUNNING : j->state;
	return (p->v1 || !j->legacy) && (p->state < 0 || (int)shown == p->state) &&
	       (!p->user || strcmp(p->user, job_entry_shown_user(j)) == 0) &&
	       (!p->cluster || strcmp(p->cluster, j->cluster) == 0) &&
	       (!p->priority || strcmp(p->priority, j->priority) == 0) &&
	       (!p->keyword || strstr(j->job, p->keyword) ||
	        strstr(job_entry_shown_user(j), p->keyword) || strstr(j->cluster, p->keyword)) &&
	       (!p->tag || strstr(j->tags, p->tag)) && (!p->no_tag || !strstr(j->tags, p->no_tag));
}

static int numbers(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

/* Absent values are sorted behind all others. */
static int maybe(bool no_a, bool no_b, int order)
{
	return no_a || no_b ? (int)no_a - (int)no_b : order;
}

static int plain_order(const struct plain *p, const struct job_entry *a, const struct job_entry *b)
{
	switch (p->field[0] == 't' ? p->field[5] : p->field[0] == 'j' ? p->field[3] : p->field[0]) {
	case 'N':
		return strcmp(a->job, b->job);
	case 'P':
		return maybe(!a->priority[0], !b->priority[0], strcmp(a->priority, b->priority));
	case 'u':
		return strcmp(job_entry_shown_user(a), job_entry_shown_user(b));
	case 'v':
		return strcmp(a->cluster, b->cluster);
	case 'r':
		return numbers(a->retries, b->retries);
	case 'T':
		return numbers(a->tasks, b->tasks);
	case 'G':
		return numbers(a->gpus, b->gpus);
	case 'c':
		return maybe(a->completed_ms < 0, b->completed_ms < 0,
		             numbers(a->completed_ms, b->completed_ms));
	case 's':
		return p->field[1] == 't' ? strcmp(JOB_STATES[job_shown_state(a, p->v1)],
		                                   JOB_STATES[job_shown_state(b, p->v1)])
		                          : numbers(a->created_ms, b->created_ms);
	default:
		fail_msg("%s", p->field);
	}
	return 0;
}

static int plainly_before(const void *left, const void *right, void *arg)
{
	const struct job_entry *a = ((const struct job_key *)left)->job;
	const struct job_entry *b = ((const struct job_key *)right)->job;
	const struct plain *p = arg;
	int order = plain_order(p, a, b);
	if (order)
		return p->descending ? -order : order;
	if (a->created_ms != b->created_ms)
		return a->created_ms > b->created_ms ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void compare_with_plain(const struct job_entry *jobs, size_t n)
{
	struct plain plain;
	char query[QUERY_MAX];
	struct job_key want[MANY];
	size_t total = 0;
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct job_query q;
	make_query(&plain, query);
	assert_int_equal(job_query_read(&q, query, plain.v1, &a, &e), 0);
	JOB_PAGE_AUTO p;
	job_page_begin(&p, &q);
	for (size_t i = 0; i < n; i++) {
		if (plainly_is(&plain, &jobs[i]))
			want[total++].job = &jobs[i];
		if (job_query_takes(&q, &jobs[i]))
			job_page_add(&p, &jobs[i]);
	}
	job_page_end(&p);
	qsort_r(want, total, sizeof(*want), plainly_before, &plain);
	size_t first = plain.offset < total ? plain.offset : total;
	size_t count = plain.limit < total - first ? plain.limit : total - first;
	if (p.total != total || p.n != count)
		fail_msg("%s: %zu of %zu, not %zu of %zu", query, p.n, p.total, count, total);
	for (size_t i = 0; i < count; i++)
		if (p.v[i].job != want[first + i].job)
			fail_msg("%s: at %zu %s, not %s", query, i, p.v[i].job->name,
			         want[first + i].job->name);
}

TEST(test_page_equals_a_plain_list)
{
	static struct job_entry jobs[MANY];
	static char names[MANY][NAME];
	for (unsigned i = 0; i < CASES; i++) {
		if (i % 100 == 0)
			for (unsigned j = 0; j < MANY; j++)
				make_job(&jobs[j], names[j], below(1000) * MANY + j);
		compare_with_plain(jobs, below(5) ? MANY : below(MANY));
	}
}
