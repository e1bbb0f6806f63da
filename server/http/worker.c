/* Runs a bounded queue of work on a few threads, and delivers the results to inboxes. */
#include "server/http/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/posix/lock.h"

struct worker_task {
	struct mail mail;         /* in the inbox, when it has run */
	struct worker_task *next; /* in the queue */
	struct worker_inbox *inbox;
	const char *user;
	worker_run *run;
	void (*done)(void *arg, bool ran);
	void *arg;
	bool ran;
};

struct worker_thread {
	struct worker *worker;
	struct caller caller;
	struct worker_task *running;
};

struct worker {
	pthread_mutex_t lock; /* guards all below, and the lists of the inboxes */
	pthread_cond_t work;  /* the queue is not empty, or `end` is set */
	pthread_cond_t idle;  /* a task has ended */
	struct worker_task *first, **last;
	size_t n, max;
	struct worker_thread thread[WORKER_THREADS];
	size_t n_threads;
	bool end;
};

/* ---- the threads; pthread calls on an initialized mutex do not fail ---- */

static void worker_deliver(struct worker_task *t, bool ran)
{
	t->ran = ran;
	(void)mailbox_put(&t->inbox->box, &t->mail); /* always takes it */
}

static void *worker_main(void *arg)
{
	struct worker_thread *own = arg;
	struct worker *w = own->worker;
	LOCK_AUTO(&w->lock);
	for (;;) {
		while (!w->n && !w->end)
			(void)pthread_cond_wait(&w->work, &w->lock);
		if (w->end)
			return NULL;
		struct worker_task *t = own->running = w->first;
		w->first = t->next;
		if (--w->n == 0)
			w->last = &w->first;
		(void)pthread_mutex_unlock(&w->lock);
		t->run(&own->caller, t->arg);
		(void)pthread_mutex_lock(&w->lock);
		worker_deliver(TAKE(own->running), true);
		(void)pthread_cond_broadcast(&w->idle);
	}
}

struct worker *worker_new(size_t queue)
{
	struct worker *w = xcalloc(1, sizeof(*w));
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->work, NULL);
	(void)pthread_cond_init(&w->idle, NULL);
	w->last = &w->first;
	w->max = queue;
	return w;
}

int worker_add(struct worker *w, struct store *s, struct err *e)
{
	assert(w->n_threads < WORKER_THREADS);
	struct worker_thread *own = &w->thread[w->n_threads++];
	own->worker = w;
	return caller_start(&own->caller, s, worker_main, own, e);
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	(void)pthread_mutex_lock(&w->lock);
	w->end = true;
	(void)pthread_cond_broadcast(&w->work);
	(void)pthread_mutex_unlock(&w->lock);
	for (size_t i = 0; i < w->n_threads; i++)
		caller_end(&w->thread[i].caller); /* no thread is in a call: no inbox is left */
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

void worker_inbox_run_once(void *inbox)
{
	struct worker_inbox *in = inbox;
	size_t lost;
	struct mail *m = mailbox_take(&in->box, &lost);
	while (m) {
		struct worker_task *t = (struct worker_task *)m;
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
	struct worker_task **at = &w->first;
	for (struct worker_task *t; (t = *at) != NULL;) {
		if (t->inbox != in) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		w->n--;
		worker_deliver(t, false);
	}
	w->last = at;
	for (size_t i = 0; i < w->n_threads; i++) /* all are told before one is waited for */
		if (w->thread[i].running && w->thread[i].running->inbox == in)
			caller_stop(&w->thread[i].caller);
	for (size_t i = 0; i < w->n_threads; i++)
		while (w->thread[i].running && w->thread[i].running->inbox == in)
			(void)pthread_cond_wait(&w->idle, &w->lock);
	(void)pthread_mutex_unlock(&w->lock);
	worker_inbox_run_once(in);
	mailbox_done(&in->box);
	free(in);
}

bool worker_do(struct worker_inbox *in, const char *user, worker_run *run,
               void (*done)(void *arg, bool ran), void *arg)
{
	struct worker *w = in->worker;
	size_t same = 0;
	LOCK_AUTO(&w->lock);
	for (const struct worker_task *t = w->first; t; t = t->next)
		same += strcmp(t->user ?: "", user ?: "") == 0;
	if (w->n >= w->max || same >= w->max / 4)
		return false;
	struct worker_task *t = xcalloc(1, sizeof(*t));
	*t =
	    (struct worker_task){ .inbox = in, .user = user, .run = run, .done = done, .arg = arg };
	*w->last = t;
	w->last = &t->next;
	w->n++;
	(void)pthread_cond_signal(&w->work);
	return true;
}
