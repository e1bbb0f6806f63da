/*
 * The order of calls is what keeps latency low: answers of the store first, so that replies
 * go out in the very same round; then what clients sent; then what that leads to is
 * sent to the store; only then wait.
 */
#include "server/loop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "k8s/images.h"
#include "k8s/store.h"
#include "server/http.h"
#include "server/log.h"

enum { EVENTS = 8, FLUSH_MS = 1000 };

static int fail(struct err *e, const char *what)
{
	char text[128];
	return err_set(e, UNKNOWN_ERROR, "%s: %s", what, strerror_r(errno, text, sizeof(text)));
}

static int watch(struct loop *l, int fd, struct err *e)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return fail(e, "epoll_ctl");
	return 0;
}

static struct store *open_store(struct server *s, struct err *e)
{
	const struct options *o = s->options;
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	limits.in_flight = (size_t)o->in_flight;
	limits.queue = (size_t)o->queue;
	limits.body = (size_t)o->max_answer;
	if (s->local)
		return store_local_new(s->local, s->namespace_name, &limits, e);
	return store_api_new(s->login, s->namespace_name, &limits, e);
}

static int open_images(struct loop *l, struct err *e)
{
	if (!l->server->images)
		return 0;
	l->images = images_inbox_new(l->server->images, e);
	return l->images ? watch(l, images_inbox_fd(l->images), e) : -1;
}

int loop_init(struct loop *l, struct server *s, int listen_fd, struct err *e)
{
	*l = (struct loop){ .server = s, .listen_fd = listen_fd, .epoll_fd = -1, .wake_fd = -1 };
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->epoll_fd < 0 || l->wake_fd < 0)
		return fail(e, "epoll");
	l->store = open_store(s, e);
	if (!l->store || http_start(l, e) < 0)
		return -1;
	if (watch(l, l->wake_fd, e) < 0 || watch(l, store_fd(l->store), e) < 0 ||
	    open_images(l, e) < 0)
		return -1;
	return watch(l, http_fd(l), e);
}

static int earlier(int a, int b)
{
	return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static void wait_for_work(struct loop *l, int at_most_ms)
{
	struct epoll_event events[EVENTS];
	int timeout = earlier(http_timeout_ms(l), store_timeout_ms(l->store));
	int n = epoll_wait(l->epoll_fd, events, EVENTS, earlier(timeout, at_most_ms));
	for (int i = 0; i < n; i++) {
		eventfd_t count;
		if (events[i].data.fd == l->wake_fd)
			(void)eventfd_read(l->wake_fd, &count); /* only to make it quiet */
	}
}

static void turn(struct loop *l)
{
	store_reap(l->store);
	if (l->images)
		images_inbox_turn(l->images);
	http_run(l);
	store_start(l->store);
	http_cut(l);
}

/* Finish what is under way, within the time for it. */
static void drain(struct loop *l)
{
	/* Clients that the kernel has accepted already are still ours. */
	http_run(l);
	http_quiesce(l);
	int64_t end = store_now_ms() + l->server->options->drain_timeout_s * 1000;
	while (l->requests && store_now_ms() < end) {
		turn(l);
		if (l->requests)
			wait_for_work(l, (int)(end - store_now_ms()));
	}
}

/* Whoever still waits is answered by the end of the store; let that go out. */
static void finish(struct loop *l)
{
	images_inbox_free(l->images);
	l->images = NULL;
	store_free(l->store);
	l->store = NULL;
	int64_t end = store_now_ms() + FLUSH_MS;
	do {
		http_run(l);
		if (l->requests)
			(void)usleep(1000);
	} while (l->requests && store_now_ms() < end);
	http_stop(l);
}

static void *loop_main(void *arg)
{
	struct loop *l = arg;
	while (atomic_load(&l->server->phase) != PHASE_STOP) {
		turn(l);
		wait_for_work(l, -1);
	}
	drain(l);
	finish(l);
	(void)eventfd_write(l->server->ended_fd, 1); /* far from full */
	return NULL;
}

int loop_start(struct loop *l, struct err *e)
{
	errno = pthread_create(&l->thread, NULL, loop_main, l);
	return errno ? fail(e, "pthread_create") : 0;
}

void loop_wake(struct loop *l)
{
	(void)eventfd_write(l->wake_fd, 1); /* full means that it is awake already */
}

void loop_join(struct loop *l)
{
	(void)pthread_join(l->thread, NULL); /* our own thread, joined once */
}

void loop_done(struct loop *l)
{
	if (l->http) {
		http_quiesce(l);
		http_stop(l);
	}
	images_inbox_free(l->images);
	if (l->store)
		store_free(l->store);
	if (l->epoll_fd >= 0)
		(void)close(l->epoll_fd);
	if (l->wake_fd >= 0)
		(void)close(l->wake_fd);
}
