#pragma once
/*
 * One HTTP/1.1 request at a time, over TLS 1.2 (BearSSL) or plain TCP, with a deadline over all of
 * it: look-up of the name, connecting, handshake, request, reply.  No proxies, no redirects, no
 * environment variables.  The certificate is always checked, by name; there is no way around it.
 */
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

/* Certificate authorities from a PEM file or text; shared by requests, read-only. */
struct ca_bundle;
/* NULL and *e if there is none in it, or it cannot be read. */
struct ca_bundle *ca_bundle_load(const char *pem_file, struct err *e);
struct ca_bundle *ca_bundle_from(struct span pem, struct err *e);
void ca_bundle_free(struct ca_bundle *t);

struct http_request {
	const char *method; /* "GET", "HEAD", "PUT" */
	const char *host;   /* name or address to connect to; IPv6 without brackets */
	uint16_t port;
	const struct ca_bundle *ca_bundle; /* NULL: plain TCP */
	const char *server_name;    /* name in the certificate (and SNI), no address; NULL: host */
	const char *host_header;    /* NULL: host[:port] */
	const char *target;         /* path and query, as sent; no control character, no blank */
	const char *const *headers; /* "Name: value", NULL-terminated; control characters refused */
	struct span body;           /* sent behind them; p is NULL: none, and no length is said */
	size_t headers_max, body_max; /* bytes accepted of the reply's */
	int64_t deadline_ms;          /* when to give up, on clock_ms() */
};

struct http_reply {
	int status;
	struct span headers; /* the raw lines, each ended by CR LF; in the arena */
	struct span body;    /* chunks put together; in the arena */
};

/* How far it came, for deciding whether to repeat. */
enum http_trouble {
	HTTP_DNS = 1,
	HTTP_CONNECT,
	HTTP_TLS,
	HTTP_TIMEOUT,
	HTTP_BROKEN /* cut, or no HTTP */,
	HTTP_TOO_LARGE,
	HTTP_BAD_REQUEST,  /* ours: refused before anything was sent */
	HTTP_NO_COMMON_TLS /* no version or cipher that both sides speak: final */
};

/* 0 with any status; else an enum http_trouble and *e in a sentence for people, which names host
 * and port and what was tried ("certificate of 10.0.0.1:443 is not valid for
 * kubernetes.default.svc"). */
int http_exchange(const struct http_request *q, struct arena *a, struct http_reply *r,
                  struct err *e);

/* Value of the first header of that name (any case), trimmed; p is NULL if absent. `nth` counts
 * from 0 for those that may come more than once. */
struct span http_header(const struct http_reply *r, const char *name, unsigned nth);
