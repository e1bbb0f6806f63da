/* System calls of the store behind an API server: counted on this thread, because the server of
 * the tests has its own. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/k8s/api_kit.h"

#include <dlfcn.h>
#include <sys/epoll.h>

static _Thread_local bool counting;
static _Thread_local bool answer_awaited; /* send returns when the answer is there */
static size_t sends, changes;

/* The next definition of a function that this file defines, too. */
static void real(const char *name, void *function)
{
	void *found = dlsym(RTLD_NEXT, name);
	assert_non_null(found);
	memcpy(function, &found, sizeof(found));
}

ssize_t(send)(int fd, const void *p, size_t n, int flags)
{
	ssize_t (*next)(int, const void *, size_t, int);
	real("send", &next);
	sends += counting;
	ssize_t sent = next(fd, p, n, flags);
	struct pollfd answer = { .fd = fd, .events = POLLIN };
	if (answer_awaited)
		assert_int_equal(poll(&answer, 1, AMPLE_MS), 1);
	return sent;
}

int(epoll_ctl)(int epoll, int op, int fd, struct epoll_event *event)
{
	int (*next)(int, int, int, struct epoll_event *);
	real("epoll_ctl", &next);
	changes += counting;
	return next(epoll, op, fd, event);
}

static struct kept counted(struct store_request r)
{
	sends = changes = 0;
	counting = true;
	struct kept k = ask(store, r);
	counting = false;
	return k;
}

/* Begins the request without waiting for its end. */
static struct kept *begin_counted(struct store_request r)
{
	struct kept *k = send_off(store, r, 1);
	sends = 0;
	counting = true;
	store_start(store);
	counting = false;
	return k;
}

static bool readable(int ms)
{
	struct pollfd p = { .fd = store_fd(store), .events = POLLIN };
	return poll(&p, 1, ms) == 1;
}

TEST(test_kept_connections_stay_in_the_epoll_set)
{
	START({ ANSWER, CREATED });
	assert_int_equal(counted(request(STORE_CREATE, AMPLE_MS)).outcome, STORE_OK);
	assert_in_range(changes, 1, 3); /* to connect, then to read */
	store_reap(store);              /* the latter only now, if the answer was there at once */
	for (int i = 0; i < 5; i++) {
		assert_int_equal(counted(request(STORE_CREATE, AMPLE_MS)).outcome, STORE_OK);
		assert_int_equal(changes, 0);
	}
	assert_int_equal(server.most, 1);
}

/* libcurl does not wait for such an answer, and the idle connection is watched for writing. */
TEST(test_answers_that_arrive_at_once_need_few_calls)
{
	START({ ANSWER, CREATED });
	answer_awaited = true;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(counted(request(STORE_CREATE, AMPLE_MS)).outcome, STORE_OK);
		assert_int_equal(sends, 1);
		assert_in_range(changes, i == 0, i == 0 ? 2 : 0);
		store_reap(store);
		assert_false(readable(0));
	}
	answer_awaited = false;
	assert_int_equal(server.most, 1);
}

/* Headers and body, of one piece or of several. */
TEST(test_requests_are_sent_by_one_call)
{
	START({ ANSWER, CREATED });
	struct store_request r = request(STORE_CREATE, AMPLE_MS);
	assert_int_equal(counted(r).outcome, STORE_OK);
	assert_int_equal(sends, 1);
	r = request(STORE_CREATE, AMPLE_MS);
	r.body[0] = SPAN("{\"a\":");
	r.body[1] = SPAN("\"b\"");
	r.body[2] = SPAN(",\"c\":2}");
	assert_int_equal(counted(r).outcome, STORE_OK);
	assert_int_equal(sends, 1);
	sent(1, "\r\n\r\n{\"a\":\"b\",\"c\":2}");
	assert_int_equal(counted(request(STORE_PATCH, AMPLE_MS)).outcome, STORE_OK);
	assert_int_equal(sends, 1);
	assert_int_equal(counted(request(STORE_DELETE, AMPLE_MS)).outcome, STORE_OK);
	assert_int_equal(sends, 1);
}

/* store_start sends the requests before the loop waits. */
TEST(test_requests_are_sent_before_the_loop_waits)
{
	START({ ANSWER, CREATED });
	assert_int_equal(counted(request(STORE_CREATE, AMPLE_MS)).outcome, STORE_OK);
	struct kept *k = begin_counted(request(STORE_CREATE, AMPLE_MS));
	assert_int_equal(sends, 1);
	settle(store);
	assert_int_equal(k->outcome, STORE_OK);
}

/* The end of an idle connection wakes the loop once. */
TEST(test_idle_connections_that_end_are_watched_no_longer)
{
	START({ ANSWER, CREATED });
	assert_int_equal(counted(request(STORE_CREATE, AMPLE_MS)).outcome, STORE_OK);
	int port = server.port;
	server_stop(&server); /* closes the connection */
	assert_true(readable(AMPLE_MS));
	for (int i = 0; i < 2 && readable(0); i++) /* it may be watched for writing still */
		store_reap(store);
	assert_false(readable(0));
	server.port = port;
	server_start(&server, script_, 1);
	assert_int_equal(counted(request(STORE_CREATE, AMPLE_MS)).outcome, STORE_OK);
	assert_int_equal(server.requests, 1);
	assert_int_equal(sends, 1); /* nothing on the old connection */
}

/* A request of an ended connection is not sent again when the store is freed.  Unrequested bytes
 * end a connection, too; libcurl 7 would use it again. */
TEST(test_store_free_does_not_repeat_requests)
{
	START({ ANSWER, CREATED });
	assert_int_equal(counted(request(STORE_CREATE, AMPLE_MS)).outcome, STORE_OK);
	assert_int_equal(send(server.fd[2].fd, "x", 1, 0), 1);
	assert_true(readable(AMPLE_MS));
	store_reap(store);
	struct kept *k = begin_counted(request(STORE_CREATE, AMPLE_MS));
	stop();
	assert_int_equal(k->calls, 1);
	assert_int_equal(k->outcome, sends > 0 ? STORE_AMBIGUOUS : STORE_BUSY);
}

/* The new connection has the number of the former descriptor. */
TEST(test_new_connections_with_a_reused_descriptor_are_watched)
{
	START({ CUT, HEAD("200 OK", "Connection: close\r\n", "49") OBJECT });
	for (int i = 0; i < 5; i++) {
		assert_int_equal(counted(request(STORE_GET, AMPLE_MS)).outcome, STORE_OK);
		assert_in_range(changes, 1, 4);
	}
}
