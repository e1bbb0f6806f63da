#pragma once
/*
 * server/http: connections, requests and answers.  Begin here: struct request is one HTTP request
 * from its first line to its log line.  http.c receives it from libmicrohttpd, admission.c checks
 * it, route.h names its handler, loop.h is the thread that serves it, stream.h sends long answers.
 *
 *	void hello_get(struct request *r)
 *	{
 *		if (r->loop->server->local)
 *			answer_text(r, 200, "hello from one machine");
 *		else
 *			answer_refuse(r, UNAVAILABLE, "there is no machine");
 *	}
 *
 * A handler runs after the body is complete.  It answers at once (answer_*), or calls request_wait
 * and answers later.  Memory that must live until the end of the request comes from r->arena.
 *
 * Thread: loop
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "server/http/address.h"
#include "server/http/request_check.h"

struct MHD_Connection;
struct MHD_Response;
struct loop;
struct route;
struct account;
struct long_lived;
struct line;
struct stream;
struct body_pipe;

enum {
	REQUEST_ID_MAX = 64,
	ROUTE_ARGS = 6,
	REPLY_HEADERS = 12,
	PATH_SHOWN = 200, /* bytes of a path in the log */
	REPLY_MAX = 1 << 20,
	SWALLOW = 1 << 20,          /* bytes of body that are received and discarded */
	SWALLOW_CHUNKED = 64 << 20, /* the same for a body of unknown length */
};

/* An answer.  Header names are static text; values live in the request's arena. */
struct reply {
	int status;
	const char *type;  /* Content-Type */
	const char *code;  /* error code for the log, or NULL */
	const char *cache; /* Cache-Control; NULL: no-store */
	int64_t length;    /* of a stream that ends by itself; 0: unknown */
	struct str body;
	struct {
		const char *name, *value;
	} headers[REPLY_HEADERS];
	size_t n_headers;
	bool close; /* close the connection after this answer */
};

/* Resources that requests hold, until each ends or gives them back: r->held of a request,
 * loop->held of all requests of a loop.  Callers compare with the bound before they take more. */
enum holding {
	HOLD_BODY,    /* bytes of unfinished bodies, and of uploads and code: BODIES_MAX */
	HOLD_JOB,     /* bytes of submissions in progress: queue-bytes */
	HOLD_DRY_RUN, /* bytes of dry runs: dry-run-bytes */
	HOLD_LARGE,   /* bytes of answers above REPLY_MAX about jobs: detail-memory */
	HOLD_ROWS,    /* jobs in lists that are being sent: list-rows */
	HOLD_MEMORY,  /* bytes of bodies and answers: no bound, tells when memory comes back */
	HOLDINGS
};

/* In the order of its life; http.c has the table of what may follow. */
enum request_phase {
	REQUEST_ARRIVING,  /* its head, or its body */
	REQUEST_PAUSED,    /* suspended before the body, until the principal is known */
	REQUEST_RESUMED,   /* MHD repeats the callback for the head, then the body arrives */
	REQUEST_WHOLE,     /* the body is complete, or there is none */
	REQUEST_SUSPENDED, /* ... and the principal or the handler is waited for */
	REQUEST_ANSWERED
};

struct request {
	struct loop *loop;
	struct MHD_Connection *connection;
	char id[REQUEST_ID_MAX + 1];
	const char *method, *path; /* path as sent, without the query; in the arena */
	struct span host;          /* of a target in absolute form, in the arena; else p is NULL */
	const char *query;         /* after the "?", as sent; "" if absent; in the arena */
	struct request_head head;  /* valid until the body arrives */
	const struct route *route;
	struct span args[ROUTE_ARGS];    /* decoded segments of the path; in the arena */
	int64_t started_us, answered_us; /* by clock_us; 0: not answered */
	bool untimed;                    /* a stream or long poll: its latency says nothing */
	struct str body;                 /* may hold secrets */
	/* Takes the parts of the body instead, if the route's `before` has set it.  It must not
	 * block for long, and keeps its failures until the handler runs. */
	void (*sink)(struct request *r, struct span part);
	struct body_pipe *pipe; /* takes them instead (body_to_fd); NULL */
	size_t received;        /* bytes of body received, kept or not */
	size_t line_n;          /* bytes of path and query in the request line */
	enum request_phase phase;
	struct MHD_Response *kept; /* an answer that is sent when the body is WHOLE; NULL */
	bool odd_line;             /* the request line has blanks or control characters */
	bool form;                 /* the Content-Type is a form */
	enum { DROP_NOTHING, DROP_TOO_LARGE, DROP_NO_ROOM } drop; /* the body, but receive it */
	bool secret;                                              /* wipe the arena */
	struct client_address client; /* of the connection, or from a trusted proxy's header */
	char client_text[CLIENT_ADDRESS_TEXT];
	const char *cors_origin; /* Access-Control-Allow-Origin, or NULL */
	/* The account that sends the request (auth.h); NULL on routes without authentication, and
	 * until it is known.  `user` is its name. */
	struct account *principal;
	const char *user;
	const char *why;                  /* reason of a refusal, for the log only */
	bool application;                 /* the token is an application token or counts as one */
	const char *token;                /* the token itself, in the arena, wiped; or NULL */
	int64_t token_iat_s, token_exp_s; /* claims of the token; -1: absent */
	struct reply reply;
	struct arena arena;
	void *state; /* of the handler; in the arena */
	/* Adds the handler's fields to the log line; may be NULL. */
	void (*log)(const struct request *r, struct line *line);
	struct request_end *ends; /* request_on_end */
	size_t held[HOLDINGS];
	struct long_lived *long_lived;
	struct stream *stream;
};

/* Bytes of body that are received, kept or not; a client that sends more is disconnected. */
size_t request_swallow_max(const struct request *r);
/*
 * For a route's `before`: the body, of any length and for any time, goes to this descriptor, which
 * does not block; while it is full, the client waits.  When its reader has gone, or this server
 * stops, the connection ends.  The descriptor is the caller's, and stays open until r ends.  false:
 * r has been answered.
 */
bool body_to_fd(struct request *r, int fd);
/* The value of a header, or NULL; borrowed until the request ends.  Not for Authorization. */
const char *request_header(const struct request *r, const char *name);
/* Calls fn(arg) after r has ended and was logged; the last registered runs first. */
void request_on_end(struct request *r, void (*fn)(void *arg), void *arg);
/* r holds this amount, until it ends or this is called again. */
void request_hold(struct request *r, enum holding kind, size_t amount);
/* It was answered, or is when its body is complete. */
static inline bool request_answered(const struct request *r)
{
	return r->phase == REQUEST_ANSWERED || r->kept;
}
/* Suspends the connection until an answer is given or request_identified is called.  Idempotent. */
void request_wait(struct request *r);
/* Called when the principal is known: checks the rest of the head, then receives the body. */
void request_identified(struct request *r);

/* ---- answers; errors as in the REST contract of OpenPAI ---- */

/* Sends r->reply; resumes a suspended connection. */
void answer_send(struct request *r);
/* Adds a header to the reply; the value is copied. */
void answer_header(struct request *r, const char *name, const char *value);
void answer_error(struct request *r, const struct err *e);
void answer_refuse(struct request *r, int status, const char *code, const char *message);
/* 400 InvalidParametersError: the rule `must`, and the value found. */
void answer_bad(struct request *r, const char *must, struct span found);
void answer_text(struct request *r, int status, const char *text);
/* Adds the header ETag: W/"...".  true: the client has this version, and r was answered 304. */
bool answer_unchanged(struct request *r, const char *tag);
/* Sends the JSON in r->reply.body. */
void answer_json(struct request *r, int status);
/* Returns true if this loop has memory for another large answer; if not, r has been answered 503.
 * Call it before each step that allocates. */
bool answer_has_room(struct request *r);
/* HOLD_LARGE: the memory of r, if it exceeds REPLY_MAX. */
void answer_hold(struct request *r);

/* {"code", "message", "errors"}: the first notes as text, all notes with places.  Thread: any. */
void error_json(struct str *out, const struct err *e);
/* "line 2: a: must be ...; line 7: b: ...; and 3 more".  Thread: any. */
void notes_text(struct str *out, const struct notes *n);
/* [{"pointer", "line", "column", "message"}, ...].  Thread: any. */
void notes_json(struct str *out, const struct notes *n);
/* Text as a header value: printable ASCII, at most 1000 bytes, longer text ends in "...".
 * Thread: any. */
void header_text(struct str *out, struct span text);
