#pragma once
/*
 * An answer whose body comes bit by bit: large lists, events as they happen, logs.  What is written
 * waits in a buffer of stream-buffer bytes until the client takes it.
 *
 * Who writes on his own (a list) is asked for more by `more` whenever there is room.  Who writes
 * when something happens calls stream_put, which says when there is no room: then it is too slow,
 * and is to be cut off (events), or its source is to pause until `more` is called (logs).
 *
 * Streams that wait for things to happen (`lasting`) count (lasting.h): at most --streams-per-user
 * of a user, and at most a quarter of --connections of a loop.  They end after stream-lifetime,
 * when the token is good no more, or when the server stops, with what `last` writes, and the client
 * comes again.  Who takes nothing for idle-timeout is cut off.  All of one stream on its loop's
 * thread; only handlers and these calls write, and `gone` never comes from within stream_put,
 * stream_end or stream_cut.
 */
#include "k8s/cache/job_entry.h"
#include "server/http/request.h"

struct stream;

struct stream_calls {
	/* There is room: write what there is; stream_end after the last. May be NULL. */
	void (*more)(struct stream *s, void *arg);
	/* Its time is over (stream_why): write the last words, if any; it is ended afterwards.  May
	 * be NULL. */
	void (*last)(struct stream *s, void *arg);
	/* Each stream-heartbeat on a lasting one: write something, to show that it lives.  May be
	 * NULL. */
	void (*heartbeat)(struct stream *s, void *arg);
	/* It is over, by whomever: nothing may be written any more.  Called once, always. */
	void (*gone)(void *arg);
	bool lasting;
	/* It comes to its end without anything having to happen: a server that stops waits for it.
	 */
	bool finishes;
};

/* Begin to answer r with this; headers that are added before (answer_header) are in it.  NULL if r
 * has been answered without one: 429 or 503, for there are too many or the server stops; or to a
 * HEAD, which has no body.  Then nobody is called. */
struct stream *stream_open(struct request *r, int status, const char *type,
                           const struct stream_calls *calls, void *arg);
/* false: there is no room, and nothing of it was taken. */
bool stream_put(struct stream *s, struct span bytes);
size_t stream_room(const struct stream *s);
/* That was all: it ends when the client has taken it. */
void stream_end(struct stream *s);
/* End it at once, so that the client sees that it is not whole. */
void stream_cut(struct stream *s);
/* In `last`: "lifetime", "shutdown" (the server's), or "token" (is good no more). */
const char *stream_why(const struct stream *s);

/* ---- for the ends of requests and loops ---- */

/* r is over, and so is its stream, if it has one.  late: for its client took nothing for too long.
 */
void stream_gone(struct request *r, bool late);
/* Cut all of them: none sleeps afterwards, nor ever will. */
void streams_cut(struct loop *l);
/* Cut those of which clients have not taken the last words. */
void streams_cut_ended(struct loop *l);

/* ---- server-sent events as text (HTML Living Standard, section 9.2): pure; all append ---- */

/* How long clients are asked to wait before they come again. */
#define SSE_RETRY "retry: 2000\n"
#define SSE_PING  ": ping\n\n"

/* `data`: one line.  id: from where to go on after this; 0: not said. */
void sse_event(struct str *out, const char *event, int64_t id, struct span data);
/* gone: {"name", "username"} of a job that was deleted. */
void sse_gone(struct str *out, const struct job_entry *job);
/* end: {"reason"}; static text. */
void sse_end(struct str *out, const char *reason);
