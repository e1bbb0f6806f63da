#pragma once
/*
 * Is this request framed as one request only, and may it have come from a web page?
 * libmicrohttpd accepts requests that a proxy before us may read otherwise (two lengths, length
 * and chunks, folded headers), and such a difference smuggles a second request in.  So every
 * header is checked before anything else happens.  Pure.
 *
 * libmicrohttpd before 1.0 hides line ends from us: it folds headers, cuts values at a NUL, and
 * takes bare LF.  All names and values that it hands out lie in its buffer in the order in which
 * they came, so their addresses show how many bytes lie between them.  Only addresses are compared;
 * no byte outside of what the library has handed out is read.  From 1.0 on the library refuses all
 * of these by itself (at its strictest level), and addresses mean nothing.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Headers that something is decided by. */
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

struct framing {
	struct span value[HEADER_MAX]; /* borrowed; p is NULL if absent */
	uintptr_t next;                /* address of the next line; 0: addresses mean nothing */
	const char *wrong;             /* the first thing found, static text; NULL if none */
	uint64_t length;               /* of the body; 0 if not said */
	size_t room;                   /* what the headers take of the library's buffer, about */
	bool chunked;
};

/* How a version of libmicrohttpd reads requests. */
enum library {
	LIBRARY_REFUSED,   /* older than 0.9.75, or no version */
	LIBRARY_LENIENT,   /* before 1.0: addresses show what it hides */
	LIBRARY_STRICT,    /* 1.0: has levels of strictness */
	LIBRARY_NOT_TRIED, /* later: as 1.0 */
};
/* By its version, such as "0.9.75". */
enum library framing_library(const char *version);

/* The request line, before the first header; only for a lenient library: parts where it holds them,
 * uri_n: bytes of path and query. */
struct framing_line {
	const char *method, *uri, *version;
	size_t uri_n;
};
void framing_line(struct framing *f, const struct framing_line *line);
/* Take one header, in the order in which they came. */
void framing_header(struct framing *f, struct span name, struct span value);
/* The target of a request in absolute form, http://HOST:PORT/PATH?QUERY, as proxies are sent it and
 * servers must take it (RFC 9112 3.2.2).  Cuts scheme and authority off *target, which begins with
 * the path then, or with the query, or is empty; *host is the authority.  Of any other form both
 * stay as they are.  false: no host, or a user in it. */
bool framing_target(struct span *target, struct span *host);
/* A parameter of the query takes as much of that buffer as a header. */
void framing_parameter(struct framing *f);
enum framing_size { SIZE_OK, SIZE_LINE, SIZE_HEADERS };
/* The library has one buffer for line, headers and the head of its answer, and closes without an
 * answer, or with one in HTML, if something does not fit: so much less is allowed that the answer
 * always does.  line_n: bytes of path and query. */
enum framing_size framing_size(const struct framing *f, size_t line_n);

/* After all headers: what is wrong with them (static text), or NULL.  head_end: where the head of
 * the request ends; not looked at where addresses mean nothing. */
const char *framing_check(struct framing *f, const char *version, const char *head_end);

/*
 * Without logins, the port itself is the right to submit, so a web page in the user's browser must
 * not reach it: the Host must be this machine's own name, and an Origin, if any, our own
 * page (scheme: "http", "https").  What is wrong (static text), or NULL.
 */
const char *framing_local(const struct framing *f, const char *scheme, uint16_t port);

enum body_type {
	BODY_TYPE_TEXT, /* text/anything, and nothing said */
	BODY_TYPE_JSON,
	BODY_TYPE_YAML,
	BODY_TYPE_FORM,
	BODY_TYPE_BYTES,
	BODY_TYPE_REFUSED,
	BODY_ENCODING_REFUSED
};
/* What a body is, by Content-Type and Content-Encoding. */
enum body_type framing_body_type(const struct framing *f);

/* A token of RFC 9110: what a header's name may be. */
bool framing_is_token(struct span s);
/* [A-Za-z0-9-]{1,64} */
bool request_id_ok(struct span id);
