#pragma once
/*
 * One of the container's own streams, standard output or error, as `run` writes to it: never
 * blocking.  What the reader does not take yet waits in a queue; whoever feeds the outlet looks at
 * outlet_waiting() and feeds no more until the descriptor is writable and outlet_flush() has
 * emptied the queue.  That is how a slow reader slows the job down and nothing else.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum outlet_kind {
	OUTLET_OWN,    /* a file, or a description of our own that does not block */
	OUTLET_SOCKET, /* shared with others: not blocking call by call */
	OUTLET_SHARED  /* shared with others: asked before each write, which is small then */
};

struct outlet {
	int fd; /* -1: there is none, or its reader is gone */
	enum outlet_kind kind;
	struct str queue; /* from `head` on */
	size_t head;
	int64_t moved_at; /* on clock_ms(), when the reader last took something */
	uint64_t lost;    /* bytes that nobody got */
	int error;        /* why, the first time */
};

/* Of the process's descriptor 1 or 2.  Its flags are not touched: others may share them. */
void outlet_open(struct outlet *o, int fd);

/* Write it, or put what does not go through now into the queue (at most QUEUE_MAX bytes; the rest
 * is lost, so do not feed one that waits with more than lines). */
void outlet_put(struct outlet *o, struct span text);

/* Write what is in the queue as far as it goes now. */
void outlet_flush(struct outlet *o);

static inline bool outlet_waiting(const struct outlet *o)
{
	return o->fd >= 0 && o->queue.n > o->head;
}

void outlet_done(struct outlet *o);

/* Nobody will read it: what waits is lost, as is what comes. */
void outlet_abandon(struct outlet *o, int error);
