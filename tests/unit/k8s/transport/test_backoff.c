/* Back-off of all requests of a store, and the gradual return. */
#include "tests/unit/base/cmocka.h"

#include "k8s/transport/backoff.h"

static struct backoff r;

FIXTURE(setup)
{
	r = BACKOFF_INIT(16);
	return 0;
}

static void note(enum api_health w, int64_t now)
{
	backoff_note(&r, w, false, now);
}

#define CASE(name) TEST_WITH(name, setup, NULL)

CASE(test_backoff_grows_to_a_second)
{
	static const int64_t MS[] = { 100, 200, 400, 800, 1000, 1000 };
	for (unsigned i = 0; i < 6; i++) {
		for (int k = 0; k < 50; k++)
			assert_in_range(backoff_ms(i), MS[i] * 3 / 4, MS[i] * 5 / 4);
	}
	assert_in_range(backoff_ms(4000000000u), 750, 1250);
}

CASE(test_backoff_is_jittered)
{
	int64_t first = backoff_ms(4);
	for (int i = 0; i < 100; i++) {
		if (backoff_ms(4) != first)
			return;
	}
	fail_msg("a hundred times the same");
}

CASE(test_backoff_has_no_pause_at_first)
{
	assert_int_equal(r.at_once, 16);
	assert_int_equal(r.until_ms, 0);
	assert_false(backoff_is_settling(&r, 5000));
}

CASE(test_failures_at_the_same_time_count_once)
{
	for (int i = 0; i < 16; i++)
		note(API_AWAY, 1000 + i);
	assert_in_range(r.until_ms, 1075, 1125);
	assert_int_equal(r.at_once, BACKOFF_PROBES);
}

CASE(test_pauses_grow_with_each_failure)
{
	int64_t now = 1000;
	for (int i = 0; i < 10; i++) {
		note(API_AWAY, now);
		now = r.until_ms;
	}
	/* 100 200 400 800 and six times 1000 */
	assert_in_range(now, 1000 + 7500 * 3 / 4, 1000 + 7500 * 5 / 4);
}

CASE(test_concurrency_doubles_after_an_outage)
{
	static const size_t STEPS[] = { 4, 8, 16, 16 };
	note(API_AWAY, 1000);
	for (size_t i = 0; i < 4; i++) {
		note(API_ANSWERS, 2000);
		assert_int_equal(r.at_once, STEPS[i]);
	}
	note(API_AWAY, 3000);
	assert_in_range(r.until_ms, 3075, 3125); /* and not the second pause in a row */
}

CASE(test_busy_answers_halve_the_concurrency)
{
	static const size_t STEPS[] = { 8, 4, 2, 2 };
	int64_t now = 1000;
	for (size_t i = 0; i < 4; i++) {
		note(API_BUSY, now);
		assert_int_equal(r.at_once, STEPS[i]);
		now = r.until_ms;
	}
}

CASE(test_requests_without_an_answer_change_nothing)
{
	note(API_UNKNOWN, 1000);
	assert_int_equal(r.at_once, 16);
	assert_int_equal(r.until_ms, 0);
}

CASE(test_concurrency_of_one_stays_one)
{
	r = BACKOFF_INIT(1);
	note(API_AWAY, 1000);
	assert_int_equal(r.at_once, 1);
	note(API_ANSWERS, 2000);
	assert_int_equal(r.at_once, 1);
}

CASE(test_backoff_is_settling_after_a_new_connection)
{
	backoff_note(&r, API_ANSWERS, true, 1000);
	assert_true(backoff_is_settling(&r, 1999));
	assert_false(backoff_is_settling(&r, 2000));
}

CASE(test_backoff_is_settling_after_an_outage)
{
	note(API_AWAY, 1000);
	note(API_ANSWERS, 2000);
	note(API_ANSWERS, 4500);
	assert_true(backoff_is_settling(&r, 4999));
	assert_false(backoff_is_settling(&r, 5000));
}
