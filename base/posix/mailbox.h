#pragma once
/*
 * Messages to one thread.  Any thread puts them, the owner waits for the descriptor and takes all
 * at once, oldest first.  A message begins with a struct mail, and belongs to the box while it is
 * in it:
 *
 *	struct ended_attempt { struct mail mail; const struct job_entry *job; };
 *
 * Thread: own
 */
#include <pthread.h>

#include "base/err.h"

struct mail {
	struct mail *next;
};

struct mailbox {
	pthread_mutex_t lock; /* of all below */
	struct mail *first, **last;
	size_t n, max, lost;
	int fd; /* readable until mailbox_take; needs no lock */
};

/* Prepares a mailbox in which at most `max` messages wait.  0, or -1 and *e (500). */
int mailbox_init(struct mailbox *b, size_t max, struct err *e);
/* Thread: any.  false: the box is full; it counts the message as lost, which stays the caller's. */
bool mailbox_put(struct mailbox *b, struct mail *m);
/* All messages, or NULL; the caller frees them.  *lost: how many were lost since the last call. */
struct mail *mailbox_take(struct mailbox *b, size_t *lost);
/* The box must be empty, and no other thread use it any more. */
void mailbox_done(struct mailbox *b);
