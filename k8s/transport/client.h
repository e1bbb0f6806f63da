#pragma once
/*
 * Requests of a command to a server of ours: several at once, of which some are answered bit by
 * bit.  It goes to one address, follows no redirect and knows no proxy; TLS is verified, always,
 * and http is for this machine only.  One thread; blocks in client_run_once only.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct client;
struct exchange;

struct client_settings {
	const char *url;     /* https://HOST[:PORT][/PATH], or http:// of this machine */
	const char *ca_file; /* PEM; "": the machine's own */
	struct span token;   /* sent as Authorization; "": none */
};

/* NULL and *e (400): address, file or token are of no use. */
struct client *client_new(const struct client_settings *s, struct err *e);
void client_free(struct client *c); /* NULL is nothing; what is under way is given up */

struct client_answer {
	int status;            /* 0: none came */
	int64_t retry_after_s; /* 0: it does not say */
	const char *location;  /* of the header; NULL if there is none */
	struct span body;      /* what `piece` has not taken; valid during the call */
	const char *problem;   /* why none came, or not all of it; NULL if it is whole */
	bool hopeless;         /* ... and the same would happen again: TLS, address */
};

struct client_call {
	const char *method; /* "GET" */
	const char *path;   /* behind the address; if `link`, behind its scheme, host and port */
	bool link;          /* good by itself: without the token */
	const char *type;   /* of the body; NULL: there is none */
	struct span body;
	const char *key;    /* Idempotency-Key; NULL: none */
	size_t max;         /* bytes of the answer that are kept */
	int64_t timeout_ms; /* for all of it; 0: none */
	int64_t silence_s;  /* so long without a byte is the end; 0: never */
	/* Takes a piece of the body of a 2xx; false gives it up.  Must not call client_stop.  NULL:
	 * all is kept. */
	bool (*piece)(void *arg, struct span bytes);
	/* Once, unless it was stopped before. */
	void (*ended)(void *arg, const struct client_answer *a);
	void *arg;
};

/* Begin.  Texts are borrowed until it has ended.  NULL and *e (500). */
struct exchange *client_start(struct client *c, const struct client_call *call, struct err *e);
/* Give it up: nothing of it is called any more. */
void client_stop(struct exchange *x);
/* Let all go on until something has happened, at fd (-1: none) too, or the time is over. */
void client_run_once(struct client *c, int64_t timeout_ms, int fd);
