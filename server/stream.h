#pragma once
/*
 * An answer whose body comes bit by bit: large lists, events as they happen, logs.  What is written
 * waits in a buffer of --stream-buffer bytes until the client takes it.
 *
 * Who writes on his own (a list) is asked for more by `more` whenever there is room.  Who writes
 * when something happens calls stream_put, which says when there is no room: then it is too slow,
 * and is to be cut off (events), or its source is to pause until `more` is called (logs).
 *
 * Streams that wait for things to happen (`lasting`) count: at most --streams-per-user of a user,
 * and at most a quarter of --connections of a loop; they end after --stream-lifetime, with what
 * `last` writes, and the client comes again.  All of one stream on its loop's thread.
 */
#include "server/request.h"

struct stream;

struct stream_calls {
	/* There is room: write what there is; stream_end after the last. May be NULL. */
	void (*more)(struct stream *s, void *arg);
	/* Its time is over: write the last words, if any; it is ended afterwards.  May be NULL. */
	void (*last)(struct stream *s, void *arg);
	/* About each 30 s on a lasting one: something to show that it lives.  May be NULL. */
	void (*heartbeat)(struct stream *s, void *arg);
	/* It is over, by whomever: nothing may be written any more.  Called once, always. */
	void (*gone)(void *arg);
	bool lasting;
};

/* Begin to answer r with this.  NULL if there are too many: r has been answered 429 or 503. */
struct stream *stream_open(struct request *r, int status, const char *type,
                           const struct stream_calls *calls, void *arg);
/* false: there is no room, and nothing of it was taken. */
bool stream_put(struct stream *s, struct span bytes);
size_t stream_room(const struct stream *s);
/* That was all: it ends when the client has taken it. */
void stream_end(struct stream *s);
/* End it at once, so that the client sees that it is not whole. */
void stream_cut(struct stream *s);

/* Of a loop: what is due (heartbeats, lifetimes), and when next (-1: nothing). */
void streams_turn(struct loop *l);
int streams_timeout_ms(const struct loop *l);
/* The server stops: all get their last words. */
void streams_end(struct loop *l);
