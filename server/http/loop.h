#pragma once
/*
 * A loop: one thread with a listener, an HTTP daemon and a store of its own.  A request
 * lives on one loop from its first byte to its last, so nothing here is locked.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/http/request.h"
#include "server/server.h"

struct MHD_Daemon;
struct connections;
struct store;
struct lasting;
struct stream;
struct features;

enum { LOOP_SOURCES = 8 };

/* Something else that a loop serves. */
struct loop_source {
	int fd; /* readable when there is something to do */
	void (*run)(void *arg);
	/* Milliseconds until it is to run without that, -1: none.  NULL: it runs only if fd is
	 * readable; with a timeout, in each round. */
	int (*timeout_ms)(const void *arg);
	void *arg;
};

/*
 * What the features of this server do for its loops and requests: the loop knows no more of them.
 * All on the loop's thread, but `open`.
 */
struct loop_hooks {
	/* Before the thread starts: makes l->has and adds sources.  -1 and *e: 500. */
	int (*open)(struct loop *l, struct err *e);
	/* The server stops: what still waits is answered. */
	void (*stop)(struct loop *l);
	/* All requests have ended; also after an `open` that failed, and without `stop`. */
	void (*close)(struct loop *l);
	/* Before the body of a request is taken: finds out who sends it.  true: r->principal is
	 * set, or r has been answered.  false: r waits; it will be answered, or intake_known(r)
	 * called. */
	bool (*identify)(struct request *r);
	/* For requests that last: was a token good all the time since `mark` was taken? */
	uint64_t (*mark)(const struct loop *l);
	bool (*holds)(const struct request *r, uint64_t mark);
};

struct loop {
	struct server *server;
	struct store *store;
	struct features *has;     /* see server/features.h */
	const struct route *only; /* it has no other; NULL: all of ROUTES */
	size_t body_max;          /* bytes of a body */
	struct loop_source sources[LOOP_SOURCES];
	size_t n_sources;
	struct MHD_Daemon *http;
	enum library library; /* what http is */
	int listen_fd, epoll_fd, wake_fd;
	struct connections *connections;
	atomic_size_t requests; /* under way; written by this loop only */
	bool ended;             /* a connection ended in this round */
	bool woken;             /* ... or was resumed, which the library looks at in its next */
	unsigned fruitless; /* rounds in a row that the library wanted, and nothing came of them */
	/* Request ids: random digits of this loop, then a number. */
	char id_prefix[9];
	uint32_t next_id;
	size_t body_bytes;  /* that bodies hold that have not come as a whole; at most BODIES_MAX */
	bool body_flood;    /* they have been so many that their memory is worth giving back */
	size_t large_bytes; /* of large answers (answer_hold) */
	struct stream *streams;
	struct lasting *lasting;
	size_t n_lasting;
	int64_t lasting_next_ms; /* when to look at them */
	/* What libmicrohttpd complained about in this second. */
	int64_t complained_s;
	size_t complaints;
	atomic_uint generation; /* server->generation at the start of the last round */
	pthread_t thread;
};

/* Make a loop that serves `listen_fd`, which it takes over; the thread is not yet started. -1
 * and *e: 500. */
int loop_init(struct loop *l, struct server *s, int listen_fd, struct err *e);
/* Serve this, too.  -1 and *e: 500. */
int loop_add(struct loop *l, const struct loop_source *source, struct err *e);
/* Run it in a thread of its own.  -1 and *e: 500. */
int loop_start(struct loop *l, struct err *e);
/* Look at server->phase again.  Any thread. */
void loop_wake(struct loop *l);
/* Wait for its end, which PHASE_STOP brings, and free what it holds. */
void loop_join(struct loop *l);
void loop_done(struct loop *l);
