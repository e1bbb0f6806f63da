/* Arenas: memory that is released at once. */
#include "base/arena.h"

#include "tests/unit/base/cmocka.h"

TEST(test_arena_alloc_is_aligned_and_does_not_overlap)
{
	ARENA_AUTO a = { 0 };
	char *before = arena_alloc(&a, 1);
	for (size_t n = 0; n < 3000; n++) {
		char *p = arena_alloc(&a, n);
		assert_int_equal((uintptr_t)p % 8, 0);
		memset(p, 'x', n);
		*before = 'y';
		before = n ? p : before;
	}
}

TEST(test_arena_alloc_takes_a_block_of_5_mib)
{
	ARENA_AUTO a = { 0 };
	char *p = arena_alloc(&a, 5 << 20);
	memset(p, 'x', 5 << 20);
	char *q = arena_alloc(&a, 3);
	memset(q, 'y', 3);
	assert_int_equal(p[(5 << 20) - 1], 'x');
}

TEST(test_arena_new_gives_zeroed_memory)
{
	ARENA_AUTO a = { 0 };
	memset(arena_alloc(&a, 64), 0xff, 64);
	const uint64_t *p = ARENA_NEW(&a, uint64_t, 100);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(p[i], 0);
}

TEST(test_arena_dup_and_printf_copy_texts)
{
	ARENA_AUTO a = { 0 };
	assert_string_equal(arena_dup(&a, SPAN("abc")), "abc");
	assert_string_equal(arena_dup(&a, (struct span){ NULL, 0 }), "");
	assert_string_equal(arena_printf(&a, "%d-%s", 5, "x"), "5-x");
	assert_true(span_is(arena_span(&a, SPAN("abc")), "abc"));
}

TEST(test_arena_can_be_used_after_arena_wipe)
{
	struct arena a = { 0 };
	(void)arena_dup(&a, SPAN("abc"));
	arena_wipe(&a);
	assert_null(a.block);
	(void)arena_dup(&a, SPAN("abc"));
	arena_done(&a);
	arena_done(&a);
	arena_wipe(&a);
}

TEST(test_arena_adopt_keeps_the_texts_of_both)
{
	for (size_t n = 0; n < 3; n++) {
		ARENA_AUTO to = { 0 };
		struct arena from = { 0 };
		const char *old = n ? arena_dup(&to, SPAN("old")) : "old";
		for (size_t i = 0; i < n * 100; i++)
			(void)arena_alloc(&from, 1000);
		const char *moved = arena_dup(&from, SPAN("moved"));
		size_t used = to.used + from.used;
		arena_adopt(&to, &from);
		assert_null(from.block);
		assert_int_equal(to.used, used);
		memset(arena_alloc(&to, 50000), 'x', 50000);
		assert_string_equal(old, "old");
		assert_string_equal(moved, "moved");
	}
}

TEST(test_arena_adopt_accepts_an_empty_arena)
{
	ARENA_AUTO to = { 0 };
	struct arena from = { 0 };
	arena_adopt(&to, &from);
	assert_null(to.block);
	const char *old = arena_dup(&to, SPAN("old"));
	arena_adopt(&to, &from);
	assert_string_equal(old, "old");
}
