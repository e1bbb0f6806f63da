#pragma once
/*
 * One HTTP request, from its first line to its log line, and what a handler may do
 * with it.  A handler runs on the loop's thread when the request is there as a whole
 * and either answers at once (answer_*), or calls request_wait, keeps the pointer and
 * answers later, from that same thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "server/framing.h"

struct MHD_Connection;
struct MHD_Response;
struct loop;
struct route;
struct job;

enum {
	REQUEST_ID_MAX = 64,
	ROUTE_ARGS = 2,
	REPLY_HEADERS = 4,
	PATH_SHOWN = 200, /* bytes of a path that the log shows */
	REPLY_MAX = 1 << 20,
	SWALLOW = 1 << 20, /* bytes of body that are taken and thrown away */
};

/* What is answered.  Header names are static text; values live in the request's arena. */
struct reply {
	int status;
	const char *type; /* Content-Type */
	const char *code; /* error code, for the log; NULL if none */
	struct str body;
	struct {
		const char *name, *value;
	} headers[REPLY_HEADERS];
	size_t n_headers;
	bool close; /* the connection is not fit for another request */
};

struct request {
	struct loop *loop;
	struct MHD_Connection *connection;
	char id[REQUEST_ID_MAX + 1];
	const char *method, *path; /* path as sent, without the query; in the arena */
	struct framing framing;    /* valid while the header is looked at */
	const struct route *route;
	struct span args[ROUTE_ARGS]; /* decoded segments of the path; in the arena */
	int64_t started_us;
	struct str body; /* may hold secrets */
	size_t received; /* bytes of body that came, kept or not */
	size_t line_n;   /* bytes of path and query in the request line */
	bool seen;       /* the header is there */
	bool looked_at;  /* ... and was judged */
	bool too_large, answered, waiting;
	bool secret; /* wipe the arena */
	struct reply reply;
	struct arena arena;
	/* Of a submission. */
	struct notes warnings;
	const struct job *job;
	bool v1;
};

/* The connection sleeps until an answer is given. */
void request_wait(struct request *r);
/* Give the answer that r->reply holds; wakes the connection if it waits. */
void answer_send(struct request *r);
/* Add a header to the reply; the value is copied. */
void answer_header(struct request *r, const char *name, const char *value);
