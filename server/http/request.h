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
#include "server/http/framing.h"
#include "server/http/peer.h"

struct MHD_Connection;
struct MHD_Response;
struct loop;
struct route;
struct account;
struct lasting;
struct line;
struct stream;

enum {
	REQUEST_ID_MAX = 64,
	ROUTE_ARGS = 6,
	REPLY_HEADERS = 12,
	PATH_SHOWN = 200, /* bytes of a path that the log shows */
	REPLY_MAX = 1 << 20,
	SWALLOW = 1 << 20,          /* bytes of body that are taken and thrown away */
	SWALLOW_CHUNKED = 64 << 20, /* the same of a body that does not say its length */
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
	struct span host;  /* of a target in absolute form, in the arena; p is NULL of others */
	const char *query; /* what follows the ?, as sent; "" if nothing does; in the arena */
	struct framing framing; /* valid while the header is looked at */
	const struct route *route;
	struct span args[ROUTE_ARGS]; /* decoded segments of the path; in the arena */
	int64_t started_us;
	struct str body;     /* may hold secrets; grows as it comes */
	size_t body_counted; /* bytes of it that count in loop->body_bytes */
	size_t received;     /* bytes of body that came, kept or not */
	size_t line_n;       /* bytes of path and query in the request line */
	bool odd_line;       /* with blanks, or control characters, where none may be */
	bool seen;           /* the header is there */
	bool looked_at;      /* ... and was judged */
	bool form;           /* ... by its type, it is a form */
	bool too_large, no_room, answered, waiting;
	bool whole;                /* all of it has come */
	struct MHD_Response *kept; /* an answer that goes out when all has come */
	bool in_header; /* waits since the header was looked at: the library shows it once more */
	bool secret;    /* wipe the arena */
	/* Where it comes from, by the connection, or by the header of a trusted proxy (edge.h). */
	struct peer client;
	char peer[PEER_TEXT];    /* the same, as text */
	const char *cors_origin; /* Access-Control-Allow-Origin, or NULL: pages may not read this */
	/* The account that sends the request (auth.h); NULL on routes without authentication, and
	 * until it is known.  `user` is its name. */
	struct account *principal;
	const char *user;
	const char *why;   /* it was refused, for the log only: of a 401, or of any 5xx */
	bool application;  /* by an application token, or one that counts as such */
	const char *token; /* the token itself, in the arena, wiped; NULL without one */
	int64_t token_iat_s, token_exp_s; /* as it says; -1: not said */
	struct reply reply;
	struct arena arena;
	void *state; /* of the handler; in the arena */
	/* The handler adds what it knows to the line in the log; may be NULL. */
	void (*log)(const struct request *r, struct line *line);
	struct request_end *ends; /* request_on_end */
	size_t large_held;        /* bytes of a large answer, see answer_hold */
	struct lasting *lasting;  /* it waits for things to happen (lasting.h) */
	struct stream *stream;    /* its answer comes bit by bit (stream.h) */
};

/* Bytes of a body that are taken, kept or not; who sends more is cut off. */
size_t request_swallow_max(const struct request *r);
/* Calls fn(arg) when r has ended and was logged; the last first. */
void request_on_end(struct request *r, void (*fn)(void *arg), void *arg);
/* The connection sleeps until an answer is given, or request_go_on is called.  Nothing, if it does
 * already. */
void request_wait(struct request *r);
/* The header of a request that waits has passed: take the rest of it. */
void request_go_on(struct request *r);
/* Give the answer that r->reply holds; wakes the connection if it waits. */
void answer_send(struct request *r);
/* Add a header to the reply; the value is copied. */
void answer_header(struct request *r, const char *name, const char *value);
