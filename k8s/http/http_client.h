#pragma once
/*
 * HTTP clients beside the store.  `client` sends the requests of a command to a rest-lit server,
 * several at once, also streams.  `fetch` polls one document of a web service.  Both use one
 * address, follow no redirect, use no proxy, and always verify TLS; client allows plain http for
 * loopback only.
 *
 * A client blocks in client_run_once only.
 *
 * Thread: own
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct client;
struct client_exchange;

struct client_settings {
	const char *url;     /* https://HOST[:PORT][/PATH], or http:// on loopback */
	const char *ca_file; /* PEM; "": the system's CAs */
	struct span token;   /* sent as Authorization; "": none */
	const char *socket;  /* path of a Unix socket, borrowed; NULL: TCP */
	/* The server is in this process, so requests have no limits of time: it cannot be away, and
	 * a reader of the output can block the client for any time. */
	bool own;
};

/* NULL and *e (400): invalid address, file or token. */
struct client *client_new(const struct client_settings *s, struct err *e);
void client_free(struct client *c); /* accepts NULL; cancels all requests */

struct client_answer {
	int status;            /* 0: no answer */
	int64_t retry_after_s; /* 0: not given */
	const char *location;  /* header, or NULL */
	bool replayed;         /* Idempotency-Replayed: the answer of an earlier request */
	struct span body;      /* bytes not passed to `piece`; valid during the call */
	const char *problem;   /* error, or NULL if the answer is complete */
	bool hopeless;         /* a repetition would fail as well: certificate, address */
};

struct client_call {
	const char *method; /* "GET" */
	const char *path;   /* after the address */
	const char *type;   /* of the body; NULL: no body */
	struct span body;
	/* The next bytes of a body of unknown length, in its place; 0: there are none now, until
	 * client_pause.  NULL: `body`. */
	size_t (*more)(void *arg, char *to, size_t max);
	const char *key;    /* Idempotency-Key; NULL: none */
	size_t max;         /* bytes of the answer */
	int64_t timeout_ms; /* of the whole request; 0: no limit */
	int64_t silence_s;  /* maximal time without data; 0: no limit */
	/* Bytes of the body that must arrive per second: a server that closes the connection before
	 * all has arrived, and got fewer, would do so again.  0: none. */
	int64_t least;
	/* Receives the body of a 2xx in pieces; false cancels.  Must not call client_stop.  NULL:
	 * the answer has the body. */
	bool (*piece)(void *arg, struct span bytes);
	/* Once, unless client_stop was called. */
	void (*ended)(void *arg, const struct client_answer *a);
	void *arg;
};

/* Texts are borrowed until the end.  NULL and *e (500). */
struct client_exchange *client_start(struct client *c, const struct client_call *call,
                                     struct err *e);
/* The value of a header of the answer, in `piece` and `ended`; NULL: it has none. */
const char *client_header(const struct client_exchange *x, const char *name);
/* pause: no more pieces come, from within `piece` too.  Else they do, and `more` is asked again. */
void client_pause(struct client_exchange *x, bool pause);
/* Cancels without further callbacks. */
void client_stop(struct client_exchange *x);
/* Runs until data has come or a request has ended, fd (-1: none) is readable, or the time is
 * over. */
void client_run_once(struct client *c, int64_t timeout_ms, int fd);

/* Polls one document of a web service in its own thread.  No credentials are sent, so http:// is
 * allowed. */
struct fetch;

enum {
	FETCH_PATIENCE = 3,      /* failures in a row before the pauses grow */
	FETCH_PAUSE_MS = 60000,  /* maximum, unless the interval is longer */
	FETCH_TIMEOUT_MS = 10000 /* of one attempt, unless the interval is shorter */
};

struct fetch_settings {
	const char *url;     /* http:// or https://HOST[:PORT][/PATH] */
	const char *path;    /* appended: "/v1/..." */
	const char *ca_file; /* PEM; "": the system's CAs */
	int64_t interval_ms; /* between the starts of attempts */
	size_t max;          /* bytes of an answer */
	/* Called by the thread.  take: an answer with status 200; -1 and *e if it is invalid.
	 * failed: after each failure, with the number of failures in a row. */
	int (*take)(void *arg, struct span body, struct err *e);
	void (*failed)(void *arg, unsigned attempts, const struct err *e);
	void *arg;
};

/* Settings are copied.  Reads files: call it at start.  NULL and *e (400 or 500). */
struct fetch *fetch_new(const struct fetch_settings *s, struct err *e);
/* Ends the thread without delay.  Accepts NULL. */
void fetch_free(struct fetch *f);

/* Time from the start of an attempt to the next one; failures: in a row.  Thread: any. */
int64_t fetch_pause_ms(int64_t interval_ms, unsigned failures);
