#pragma once
/*
 * Shared by the files of this folder: libmicrohttpd as the loop drives it (http.c), connections
 * (connections.c), the checks of a request (admission.c), CORS (cors.c), and the ends of streams
 * and long-lived requests (stream.c).  All on the loop's thread.
 */
#include "server/http/loop.h"

struct MHD_Connection;
struct MHD_Response;
struct connections;
struct server;
struct tls_chain;

enum activity {
	IDLE,      /* between two requests */
	READING,   /* the client sends a request, or has just connected */
	WAITING,   /* the handler waits; it has a deadline of its own */
	ANSWERING, /* the client receives an answer */
	ACTIVITY_MAX
};

/* ---- http.c: nothing here blocks ---- */

/* Starts l->http on l->listen_fd.  A descriptor that is readable when http_run has work; -1 and *e:
 * 500. */
int http_start(struct loop *l, struct err *e);
void http_run(struct loop *l);
/* Milliseconds until http_run or connections_cut must be called; -1: none. */
int http_timeout_ms(struct loop *l);
size_t http_connections(const struct loop *l);
/* Makes the loop accept no more connections. */
void http_quiesce(struct loop *l);
/* No request may be suspended any more. */
void http_stop(struct loop *l);
struct connection *http_connection_of(struct MHD_Connection *m);
/* Resumes a suspended connection. */
void http_resume(struct request *r, enum activity activity);
int http_socket(struct MHD_Connection *m);
/* Closes a connection soon. */
void http_shutdown(struct MHD_Connection *m);
/* Answers as answer_send, with this body.  Takes the response over; NULL means out of memory. */
void answer_with(struct request *r, struct MHD_Response *response);

/* ---- admission.c: checks before the handler runs; each step may answer ---- */

/* All headers are in r->head: is this one well-formed request?  head_end: see request_check. */
void admission_check_head(struct request *r, const char *version, const char *head_end);
/* Finds the route and the principal. */
void admission_header(struct request *r);
/* Part of the body; *left: how many of its bytes are not taken yet (body_to_fd).  false: it exceeds
 * request_swallow_max.  The unfinished bodies of a loop may hold BODIES_MAX bytes; beyond them the
 * answer is 503. */
bool admission_body_part(struct request *r, struct span part, size_t *left);
/* The body is complete: run the handler. */
void admission_run_handler(struct request *r);
/* Writes the log line, after the answer was sent or the client has left. */
void admission_log(const struct request *r);

/* ---- cors.c ---- */

/* The head is complete: set r->cors_origin. */
void cors_arrived(struct request *r);
/* Answers a method OPTIONS with 204 and the headers of CORS. */
void cors_options(struct request *r, struct span methods);
/* Adds the headers of CORS to an answer; called once, just before it is sent. */
void cors_headers(struct request *r);

/* ---- connections.c ---- */

struct connection {
	struct connection *prev, *next; /* of the same activity, longest first */
	struct connections *all;
	struct client_address from;
	struct MHD_Connection *library;
	void *request; /* the current request, for http.c; or NULL */
	enum activity activity;
	bool cut, counted;
	bool looked; /* IDLE, and checked once for a client that has left */
	int64_t since_ms;
	struct tls_chain *chain; /* its certificate; NULL without TLS */
};

struct connections {
	struct loop *loop;
	struct connection_list {
		struct connection *first, *last;
		int64_t limit_ms; /* 0: none */
	} lists[ACTIVITY_MAX];
	int64_t look_ms;  /* the next check for clients that left during a request */
	size_t n, places; /* n excludes cut connections */
};

/* The client, with its account of this machine.  fd: of the connection; -1: it is not yet accepted.
 * false: a Unix socket, whose clients have no limits, or that of accounts without fd. */
bool connection_from(struct loop *l, const struct sockaddr *from, int fd,
                     struct client_address *out);
/* The activity is READING; `cut`: its address has too many connections. */
struct connection *connection_begin(struct connections *all, const struct sockaddr *from,
                                    struct MHD_Connection *m);
void connection_end(struct connection *c);
/* Changes the activity and restarts its time limit. */
void connection_set_activity(struct connection *c, enum activity activity);
/* It no longer counts for its address: what it does has a limit of its own. */
void connection_exempt(struct connection *c);
/* Closes it soon. */
void connection_cut(struct connection *c);
/* The client has closed its side, and receives no answer. */
bool connection_left(const struct connection *c);
/* Cuts connections that have exceeded their time limits, or must be evicted. */
void connections_cut(struct connections *all);
/* The time of the next call, by clock_ms; INT64_MAX: never. */
int64_t connections_next_ms(const struct connections *all);

/* ---- stream.c ---- */

/* r has ended: end its stream, if any.  late: the client read nothing for too long. */
void stream_client_left(struct request *r, bool late);
/* Cuts all streams of a loop; none is suspended afterwards.  ended: only those that have ended but
 * whose clients have not read the end. */
void streams_cut(struct loop *l, bool ended);
/* A descriptor that a stream or a body waits for; it begins their structs. */
struct pipe_end {
	void (*ready)(struct pipe_end *p, uint32_t events); /* of epoll(7); watched no more */
	int fd;
};
/* As epoll_ctl with this operation; the events are told once. */
int pipe_end_watch(const struct loop *l, int op, struct pipe_end *p, uint32_t events);
/* Tells all that are ready; loop: a struct loop. */
void pipe_ends_run_once(void *loop);

/* ---- body_pipe.c ---- */

/* The next bytes of a body that goes to a descriptor (body_to_fd); returns how many are taken.  If
 * not all are, r is suspended until there is room, and the rest is handed over again. */
size_t body_pipe_put(struct request *r, struct span part);
/* Delivers due events of long-lived requests.  stopping: LONG_LIVED_SHUTDOWN to all. */
void long_lived_run_once(struct loop *l, bool stopping);
