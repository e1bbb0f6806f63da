#pragma once
/*
 * Streams: answers whose body is written over time (large lists, events, logs).  Written bytes wait
 * in a buffer of stream-buffer until the client reads them.
 *
 * A list is written by `more`, which is called whenever there is room.  Producers of events and
 * logs call stream_put.  If the buffer is full, an event stream is cut, and a log pauses its source
 * until `more` is called.
 *
 * The server closes a stream whose client has not read pending data for idle-timeout.  `gone` is
 * never called from within stream_put, stream_end or stream_cut.
 *
 * Thread: loop
 */
#include "jobs/cache/job_entry.h"
#include "server/http/request.h"

struct stream;

/* Each callback may be NULL. */
struct stream_calls {
	/* There is room: write, and call stream_end after the last. */
	void (*more)(struct stream *s, void *arg);
	/* Its time is over (stream_end_reason): write the last bytes; it ends afterwards. */
	void (*last)(struct stream *s, void *arg);
	/* Every stream-heartbeat seconds of a long-lived stream: write a heartbeat. */
	void (*heartbeat)(struct stream *s, void *arg);
	/* The stream has ended; nothing may be written any more.  Always called, once. */
	void (*gone)(void *arg);
	bool long_lived;
	bool unlimited; /* stream-lifetime does not end it */
	bool finishes;  /* it ends by itself, and a stopping server waits for it */
};

/* Begins to answer r; headers added before are sent.  NULL: r has been answered 429 or 503, or it
 * is a HEAD, which has no body; no callback is called. */
struct stream *stream_open(struct request *r, int status, const char *type,
                           const struct stream_calls *calls, void *arg);
/* false: there is no room, and nothing was taken. */
bool stream_put(struct stream *s, struct span bytes);
size_t stream_room(const struct stream *s);
/* For `more`: the next bytes of a file; at its end the stream ends, if it cannot be read it is cut.
 */
void stream_put_file(struct stream *s, int fd);
/* The body is what comes out of this descriptor, a pipe that does not block, until its end.  It is
 * the caller's, and stays open until the request ends. */
void stream_from(struct stream *s, int fd);
/* Ends the stream after the client has read everything. */
void stream_end(struct stream *s);
/* Ends the stream at once with a reset, so that the client sees that it is incomplete. */
void stream_cut(struct stream *s);
/* Returns the reason, for `last`: "lifetime", "shutdown" (of the server), or "token" (is not valid
 * any more). */
const char *stream_end_reason(const struct stream *s);

/* ---- server-sent events as text (HTML Living Standard, section 9.2): pure; all append.
 * Thread: any. ---- */

/* Clients reconnect after this time. */
#define SSE_RETRY "retry: 2000\n"
#define SSE_PING  ": ping\n\n"

/* `data`: one line.  id: for Last-Event-ID; 0: none. */
void sse_event(struct str *out, const char *event, int64_t id, struct span data);
/* gone: {"name", "username"} of a deleted job. */
void sse_put_deleted(struct str *out, const struct job_entry *job);
/* end: {"reason"}; static text. */
void sse_end(struct str *out, const char *reason);

/*
 * Long-lived requests: SSE streams and `?wait=` long polls.  A loop has at most streams_per_user
 * of one user, and a quarter of its --connections.  They end after stream-lifetime, when the token
 * is not valid any more, or when the server stops.
 */
enum long_lived_event {
	LONG_LIVED_TICK,     /* about once a second */
	LONG_LIVED_OVER,     /* stream-lifetime or the requested time has passed */
	LONG_LIVED_SHUTDOWN, /* the server stops */
	LONG_LIVED_REFUSED,  /* the token is not valid any more */
	LONG_LIVED_LEFT,     /* the client has closed the connection */
};

/* The request must end soon after any event but TICK. */
typedef void long_lived_callback(void *arg, enum long_lived_event event);

enum { LONG_LIVED_UNLIMITED = -1 };
/* `seconds`: until LONG_LIVED_OVER, at most stream-lifetime, or never (LONG_LIVED_UNLIMITED: for
 * those that another limit bounds, so that they count neither for streams-per-user nor for
 * connections-per-address).  false: there are too many, or the
 * server stops; r has been answered 429 or 503. */
bool long_lived_begin(struct request *r, int64_t seconds, long_lived_callback *callback, void *arg);
/* Idempotent; does nothing for other requests. */
void long_lived_end(struct request *r);
