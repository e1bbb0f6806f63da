/* Queues of a store: waiting, next and refused requests, with any backend. */
#include <unistd.h>

#include "base/posix/clock.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/kit.h"

#include "jobs/store/call.h"
#include "jobs/store/store_internal.h"

enum { MAX = 64 };

/* A backend that records started requests, and answers when the test says so. */
static struct {
	struct store s;
	struct pending *begun[MAX];
	size_t n, answered;
	struct caller *leaves; /* its time is over when its request has begun */
} fake;

static void begin(struct store *s, struct pending *p)
{
	(void)s;
	fake.begun[fake.n++] = p;
	if (fake.leaves)
		fake.leaves->end_ms = 0;
}

static void do_nothing(struct store *s)
{
	(void)s;
}

static int no_fd(const struct store *s)
{
	(void)s;
	return -1;
}

static const struct store_reply OK = { .outcome = STORE_OK };

static void answer_all(struct store *s)
{
	while (fake.answered < fake.n)
		store_finish(s, fake.begun[fake.answered++], &OK);
}

static const struct store_ops OPS = {
	.begin = begin,
	.poll = do_nothing,
	.fd = no_fd,
	.timeout_ms = no_fd, /* -1: without a limit */
	.abort = answer_all,
	.free = store_done,
};

static void open_fake(struct store_limits limits)
{
	memset(&fake, 0, sizeof(fake));
	store_init(&fake.s, &OPS, "jobs", &limits);
}

static int outcomes[MAX];

static void note_outcome(void *arg, const struct store_reply *reply)
{
	*(int *)arg = (int)reply->outcome;
}

/* A new request, whose outcome goes to outcomes[i]. */
static void request(size_t i, const char *user)
{
	outcomes[i] = -1;
	store_request(&fake.s, &(struct store_request){
				   .verb = STORE_CREATE,
				   .name = "f",
				   .user = user,
				   .deadline_ms = clock_ms() + 60000,
				   .done = note_outcome,
				   .arg = &outcomes[i],
			       });
}

static const char *user_begun(size_t i)
{
	return fake.begun[i]->r.user;
}

TEST(test_users_start_requests_in_turn)
{
	open_fake((struct store_limits){ 4, 100, 0, 0 });
	for (size_t i = 0; i < 10; i++)
		request(i, "alice");
	request(10, "bob");
	request(11, "carol");
	store_start(&fake.s);
	assert_int_equal(fake.n, 4);
	assert_string_equal(user_begun(0), "alice");
	assert_string_equal(user_begun(1), "bob");
	assert_string_equal(user_begun(2), "carol");
	assert_string_equal(user_begun(3), "alice");
	store_free(&fake.s);
}

TEST(test_continuations_go_first)
{
	open_fake((struct store_limits){ 1, 100, 0, 0 });
	request(0, "alice");
	store_request(&fake.s, &(struct store_request){ .verb = STORE_PATCH,
	                                                .name = "f",
	                                                .urgent = true,
	                                                .deadline_ms = clock_ms() + 60000,
	                                                .done = note_outcome,
	                                                .arg = &outcomes[1] });
	store_start(&fake.s);
	assert_int_equal(fake.begun[0]->r.verb, STORE_PATCH);
	store_free(&fake.s);
}

TEST(test_one_user_does_not_fill_the_queue)
{
	open_fake((struct store_limits){ 1, 10, 0, 3 });
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(store_has_room(&fake.s, "alice"), i < 3);
		request(i, "alice");
	}
	assert_true(store_has_room(&fake.s, "bob"));
	request(4, "bob");
	store_reap(&fake.s);
	assert_int_equal(outcomes[3], STORE_FULL);
	assert_int_equal(outcomes[4], -1);
	/* One is done: room for one. */
	store_start(&fake.s);
	assert_false(store_has_room(&fake.s, "alice"));
	answer_all(&fake.s);
	assert_true(store_has_room(&fake.s, "alice"));
	store_free(&fake.s);
}

TEST(test_requests_that_wait_for_a_repetition_still_count)
{
	open_fake((struct store_limits){ 1, 10, 0, 1 });
	request(0, "alice");
	store_start(&fake.s);
	store_later(&fake.s, fake.begun[0], clock_ms() + 60000);
	fake.answered = 1;
	assert_false(store_has_room(&fake.s, "alice"));
	store_free(&fake.s);
	assert_int_equal(outcomes[0], STORE_BUSY);
}

TEST(test_requests_without_a_user_have_no_own_limit)
{
	open_fake((struct store_limits){ 1, 3, 0, 1 });
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(store_has_room(&fake.s, NULL), i < 3);
		request(i, NULL);
	}
	store_reap(&fake.s);
	assert_int_equal(outcomes[2], -1);
	assert_int_equal(outcomes[3], STORE_FULL);
	store_free(&fake.s);
}

TEST(test_no_request_starts_in_a_pause)
{
	open_fake((struct store_limits){ 4, 10, 0, 0 });
	request(0, "alice");
	store_slow(&fake.s, 4, clock_ms() + 60000);
	store_start(&fake.s);
	assert_int_equal(fake.n, 0);
	assert_in_range(store_timeout_ms(&fake.s), 1, 60000);
	store_free(&fake.s);
	assert_int_equal(outcomes[0], STORE_BUSY);
}

TEST(test_throttle_bounds_requests_in_flight)
{
	open_fake((struct store_limits){ 4, 10, 0, 0 });
	for (size_t i = 0; i < 8; i++)
		request(i, "alice");
	store_slow(&fake.s, 2, 0);
	store_start(&fake.s);
	assert_int_equal(fake.n, 2);
	store_slow(&fake.s, 100, 0);
	store_start(&fake.s);
	assert_int_equal(fake.n, 4); /* never more than the limit */
	store_free(&fake.s);
}

TEST(test_closing_store_has_no_room)
{
	open_fake((struct store_limits){ 4, 10, 0, 0 });
	fake.s.closing = true;
	assert_false(store_has_room(&fake.s, "alice"));
	request(0, "alice");
	store_free(&fake.s);
	assert_int_equal(outcomes[0], STORE_BUSY);
}

TEST(test_stopped_caller_does_not_wait_for_the_answer)
{
	struct store_reply reply;
	const struct store_request r = { .name = "f", .deadline_ms = clock_ms() + 60000 };
	open_fake((struct store_limits){ 1, 100, 0, 0 });
	struct caller c = { &fake.s, .stop_fd = -1, .stopped = true,
		            .end_ms = clock_ms() + AMPLE_MS };
	fake.leaves = &c;
	(void)alarm(60);
	for (size_t i = 0; i < 2; i++)
		(void)store_call(&c, &r, &unit.a, &reply);
	(void)alarm(0);
	assert_null(c.store);
	assert_int_equal(fake.n, 1);
	assert_int_equal(reply.outcome, STORE_BUSY);
}
