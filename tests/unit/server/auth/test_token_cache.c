/* What is believed of tokens, and for how long. */

#include "tests/unit/base/cmocka.h"
#include <stdio.h>
#include <stdlib.h>

#include "server/auth/auth_internal.h"

static struct cached_token make(unsigned n, int64_t until_ms)
{
	struct cached_token b = { .until_ms = until_ms, .iat_s = -1, .exp_s = -1 };
	memcpy(b.key, &n, sizeof(n));
	(void)snprintf(b.id, sizeof(b.id), "id-%u", n % 10);
	return b;
}

static void add(struct ttl_cache *all, unsigned n, int64_t until_ms)
{
	struct cached_token b = make(n, until_ms);
	token_cache_add(all, &b);
}

static const struct cached_token *find(struct ttl_cache *all, unsigned n, int64_t now_ms,
                                       int64_t now_s)
{
	struct cached_token b = make(n, 0);
	return token_cache_find(all, b.key, now_ms, now_s);
}

TEST(test_found_until)
{
	struct ttl_cache *all = token_cache_new(10);
	add(all, 1, 100);
	assert_non_null(find(all, 1, 99, 0));
	assert_null(find(all, 2, 99, 0));
	assert_null(find(all, 1, 100, 0));
	assert_int_equal(ttl_cache_count(all), 0);
	ttl_cache_free(all);
}

TEST(test_ends_with_token)
{
	struct ttl_cache *all = token_cache_new(10);
	struct cached_token b = make(1, 1000);
	b.exp_s = 50;
	token_cache_add(all, &b);
	assert_non_null(find(all, 1, 0, 49));
	assert_null(find(all, 1, 0, 50));
	ttl_cache_free(all);
}

TEST(test_replaced)
{
	struct ttl_cache *all = token_cache_new(10);
	add(all, 1, 100);
	add(all, 1, 200);
	assert_int_equal(ttl_cache_count(all), 1);
	assert_int_equal(find(all, 1, 150, 0)->until_ms, 200);
	ttl_cache_free(all);
}

TEST(test_oldest_goes)
{
	struct ttl_cache *all = token_cache_new(3);
	for (unsigned i = 0; i < 4; i++)
		add(all, i, 100);
	assert_int_equal(ttl_cache_count(all), 3);
	assert_null(find(all, 0, 0, 0));
	for (unsigned i = 1; i < 4; i++)
		assert_non_null(find(all, i, 0, 0));
	ttl_cache_free(all);
}

TEST(test_forget_by_id)
{
	struct ttl_cache *all = token_cache_new(100);
	for (unsigned i = 0; i < 30; i++)
		add(all, i, 100);
	token_cache_forget(all, "id-3");
	assert_int_equal(ttl_cache_count(all), 27);
	assert_null(find(all, 13, 0, 0));
	assert_non_null(find(all, 14, 0, 0));
	ttl_cache_clear(all);
	assert_int_equal(ttl_cache_count(all), 0);
	add(all, 1, 100);
	assert_non_null(find(all, 1, 0, 0));
	ttl_cache_free(all);
}

/* Against a plain list, in an order that is anyone's guess. */
TEST(test_many)
{
	enum { KEYS = 500, MAX = 200, STEPS = 20000 };
	struct ttl_cache *all = token_cache_new(MAX);
	int64_t until[KEYS] = { 0 };
	unsigned seed = 1;
	for (int64_t now = 1; now < STEPS; now++) {
		seed = seed * 1103515245 + 12345;
		unsigned key = (seed >> 8) % KEYS;
		const struct cached_token *b = find(all, key, now, 0);
		if (b)
			assert_int_equal(b->until_ms, until[key]);
		else if (seed & 1)
			add(all, key, until[key] = now + (seed >> 20) % 300);
		assert_in_range(ttl_cache_count(all), 0, MAX);
	}
	ttl_cache_free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found_until),  cmocka_unit_test(test_ends_with_token),
		cmocka_unit_test(test_replaced),     cmocka_unit_test(test_oldest_goes),
		cmocka_unit_test(test_forget_by_id), cmocka_unit_test(test_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
