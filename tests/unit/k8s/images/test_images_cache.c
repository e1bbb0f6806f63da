/* What is remembered of images: how long, of how many. */
#include "k8s/images/images_cache.h"

#include "tests/unit/base/cmocka.h"

struct run {
	struct arena a;
	struct images_cache cache;
};

static struct image image(struct run *r, const char *name)
{
	struct image i;
	assert_int_equal(image_parse(span_of(name), &r->a, &i), 0);
	return i;
}

static void put(struct run *r, const char *name, enum registry_verdict verdict, int64_t now_ms)
{
	struct image i = image(r, name);
	images_cache_put(&r->cache, &i, verdict, "why", now_ms);
}

static bool get(struct run *r, const char *name, int64_t now_ms)
{
	struct image i = image(r, name);
	enum registry_verdict verdict;
	const char *sentence = "";
	bool known = images_cache_get(&r->cache, &i, now_ms, &verdict, &sentence);
	if (known)
		assert_string_equal(sentence, "why");
	return known;
}

static int set_up(void **state)
{
	*state = xcalloc(1, sizeof(struct run));
	return 0;
}

static int tear_down(void **state)
{
	struct run *r = *state;
	images_cache_done(&r->cache);
	arena_done(&r->a);
	free_cleanup(state);
	return 0;
}

static void test_get_one_image(void **state)
{
	struct run *r = *state;
	put(r, "a/b:1", REGISTRY_FOUND, 0);
	assert_true(get(r, "a/b:1", 1));
	assert_true(get(r, "docker.io/a/b:1", 1)); /* the same */
	assert_false(get(r, "a/b", 1));
	assert_false(get(r, "a/b:2", 1));
	assert_false(get(r, "a/c:1", 1));
	assert_false(get(r, "reg.io/a/b:1", 1));
}

static void test_get_until(void **state)
{
	struct run *r = *state;
	put(r, "a", REGISTRY_FOUND, 1000);
	put(r, "b", REGISTRY_MISSING, 1000);
	put(r, "c", REGISTRY_UNSURE, 1000);
	assert_true(get(r, "a", 600999));
	assert_false(get(r, "a", 601000));
	assert_true(get(r, "b", 10999));
	assert_false(get(r, "b", 11000));
	assert_false(get(r, "c", 11000));
}

static void test_put_again(void **state)
{
	struct run *r = *state;
	put(r, "a", REGISTRY_MISSING, 0);
	put(r, "a", REGISTRY_FOUND, 0);
	assert_true(get(r, "a", 100000));
	assert_int_equal(r->cache.next, 1);
}

static void test_put_more_than_fit(void **state)
{
	struct run *r = *state;
	for (int i = 0; i < IMAGES_CACHE_SIZE + 1; i++)
		put(r, arena_printf(&r->a, "a:%d", i), REGISTRY_FOUND, 0);
	assert_false(get(r, "a:0", 1));
	assert_true(get(r, "a:1", 1));
	assert_true(get(r, arena_printf(&r->a, "a:%d", IMAGES_CACHE_SIZE), 1));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_get_one_image),
		TEST(test_get_until),
		TEST(test_put_again),
		TEST(test_put_more_than_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
