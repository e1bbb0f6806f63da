/*
 * Each round handles answers of the store, then the clients, then sends requests to the store, and
 * waits.  With this order replies and requests leave in the same round.
 */
#include "server/http/loop.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "jobs/store/store.h"
#include "machine/store/local.h"
#include "server/config/options.h"
#include "server/http/http_internal.h"
#include "server/http/route.h"
#include "server/http/stream.h"
#include "server/state/counts.h"
#include "server/state/log.h"

enum { EVENTS = 8, FLUSH_MS = 1000, LINGER_MS = 300, LAST_WORDS_MS = 3000, ACCEPT_ROUNDS = 1000 };

int loop_add(struct loop *l, const struct loop_source *source, struct err *e)
{
	assert(l->n_sources < LOOP_SOURCES);
	struct loop_source *own = &l->sources[l->n_sources++];
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = own };
	*own = *source;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0)
		return err_set(e, UNKNOWN_ERROR, "epoll_ctl: %m");
	return 0;
}

static void loop_reap(void *store)
{
	store_reap(store);
}

static int loop_reap_ms(const void *store)
{
	return store_timeout_ms(store);
}

int loop_init(struct loop *l, struct server *s, struct loop_port port, struct err *e)
{
	const struct options *o = s->options;
	*l = (struct loop){ .server = s,
		            .only = port.only,
		            .of_accounts = port.of_accounts,
		            .tls = port.tls,
		            .listen_fd = port.listen_fd,
		            .epoll_fd = -1,
		            .wake_fd = -1,
		            .pipes_fd = -1 };
	l->counts = l->only ? counts_loop(s->counts, l->only, 1)
	                    : counts_loop(s->counts, s->routes->row, s->routes->n);
	l->body_max = (size_t)o->max_body;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->pipes_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0 || l->wake_fd < 0 || l->pipes_fd < 0)
		return err_set(e, UNKNOWN_ERROR, "epoll: %m");
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	limits.in_flight = (size_t)o->in_flight;
	limits.queue = (size_t)o->queue;
	limits.body = (size_t)o->max_answer;
	limits.per_user = (size_t)o->queue_per_user;
	l->store = s->local ? store_local_new(s->local, &limits, e)
	                    : store_api_new(s->login, s->namespace_name, &limits, e);
	if (!l->store)
		return -1;
	store_count(l->store, &l->counts->store);
	struct loop_source store = { store_fd(l->store), loop_reap, loop_reap_ms, l->store, false };
	struct loop_source wake = { .fd = l->wake_fd };
	struct loop_source pipes = { l->pipes_fd, pipe_ends_run_once, NULL, l, false };
	struct loop_source http = { .fd = http_start(l, e) };
	if (http.fd < 0 || loop_add(l, &store, e) < 0 || loop_add(l, &wake, e) < 0 ||
	    loop_add(l, &pipes, e) < 0 || s->hooks->open(l, e) < 0)
		return -1;
	return loop_add(l, &http, e);
}

static int loop_earlier(int a, int b)
{
	return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static int source_timeout_ms(const struct loop_source *source)
{
	return source->timeout_ms ? source->timeout_ms(source->arg) : -1;
}

/* ---- memory comes back ---- */

/* malloc keeps the free memory below the last block in use.  It is returned to the kernel after
 * HOLD_MEMORY was above FLOOD, and then at most CALM for CALM_MS.  Under steady load it is kept,
 * because touching it again would cost a quarter of the time of a list. */
enum { FLOOD = 16 << 20, CALM = 1 << 20, CALM_MS = 1000 };

void request_hold(struct request *r, enum holding kind, size_t amount)
{
	struct loop *l = r->loop;
	l->held[kind] += amount - r->held[kind];
	r->held[kind] = amount;
	if (kind == HOLD_MEMORY && l->held[kind] > (l->flood_ms ? CALM : FLOOD))
		l->flood_ms = clock_ms();
}

/* Milliseconds to the next look; -1: there is nothing to return. */
static int return_memory(struct loop *l)
{
	if (!l->flood_ms || l->held[HOLD_MEMORY] > CALM)
		return -1;
	if (clock_ms() - l->flood_ms < CALM_MS)
		return CALM_MS;
	l->flood_ms = 0;
	(void)malloc_trim(0); /* 0: the kernel has it already */
	return -1;
}

/* ---- rounds ---- */

static void wait_for_work(struct loop *l, int at_most_ms)
{
	struct epoll_event events[EVENTS];
	int timeout = loop_earlier(http_timeout_ms(l), return_memory(l));
	if (l->long_lived) {
		int64_t left = l->long_lived_next_ms - clock_ms();
		timeout = loop_earlier(timeout, left > 0 ? (int)left : 0);
	}
	for (size_t i = 0; i < l->n_sources; i++)
		timeout = loop_earlier(timeout, source_timeout_ms(&l->sources[i]));
	log_flush();
	int n = epoll_wait(l->epoll_fd, events, EVENTS, loop_earlier(timeout, at_most_ms));
	for (int i = 0; i < n; i++) {
		struct loop_source *source = events[i].data.ptr;
		eventfd_t count;
		source->ready = true;
		/* The count is read before phase and generation, else a second wake would be reset,
		 * too. */
		if (source->fd == l->wake_fd)
			(void)eventfd_read(l->wake_fd, &count);
	}
}

static void loop_run_once(struct loop *l)
{
	/* This loop does not use replaced keys from here on. */
	atomic_store(&l->generation, atomic_load(&l->server->generation));
	for (struct loop_source *source = l->sources; source < l->sources + l->n_sources;
	     source++) {
		if (!source->run || (!source->ready && source_timeout_ms(source) != 0))
			continue;
		source->ready = false;
		source->run(source->arg);
	}
	long_lived_run_once(l, false);
	http_run(l);
	store_start(l->store);
	connections_cut(l->connections);
	counter_set(&l->counts->requests, l->requests);
	counter_set(&l->counts->connections, http_connections(l));
	counter_set(&l->counts->long_lived, l->n_long_lived);
}

/* Finishes the current requests within drain-timeout. */
static void loop_drain(struct loop *l)
{
	/* Accepts the connections that wait in the kernel: MHD accepts ten at a time, and none at
	 * its limit. */
	struct pollfd fd = { .fd = l->listen_fd, .events = POLLIN };
	for (int i = 0; i < ACCEPT_ROUNDS && poll(&fd, 1, 0) == 1; i++)
		http_run(l);
	http_run(l);
	http_quiesce(l);
	long_lived_run_once(l, true);
	int64_t begun = clock_ms();
	for (;;) {
		/* Connections without a request have LINGER_MS: one may be on its way. */
		int64_t most = l->requests           ? l->server->options->drain_timeout_s * 1000
		               : http_connections(l) ? LINGER_MS
		                                     : 0;
		int64_t left = begun + most - clock_ms();
		if (left <= 0)
			return;
		loop_run_once(l);
		if (clock_ms() - begun > LAST_WORDS_MS)
			streams_cut(l, true);
		wait_for_work(l, left < LINGER_MS ? (int)left : LINGER_MS);
	}
}

/* Suspended requests are answered; send these answers. */
static void loop_finish(struct loop *l)
{
	l->server->hooks->stop(l);
	streams_cut(l, false);
	int64_t end = clock_ms() + FLUSH_MS;
	do {
		http_run(l);
		if (l->requests)
			(void)usleep(1000);
	} while (l->requests && clock_ms() < end);
	http_stop(l);
	l->server->hooks->close(l);
}

static void *loop_main(void *arg)
{
	struct loop *l = arg;
	log_collect();
	while (atomic_load(&l->server->phase) != PHASE_STOP) {
		loop_run_once(l);
		wait_for_work(l, -1);
	}
	loop_drain(l);
	loop_finish(l);
	log_flush();
	(void)eventfd_write(l->server->ended_fd, 1); /* far from full */
	return NULL;
}

/* No other file knows what the thread runs. */
int loop_start(struct loop *l, struct err *e)
{
	errno = pthread_create(&l->thread, NULL, loop_main, l);
	return errno ? err_set(e, UNKNOWN_ERROR, "pthread_create: %m") : 0;
}

void loop_wake(struct loop *l)
{
	(void)eventfd_write(l->wake_fd, 1); /* fails only if the counter is full */
}

void loop_done(struct loop *l)
{
	if (l->http) {
		http_quiesce(l);
		http_stop(l);
	}
	l->server->hooks->close(l);
	store_free(l->store);
	if (l->epoll_fd >= 0)
		(void)close(l->epoll_fd);
	if (l->wake_fd >= 0)
		(void)close(l->wake_fd);
	fd_cleanup(&l->pipes_fd);
}
