#pragma once
/*
 * A loop: one thread with its own listener, HTTP daemon and store.  A request stays on one loop
 * from its first byte to its last, so nothing here is locked.
 *
 *	struct loop_port port = { .listen_fd = fd };
 *	if (loop_init(&loop, server, port, e) == 0 && loop_start(&loop, e) == 0) {
 *		wait_for_signal();
 *		atomic_store(&server->phase, PHASE_STOP);
 *		loop_wake(&loop);
 *		(void)pthread_join(loop.thread, NULL);
 *	}
 *	loop_done(&loop);
 *
 * The number of connections and the bytes of bodies are bounded.  The main thread makes, wakes and
 * frees loops; the loop's thread uses the members of *l and calls all that belongs to its requests.
 *
 * Thread: main
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/http/request.h"
#include "server/state/server.h"

struct MHD_Daemon;
struct connections;
struct loop_counts;
struct store;
struct long_lived;
struct stream;
struct features;

enum { LOOP_SOURCES = 8, BODIES_MAX = 64 << 20 };

/* A further event source of a loop. */
struct loop_source {
	int fd;                 /* readable when there is work */
	void (*run)(void *arg); /* NULL: it only wakes the loop */
	/* `run` is called if fd is readable, and when this time is over; -1: no limit.  NULL: the
	 * same as -1. */
	int (*timeout_ms)(const void *arg);
	void *arg;
	bool ready; /* the loop's: fd is readable */
};

/* The hooks of the features (server/serve/features.c).  All on the loop's thread, except `open`. */
struct loop_hooks {
	/* Called before the thread starts: creates l->has and adds sources.  -1 and *e: 500. */
	int (*open)(struct loop *l, struct err *e);
	/* The server stops: free the store, whose end answers suspended requests, and answer the
	 * others. */
	void (*stop)(struct loop *l);
	/* All requests have ended; also after an `open` that failed, and without `stop`. */
	void (*close)(struct loop *l);
	/* Finds the principal before the body is received.  true: r->principal is set, or r has
	 * been answered.  false: r waits; it is answered later, or request_identified(r) is
	 * called. */
	bool (*identify)(struct request *r);
	/* Returns true if the token has been valid all the time since `mark`; for long-lived
	 * requests. */
	uint64_t (*mark)(const struct loop *l);
	bool (*holds)(const struct request *r, uint64_t mark);
};

struct loop {
	struct server *server;
	struct store *store;
	struct features *has;     /* see server.h */
	const struct route *only; /* the only route; NULL: all of server->routes */
	bool of_accounts;         /* its users are the accounts of its clients' processes */
	struct tls *tls;          /* NULL: plain HTTP */
	struct loop_counts *counts;
	size_t body_max; /* bytes of a body */
	struct loop_source sources[LOOP_SOURCES];
	size_t n_sources;
	struct MHD_Daemon *http;
	enum library library; /* the version of http */
	int listen_fd, epoll_fd, wake_fd;
	int pipes_fd; /* an epoll of descriptors that streams and bodies wait for */
	struct connections *connections;
	atomic_size_t requests; /* current ones; written by this loop only */
	bool ended;             /* a connection ended in this round */
	bool woken;             /* ... or was resumed: MHD needs another round */
	unsigned fruitless;     /* consecutive runs of MHD without effect */
	/* Request ids: random digits of this loop, then a number. */
	char id_prefix[9];
	uint32_t next_id;
	size_t held[HOLDINGS]; /* by current requests (request_hold) */
	int64_t flood_ms; /* the last change above CALM since one above FLOOD (loop.c); 0: none */
	struct stream *streams;
	struct long_lived *long_lived;
	size_t n_long_lived;
	int64_t long_lived_next_ms; /* time of their next check */
	/* Messages of libmicrohttpd in this second. */
	int64_t complained_s;
	size_t complaints;
	atomic_uint generation; /* server->generation at the start of the last round */
	pthread_t thread;
};

/* Checks and configures libmicrohttpd, once per process.  -1 and *e (500): the version is too old;
 * an untested version is logged. */
int http_init(struct err *e);
/* Thread: any. */
const char *http_version(void);

/* The listener and routes that a loop serves. */
struct loop_port {
	int listen_fd;            /* the loop takes it over */
	struct tls *tls;          /* borrowed; NULL: plain HTTP */
	const struct route *only; /* the only route; NULL: all of server->routes */
	bool of_accounts;         /* it is that of listener_for_accounts */
};

/* Creates a loop; the thread does not run yet.  -1 and *e: 500. */
int loop_init(struct loop *l, struct server *s, struct loop_port port, struct err *e);
/* Adds a source.  -1 and *e: 500. */
int loop_add(struct loop *l, const struct loop_source *source, struct err *e);
/* Starts l->thread, which ends after PHASE_STOP.  -1 and *e: 500. */
int loop_start(struct loop *l, struct err *e);
/* Makes the loop read server->phase.  Thread: any. */
void loop_wake(struct loop *l);
/* Frees a loop whose thread has ended or was never started; also after a failed loop_init. */
void loop_done(struct loop *l);
