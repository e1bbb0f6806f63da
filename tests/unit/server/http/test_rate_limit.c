/* Token buckets: the number of accepted requests, the wait, and a full table. */

#include "tests/unit/base/cmocka.h"

#include "server/http/rate_limit.h"

/* Any time of a monotonic clock. */
#define START INT64_C(123456789)

static void rate_done(struct rate **r)
{
	rate_free(*r);
}
#define RATE_AUTO __attribute__((cleanup(rate_done))) struct rate

static int64_t take(struct rate *r, const char *key, int64_t after_ms)
{
	return rate_take(r, span_of(key), START + after_ms);
}

TEST(test_rate_take_accepts_after_the_given_wait)
{
	RATE_AUTO *r = rate_new(2, 10, 4);
	assert_int_equal(take(r, "a", 0), 0);
	assert_int_equal(take(r, "a", 0), 0);
	assert_int_equal(take(r, "a", 0), 5);
	assert_int_equal(take(r, "a", 4000), 1);
	assert_int_equal(take(r, "a", 5000), 0);
	assert_int_equal(take(r, "a", 5000), 5);
	RATE_AUTO *ten = rate_new(10, 60, 4);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(take(ten, "a", 0), 0);
	assert_int_equal(take(ten, "a", 0), 6);
}

/* Refused requests are not charged: they do not delay the next accepted one. */
TEST(test_rate_take_does_not_charge_refused_requests)
{
	RATE_AUTO *r = rate_new(1, 10, 4);
	assert_int_equal(take(r, "a", 0), 0);
	for (int64_t ms = 0; ms < 10000; ms += 10)
		assert_true(take(r, "a", ms) > 0);
	assert_int_equal(rate_ask(r, SPAN("a"), START + 4000, false), 6);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rate_ask(r, SPAN("a"), START + 10000, false), 0);
	assert_int_equal(take(r, "a", 10000), 0);
}

/* Unused tokens are not saved beyond the depth of the bucket. */
TEST(test_rate_take_saves_no_more_than_the_depth)
{
	RATE_AUTO *r = rate_new(3, 3, 4);
	assert_int_equal(take(r, "a", 0), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(take(r, "a", 1000000), 0);
	assert_int_equal(take(r, "a", 1000000), 1);
}

TEST(test_rate_take_keeps_the_rate_over_time)
{
	RATE_AUTO *r = rate_new(600, 60, 4);
	size_t passed = 0;
	for (int64_t ms = 0; ms < 600000; ms += 7)
		passed += take(r, "a", ms) == 0;
	/* A bucket full, and ten minutes of 600 each. */
	assert_in_range(passed, 600 + 5990, 600 + 6000);
}

TEST(test_rate_take_counts_each_key_separately)
{
	RATE_AUTO *r = rate_new(1, 60, 4);
	assert_int_equal(take(r, "a", 0), 0);
	assert_int_equal(take(r, "b", 0), 0);
	assert_int_equal(take(r, "", 0), 0);
	assert_int_equal(rate_take(r, SPAN("a\0"), START), 0);
	assert_int_equal(take(r, "a", 0), 60);
}

/* A rate above one per nanosecond equals no limit, but must not divide by 0. */
TEST(test_rate_take_accepts_extreme_rates)
{
	RATE_AUTO *r = rate_new(10000000, 60, 4);
	RATE_AUTO *one = rate_new(1, 3600, 1);
	assert_int_equal(take(r, "a", 0), 0);
	assert_int_equal(take(one, "a", 0), 0);
	assert_int_equal(take(one, "a", 0), 3600);
	RATE_AUTO *none = rate_new(0, 60, 4);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(take(none, "a", 0), 0);
	rate_free(NULL);
}

TEST(test_rate_take_shortens_long_keys)
{
	char key[3 * RATE_KEY];
	RATE_AUTO *r = rate_new(1, 60, 4);
	memset(key, 'a', sizeof(key));
	assert_int_equal(rate_take(r, (struct span){ key, sizeof(key) }, START), 0);
	assert_int_equal(rate_take(r, (struct span){ key, RATE_KEY }, START), 60);
}

TEST(test_rate_take_replaces_the_oldest_key)
{
	RATE_AUTO *r = rate_new(1, 60, 3);
	(void)take(r, "a", 0);
	(void)take(r, "b", 0);
	(void)take(r, "c", 0);
	assert_true(take(r, "a", 0) > 0); /* seen just now */
	(void)take(r, "d", 0);            /* b goes */
	assert_true(take(r, "a", 0) > 0);
	assert_true(take(r, "c", 0) > 0);
	assert_true(take(r, "d", 0) > 0);
	assert_int_equal(take(r, "b", 0), 0);
}

/* ---- logins: ten a minute ---- */

enum { COUNT = 10, MINUTE_MS = 60000, DAY_MS = 24 * 3600 * 1000 };

static void limits_done(struct login_limits **l)
{
	login_limits_free(*l);
}
#define LIMITS_AUTO __attribute__((cleanup(limits_done))) struct login_limits

/* Returns how many of `tries` attempts at one moment are allowed. */
static int allowed(struct login_limits *l, const char *address, const char *account, int tries,
                   int64_t after_ms)
{
	int n = 0;
	for (int i = 0; i < tries; i++)
		n += !login_limits_take(l, span_of(address), span_of(account), START + after_ms);
	return n;
}

TEST(test_login_limits_count_address_and_account_together)
{
	LIMITS_AUTO *l = login_limits_new(COUNT);
	assert_int_equal(allowed(l, "a", "alice", 1000, 0), COUNT);
	assert_int_equal(login_limits_take(l, SPAN("a"), SPAN("alice"), START), 6);
	/* Others are not locked out: the same account from another address, another account. */
	assert_int_equal(allowed(l, "b", "alice", 1, 0), 1);
	assert_int_equal(allowed(l, "a", "bob", 1, 0), 1);
	assert_int_equal(allowed(l, "a", "alice", 1000, MINUTE_MS), COUNT);
	login_limits_free(NULL);
	LIMITS_AUTO *off = login_limits_new(0);
	assert_int_equal(allowed(off, "a", "alice", 1000, 0), 1000);
}

TEST(test_login_limits_bound_each_account_and_address)
{
	LIMITS_AUTO *l = login_limits_new(COUNT);
	char name[16];
	int accounts = 0;
	int addresses = 0;
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		accounts += allowed(l, "a", name, 5, 0);
		addresses += allowed(l, name, "alice", 5, 0);
	}
	assert_int_equal(accounts, LOGIN_TOTAL * COUNT);
	assert_int_equal(addresses, LOGIN_TOTAL * COUNT);
}

TEST(test_login_limits_admit_a_known_address)
{
	LIMITS_AUTO *l = login_limits_new(COUNT);
	char name[16];
	login_limits_right(l, SPAN("home"), SPAN("alice"), START);
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		(void)allowed(l, name, "alice", 5, 1); /* the account is locked */
		(void)allowed(l, "home", name, 5, 1);  /* and so is the address */
	}
	assert_int_equal(allowed(l, "new", "alice", 1, 1), 0);
	assert_int_equal(allowed(l, "home", "bob", 1, 1), 0);
	/* A mistaken user gets in after ten wrong ones, but guesses have an end here, too. */
	assert_int_equal(allowed(l, "home", "alice", 1000, 1), LOGIN_KNOWN_TIMES * COUNT);
	assert_int_equal(allowed(l, "home", "alice", 1000, DAY_MS - 1), LOGIN_KNOWN_TIMES * COUNT);
	assert_int_equal(allowed(l, "home", "alice", 1000, DAY_MS + MINUTE_MS), COUNT);
}

/* A new address of an account replaces its oldest one. */
TEST(test_login_limits_keep_few_known_addresses)
{
	LIMITS_AUTO *l = login_limits_new(COUNT);
	char name[16];
	for (int i = 0; i <= LOGIN_KNOWN; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		login_limits_right(l, span_of(name), SPAN("alice"), START + i);
	}
	assert_int_equal(allowed(l, "n0", "alice", 1000, 100), COUNT);
	for (int i = 1; i <= LOGIN_KNOWN; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(allowed(l, name, "alice", 1000, 100), LOGIN_KNOWN_TIMES * COUNT);
	}
}

/* An attacker uses many names and addresses: no other account is locked, no known address is
 * forgotten, and no bucket is refilled. */
TEST(test_login_limits_survive_a_flood_of_names)
{
	LIMITS_AUTO *l = login_limits_new(COUNT);
	char name[16];
	login_limits_right(l, SPAN("home"), SPAN("alice"), START);
	for (int i = 0; i < LOGIN_TOTAL; i++) {
		(void)snprintf(name, sizeof(name), "x%d", i);
		assert_int_equal(allowed(l, name, "alice", COUNT, 0), COUNT);
	}
	for (int i = 0; i < 200000; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		(void)login_limits_take(l, span_of(name), span_of(name), START);
		if (i % 100 == 0) /* the attacker's own account, from anywhere */
			login_limits_right(l, span_of(name), SPAN("mallory"), START);
	}
	assert_int_equal(allowed(l, "x0", "alice", 1000, 0), 0);
	assert_int_equal(allowed(l, "new", "alice", 1000, 0), 0);
	assert_int_equal(allowed(l, "new", "bob", 1, 0), 1);
	assert_int_equal(allowed(l, "home", "alice", 1, 0), 1);
}
