#pragma once
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
#include "runtime-assets/net/http.h"

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
