#pragma once
/*
 * One HTTP/1.1 request at a time, over TLS 1.2 (BearSSL) or plain TCP, with a deadline over all of
 * it: look-up of the name, connecting, handshake, request, reply.  No proxies, no redirects, no
 * environment variables.  The certificate is always checked, by name; there is no way around it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

/* The supported versions and ciphers, for messages. */
#define TLS_SPOKEN "1.2, ECDHE with AES-GCM or ChaCha20-Poly1305"

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

/*
 * HTTP/1.1 replies out of bytes: strict, bounded, pure.  Bytes may come in pieces of any size;
 * where they are cut changes nothing.
 *
 *	struct http_reader r;
 *	http_reader_init(&r, "GET", headers_max, body_max);
 *	while (!r.done && trouble == 0)
 *		trouble = read some ? http_reader_push(&r, bytes) : http_reader_end(&r);
 *	http_reader_done(&r);
 *
 * What is refused: anything but HTTP/1.0 and 1.1, lines that do not end in CR LF, continued lines,
 * control characters, two different lengths, a length beside chunks, encodings other than
 * chunked, compressed bodies (we ask for none).  Interim replies (1xx) are passed over.
 */
struct http_reader {
	/* The result, once `done`: */
	int status;
	struct str head; /* lines of headers, each with its CR LF; the status line is gone */
	struct str body;
	bool done;
	const char *problem; /* "says two lengths": what is wrong, after an enum http_trouble */
	/* Inside. */
	void (*next)(struct http_reader *r, struct span *in, int *trouble);
	bool without_body;  /* the reply to HEAD */
	size_t headers_max; /* also for all lines about chunks, and trailers */
	struct str line;    /* of a chunk */
	uint64_t left;      /* of the body or chunk */
	size_t overhead;    /* bytes of interim replies, lines about chunks, trailers */
};

void http_reader_init(struct http_reader *r, const char *method, size_t headers_max,
                      size_t body_max);
/* 0, or HTTP_BROKEN or HTTP_TOO_LARGE.  What comes after the end of the reply is not looked at. */
int http_reader_push(struct http_reader *r, struct span bytes);
/* There are no more bytes. */
int http_reader_end(struct http_reader *r);
void http_reader_done(struct http_reader *r);

/* Value of a header in such lines; see http_header. */
struct span http_lines_find(struct span lines, const char *name, unsigned nth);
/* Is it a token of RFC 9110: letters, digits, !#$%&'*+-.^_`|~ ? */
bool http_is_token(struct span text);

/* The address of a server: http[s]://HOST[:PORT].  HOST is a name, or an IP address. */
enum { HOST_NAME_MAX_BYTES = 253 }; /* of a host, a namespace, an object */

struct address {
	bool tls;
	uint16_t port;
	char *host; /* IPv6 without brackets; NULL before it is set */
};

/* Set host and port; an empty port is that of the protocol.  -1 if they are not valid. */
int address_set(struct address *a, struct span host, struct span port);

/* Read http[s]://HOST[:PORT], which may end in a slash.  -1 if it is anything else. */
int address_read(struct address *a, struct span url);

void address_done(struct address *a);

/* "https://HOST:PORT"; free() it. */
char *address_url(const struct address *a);

bool address_is_ip(const char *host);

/* Does it lead to this machine only: localhost, 127.0.0.0/8, ::1? */
bool address_is_loopback(const struct address *a);

/* Small letters, digits, and the characters of `also`; 1 to HOST_NAME_MAX_BYTES of them. */
bool name_has_only(struct span name, const char *also);
bool is_host_name(struct span name);
