/* See images.h.  Batches go from the loops to the thread, and back to the inbox of the loop, under
 * one lock; while the thread has one, nobody else looks into it. */
#include "k8s/images/images.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "k8s/images/images_ask.h"
#include "k8s/images/images_cache.h"
#include "k8s/transport/curl.h"
#include "k8s/transport/store.h"

enum {
	CHECKS_MAX = 128, /* known to the thread at once; more are told that there are too many */
	ACTIVE_MAX = 16,  /* requests at once */
	PER_HOST_MAX = 4,
	POLL_MS = 60000
};

struct batch;

/* The images of one job. */
struct batch {
	struct batch *next;                /* in the queue of the thread or of the inbox */
	struct batch *prev_out, *next_out; /* what the inbox waits for; its loop's own */
	struct images_inbox *inbox;
	bool abandoned; /* the inbox is gone; under the lock */
	struct arena arena;
	struct check *checks;
	struct images_finding *findings;
	size_t n, left; /* checks, and those not done */
	void (*done)(void *arg, const struct images_finding *v, size_t n);
	void *arg;
};

struct images_inbox {
	struct images *owner;
	int fd;
	struct batch *ready; /* under the lock */
	struct batch *out;
};

struct images {
	struct arena arena;
	int64_t budget_ms;
	pthread_t thread;
	pthread_mutex_t lock;
	struct batch *incoming; /* these three under the lock */
	size_t n_checks;
	bool stop;
	struct check_common
	    common; /* the list is only read; else the thread's own, like the rest */
	struct check *check[CHECKS_MAX];
	size_t n;
	struct images_cache cache;
};

static void lock(struct images *i)
{
	(void)pthread_mutex_lock(&i->lock); /* cannot fail: it is ours and not recursive */
}

static void unlock(struct images *i)
{
	(void)pthread_mutex_unlock(&i->lock);
}

/* ---- a batch -----------------------------------------------------------------------------------
 */

static void batch_free(struct batch *b)
{
	arena_wipe(&b->arena); /* logins and tokens */
	free(b);
}

static struct batch *batch_new(struct images_inbox *in, const struct images_subject *v, size_t n)
{
	struct batch *b = xcalloc(1, sizeof(*b));
	b->inbox = in;
	b->n = n;
	b->checks = ARENA_NEW(&b->arena, struct check, n);
	b->findings = ARENA_NEW(&b->arena, struct images_finding, n);
	for (size_t i = 0; i < n; i++) {
		struct check *c = &b->checks[i];
		c->batch = b;
		c->finding = &b->findings[i];
		check_init(c, &in->owner->common, &v[i], &b->arena);
		c->deadline_ms = clock_ms() + in->owner->budget_ms;
		b->left += c->state != CHECK_DONE;
	}
	return b;
}

/* ---- the thread
 * ----------------------------------------------------------------------------------- */

static void deliver(struct images *i, struct batch *b)
{
	lock(i);
	i->n_checks -= b->n;
	bool abandoned = b->abandoned;
	if (!abandoned) {
		b->next = b->inbox->ready;
		b->inbox->ready = b;
		(void)eventfd_write(b->inbox->fd, 1); /* far from full */
	}
	unlock(i);
	if (abandoned)
		batch_free(b);
}

static void check_done(struct images *i, struct check *c)
{
	c->finding->verdict = c->dialogue.verdict;
	c->finding->sentence = c->dialogue.sentence;
	if (c->strangers)
		images_cache_put(&i->cache, &c->image, c->finding->verdict, c->finding->sentence,
		                 clock_ms());
	check_free(c);
	if (--c->batch->left == 0)
		deliver(i, c->batch);
}

/* Is it known already? */
static bool remembered(struct images *i, struct check *c)
{
	const char *sentence = NULL;
	if (!c->strangers ||
	    !images_cache_get(&i->cache, &c->image, clock_ms(), &c->finding->verdict, &sentence))
		return false;
	c->finding->sentence = arena_dup(&c->batch->arena, span_of(sentence));
	return true;
}

static void begin_batch(struct images *i, struct batch *b)
{
	size_t left = b->left;
	for (size_t k = 0; k < b->n; k++) {
		struct check *c = &b->checks[k];
		if (c->state == CHECK_DONE)
			continue;
		if (remembered(i, c)) {
			left--;
			continue;
		}
		i->check[i->n++] = c;
		check_next(c);
	}
	b->left = left;
	if (left == 0)
		deliver(i, b);
}

/* New ones; true if there shall be an end. */
static bool take_incoming(struct images *i)
{
	lock(i);
	struct batch *list = i->incoming;
	bool stop = i->stop;
	i->incoming = NULL;
	unlock(i);
	while (list) {
		struct batch *b = list;
		list = b->next;
		begin_batch(i, b);
	}
	return stop;
}

static void step(struct images *i, struct check *c, bool stop)
{
	int64_t now = clock_ms();
	if (c->state != CHECK_DONE && (stop || now >= c->deadline_ms))
		check_give_up(c, stop ? "this server is shutting down"
		                      : "its registry takes too long to answer");
	else if (c->state == CHECK_WAITING && now >= c->start_ms && i->common.active < ACTIVE_MAX)
		check_send(c);
}

/* All checks in their order, and forget those that are done. */
static void step_all(struct images *i, bool stop)
{
	size_t kept = 0;
	for (size_t k = 0; k < i->n; k++) {
		struct check *c = i->check[k];
		step(i, c, stop);
		if (c->state == CHECK_DONE)
			check_done(i, c);
		else
			i->check[kept++] = c;
	}
	i->n = kept;
}

static void read_answers(struct images *i)
{
	CURLMsg *m;
	int left;
	while ((m = curl_multi_info_read(i->common.multi, &left))) {
		char *c = NULL;
		CURLcode result = m->data.result; /* m is gone once the handle is removed */
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c);
		check_answered((struct check *)(void *)c, result);
	}
}

static int time_to_wait(const struct images *i)
{
	int64_t when = clock_ms() + POLL_MS;
	for (size_t k = 0; k < i->n; k++) {
		const struct check *c = i->check[k];
		int64_t next = c->deadline_ms;
		if (c->state == CHECK_DONE)
			return 0; /* to be told at once */
		if (c->state == CHECK_WAITING && i->common.active < ACTIVE_MAX &&
		    c->start_ms < next)
			next = c->start_ms;
		when = next < when ? next : when;
	}
	int64_t ms = when - clock_ms();
	return ms < 0 ? 0 : (int)ms;
}

static void *images_main(void *arg)
{
	struct images *i = arg;
	bool stop = false;
	int running;
	while (!stop) {
		stop = take_incoming(i);
		step_all(i, stop);
		(void)curl_multi_perform(i->common.multi,
		                         &running); /* errors show in the transfers */
		read_answers(i);
		if (!stop)
			(void)curl_multi_poll(i->common.multi, NULL, 0, time_to_wait(i), NULL);
	}
	return NULL;
}

/* ---- the door for loops
 * ---------------------------------------------------------------------------- */

static void link_out(struct images_inbox *in, struct batch *b)
{
	b->next_out = in->out;
	if (in->out)
		in->out->prev_out = b;
	in->out = b;
}

static void unlink_out(struct images_inbox *in, struct batch *b)
{
	if (b->prev_out)
		b->prev_out->next_out = b->next_out;
	else
		in->out = b->next_out;
	if (b->next_out)
		b->next_out->prev_out = b->prev_out;
}

static void too_many(struct batch *b)
{
	for (size_t k = 0; k < b->n; k++)
		b->findings[k].sentence = "too many images are being checked at once";
}

bool images_check(struct images_inbox *in, const struct images_subject *v, size_t n,
                  void (*done)(void *arg, const struct images_finding *v, size_t n), void *arg)
{
	struct images *i = in->owner;
	struct batch *b = batch_new(in, v, n);
	if (b->left == 0) {
		batch_free(b);
		return false;
	}
	b->done = done;
	b->arg = arg;
	link_out(in, b);
	lock(i);
	bool full = i->n_checks + n > CHECKS_MAX;
	if (full) {
		too_many(b);
		b->next = in->ready;
		in->ready = b;
		(void)eventfd_write(in->fd, 1); /* far from full */
	} else {
		i->n_checks += n;
		b->next = i->incoming;
		i->incoming = b;
	}
	unlock(i);
	if (!full)
		(void)curl_multi_wakeup(i->common.multi); /* else it is awake soon anyway */
	return true;
}

int images_inbox_fd(const struct images_inbox *in)
{
	return in->fd;
}

void images_inbox_turn(struct images_inbox *in)
{
	eventfd_t count;
	if (!in->out)
		return;
	(void)eventfd_read(in->fd, &count); /* only to make it quiet */
	lock(in->owner);
	struct batch *list = in->ready;
	in->ready = NULL;
	unlock(in->owner);
	while (list) {
		struct batch *b = list;
		list = b->next;
		unlink_out(in, b);
		b->done(b->arg, b->findings, b->n);
		batch_free(b);
	}
}

/* The thread still has it, and frees it. */
static void abandon(struct images_inbox *in, struct batch *b)
{
	void (*done)(void *arg, const struct images_finding *v, size_t n) = b->done;
	void *arg = b->arg;
	unlink_out(in, b);
	b->abandoned = true;
	unlock(in->owner);
	done(arg, NULL, 0);
	lock(in->owner);
}

void images_inbox_free(struct images_inbox *in)
{
	if (!in)
		return;
	lock(in->owner);
	while (in->out) {
		if (in->ready) {
			unlock(in->owner);
			images_inbox_turn(in);
			lock(in->owner);
		} else {
			abandon(in, in->out);
		}
	}
	unlock(in->owner);
	(void)close(in->fd);
	free(in);
}

struct images_inbox *images_inbox_new(struct images *i, struct err *e)
{
	struct images_inbox *in = xcalloc(1, sizeof(*in));
	in->owner = i;
	in->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (in->fd >= 0)
		return in;
	err_set(e, UNKNOWN_ERROR, "eventfd failed");
	free(in);
	return NULL;
}

/* ---- life
 * -------------------------------------------------------------------------------------------- */

static int set_up(struct images *i, const struct images_settings *s, struct err *e)
{
	i->common.ca_file = arena_dup(&i->arena, span_of(s->ca_file));
	if (allow_read(s->registries, &i->arena, &i->common.allow, e) < 0 ||
	    curl_ca_check(i->common.ca_file, e) < 0 || curl_start(e) < 0)
		return -1;
	i->common.multi = curl_multi_init();
	if (!i->common.multi ||
	    curl_multi_setopt(i->common.multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)PER_HOST_MAX) ||
	    curl_multi_setopt(i->common.multi, CURLMOPT_MAXCONNECTS, (long)ACTIVE_MAX))
		return err_set(e, UNKNOWN_ERROR, "libcurl: a multi handle cannot be set up");
	return 0;
}

static void images_done(struct images *i)
{
	if (i->common.multi)
		(void)curl_multi_cleanup(i->common.multi); /* no handle is left in it */
	images_cache_done(&i->cache);
	(void)pthread_mutex_destroy(&i->lock); /* nobody holds it */
	arena_done(&i->arena);
	free(i);
}

struct images *images_new(const struct images_settings *s, struct err *e)
{
	struct images *i = xcalloc(1, sizeof(*i));
	(void)pthread_mutex_init(&i->lock, NULL); /* cannot fail with the defaults */
	i->budget_ms = s->budget_ms;
	if (set_up(i, s, e) == 0) {
		if (pthread_create(&i->thread, NULL, images_main, i) == 0)
			return i;
		err_set(e, UNKNOWN_ERROR, "pthread_create failed");
	}
	images_done(i);
	return NULL;
}

void images_free(struct images *i)
{
	if (!i)
		return;
	lock(i);
	i->stop = true;
	unlock(i);
	(void)curl_multi_wakeup(i->common.multi);
	(void)pthread_join(i->thread, NULL); /* our own thread, joined once */
	images_done(i);
}
