/* The thread for slow work. */

#include "tests/unit/base/cmocka.h"
#include <poll.h>
#include <semaphore.h>

#include "server/http/worker.h"

struct work {
	sem_t *gate; /* waits here; NULL: at once */
	sem_t *started;
	bool ran, done, done_ran;
	unsigned place; /* when it was done */
};

enum { QUEUE = 16 };

static unsigned places;

static void run(struct caller *c, void *arg)
{
	(void)c;
	struct work *w = arg;
	if (w->started)
		(void)sem_post(w->started);
	while (w->gate && sem_wait(w->gate) != 0)
		;
	w->ran = true;
}

static void done(void *arg, bool ran)
{
	struct work *w = arg;
	assert_false(w->done);
	w->done = true;
	w->done_ran = ran;
	w->place = places++;
}

/* Each may have a quarter of the queue, as clients without a user together. */
static const char *const USERS[] = { "alice", "bob", "carol", NULL };

static struct worker *worker;
static sem_t gate, started;

FIXTURE(set_up)
{
	ERR_AUTO e = { 0 };
	places = 0;
	worker = worker_new(QUEUE);
	return worker_add(worker, NULL, &e) == 0 && sem_init(&gate, 0, 0) == 0 &&
	               sem_init(&started, 0, 0) == 0
	           ? 0
	           : -1;
}

FIXTURE(tear_down)
{
	worker_free(worker);
	return sem_destroy(&gate) | sem_destroy(&started);
}

static struct worker_inbox *inbox(void)
{
	ERR_AUTO e = { 0 };
	struct worker_inbox *in = worker_inbox_new(worker, &e);
	assert_non_null(in);
	return in;
}

static void turn(struct worker_inbox *in)
{
	struct pollfd fd = { .fd = in->box.fd, .events = POLLIN };
	assert_int_equal(poll(&fd, 1, 60000), 1);
	worker_inbox_run_once(in);
}

TEST_WITH(test_work_is_run_and_reported, set_up, tear_down)
{
	struct work w = { 0 };
	struct worker_inbox *in = inbox();
	assert_true(worker_do(in, NULL, run, done, &w));
	while (!w.done)
		turn(in);
	assert_true(w.ran && w.done_ran);
	worker_inbox_free(in);
}

TEST_WITH(test_work_is_run_in_order, set_up, tear_down)
{
	struct work w[QUEUE] = { 0 };
	struct worker_inbox *in = inbox();
	for (size_t i = 0; i < QUEUE; i++)
		assert_true(worker_do(in, USERS[i % 4], run, done, &w[i]));
	while (!w[QUEUE - 1].done)
		turn(in);
	for (unsigned i = 0; i < QUEUE; i++)
		assert_int_equal(w[i].place, i);
	worker_inbox_free(in);
}

TEST_WITH(test_full_queue_refuses_work, set_up, tear_down)
{
	struct work first = { .gate = &gate, .started = &started };
	struct work w[QUEUE] = { 0 };
	struct work more = { 0 };
	struct worker_inbox *in = inbox();
	assert_true(worker_do(in, NULL, run, done, &first));
	assert_int_equal(sem_wait(&started), 0);
	for (size_t i = 0; i < QUEUE; i++)
		assert_true(worker_do(in, USERS[i % 4], run, done, &w[i]));
	assert_false(worker_do(in, NULL, run, done, &more));
	assert_int_equal(sem_post(&gate), 0);
	while (!w[QUEUE - 1].done)
		turn(in);
	assert_false(more.done);
	worker_inbox_free(in);
}

TEST_WITH(test_one_user_has_a_quarter_of_the_queue, set_up, tear_down)
{
	struct work first = { .gate = &gate, .started = &started };
	struct work w[QUEUE / 4 + 2] = { 0 };
	struct worker_inbox *in = inbox();
	assert_true(worker_do(in, "alice", run, done, &first));
	assert_int_equal(sem_wait(&started), 0);
	for (size_t i = 0; i < QUEUE / 4; i++)
		assert_true(worker_do(in, "alice", run, done, &w[i]));
	assert_false(worker_do(in, "alice", run, done, &w[QUEUE / 4]));
	assert_true(worker_do(in, "bob", run, done, &w[QUEUE / 4 + 1]));
	assert_int_equal(sem_post(&gate), 0);
	while (!w[QUEUE / 4 + 1].done)
		turn(in);
	assert_false(w[QUEUE / 4].done);
	worker_inbox_free(in);
}

/* The first one waits while a second thread works. */
TEST_WITH(test_several_threads_run_work_at_once, set_up, tear_down)
{
	ERR_AUTO e = { 0 };
	struct work first = { .gate = &gate, .started = &started };
	struct work second = { 0 };
	struct worker_inbox *in = inbox();
	assert_int_equal(worker_add(worker, NULL, &e), 0);
	assert_true(worker_do(in, NULL, run, done, &first));
	assert_int_equal(sem_wait(&started), 0);
	assert_true(worker_do(in, NULL, run, done, &second));
	while (!second.done)
		turn(in);
	assert_false(first.done);
	assert_int_equal(sem_post(&gate), 0);
	worker_inbox_free(in);
	assert_true(first.done_ran);
}

/* The call waits for running work and reports queued work as not run; other work continues. */
TEST_WITH(test_freed_inbox_ends_only_its_own_work, set_up, tear_down)
{
	struct work first = { .gate = &gate, .started = &started };
	struct work queued = { 0 };
	struct work others = { 0 };
	struct worker_inbox *in = inbox();
	struct worker_inbox *other = inbox();
	assert_true(worker_do(in, NULL, run, done, &first));
	assert_int_equal(sem_wait(&started), 0);
	assert_true(worker_do(in, NULL, run, done, &queued));
	assert_true(worker_do(other, NULL, run, done, &others));
	assert_int_equal(sem_post(&gate), 0);
	worker_inbox_free(in);
	assert_true(first.done && first.done_ran && queued.done);
	assert_int_equal(queued.done_ran, queued.ran);
	while (!others.done)
		turn(other);
	assert_true(others.done_ran);
	worker_inbox_free(other);
}
