#include "server/http/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/lock.h"

struct task {
	struct task *next; /* in the inbox */
	struct worker_inbox *inbox;
	void (*run)(void *arg);
	void (*done)(void *arg, bool ran);
	void *arg;
	bool ran;
};

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;             /* guards all below, and the lists of the inboxes */
	pthread_cond_t work;              /* the queue is not empty, or `end` is set */
	pthread_cond_t idle;              /* a task has ended */
	struct task *queue[WORKER_QUEUE]; /* a ring */
	size_t first, n;
	struct task *running;
	bool end;
};

struct worker_inbox {
	struct worker *worker;
	struct task *first, **last; /* finished tasks, oldest first */
	int fd;
};

static int worker_fail(struct err *e, const char *what)
{
	char text[128];
	return err_set(e, UNKNOWN_ERROR, "%s: %s", what, strerror_r(errno, text, sizeof(text)));
}

/* ---- the thread; pthread calls on an initialized mutex do not fail ---- */

static void deliver(struct task *t, bool ran)
{
	struct worker_inbox *in = t->inbox;
	t->ran = ran;
	t->next = NULL;
	*in->last = t;
	in->last = &t->next;
	(void)eventfd_write(in->fd, 1); /* fails only if the counter is full, hence readable */
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	(void)pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->n && !w->end)
			(void)pthread_cond_wait(&w->work, &w->lock);
		if (w->end)
			break;
		w->running = w->queue[w->first];
		w->first = (w->first + 1) % WORKER_QUEUE;
		w->n--;
		(void)pthread_mutex_unlock(&w->lock);
		w->running->run(w->running->arg);
		(void)pthread_mutex_lock(&w->lock);
		deliver(w->running, true);
		w->running = NULL;
		(void)pthread_cond_broadcast(&w->idle);
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct worker *worker_new(struct err *e)
{
	struct worker *w = xcalloc(1, sizeof(*w));
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->work, NULL);
	(void)pthread_cond_init(&w->idle, NULL);
	errno = pthread_create(&w->thread, NULL, worker_main, w);
	if (!errno)
		return w;
	(void)worker_fail(e, "pthread_create");
	free(w);
	return NULL;
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	(void)pthread_mutex_lock(&w->lock);
	w->end = true;
	(void)pthread_cond_signal(&w->work);
	(void)pthread_mutex_unlock(&w->lock);
	(void)pthread_join(w->thread, NULL);
	(void)pthread_mutex_destroy(&w->lock);
	(void)pthread_cond_destroy(&w->work);
	(void)pthread_cond_destroy(&w->idle);
	free(w);
}

/* ---- the inboxes ---- */

struct worker_inbox *worker_inbox_new(struct worker *w, struct err *e)
{
	struct worker_inbox *in = xcalloc(1, sizeof(*in));
	in->worker = w;
	in->last = &in->first;
	in->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (in->fd >= 0)
		return in;
	(void)worker_fail(e, "eventfd");
	free(in);
	return NULL;
}

/* Deliver the queued tasks of an inbox as not run. */
static void withdraw(struct worker *w, const struct worker_inbox *in)
{
	size_t n = w->n;
	w->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct task *t = w->queue[(w->first + i) % WORKER_QUEUE];
		if (t->inbox == in)
			deliver(t, false);
		else
			w->queue[(w->first + w->n++) % WORKER_QUEUE] = t;
	}
}

void worker_inbox_free(struct worker_inbox *in)
{
	if (!in)
		return;
	struct worker *w = in->worker;
	(void)pthread_mutex_lock(&w->lock);
	withdraw(w, in);
	while (w->running && w->running->inbox == in)
		(void)pthread_cond_wait(&w->idle, &w->lock);
	(void)pthread_mutex_unlock(&w->lock);
	worker_inbox_run_once(in);
	(void)close(in->fd);
	free(in);
}

int worker_inbox_fd(const struct worker_inbox *in)
{
	return in->fd;
}

void worker_inbox_run_once(struct worker_inbox *in)
{
	eventfd_t count;
	(void)pthread_mutex_lock(&in->worker->lock);
	(void)eventfd_read(in->fd, &count); /* resets it */
	struct task *t = in->first;
	in->first = NULL;
	in->last = &in->first;
	(void)pthread_mutex_unlock(&in->worker->lock);
	while (t) {
		struct task *next = t->next;
		t->done(t->arg, t->ran);
		free(t);
		t = next;
	}
}

bool worker_do(struct worker_inbox *in, void (*run)(void *arg), void (*done)(void *arg, bool ran),
               void *arg)
{
	struct worker *w = in->worker;
	LOCK_AUTO(&w->lock);
	bool room = w->n < WORKER_QUEUE;
	if (room) {
		struct task *t = xcalloc(1, sizeof(*t));
		*t = (struct task){ .inbox = in, .run = run, .done = done, .arg = arg };
		w->queue[(w->first + w->n++) % WORKER_QUEUE] = t;
		(void)pthread_cond_signal(&w->work);
	}
	return room;
}
