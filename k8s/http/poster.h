#pragma once
/*
 * Sends documents by POST to one address that the administrator has chosen, several at once.  The
 * address is not that of the cluster: it is verified by the system's CAs, redirects and proxies are
 * not followed, and answers are bounded and ignored.
 *
 * Addresses that are not public (loopback, private, link-local ...) are refused unless `inside` is
 * set.  The check is made on the resolved address, when a connection is opened, so that a name
 * cannot lead there either.
 *
 * Nothing blocks.  poster_run_once calls back when poster_fd is readable or poster_timeout_ms is
 * over.
 *
 * Thread: own
 */
#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"

struct poster;

enum { POSTER_TIMEOUT_MS = 10000 /* of one request */ };

struct poster_settings {
	const char *url;  /* https://HOST[:PORT][/PATH]; with `inside` also http:// */
	bool inside;      /* addresses that are not public are allowed */
	long connections; /* idle ones that are kept */
};

/* Settings are copied.  NULL and *e (400: the URL; 500). */
struct poster *poster_new(const struct poster_settings *s, struct err *e);
/* Cancels all requests without callbacks; accepts NULL. */
void poster_free(struct poster *p);

struct post_answer {
	int status;          /* of the answer, from 200 on; 0: none */
	const char *problem; /* without an answer; never has the path of the URL; during the call */
};

struct post {
	struct span body;           /* JSON; copied */
	const char *const *headers; /* "Name: value", NULL-terminated; copied */
	void (*ended)(void *arg, const struct post_answer *a); /* once, from poster_run_once */
	void *arg;
};

/* -1 and *e (500): not sent, `ended` is not called. */
int poster_send(struct poster *p, const struct post *post, struct err *e);

void poster_run_once(struct poster *p);
int poster_fd(const struct poster *p);
int poster_timeout_ms(const struct poster *p); /* -1: no limit */

/* Returns true if an IP address is reachable from everywhere; false for other families.
 * Thread: any. */
bool poster_is_public(const struct sockaddr *address);
