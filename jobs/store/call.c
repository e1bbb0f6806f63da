/* Turns the callbacks of a store into calls that wait, at most until the thread is told to end. */
#include "jobs/store/call.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/posix/clock.h"

struct store_wait {
	struct arena *a;
	struct store_reply *reply;
	bool done;
};

static void call_done(void *arg, const struct store_reply *r)
{
	struct store_wait *c = arg;
	*c->reply = *r;
	c->reply->body = arena_span(c->a, r->body);
	c->reply->uid = arena_span(c->a, r->uid);
	c->reply->resource_version = arena_span(c->a, r->resource_version);
	c->reply->message = arena_span(c->a, r->message);
	c->done = true;
}

/* The thread shall end: this is noticed in a request or in a wait, whichever comes first. */
static void caller_note_end(struct caller *c)
{
	c->stopped = true;
	c->end_ms = clock_ms() + CALL_END_MS;
}

enum store_outcome store_call(struct caller *c, const struct store_request *r, struct arena *a,
                              struct store_reply *reply)
{
	struct store_wait call = { a, reply, false };
	struct store_request own = *r;
	own.done = call_done;
	own.arg = &call;
	if (c->store && c->stopped && clock_ms() >= c->end_ms)
		store_free(TAKE(c->store));
	if (c->store)
		store_request(c->store, &own);
	else
		call_done(&call, &(struct store_reply){ .outcome = STORE_BUSY });
	while (!call.done) {
		store_start(c->store);
		int64_t left = c->end_ms - clock_ms();
		int ms = store_timeout_ms(c->store);
		struct pollfd fds[] = { { .fd = store_fd(c->store), .events = POLLIN },
			                { .fd = c->stopped ? -1 : c->stop_fd, .events = POLLIN } };
		if (c->stopped && (ms < 0 || left < ms))
			ms = left > 0 ? (int)left : 0;
		(void)poll(fds, 2, ms); /* the results are read below */
		store_reap(c->store);
		if (fds[1].revents)
			caller_note_end(c);
		if (!call.done && c->stopped && clock_ms() >= c->end_ms)
			store_free(TAKE(c->store)); /* ends the call */
	}
	if (c->store)
		store_start(c->store); /* counts that nothing is under way any more */
	return reply->outcome;
}

bool caller_wait(struct caller *c, int fd, int64_t ms)
{
	struct pollfd fds[] = { { .fd = c->stop_fd, .events = POLLIN },
		                { .fd = fd, .events = POLLIN } };
	if (!c->stopped && poll(fds, 2, ms > INT32_MAX ? INT32_MAX : (int)ms) > 0 && fds[0].revents)
		caller_note_end(c);
	return !c->stopped;
}

int caller_start(struct caller *c, struct store *s, void *(*run)(void *), void *arg, struct err *e)
{
	*c = (struct caller){ .store = s, .stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	c->running = c->stop_fd >= 0 && pthread_create(&c->thread, NULL, run, arg) == 0;
	return c->running ? 0 : err_set(e, UNKNOWN_ERROR, "a thread cannot be started");
}

void caller_stop(struct caller *c)
{
	if (c->running)
		(void)eventfd_write(c->stop_fd, 1); /* cannot overflow */
}

void caller_end(struct caller *c)
{
	caller_stop(c);
	if (c->running)
		(void)pthread_join(c->thread, NULL);
	if (c->store)
		store_free(c->store);
	if (c->stop_fd > 0)
		(void)close(c->stop_fd);
	*c = (struct caller){ .stopped = true };
}
