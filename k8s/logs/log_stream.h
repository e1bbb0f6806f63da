#pragma once
/*
 * Streams the logs of containers without buffering: at most one piece is held, and a reader that
 * refuses a piece pauses the stream.  A log comes from an API server (GET pods/NAME/log) over
 * connections of the loop's own, so that followed logs do not occupy those of the store; or from
 * files of this machine (log_file.h).  Nothing blocks but short reads of files.
 *
 * Thread: loop
 */
#include "base/err.h"
#include "jobs/logs/log_file.h"
#include "jobs/store/store.h"

struct log_streams; /* of one loop */
struct log_stream;  /* one log */

enum {
	LOG_STREAM_PIECE = 4096,      /* maximal bytes of a piece */
	LOG_STREAM_FIRST = 200,       /* maximal bytes with `first` */
	LOG_STREAM_SILENCE_MS = 2000, /* a followed log has begun if no refusal came by then */
	LOG_STREAM_LOOK_MS = 250,     /* the longest pause between looks at followed files */
	LOG_STREAM_BURST = 4,         /* so often at most is a growing file read again ... */
	LOG_STREAM_BURST_MS = 20,     /* ... in such a time */
};

enum log_stream_outcome {
	LOG_STREAM_WHOLE,   /* complete */
	LOG_STREAM_REFUSED, /* no data; `status` is the reason */
	LOG_STREAM_AWAY,    /* no answer in time */
	LOG_STREAM_CUT,     /* the connection was lost */
	LOG_STREAM_CLOSING, /* log_streams_free */
	LOG_STREAM_OUTCOME_MAX
};

struct log_stream_end {
	enum log_stream_outcome outcome;
	int status; /* HTTP status of the API server, or of log_file_open; 0: none */
	/* Error of the connection, for people; never the API server's text.  Borrowed. */
	const char *message;
};

struct log_stream_request {
	const char *pod, *container; /* names; borrowed during the call, as user is */
	log_files_find *files;       /* called with `arg`; NULL: from the API server */
	unsigned streams;            /* LOG_FILE_...; of files */
	const char *user;
	int64_t lines;       /* the last so many; 0: all */
	int64_t since_ms;    /* only what was written then or later; 0: all */
	int64_t from;        /* the offset to begin at; of files */
	bool follow;         /* also future lines */
	bool times;          /* before each line its time and a blank */
	bool first;          /* LOG_STREAM_FIRST bytes: the time and the text of the first line */
	int64_t patience_ms; /* for the answer and for each piece; unused with follow */

	/* The log will come.  Once, before all `came`.  silent: no data yet, perhaps
	 * for long.  offset: of the bytes that come (log_file_offset); -1: it is not known, as in
	 * logs from an API server.  false: cancels the stream; `ended` is not called. */
	bool (*began)(void *arg, bool silent, int64_t offset);
	/* Delivers at most LOG_STREAM_PIECE bytes.  false: pause; log_stream_go_on delivers them
	 * again. */
	bool (*came)(void *arg, struct span bytes);
	/* The stream has ended and is freed.  Once, unless log_stream_cancel was called. */
	void (*ended)(void *arg, const struct log_stream_end *end);
	void *arg;
};

/* login: NULL, logs come from files.  max, per_user: limits of concurrent streams.  NULL and *e:
 * 500. */
struct log_streams *log_streams_new(struct login *l, const char *namespace_name, size_t max,
                                    size_t per_user, struct err *e);
void log_streams_free(struct log_streams *t); /* ends all; accepts NULL */

/* Makes no callbacks.  NULL and *e: 429, 503 too many; 500 invalid names. */
struct log_stream *log_stream_open(struct log_streams *t, const struct log_stream_request *r,
                                   struct err *e);
/* Resumes after a pause.  May call `came`. */
void log_stream_go_on(struct log_stream *t);
/* Closes the connection without further callbacks.  Also from within a callback. */
void log_stream_cancel(struct log_stream *t);

int log_streams_fd(const struct log_streams *t);         /* readable when there is work */
void log_streams_run_once(struct log_streams *t);        /* makes callbacks */
int log_streams_timeout_ms(const struct log_streams *t); /* until the next run; -1: no limit */
size_t log_streams_count(const struct log_streams *t);
