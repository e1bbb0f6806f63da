/* The order of requests of several users. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/kit.h"

#include "jobs/store/store_internal.h"

enum { MAX = 64, CROWD = 1024 };
static struct pending all[MAX];
static struct fair_queue queue;

FIXTURE(setup)
{
	memset(all, 0, sizeof(all));
	queue.n = 0;
	TAILQ_INIT(&queue.users);
	return 0;
}

/* Request i is this user's. */
static void wait_for(size_t i, const char *user, int64_t deadline_ms)
{
	all[i].r.user = user;
	all[i].r.deadline_ms = deadline_ms;
	fair_queue_join(&queue, &all[i], true);
}

/* The next one leaves. */
static size_t next(void)
{
	struct pending *p = fair_queue_take(&queue);
	if (p == NULL)
		return MAX;
	fair_queue_leave(&queue, p);
	return (size_t)(p - all);
}

#define CASE(name) TEST_WITH(name, setup, NULL)

CASE(test_one_user_is_served_in_order)
{
	for (size_t i = 0; i < 3; i++)
		wait_for(i, "alice", 1);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(next(), i);
	assert_int_equal(next(), MAX);
}

CASE(test_users_take_turns)
{
	static const size_t ORDER[] = { 0, 4, 6, 1, 5, 2, 3, MAX };
	for (size_t i = 0; i < 4; i++)
		wait_for(i, "alice", 1);
	wait_for(4, "bob", 1);
	wait_for(5, "bob", 1);
	wait_for(6, NULL, 1);
	assert_int_equal(queue.n, 7);
	for (size_t i = 0; i < sizeof(ORDER) / sizeof(ORDER[0]); i++)
		assert_int_equal(next(), ORDER[i]);
	assert_int_equal(queue.n, 0);
}

/* A user that returns has had its turn, also if its request is under way still. */
CASE(test_users_that_return_go_to_the_end)
{
	wait_for(0, "alice", 1);
	wait_for(1, "bob", 1);
	assert_int_equal(next(), 0);
	wait_for(2, "alice", 1);
	assert_int_equal(next(), 1);
	struct pending *p = fair_queue_take(&queue);
	assert_ptr_equal(p, &all[2]);
	wait_for(3, "bob", 1);
	wait_for(4, "alice", 1);
	assert_int_equal(next(), 3);
	assert_int_equal(next(), 4);
	fair_queue_leave(&queue, p);
}

CASE(test_held_counts_requests_until_they_leave)
{
	wait_for(0, "alice", 1);
	wait_for(1, "alice", 1);
	struct pending *p = fair_queue_take(&queue);
	assert_int_equal(fair_queue_held(&queue, "alice"), 2);
	assert_int_equal(fair_queue_held(&queue, "bob"), 0);
	fair_queue_leave(&queue, p);
	fair_queue_leave(&queue, p); /* nothing */
	assert_int_equal(fair_queue_held(&queue, "alice"), 1);
	assert_int_equal(next(), 1);
	assert_int_equal(fair_queue_held(&queue, "alice"), 0);
}

CASE(test_queue_copies_the_name_of_the_user)
{
	char user[] = "alice";
	wait_for(0, user, 1);
	wait_for(1, "alice", 1);
	assert_int_equal(next(), 0);
	user[0] = 'x';
	assert_int_equal(fair_queue_held(&queue, "alice"), 1);
	assert_int_equal(next(), 1);
}

CASE(test_expire_removes_requests_past_their_deadline)
{
	struct pending_list late = { 0 };
	wait_for(0, "alice", 10);
	wait_for(1, "alice", 30);
	wait_for(2, "bob", 10);
	wait_for(3, "carol", 20);
	assert_int_equal(fair_queue_expire(&queue, 10, &late), 20);
	assert_int_equal(late.n, 2);
	assert_int_equal(queue.n, 2);
	struct pending *p;
	while ((p = pending_take(&late)) != NULL)
		fair_queue_leave(&queue, p);
	assert_int_equal(fair_queue_held(&queue, "bob"), 0);
	assert_int_equal(next(), 1);
	assert_int_equal(next(), 3);
	assert_int_equal(next(), MAX);
	assert_true(fair_queue_expire(&queue, 99, &late) == INT64_MAX);
}

CASE(test_many_users_have_separate_counts)
{
	static struct pending crowd[CROWD];
	static char names[CROWD][16];
	memset(crowd, 0, sizeof(crowd));
	for (size_t i = 0; i < CROWD; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "user-%zu", i);
		crowd[i].r.user = names[i];
		fair_queue_join(&queue, &crowd[i], true);
	}
	for (size_t i = 0; i < CROWD; i++) {
		assert_int_equal(fair_queue_held(&queue, names[i]), 1);
		struct pending *p = fair_queue_take(&queue);
		assert_ptr_equal(p, &crowd[i]);
		fair_queue_leave(&queue, p);
	}
	assert_true(TAILQ_EMPTY(&queue.users));
}
