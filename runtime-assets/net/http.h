#pragma once
/*
 * The HTTP client: one HTTP/1.1 request over TLS (mbedTLS) or TCP, with one deadline for name
 * look-up, connecting, handshake, request and reply.
 *
 *	const struct http_request q = { .method = "GET", .host = "10.0.0.1", .port = 80,
 *		                        .target = "/healthz", .headers_max = 8192,
 *		                        .body_max = 65536, .deadline_ms = clock_ms() + 5000 };
 *	struct http_reply reply;
 *	if (http_exchange(&q, a, &reply, e) == 0 && reply.status == 200)
 *		use(reply.body);
 *
 * No proxies, no redirects, no environment variables; the certificate is always checked.  Replies
 * live in the arena.  Begin with http_exchange().  net.c and tls.c are the connections below it,
 * kube.h the API server above it.  Blocks until the deadline.
 *
 * Thread: main
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/posix/clock.h"
#include "base/str.h"

/* The supported versions and ciphers, for messages. */
#define TLS_SPOKEN "1.2 or 1.3 with ECDHE and AES-GCM or ChaCha20-Poly1305"

/* Certificate authorities of a PEM file; immutable.  NULL and *e if there are none. */
struct ca_bundle;
struct ca_bundle *ca_bundle_load(const char *pem_file, struct err *e);

void ca_bundle_free(struct ca_bundle *t);

/* Texts are sent as they are: without control characters, target and host without blanks.  Those of
 * pai-runtime are constants, checked names, and a checked token; all headers have at most 128 KiB.
 */
struct http_request {
	const char *method; /* "GET", "PUT" */
	const char *host;   /* name or address to connect to; IPv6 without brackets */
	uint16_t port;
	const struct ca_bundle *ca_bundle; /* NULL: plain TCP */
	const char *server_name;           /* name, or address, in the certificate; NULL: host */
	const char *target;           /* path and query, as sent; no control character, no blank */
	const char *headers;          /* more lines, each ended by CR LF; NULL: none */
	const char *token_file;       /* its word is sent as Bearer; NULL: none */
	struct span body;             /* p is NULL: none, and no Content-Length */
	size_t headers_max, body_max; /* limits of the reply's, in bytes */
	int64_t deadline_ms;          /* deadline, on clock_ms() */
};

struct http_reply {
	int status;
	struct span headers; /* the raw lines, each ended by CR LF; in the arena */
	struct span body;    /* chunks put together; in the arena */
};

enum http_trouble {
	HTTP_DNS = 1,
	HTTP_CONNECT,
	HTTP_TLS,
	HTTP_TIMEOUT,
	HTTP_BROKEN, /* cut, or not HTTP */
	HTTP_TOO_LARGE,
	HTTP_BAD_REQUEST,  /* there is no token to send */
	HTTP_NO_COMMON_TLS /* no common version or cipher: final */
};

/* 0 with any status; else an enum http_trouble and *e, a sentence with host and port; if the token
 * cannot be read, one with its file, and HTTP_BAD_REQUEST.  A reply other than 200 with the token
 * in its body, as a gateway may echo it, gets another body. */
int http_exchange(const struct http_request *q, struct arena *a, struct http_reply *r,
                  struct err *e);

/*
 * The parser of replies: strict, bounded, pure.  Bytes may come in pieces of any size.
 *
 *	struct http_reader r;
 *	http_reader_init(&r, headers_max, body_max);
 *	while (!r.done && trouble == 0)
 *		trouble = http_reader_push(&r, bytes that were read);
 *	http_reader_done(&r);
 *
 * It refuses other versions than HTTP/1.0 and 1.1, lines without CR LF, continued lines, control
 * characters, two different lengths, a length beside chunks, encodings other than chunked, and
 * compressed bodies.  It skips interim replies (1xx).
 */
struct http_reader {
	/* The result, once `done`: */
	int status;
	struct str head; /* lines of headers, each with its CR LF; the status line is gone */
	struct str body;
	bool done;
	const char *problem; /* "has two lengths": the problem, after an enum http_trouble */
	/* Internal. */
	int (*next)(struct http_reader *r, struct span *in);
	size_t headers_max; /* also for all lines about chunks, and trailers */
	struct str line;    /* of a chunk */
	uint64_t left;      /* of the body or chunk */
	size_t overhead;    /* bytes of interim replies, lines about chunks, trailers */
};

void http_reader_init(struct http_reader *r, size_t headers_max, size_t body_max);
/* 0, or HTTP_BROKEN or HTTP_TOO_LARGE.  Ignores bytes behind the reply.  Empty bytes: the
 * connection is at its end. */
int http_reader_push(struct http_reader *r, struct span bytes);
void http_reader_done(struct http_reader *r);

/* The trimmed value of the nth header (from 0) of that name (any case) in such lines; p is NULL if
 * absent. */
struct span http_lines_find(struct span lines, const char *name, unsigned nth);

/* The token of a service account: one word of at most so many visible characters. */
enum { TOKEN_MAX = 16384 };
/* Appends the token in a file to `out`, a STR_SECRET.  -1 and *e: there is none. */
int token_append(const char *file, struct str *out, struct err *e);

/* The address of a server: http[s]://HOST[:PORT].  HOST is a name, or an IP address. */
enum { HOST_NAME_MAX_BYTES = 253 }; /* of a host, a namespace, an object */

struct url_address {
	bool tls;
	uint16_t port;
	const char *host; /* IPv6 without brackets */
};

/* Sets host, in the arena, and port; an empty port is that of the protocol.  -1 if they are not
 * valid. */
int http_address_set(struct url_address *to, struct span host, struct span port, struct arena *a);

/* Reads http[s]://HOST[:PORT], which may end in a slash.  -1 if it is anything else. */
int http_address_read(struct url_address *to, struct span url, struct arena *a);

bool address_is_ip(const char *host);

/* Returns true if it leads to this machine only: localhost, 127.0.0.0/8, ::1. */
bool http_address_is_loopback(const struct url_address *a);

/* 1 to HOST_NAME_MAX_BYTES characters of a class, see class_has_char. */
bool name_has_only(struct span name, const char *class);
bool is_host_name(struct span name);
