#include "server/http/worker.h"

#include <errno.h>
#include <stdlib.h>

#include "base/lock.h"

struct task {
	struct mail mail; /* in the inbox, when it has run */
	struct worker_inbox *inbox;
	void (*run)(void *arg);
	void (*done)(void *arg, bool ran);
	void *arg;
	bool ran;
};

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;             /* guards all below */
	pthread_cond_t work;              /* the queue is not empty, or `end` is set */
	pthread_cond_t idle;              /* a task has ended */
	struct task *queue[WORKER_QUEUE]; /* a ring */
	size_t first, n;
	struct task *running;
	bool end;
};

/* ---- the thread; pthread calls on an initialized mutex do not fail ---- */

static void deliver(struct task *t, bool ran)
{
	t->ran = ran;
	(void)mailbox_put(&t->inbox->box, &t->mail); /* always takes it */
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
	(void)err_set(e, UNKNOWN_ERROR, "pthread_create: %m");
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
	if (mailbox_init(&in->box, SIZE_MAX, e) == 0) /* the queue bounds what can come */
		return in;
	free(in);
	return NULL;
}

void worker_inbox_run_once(struct worker_inbox *in)
{
	size_t lost;
	struct mail *m = mailbox_take(&in->box, &lost);
	while (m) {
		struct task *t = (struct task *)m;
		m = m->next;
		t->done(t->arg, t->ran);
		free(t);
	}
}

void worker_inbox_free(struct worker_inbox *in)
{
	if (!in)
		return;
	struct worker *w = in->worker;
	(void)pthread_mutex_lock(&w->lock);
	size_t n = w->n;
	w->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct task *t = w->queue[(w->first + i) % WORKER_QUEUE];
		if (t->inbox == in)
			deliver(t, false);
		else
			w->queue[(w->first + w->n++) % WORKER_QUEUE] = t;
	}
	while (w->running && w->running->inbox == in)
		(void)pthread_cond_wait(&w->idle, &w->lock);
	(void)pthread_mutex_unlock(&w->lock);
	worker_inbox_run_once(in);
	mailbox_done(&in->box);
	free(in);
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
