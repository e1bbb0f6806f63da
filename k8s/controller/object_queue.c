/* Copies objects into a list under one lock, and lets writers wait while there is no room. */
#include "k8s/controller/object_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct object_queue {
	pthread_mutex_t lock;
	pthread_cond_t room;
	struct queued_object *head, *last;
	size_t bytes_max;
	atomic_ullong *bytes; /* changed with the lock only */
	bool closed;
	int fd; /* an eventfd: not 0 while the queue has something */
};

struct object_queue *object_queue_new(size_t bytes_max, atomic_ullong *bytes)
{
	struct object_queue *q = xcalloc(1, sizeof(*q));
	*q = (struct object_queue){ .bytes_max = bytes_max,
		                    .bytes = bytes,
		                    .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	(void)pthread_mutex_init(&q->lock, NULL); /* these two cannot fail */
	(void)pthread_cond_init(&q->room, NULL);
	if (q->fd >= 0)
		return q;
	object_queue_free(q);
	return NULL;
}

static size_t queued_object_bytes(const struct queued_object *o)
{
	return sizeof(*o) + o->n + 1;
}

void object_queue_put(struct object_queue *q, enum object_kind kind, enum object_said said,
                      struct span object)
{
	struct queued_object *o = xmalloc(sizeof(*o) + object.n + 1);
	*o = (struct queued_object){ .kind = kind, .said = said, .n = object.n };
	if (object.n)
		memcpy(o->text, object.p, object.n);
	o->text[object.n] = '\0';
	size_t bytes = queued_object_bytes(o);
	(void)pthread_mutex_lock(&q->lock);
	while (!q->closed && q->head && counter_get(q->bytes) + bytes > q->bytes_max)
		(void)pthread_cond_wait(&q->room, &q->lock);
	if (q->closed) {
		free(o);
	} else {
		if (q->head)
			q->last->next = o;
		else
			q->head = o;
		if (q->head == o)
			(void)eventfd_write(q->fd, 1); /* it was 0 */
		q->last = o;
		counter_add(q->bytes, bytes);
	}
	(void)pthread_mutex_unlock(&q->lock);
}

struct queued_object *object_queue_take(struct object_queue *q)
{
	(void)pthread_mutex_lock(&q->lock);
	struct queued_object *o = q->head;
	eventfd_t count;
	if (o) {
		q->head = o->next;
		counter_set(q->bytes, counter_get(q->bytes) - queued_object_bytes(o));
		if (!q->head)
			(void)eventfd_read(q->fd, &count);
		(void)pthread_cond_broadcast(&q->room);
	}
	(void)pthread_mutex_unlock(&q->lock);
	return o;
}

int object_queue_fd(const struct object_queue *q)
{
	return q->fd;
}

void object_queue_close(struct object_queue *q)
{
	(void)pthread_mutex_lock(&q->lock);
	q->closed = true;
	(void)pthread_cond_broadcast(&q->room);
	(void)pthread_mutex_unlock(&q->lock);
}

void object_queue_free(struct object_queue *q)
{
	struct queued_object *o;
	if (!q)
		return;
	while (q->fd >= 0 && (o = object_queue_take(q)))
		free(o);
	if (q->fd >= 0)
		(void)close(q->fd);
	(void)pthread_cond_destroy(&q->room);
	(void)pthread_mutex_destroy(&q->lock);
	free(q);
}
