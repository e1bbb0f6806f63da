#pragma once
/*
 * A loop: one thread with a listener, an HTTP daemon and a store of its own.  A request
 * lives on one loop from its first byte to its last, so nothing here is locked.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/request.h"
#include "server/server.h"

struct MHD_Daemon;
struct connection;
struct store;
struct images_inbox;

struct loop {
	struct server *server;
	struct store *store;
	struct images_inbox *images; /* NULL: they are not checked */
	struct MHD_Daemon *http;
	int listen_fd, epoll_fd, wake_fd;
	struct connection *connections; /* a list */
	int64_t next_cut_ms;            /* when the first of them may be over its time */
	atomic_size_t requests;         /* under way; written by this loop only */
	bool ended;                     /* a connection ended in this round */
	/* Request ids: random digits of this loop, then a number. */
	char id_prefix[9];
	uint32_t next_id;
	/* What is known of the store, for /readyz. */
	bool ready, probing;
	int64_t ready_until_ms;
	struct request *asking[64];
	size_t n_asking;
	/* What libmicrohttpd complained about in this second. */
	int64_t complained_s;
	size_t complaints;
	pthread_t thread;
};

/* Make a loop that serves `listen_fd`, which it takes over; the thread is not yet started. -1
 * and *e: 500. */
int loop_init(struct loop *l, struct server *s, int listen_fd, struct err *e);
/* Run it in a thread of its own. */
int loop_start(struct loop *l, struct err *e);
/* Look at server->phase again.  Any thread. */
void loop_wake(struct loop *l);
/* Wait for its end, which PHASE_STOP brings, and free what it holds. */
void loop_join(struct loop *l);
void loop_done(struct loop *l);
