/* The barrier: the meaning of each answer, the pauses between polls, the missing tasks. */
#include "runtime-assets/init/init_internal.h"

#include "tests/unit/base/cmocka.h"

/* ---- answers ------------------------------------------------------------------------------ */

#define NAMED "{\"kind\":\"Status\",\"details\":{\"name\":\"f\"}}"

TEST(test_barrier_judge_tells_answers_apart)
{
	static const struct {
		int trouble, status;
		const char *body;
		enum barrier_answer answer;
	} CASES[] = {
		{ 0, 200, "", ANSWER_FINE },
		{ 0, 404, NAMED, ANSWER_GONE },
		/* Neither is about this Framework. */
		{ 0, 404, "404 page not found", ANSWER_REFUSED },
		{ 0, 404, "", ANSWER_REFUSED },
		{ 0, 401, "", ANSWER_REFUSED },
		{ 0, 403, "", ANSWER_REFUSED },
		{ 0, 403, NAMED, ANSWER_REFUSED },
		/* No redirects, and nothing but 200 has a Framework in it. */
		{ 0, 201, "", ANSWER_TROUBLE },
		{ 0, 302, "", ANSWER_TROUBLE },
		{ 0, 400, "", ANSWER_TROUBLE },
		{ 0, 409, "", ANSWER_TROUBLE },
		{ 0, 410, "", ANSWER_TROUBLE },
		{ 0, 429, "", ANSWER_TROUBLE },
		{ 0, 500, "", ANSWER_TROUBLE },
		{ 0, 503, "", ANSWER_TROUBLE },
		{ 0, 504, "", ANSWER_TROUBLE },
		/* An earlier status in the reply does not count. */
		{ HTTP_DNS, 200, "", ANSWER_TROUBLE },
		{ HTTP_CONNECT, 200, "", ANSWER_TROUBLE },
		{ HTTP_TLS, 200, "", ANSWER_TROUBLE },
		{ HTTP_NO_COMMON_TLS, 200, "", ANSWER_NEVER },
		{ HTTP_TIMEOUT, 200, "", ANSWER_TROUBLE },
		{ HTTP_BROKEN, 404, NAMED, ANSWER_TROUBLE },
		{ HTTP_TOO_LARGE, 200, "", ANSWER_TROUBLE },
		/* The token file holds no token. */
		{ HTTP_BAD_REQUEST, 0, "", ANSWER_REFUSED },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct http_reply r = { .status = CASES[i].status, .body = span_of(CASES[i].body) };
		enum barrier_answer got = barrier_judge(CASES[i].trouble, &r, "f");
		if (got != CASES[i].answer)
			fail_msg("case %zu: got %d", i, (int)got);
	}
}

/* ---- intervals ------------------------------------------------------------------------------- */

static const struct barrier_times TIMES = { 10000, 600000, 1000, 15000, 60000 };

static void delay_is(unsigned n, int64_t total, int64_t planned)
{
	assert_int_equal(barrier_delay(&TIMES, n, total, 0), planned * 3 / 4);
	for (uint32_t random = 1; random < 4000000000U; random += 12345678) {
		int64_t ms = barrier_delay(&TIMES, n, total, random);
		assert_in_range(ms, planned * 3 / 4, planned * 5 / 4);
	}
}

TEST(test_barrier_delay_grows_to_the_interval)
{
	delay_is(0, 4, 1000);
	delay_is(1, 4, 1501);
	delay_is(2, 4, 2252);
	delay_is(6, 4, 10000);
	delay_is(4000000000U, 4, 10000);
}

TEST(test_barrier_delay_grows_with_the_number_of_tasks)
{
	delay_is(0, 400, 2000);
	delay_is(0, 1000, 5000);
	delay_is(6, 1000, 10000);
	/* Never longer than what was asked for. */
	delay_is(0, 100000, 10000);
}

TEST(test_barrier_delay_is_spread_at_random)
{
	unsigned quarter[4] = { 0 };
	for (uint32_t random = 0; random < 4000; random++) {
		int64_t ms = barrier_delay(&TIMES, 20, 4, random * 2654435761U);
		quarter[(ms - 7500) * 4 / 5001]++;
	}
	for (size_t i = 0; i < 4; i++)
		assert_in_range(quarter[i], 800, 1200);
}

/* ---- settings -------------------------------------------------------------------------------- */

static void set(const char *name, const char *value)
{
	int r = setenv(name, value ? value : "", 1); /* NOLINT(concurrency-mt-unsafe) */
	assert_int_equal(r, 0);
}

TEST(test_barrier_times_are_read_from_the_environment)
{
	static const struct {
		const char *interval, *timeout;
		int64_t interval_ms, timeout_ms; /* 0: refused */
	} CASES[] = {
		{ NULL, NULL, 10000, 600000 },
		{ "", "", 10000, 600000 },
		{ "5", "60", 5000, 60000 },
		{ "1200", "1200", 1200000, 1200000 },
		{ "4", NULL, 0, 0 },
		{ "1201", NULL, 0, 0 },
		{ NULL, "59", 0, 0 },
		{ NULL, "1201", 0, 0 },
		{ "10s", NULL, 0, 0 },
		{ " 10", NULL, 0, 0 },
		{ "-5", NULL, 0, 0 },
		{ "1e1", NULL, 0, 0 },
		{ "99999999999999999999", NULL, 0, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct barrier_times t;
		set("BARRIER_CHECK_INTERVAL_SEC", CASES[i].interval);
		set("BARRIER_CHECK_TIMEOUT_SEC", CASES[i].timeout);
		int bad = barrier_times_read(&t, no_err());
		assert_int_equal(bad != 0, CASES[i].interval_ms == 0);
		if (bad) {
			assert_non_null(strstr(err_msg(&unit.e), "must be a number from"));
			continue;
		}
		assert_int_equal(t.interval_ms, CASES[i].interval_ms);
		assert_int_equal(t.timeout_ms, CASES[i].timeout_ms);
	}
}

TEST(test_barrier_times_parse_takes_five_numbers)
{
	static const char *const BAD[] = { "",         "1",        "1,2,3,4",  "1,2,3,4,5,6",
		                           "1,2,3,4,", ",1,2,3,4", "1,2,,4,5", "0,1,1,1,1",
		                           "1,2,3,4,x" };
	struct barrier_times t;
	assert_int_equal(barrier_times_parse(&t, SPAN("1,2,3,4,5"), no_err()), 0);
	assert_int_equal(t.interval_ms, 1);
	assert_int_equal(t.fetch_ms, 5);
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		ERR_AUTO why = { 0 };
		assert_int_equal(barrier_times_parse(&t, span_of(BAD[i]), &why), -1);
	}
}

/* ---- missing tasks ------------------------------------------------------------------------ */

static char IP[] = "10.0.0.1";

static void missing_is(const struct init_framework *f, const char *want)
{
	STR_AUTO out = STR_INIT(1000);
	barrier_missing(f, &out);
	assert_string_equal(str_c(&out), want);
}

TEST(test_barrier_missing_names_tasks_without_an_address)
{
	struct init_task ps[] = { { .index = 0, .pod_ip = IP },
		                  { .index = 1, .pod_ip = IP, .deletion_pending = true } };
	struct init_task worker[] = { { .index = 0 }, { .index = 2, .host_ip = IP } };
	struct init_role role[] = {
		{ .name = "ps", .in_spec = true, .task_number = 2, .task = ps, .n = 2 },
		/* Two of four tasks are not in the status yet. */
		{ .name = "worker", .in_spec = true, .task_number = 4, .task = worker, .n = 2 },
		/* No longer wanted. */
		{ .name = "old", .task = worker, .n = 2 },
	};
	struct init_framework f = { .role = role, .n = 3, .total = 6 };
	missing_is(&f, "ps:1, worker:0, worker:2, worker:2, worker:3");
	/* One task fewer is wanted than there are: the last does not count. */
	role[0].task_number = 1;
	role[1].task_number = 1;
	f.total = 2;
	missing_is(&f, "worker:0");
}

TEST(test_barrier_finds_the_own_pod_in_the_status)
{
	static const struct {
		const char *role, *uid;
		int64_t index;
		bool known;
	} CASES[] = {
		{ "ps", "u-1", 1, true },   { "ps", "u-1", 0, false }, { "ps", "u-0", 1, false },
		{ "ps", NULL, 1, false },   { "ps", "u-1", 7, false }, { "xx", "u-1", 1, false },
		{ NULL, "u-1", -1, false },
	};
	struct init_task ps[] = { { .index = 0 }, { .index = 1, .pod_uid = "u-1" } };
	struct init_role role = {
		.name = "ps", .in_spec = true, .task_number = 2, .task = ps, .n = 2
	};
	struct init_framework f = { .role = &role, .n = 1, .total = 2 };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct init in = { .role_name = CASES[i].role,
			           .task_index = CASES[i].index,
			           .pod_uid = CASES[i].uid };
		assert_int_equal(barrier_shows_us(&in, &f), CASES[i].known);
	}
}
