/* The store of kept outputs in a directory: put, list and get. */
#include "tests/unit/machine/local_kit.h"

#include <poll.h>

#include "base/posix/clock.h"
#include "server/logs/logs_internal.h"

#define NAME "0123456789abcdef0123456789abcdef"

static const struct output_store *const KEPT = &OUTPUT_CONFIGMAPS;

struct answer {
	bool came;
	enum output_outcome outcome;
	char frames[64];
	size_t n;
};

static void came(struct output_call *c, enum output_outcome o, struct span why)
{
	struct answer *a = c->arg;
	(void)why;
	*a = (struct answer){ .came = true, .outcome = o, .n = c->frames.n };
	if (c->frames.n)
		memcpy(a->frames, c->frames.p, c->frames.n);
}

static void turn(int64_t ms)
{
	struct pollfd p = { store_fd(store), POLLIN, 0 };
	store_start(store);
	(void)poll(&p, 1, (int)ms);
	store_reap(store);
}

static struct answer call(void (*verb)(struct output_call *), struct output_call *c)
{
	static struct answer a;
	a.came = false;
	c->store = store;
	c->deadline_ms = clock_ms() + 60000;
	c->done = came;
	c->arg = &a;
	verb(c);
	while (!a.came)
		turn(20);
	return a;
}

static struct output_call of(struct arena *a, const char *uid, int64_t index, const char *frames,
                             size_t n)
{
	struct output_call c = { .a = a,
		                 .id = { NAME, uid, SPAN("worker"), index, 0, 0, "pod" },
		                 .entry = { SPAN("worker"), index, 0, 0, 7, true, false },
		                 .packed = output_pack((struct span){ frames, n }, a) };
	memset(c.facts.sha, 'a', OUTPUT_SHA);
	c.facts.dropped = 5;
	return c;
}

TEST_WITH(test_outputs_in_a_directory_are_put_listed_and_read, setup, teardown)
{
	static const char ONE[] = "\1\0\0\0\0\0\0\3one";
	ARENA_AUTO a = { 0 };
	struct kept job = create(KIND_FRAMEWORK, NAME,
	                         "{\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\","
	                         "\"kind\":\"Framework\",\"metadata\":{\"name\":\"" NAME "\"}}");
	assert_int_equal(job.outcome, STORE_OK);
	struct output_call c = of(&a, job.uid, 0, ONE, sizeof(ONE) - 1);
	struct output_call late = c;
	assert_int_equal(call(KEPT->get, &c).outcome, OUTPUT_ABSENT);
	assert_int_equal(call(KEPT->list, &c).outcome, OUTPUT_DONE);
	assert_int_equal(c.index.n, 0);
	assert_int_equal(call(KEPT->list, &late).outcome, OUTPUT_DONE);
	assert_int_equal(call(KEPT->put, &c).outcome, OUTPUT_DONE);
	assert_int_equal(call(KEPT->put, &late).outcome, OUTPUT_OUTDATED);
	struct answer got = call(KEPT->get, &c);
	assert_int_equal(got.outcome, OUTPUT_DONE);
	assert_memory_equal(got.frames, ONE, sizeof(ONE) - 1);
	assert_int_equal(c.facts.dropped, 5);

	/* The same again, another one, and the next, which displaces it. */
	assert_int_equal(call(KEPT->list, &late).outcome, OUTPUT_DONE);
	assert_int_equal(late.index.n, 1);
	assert_int_equal(call(KEPT->put, &late).outcome, OUTPUT_DONE);
	late.facts.sha[0] = 'b';
	assert_int_equal(call(KEPT->put, &late).outcome, OUTPUT_OTHER);
	struct output_call next = of(&a, job.uid, 1, ONE, sizeof(ONE) - 1);
	assert_int_equal(call(KEPT->list, &next).outcome, OUTPUT_DONE);
	next.index.v[0].displaced = true;
	assert_int_equal(call(KEPT->put, &next).outcome, OUTPUT_DONE);
	while (store_pending(store))
		turn(20);
	assert_int_equal(call(KEPT->get, &c).outcome, OUTPUT_ABSENT);
	assert_int_equal(call(KEPT->list, &next).outcome, OUTPUT_DONE);
	assert_int_equal(next.index.n, 1);
	assert_int_equal(next.index.v[0].index, 1);
	next.id.framework_uid = "another";
	assert_int_equal(call(KEPT->list, &next).outcome, OUTPUT_OTHER);
	str_done(&c.body);
	str_done(&late.body);
	str_done(&next.body);
}
