#pragma once
/*
 * What the processes of a task write: three pipes, read from one loop.  Standard output and error
 * of the user's command go to the container's streams and the user's logs, in the order in which
 * they were written; the third one, which plugins write to, goes to runtime.log.
 */
#include <stdbool.h>
#include <stddef.h>

#include "runtime-assets/run/logs.h"

enum stream_name { STREAM_STDOUT, STREAM_STDERR, STREAM_RUNTIME, STREAM_MAX };

struct stream {
	int fd;       /* the end for reading; -1: closed */
	bool more;    /* something was left there: no announcement will come for it */
	bool ready;   /* in this turn */
	int64_t left; /* bytes still taken from it at the end of a task */
};

struct streams {
	struct logs *logs;
	struct outlet *out; /* two */
	struct stream v[STREAM_MAX];
	int hints; /* signalfd; readable when something was announced; -1: there is none */
	int hint_signal;
	size_t page;
	char *buffer;
	size_t filled;
	int filler; /* whose it is */
};

/* Blocks the signals that it needs; the mask before it is the caller's to keep.  -1 and errno. */
int streams_init(struct streams *s, struct logs *l, struct outlet *out);
void streams_done(struct streams *s);

/* A new pipe for a stream that is closed: the end for writing (close-on-exec), or -1 and errno. */
int streams_open(struct streams *s, enum stream_name i);
void streams_close(struct streams *s, enum stream_name i);

static inline bool streams_is_open(const struct streams *s, enum stream_name i)
{
	return s->v[i].fd >= 0;
}

/* A stream stands still while its reader has not taken what was there before. */
bool streams_is_paused(const struct streams *s, enum stream_name i);

/* Read what was announced or is ready of the user's streams, and hand it on; at the end of what
 * they hold they are closed. */
void streams_take_user(struct streams *s);
void streams_take_runtime(struct streams *s);

/* From now on, as much as there is in the pipes will be taken: is it? */
void streams_begin_final(struct streams *s);
bool streams_are_drained(const struct streams *s);
