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

/*
 * One document of a web service, asked for again and again by a thread of its own: for what this
 * server wants to know of the cluster and no request may wait for.  Nothing secret is told, hence
 * http will do where the address says so; of https, nothing can be switched off.
 */
struct fetch;

enum {
	FETCH_PATIENCE = 3,      /* attempts in a row that fail before the pauses grow */
	FETCH_PAUSE_MS = 60000,  /* as long as they get, unless the interval is longer */
	FETCH_TIMEOUT_MS = 10000 /* of one attempt, unless the interval is shorter */
};

struct fetch_settings {
	const char
	    *url; /* http:// or https://HOST[:PORT][/PATH]; slashes at its end do not count */
	const char *path;    /* what follows it: "/v1/..." */
	const char *ca_file; /* PEM; "": the machine's own */
	int64_t interval_ms; /* from attempt to attempt */
	size_t max;          /* bytes of an answer */
	/* Both are called by the thread.  take: an answer with status 200; -1 and *e if it is of no
	 * use.  failed: nothing came, or nothing of use, for so many attempts in a row. */
	int (*take)(void *arg, struct span body, struct err *e);
	void (*failed)(void *arg, unsigned attempts, const struct err *e);
	void *arg;
};

/* Begin to ask.  Settings are copied.  Reads files: at start.  NULL and *e (400 or 500). */
struct fetch *fetch_new(const struct fetch_settings *s, struct err *e);
/* End the thread, at once, whatever the service does.  NULL is nothing. */
void fetch_free(struct fetch *f);

/* When the next attempt begins, reckoned from the beginning of the last one, after so many in a row
 * that failed.  Pure. */
int64_t fetch_pause_ms(int64_t interval_ms, unsigned failures);
