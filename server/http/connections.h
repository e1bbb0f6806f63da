#pragma once
/*
 * The clients that are connected to one loop: what each is doing, and how long it may.
 *
 * A loop has --connections places.  When they are all taken, whoever has been idle for longest, and
 * for a second at least, has to go; else whoever has been sending a request for longest; else
 * whoever has been taking an answer for longest; each for a second at least.  While everybody is
 * younger than that, or waits for an answer, new ones wait in the kernel's queue.  So clients that
 * only sit there, send a byte now and then, or ask and never read, keep nobody out (a supervisor
 * who asks /healthz, say).
 *
 * A client that ends its side amidst a request, or behind its last one, is let go within two
 * seconds: the library, which reads until less comes than it could take, does not see an end that
 * came together with the last bytes.
 *
 * One thread: its loop's.
 */
#include <stdint.h>

#include "server/http/peer.h"

struct MHD_Connection;
struct server;
struct connections;
struct tls_chain;

enum activity {
	IDLE,      /* between two requests */
	READING,   /* sends one, or has not begun yet */
	WAITING,   /* for what the store says: has a deadline of its own */
	ANSWERING, /* takes an answer */
	ACTIVITY_MAX
};

struct connection {
	struct connection *prev, *next; /* of those that do the same; longest first */
	struct connections *all;
	struct peer from;
	struct MHD_Connection *library;
	void *request; /* that is under way, for http_request.c; NULL: none */
	enum activity activity;
	bool cut, counted;
	bool looked; /* IDLE, and had not ended its side a while after its last request */
	int64_t since_ms;
	struct tls_chain *chain; /* what it was shown; NULL without TLS */
};

/* What connections need of the library. */
struct connection_calls {
	void (*cut)(struct MHD_Connection *m);  /* makes it close one, soon */
	bool (*gone)(struct MHD_Connection *m); /* nothing more can come from this client */
	/* This client has ended its side; there may be something left to read (by TLS there is). */
	bool (*left)(struct MHD_Connection *m);
};

struct connections *connections_new(const struct server *s, const struct connection_calls *calls);
void connections_free(struct connections *all); /* NULL is nothing; all have ended */

/* May this client connect?  false: --connections-per-address of it are there. */
bool connections_admit(const struct connections *all, const struct sockaddr *from);
/* It is READING now. */
struct connection *connection_begin(struct connections *all, const struct sockaddr *from,
                                    struct MHD_Connection *m);
void connection_end(struct connection *c);
/* Something else from now on; the time for it begins anew. */
void connection_run_once(struct connection *c, enum activity activity);
/* Who has asked, and has ended his side, waits for no answer. */
bool connection_left(const struct connection *c);
/* It has to go now. */
void connection_cut(struct connection *c);

/* Cut those that are over their time, or in the way. */
void connections_cut(struct connections *all);
/* When that is to be done, by clock_ms; INT64_MAX: never. */
int64_t connections_next_ms(const struct connections *all);
