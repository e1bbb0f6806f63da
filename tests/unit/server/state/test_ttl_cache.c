/* A cache with a lifetime for each entry. */

#include "tests/unit/base/cmocka.h"

#include "server/state/ttl_cache.h"

AUTO_FREE(ttl_cache)

static int dropped[200];
static size_t entered; /* into the cache of this test */

/* Returns the number of entries: those that were put and not dropped. */
static size_t entries_count(void)
{
	size_t n = entered;
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
		n -= (size_t)dropped[i];
	return n;
}

static void drop(void *value)
{
	(*(int *)value)++;
}

static void put(struct ttl_cache *m, const char *name, int i, int64_t until_ms)
{
	entered++;
	ttl_cache_put(m, span_of(name), &dropped[i], (struct ttl_cache_terms){ until_ms, 10 });
}

static void *get(struct ttl_cache *m, const char *name, int64_t now_ms)
{
	return ttl_cache_get(m, span_of(name), now_ms, NULL);
}

static struct ttl_cache *new_memo(size_t n, size_t bytes)
{
	memset(dropped, 0, sizeof(dropped));
	entered = 0;
	return ttl_cache_new((struct ttl_cache_limits){ n, bytes }, drop);
}

static void memo_done(struct ttl_cache **m)
{
	ttl_cache_free(*m);
}
#define MEMO_AUTO __attribute__((cleanup(memo_done))) struct ttl_cache

TEST(test_get_returns_entries_until_they_expire)
{
	struct ttl_cache *m = new_memo(10, 1000);
	int64_t until_ms = 0;
	put(m, "a", 0, 5);
	assert_null(get(m, "b", 0));
	assert_null(get(m, "", 0));
	assert_ptr_equal(ttl_cache_get(m, SPAN("a"), 4, &until_ms), &dropped[0]);
	assert_int_equal(until_ms, 5);
	ttl_cache_free(m);
	assert_int_equal(dropped[0], 1);
}

TEST(test_put_replaces_an_entry_of_the_same_name)
{
	MEMO_AUTO *m = new_memo(10, 1000);
	put(m, "a", 0, 5);
	put(m, "a", 1, 5);
	assert_int_equal(dropped[0], 1);
	assert_ptr_equal(get(m, "a", 0), &dropped[1]);
	assert_int_equal(entries_count(), 1);
	assert_null(get(m, "a", 5)); /* its time is over */
	assert_int_equal(dropped[1], 1);
	assert_int_equal(entries_count(), 0);
	ttl_cache_free(NULL);
}

TEST(test_put_drops_the_oldest)
{
	MEMO_AUTO *m = new_memo(100, 100000);
	char name[16];
	for (int i = 0; i < 150; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		put(m, name, i, 5);
	}
	assert_int_equal(entries_count(), 100);
	for (int i = 0; i < 150; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(get(m, name, 0) != NULL, i >= 50);
		assert_int_equal(dropped[i], i < 50);
	}
	ttl_cache_forget(m, NULL, NULL);
	assert_int_equal(entries_count(), 0);
	assert_int_equal(dropped[149], 1);
}

TEST(test_put_stays_within_the_maximum_size)
{
	AUTO(ttl_cache_auto) struct ttl_cache *m = new_memo(100, 35);
	put(m, "a", 0, 5);
	put(m, "b", 1, 5);
	put(m, "c", 2, 5);
	put(m, "d", 3, 5);
	assert_int_equal(entries_count(), 3);
	assert_int_equal(dropped[0], 1);
	/* Larger than everything. */
	ttl_cache_put(m, SPAN("e"), &dropped[4], (struct ttl_cache_terms){ 5, 36 });
	assert_int_equal(dropped[4], 1);
	assert_null(get(m, "e", 0));
}

static bool same_digit(const void *value, const void *digit)
{
	const int *v = value;
	const int *wanted = digit;
	return (v - dropped) % 10 == *wanted;
}

TEST(test_forget_removes_the_chosen_entries)
{
	AUTO(ttl_cache_auto) struct ttl_cache *m = new_memo(100, 1000);
	const int digit = 3;
	char name[16];
	for (int i = 0; i < 30; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		put(m, name, i, 5);
	}
	ttl_cache_forget(m, same_digit, &digit);
	assert_int_equal(entries_count(), 27);
	assert_null(get(m, "n13", 0));
	assert_non_null(get(m, "n14", 0));
}

/* Random operations are compared with a plain list. */
TEST(test_random_operations_equal_a_plain_list)
{
	enum { KEYS = 200, MAX = 80, STEPS = 20000 };
	AUTO(ttl_cache_auto) struct ttl_cache *m = new_memo(MAX, 100000);
	int64_t until[KEYS] = { 0 };
	unsigned seed = 1;
	for (int64_t now = 1; now < STEPS; now++) {
		seed = seed * 1103515245 + 12345;
		int key = (int)((seed >> 8) % KEYS);
		int64_t until_ms;
		const struct span name = { (const char *)&key, sizeof(key) };
		if (ttl_cache_get(m, name, now, &until_ms))
			assert_int_equal(until_ms, until[key]);
		else if (seed & 1) {
			entered++;
			ttl_cache_put(
			    m, name, &dropped[key],
			    (struct ttl_cache_terms){ until[key] = now + (seed >> 20) % 300, 1 });
		}
		assert_in_range(entries_count(), 0, MAX);
	}
}
