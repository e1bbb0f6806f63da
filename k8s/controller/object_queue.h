#pragma once
/*
 * Carries what the watches say from the threads of the reflectors to the thread of the rules, in
 * order.
 *
 *	object_queue_put(q, KIND_POD, OBJECT_PUT, object);      (a reflector's thread)
 *	while ((o = object_queue_take(q)) != NULL) {            (the thread of the rules)
 *		use(o);
 *		free(o);
 *	}
 *
 * It is bounded by bytes: a reflector waits while the queue is full, and so does the API server
 * that sends to it.
 *
 * Thread: own
 */
#include <stdbool.h>

#include "base/counter.h"
#include "base/object.h"

struct object_queue;

enum object_said { OBJECT_LIST_BEGINS, OBJECT_LIST_ENDS, OBJECT_PUT, OBJECT_GONE };

struct queued_object {
	struct queued_object *next;
	enum object_kind kind;
	enum object_said said;
	size_t n;
	char text[]; /* JSON, and a NUL; "" of a list's begin and end */
};

/* bytes: borrowed, 0: set to the size of what waits.  NULL: no descriptor is left. */
struct object_queue *object_queue_new(size_t bytes_max, atomic_ullong *bytes);
/* Adds a copy.  It waits while the queue is full; an object that is larger than the whole queue is
 * taken by an empty one.  Nothing is added to a closed queue.  Thread: any. */
void object_queue_put(struct object_queue *q, enum object_kind kind, enum object_said said,
                      struct span object);
/* The oldest one, which the caller frees; NULL: the queue is empty. */
struct queued_object *object_queue_take(struct object_queue *q);
int object_queue_fd(const struct object_queue *q); /* readable while there is something to take */
/* Waiting threads go on, and no thread waits any more. */
void object_queue_close(struct object_queue *q);
/* No thread uses it any more.  Accepts NULL. */
void object_queue_free(struct object_queue *q);
