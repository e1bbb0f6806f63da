#pragma once
/*
 * Checks of the head of a request: framing, size, origin, type of the body.  Pure.
 *
 * libmicrohttpd accepts requests that a proxy in front of it may read differently (two lengths,
 * length and chunks, folded headers); such a difference allows request smuggling (RFC 9112 11.2).
 * So every header is checked before anything else happens.
 *
 * libmicrohttpd before 1.0 also folds headers, cuts values at a NUL and accepts bare LF without
 * showing it.  All names and values that it returns lie in one buffer in the order of arrival, so
 * the distance of their addresses shows hidden bytes.  Only addresses are compared; no byte outside
 * of the returned values is read.  From 1.0 on the library refuses all of this at its strictest
 * level.
 *
 * Thread: any
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* The headers that the server uses. */
enum header {
	HEADER_CONTENT_LENGTH,
	HEADER_TRANSFER_ENCODING,
	HEADER_HOST,
	HEADER_AUTHORIZATION,
	HEADER_CONTENT_TYPE,
	HEADER_CONTENT_ENCODING,
	HEADER_ORIGIN,
	HEADER_FETCH_SITE,
	HEADER_REQUEST_ID,
	HEADER_FORWARDED_FOR,
	HEADER_WANTED_HEADERS,
	HEADER_EXPECT,
	HEADER_IDEMPOTENCY_KEY,
	HEADER_ACCEPT,
	HEADER_MAX
};

struct request_head {
	struct span value[HEADER_MAX]; /* borrowed; p is NULL if absent */
	uintptr_t next;                /* address of the next line; 0: addresses are not checked */
	const char *wrong;             /* the first violation, static text; or NULL */
	uint64_t length;               /* Content-Length; 0 if absent */
	size_t room; /* approximate bytes of the headers in the buffer of the library */
	bool chunked;
};

/* The strictness with which a version of libmicrohttpd reads requests. */
enum library {
	LIBRARY_REFUSED,   /* older than 0.9.75 */
	LIBRARY_LENIENT,   /* before 1.0: addresses are checked */
	LIBRARY_STRICT,    /* 1.0: has levels of strictness */
	LIBRARY_NOT_TRIED, /* later: treated as 1.0 */
};
/* version: such as "0.9.75". */
enum library request_check_library(const char *version);

/* The request line, before the first header; for a lenient library only.  The texts are those of
 * the library's buffer; uri_n: bytes of path and query. */
struct head_line {
	const char *method, *uri, *version;
	size_t uri_n;
};
void head_take_line(struct request_head *f, const struct head_line *line);
/* Adds one header; call it in the order of arrival. */
void head_take_header(struct request_head *f, struct span name, struct span value);
/* Splits a target in absolute form, http://HOST:PORT/PATH?QUERY (RFC 9112 3.2.2): *host becomes the
 * authority, *target the rest.  Other forms stay unchanged.  false: no host, or a user in it. */
bool head_split_target(struct span *target, struct span *host);
/* The library stores such a record per header, and per parameter of the query. */
enum { HEAD_NOTE = 64 };
enum head_size { SIZE_OK, SIZE_LINE, SIZE_HEADERS };
/* The library has one buffer for line, headers and the head of its answer.  If something does not
 * fit it closes the connection or answers in HTML, so the limit is lower than the buffer.  line_n:
 * bytes of path and query. */
enum head_size head_size(const struct request_head *f, size_t line_n);

/* Called after all headers; returns the violation (static text), or NULL. head_end: address of the
 * end of the head; ignored if addresses are not checked. */
const char *request_check(struct request_head *f, const char *version, const char *head_end);

/*
 * Used with --no-auth, where every client of the port may submit: refuses requests of web pages in
 * the user's browser.  Host must be a name of this machine, and Origin, if present, the server's
 * own page (scheme: "http", "https").  Returns the violation (static text), or NULL.
 */
const char *request_check_local(const struct request_head *f, const char *scheme, uint16_t port);

enum body_type {
	BODY_TYPE_TEXT, /* text/anything, or no type */
	BODY_TYPE_JSON,
	BODY_TYPE_YAML,
	BODY_TYPE_FORM,
	BODY_TYPE_BYTES,
	BODY_TYPE_GZIP,
	BODY_TYPE_REFUSED,
	BODY_ENCODING_REFUSED
};
/* Returns the type by Content-Type and Content-Encoding. */
enum body_type head_body_type(const struct request_head *f);
