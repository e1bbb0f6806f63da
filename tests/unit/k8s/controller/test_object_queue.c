/* The queue between reflectors and the rules: in order, and bounded. */
#include "tests/unit/base/cmocka.h"
#include <poll.h>
#include <pthread.h>

#include "base/posix/clock.h"
#include "k8s/controller/object_queue.h"

static atomic_ullong bytes;

static struct object_queue *queue_of(size_t most)
{
	counter_set(&bytes, 0);
	struct object_queue *q = object_queue_new(most, &bytes);
	assert_non_null(q);
	return q;
}

static bool queue_is_readable(const struct object_queue *q)
{
	struct pollfd fd = { .fd = object_queue_fd(q), .events = POLLIN };
	return poll(&fd, 1, 0) == 1;
}

static void queue_gives(struct object_queue *q, enum object_kind kind, enum object_said said,
                        const char *text)
{
	struct queued_object *o = object_queue_take(q);
	assert_non_null(o);
	assert_int_equal(o->kind, kind);
	assert_int_equal(o->said, said);
	assert_string_equal(o->text, text);
	assert_int_equal(o->n, strlen(text));
	free(o);
}

TEST(test_object_queue_keeps_the_order)
{
	struct object_queue *q = queue_of(4096);
	assert_false(queue_is_readable(q));
	assert_null(object_queue_take(q));
	object_queue_put(q, KIND_POD, OBJECT_LIST_BEGINS, SPAN(""));
	object_queue_put(q, KIND_FRAMEWORK, OBJECT_PUT, SPAN("{\"a\":1}"));
	object_queue_put(q, KIND_POD, OBJECT_GONE, SPAN("{}"));
	assert_true(queue_is_readable(q));
	assert_true(counter_get(&bytes) > 9);
	queue_gives(q, KIND_POD, OBJECT_LIST_BEGINS, "");
	queue_gives(q, KIND_FRAMEWORK, OBJECT_PUT, "{\"a\":1}");
	assert_true(queue_is_readable(q));
	queue_gives(q, KIND_POD, OBJECT_GONE, "{}");
	assert_false(queue_is_readable(q));
	assert_int_equal(counter_get(&bytes), 0);
	object_queue_put(q, KIND_POD, OBJECT_PUT, SPAN("{}")); /* freed with the queue */
	object_queue_free(q);
	object_queue_free(NULL);
}

enum { OBJECTS = 2000, MOST = 4096 };

static void *queue_fill(void *arg)
{
	struct object_queue *q = arg;
	for (int i = 0; i < OBJECTS; i++) {
		STR_AUTO text = STR_INIT(64);
		str_printf(&text, "{\"i\":%d}", i);
		object_queue_put(q, KIND_POD, OBJECT_PUT, str_view(&text));
	}
	return NULL;
}

TEST(test_full_object_queue_makes_its_writer_wait)
{
	struct object_queue *q = queue_of(MOST);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, queue_fill, q), 0);
	for (int i = 0; i < OBJECTS;) {
		STR_AUTO text = STR_INIT(64);
		assert_in_range(counter_get(&bytes), 0, MOST);
		if (!queue_is_readable(q))
			continue;
		str_printf(&text, "{\"i\":%d}", i++);
		queue_gives(q, KIND_POD, OBJECT_PUT, str_c(&text));
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_null(object_queue_take(q));
	object_queue_free(q);
}

TEST(test_empty_object_queue_takes_an_object_larger_than_itself)
{
	struct object_queue *q = queue_of(1);
	object_queue_put(q, KIND_POD, OBJECT_PUT, SPAN("{\"large\":true}"));
	queue_gives(q, KIND_POD, OBJECT_PUT, "{\"large\":true}");
	object_queue_free(q);
}

TEST(test_closed_object_queue_lets_its_writer_go)
{
	struct object_queue *q = queue_of(MOST);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, queue_fill, q), 0);
	while (counter_get(&bytes) < MOST - 100)
		clock_sleep(1);
	object_queue_close(q);
	assert_int_equal(pthread_join(thread, NULL), 0);
	object_queue_put(q, KIND_POD, OBJECT_PUT, SPAN("{}"));
	assert_in_range(counter_get(&bytes), 1, MOST);
	object_queue_free(q);
}
