/* What has changed, for one thread each: a queue, in which a Framework is once. */
#include <assert.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "k8s/cache/cache_parts.h"

enum { QUEUE_MAX = 10000, QUEUE_FIRST = 16 };

struct change {
	uint64_t hash;
	const struct cached *now, *before; /* references; NULL for none */
	const struct cached *named;        /* one of the same name, as long as this is here */
};

/* In the order of their first change; `place` finds them by hash: twice as many places as there
 * may be changes, each the number of one, from 1, or 0. */
struct queue {
	struct change *v;
	uint32_t *place;
	size_t n, cap; /* a power of 2 */
	bool lost;     /* there were more */
};

struct cache_inbox {
	struct cache_inbox *next;
	struct listeners *listeners;
	pthread_mutex_t lock; /* of the queue */
	struct queue queue;
	bool awake; /* its descriptor is readable, or was since the last take */
	bool on;
	int fd;
};

/* Where the change is, or would be. */
static uint32_t *place_of(const struct queue *q, uint64_t hash, const char *name)
{
	size_t mask = 2 * q->cap - 1;
	size_t at = hash & mask;
	while (q->place[at]) {
		const struct change *c = &q->v[q->place[at] - 1];
		if (c->hash == hash && strcmp(c->named->name, name) == 0)
			break;
		at = (at + 1) & mask;
	}
	return &q->place[at];
}

static void grow(struct queue *q)
{
	q->cap = q->cap ? 2 * q->cap : QUEUE_FIRST;
	q->v = xrealloc(q->v, q->cap * sizeof(q->v[0]));
	free(q->place);
	q->place = xcalloc(2 * q->cap, sizeof(q->place[0]));
	for (size_t i = 0; i < q->n; i++)
		*place_of(q, q->v[i].hash, q->v[i].named->name) = (uint32_t)i + 1;
}

static const struct cached *hold(const struct cached *c)
{
	return c ? cached_hold(c) : NULL;
}

static void queue_add(struct queue *q, const struct change *c)
{
	if (q->n == q->cap)
		grow(q);
	uint32_t *place = place_of(q, c->hash, c->named->name);
	if (*place) {
		/* It is known how it was before all of them; nobody needs what was in between. */
		struct change *old = &q->v[*place - 1];
		cached_drop(old->now);
		old->now = hold(c->now);
	} else if (q->n == QUEUE_MAX) {
		q->lost = true;
	} else {
		q->v[q->n++] =
		    (struct change){ c->hash, hold(c->now), hold(c->before), hold(c->named) };
		*place = (uint32_t)q->n;
	}
}

static void queue_done(struct queue *q)
{
	for (size_t i = 0; i < q->n; i++) {
		cached_drop(q->v[i].now);
		cached_drop(q->v[i].before);
		cached_drop(q->v[i].named);
	}
	free(q->v);
	free(q->place);
	*q = (struct queue){ .n = 0 };
}

struct cache_inbox *cache_inbox_new(struct cache *c, struct err *e)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0) {
		(void)err_set(e, UNKNOWN_ERROR, "eventfd: %m");
		return NULL;
	}
	struct cache_inbox *i = xcalloc(1, sizeof(*i));
	i->fd = fd;
	i->listeners = cache_listeners(c);
	(void)pthread_mutex_init(&i->lock, NULL); /* cannot fail */
	(void)pthread_mutex_lock(&i->listeners->lock);
	i->next = i->listeners->first;
	i->listeners->first = i;
	(void)pthread_mutex_unlock(&i->listeners->lock);
	return i;
}

void cache_inbox_free(struct cache_inbox *i)
{
	if (!i)
		return;
	(void)pthread_mutex_lock(&i->listeners->lock);
	struct cache_inbox **at = &i->listeners->first;
	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	(void)pthread_mutex_unlock(&i->listeners->lock);
	queue_done(&i->queue);
	(void)pthread_mutex_destroy(&i->lock);
	(void)close(i->fd);
	free(i);
}

int cache_inbox_fd(const struct cache_inbox *i)
{
	return i->fd;
}

void cache_inbox_listen(struct cache_inbox *i, bool on)
{
	(void)pthread_mutex_lock(&i->lock);
	i->on = on;
	if (!on)
		queue_done(&i->queue);
	(void)pthread_mutex_unlock(&i->lock);
}

void listeners_tell(struct listeners *l, uint64_t hash, const struct cached *now,
                    const struct cached *before)
{
	const struct change change = { hash, now, before, now ? now : before };
	(void)pthread_mutex_lock(&l->lock);
	for (struct cache_inbox *i = l->first; i; i = i->next) {
		(void)pthread_mutex_lock(&i->lock);
		if (i->on)
			queue_add(&i->queue, &change);
		(void)pthread_mutex_unlock(&i->lock);
	}
	(void)pthread_mutex_unlock(&l->lock);
	l->told = true;
}

void listeners_wake(struct listeners *l)
{
	if (!l->told)
		return;
	l->told = false;
	(void)pthread_mutex_lock(&l->lock);
	for (struct cache_inbox *i = l->first; i; i = i->next) {
		(void)pthread_mutex_lock(&i->lock);
		bool wake = i->queue.n && !i->awake;
		i->awake |= wake;
		(void)pthread_mutex_unlock(&i->lock);
		if (wake)
			(void)eventfd_write(i->fd, 1); /* if it is full, it is readable too */
	}
	(void)pthread_mutex_unlock(&l->lock);
}

bool cache_inbox_take(struct cache_inbox *i, cache_changed *changed, void *arg)
{
	eventfd_t count;
	(void)eventfd_read(i->fd, &count); /* there may be nothing */
	(void)pthread_mutex_lock(&i->lock);
	struct queue q = i->queue;
	i->queue = (struct queue){ .n = 0 };
	i->awake = false;
	(void)pthread_mutex_unlock(&i->lock);
	for (size_t n = 0; n < q.n; n++) {
		if (q.v[n].now || q.v[n].before)
			changed(arg, q.v[n].now, q.v[n].before);
	}
	bool all = !q.lost;
	queue_done(&q);
	return all;
}
