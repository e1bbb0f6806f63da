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
struct images_inbox;
struct worker_inbox;
struct followers;
struct tails;
struct lasting;
struct stream;
struct accounts;
struct auth;
struct uploads;

struct loop {
	struct server *server;
	struct store *store;
	struct images_inbox *images; /* NULL: they are not checked */
	struct tails *tails;         /* logs; NULL: there are no pods */
	struct worker_inbox *work;   /* NULL: nobody logs in here */
	struct accounts *accounts;
	struct auth *auth;
	struct followers *followers; /* NULL: nobody keeps track of the jobs */
	struct uploads *uploads;     /* of the loop of --output-listen, which has no other route */
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
	/* What is known of the store, for /readyz. */
	const char *not_ready; /* why; NULL if it is */
	bool probing;
	int64_t ready_until_ms;
	struct request *asking[64];
	size_t n_asking;
	size_t body_bytes; /* that bodies hold that have not come as a whole; at most BODIES_MAX */
	bool body_flood;   /* they have been so many that their memory is worth giving back */
	size_t dry_run_bytes; /* that dry runs hold */
	size_t detail_bytes;  /* of large answers about single jobs (job_look.h) */
	struct stream *streams;
	size_t rosters;   /* lists of users under way (roster.h) */
	size_t list_rows; /* in lists that are being sent */
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
/* Run it in a thread of its own.  -1 and *e: 500. */
int loop_start(struct loop *l, struct err *e);
/* Look at server->phase again.  Any thread. */
void loop_wake(struct loop *l);
/* Wait for its end, which PHASE_STOP brings, and free what it holds. */
void loop_join(struct loop *l);
void loop_done(struct loop *l);
