#pragma once
/*
 * Logs of containers, handed on as they come: GET pods/NAME/log, of which no more is ever held than
 * one piece.  Who cannot take a piece says so, and it stops to come until he asks for more.
 *
 * Of one loop: connections of its own, so that logs which are followed take no turn from requests
 * of the store.  Every call from the loop's thread; nothing blocks.
 */
#include "base/err.h"
#include "k8s/transport/store.h"

struct log_streams; /* of one loop */
struct log_stream;  /* one log that is read */

enum {
	LOG_STREAM_PIECE = 4096, /* bytes that come at once, at most */
	LOG_STREAM_SILENCE_MS =
	    2000 /* a log that is followed counts as begun when nobody has said no */
};

enum log_stream_outcome {
	LOG_STREAM_WHOLE,   /* all of it came */
	LOG_STREAM_REFUSED, /* nothing came: `status` says why */
	LOG_STREAM_AWAY,    /* nothing came: no answer, or none in time */
	LOG_STREAM_CUT,     /* it broke off */
	LOG_STREAM_CLOSING, /* log_streams_free */
	LOG_STREAM_OUTCOME_MAX
};

struct log_stream_end {
	enum log_stream_outcome outcome;
	int status; /* HTTP status of the API server; 0: none */
	/* For people: what became of the connection; never the API server's words.  Borrowed. */
	const char *message;
};

struct log_stream_request {
	const char *pod, *container; /* names; borrowed until this returns, as user is */
	const char *user;            /* whose it is */
	int64_t lines;               /* so many of its end only; 0: all */
	bool follow;                 /* what is still to be written, too */
	int64_t patience_ms;         /* for the answer, and for each piece, unless it is followed */

	/* The API server will give it.  Once, before all `came`.  silent: nothing has come, and
	 * nothing may for long.  false: it is not wanted any more; `ended` is not called. */
	bool (*began)(void *arg, bool silent);
	/* At most LOG_STREAM_PIECE bytes.  false: not now; they come again after log_stream_go_on.
	 */
	bool (*came)(void *arg, struct span bytes);
	/* It is over, and so is the tail.  Once, unless log_stream_cancel was called. */
	void (*ended)(void *arg, const struct log_stream_end *end);
	void *arg;
};

/* At most `max` at a time, `per_user` of them of one user.  NULL and *e: 500. */
struct log_streams *log_streams_new(struct login *l, const char *namespace_name, size_t max,
                                    size_t per_user, struct err *e);
void log_streams_free(struct log_streams *t); /* ends all; NULL is nothing */

/* Nothing is called from within.  NULL and *e: 503 there are too many; 500 what is no name. */
struct log_stream *log_stream_open(struct log_streams *t, const struct log_stream_request *r,
                                   struct err *e);
/* There is room again.  May call `came` at once. */
void log_stream_go_on(struct log_stream *t);
/* It is not wanted any more: nothing of it is called, and its connection is closed.  Also from
 * within its own calls. */
void log_stream_cancel(struct log_stream *t);

int log_streams_fd(const struct log_streams *t); /* readable when log_streams_run_once has work */
void log_streams_run_once(
    struct log_streams *t); /* the only one, beside log_stream_go_on, that calls back */
int log_streams_timeout_ms(const struct log_streams *t); /* until then; -1: for ever */
size_t log_streams_count(const struct log_streams *t);
