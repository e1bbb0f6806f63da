/* Revoked tokens as loops receive them. */

#include "tests/unit/base/cmocka.h"

#include "server/auth/auth.h"

struct heard {
	size_t n, all;
	char last[65];
};

static void forget(void *arg, const char *id)
{
	struct heard *h = arg;
	h->n++;
	h->all += id == NULL;
	(void)snprintf(h->last, sizeof(h->last), "%s", id ? id : "");
}

TEST(test_revoked_tokens_reach_each_loop_once)
{
	struct revocations *r = revocations_new();
	struct heard a = { 0 };
	struct heard b = { 0 };
	uint64_t seen_a = 0;
	uint64_t seen_b = 0;
	revocations_poll(r, &seen_a, forget, &a);
	assert_int_equal(a.n, 0);
	revocations_add(r, "one");
	revocations_poll(r, &seen_a, forget, &a);
	assert_string_equal(a.last, "one");
	revocations_add(r, "two");
	revocations_poll(r, &seen_a, forget, &a);
	revocations_poll(r, &seen_a, forget, &a);
	revocations_poll(r, &seen_b, forget, &b);
	assert_int_equal(a.n, 2);
	assert_int_equal(b.n, 2);
	assert_string_equal(b.last, "two");
	revocations_free(r);
}

TEST(test_revoked_tokens_beyond_the_limit_forget_all)
{
	struct revocations *r = revocations_new();
	struct heard h = { 0 };
	uint64_t seen = 0;
	for (int i = 0; i <= REVOCATIONS_KEPT; i++)
		revocations_add(r, "id");
	revocations_poll(r, &seen, forget, &h);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.all, 1);
	revocations_add(r, "next");
	revocations_poll(r, &seen, forget, &h);
	assert_int_equal(h.n, 2);
	assert_string_equal(h.last, "next");
	revocations_free(r);
}
