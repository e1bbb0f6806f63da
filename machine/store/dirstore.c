/* The thread that works on the directory, since fsync blocks, and the store backend of each loop.
 */
#include "machine/store/dirstore.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/store_internal.h"
#include "machine/store/dirstore_internal.h"

struct local_store;

/* A request on its way to the worker and back. */
struct task {
	struct task *next;
	const char *namespace_name;
	const struct store_request *r; /* NULL: `status` */
	struct local_status *status;
	size_t n_status;
	struct local_answer answer;
	struct local_store *from; /* NULL: of local_request, which waits until it is done */
	struct pending *p;        /* of `from` */
	bool done;
};

struct tasks {
	struct task *head, *last;
};

struct local {
	struct dirstore *store; /* only the worker uses it */
	pthread_t worker;
	pthread_mutex_t lock; /* protects all below, and each store's `answered` */
	pthread_cond_t wake;  /* `todo`, `stop`, or `done` of a task has changed */
	struct tasks todo;
	bool stop;
};

struct local_store {
	struct store s; /* first */
	struct local *local;
	int event;
	struct tasks answered;
};

static void tasks_append(struct tasks *l, struct task *t)
{
	t->next = NULL;
	if (l->head != NULL)
		l->last->next = t;
	else
		l->head = t;
	l->last = t;
}

static struct task *tasks_take(struct tasks *l)
{
	struct task *t = l->head;
	if (t != NULL)
		l->head = t->next;
	return t;
}

/* ---- the worker -------------------------------------------------------------------- */

static struct task *next_task(struct local *l)
{
	LOCK_AUTO(&l->lock);
	while (l->todo.head == NULL && !l->stop)
		(void)pthread_cond_wait(&l->wake, &l->lock);
	return tasks_take(&l->todo);
}

static void signal_event(int event)
{
	uint64_t one = 1;
	ssize_t n = write(event, &one, sizeof(one));
	(void)n; /* fails only when the counter is full: then it is readable anyway */
}

static void *work(void *arg)
{
	struct local *l = arg;
	struct task *t;
	while ((t = next_task(l)) != NULL) {
		for (size_t i = 0; i < t->n_status; i++)
			dirstore_put_status(l->store, t->namespace_name, &t->status[i]);
		if (t->r)
			dirstore_do(l->store, t->namespace_name, t->r, &t->answer);
		(void)pthread_mutex_lock(&l->lock);
		t->done = true;
		if (t->from) {
			tasks_append(&t->from->answered, t);
			/* Under the lock: the store can be freed as soon as it has the answer. */
			signal_event(t->from->event);
		} else {
			(void)pthread_cond_broadcast(&l->wake);
		}
		(void)pthread_mutex_unlock(&l->lock);
	}
	return NULL;
}

struct local *local_open(const char *dir, struct err *e)
{
	struct dirstore *store = dirstore_open(dir, e);
	if (store == NULL)
		return NULL;
	struct local *l = xcalloc(1, sizeof(*l));
	l->store = store;
	(void)pthread_mutex_init(&l->lock, NULL); /* cannot fail with default attributes */
	(void)pthread_cond_init(&l->wake, NULL);
	int bad = pthread_create(&l->worker, NULL, work, l);
	if (bad) {
		err_set(e, UNKNOWN_ERROR, "no thread for %s: %s", dir, strerrordesc_np(bad));
		dirstore_close(store);
		free(l);
		return NULL;
	}
	return l;
}

void local_transient(struct local *l)
{
	dirstore_transient(l->store);
}

void local_follow(struct local *l, const struct local_follower *f, void *arg)
{
	/* The worker has no task yet, and takes this lock before its first one. */
	LOCK_AUTO(&l->lock);
	dirstore_follow(l->store, f, arg);
}

void local_close(struct local *l)
{
	if (l == NULL)
		return;
	(void)pthread_mutex_lock(&l->lock);
	l->stop = true;
	(void)pthread_cond_broadcast(&l->wake);
	(void)pthread_mutex_unlock(&l->lock);
	(void)pthread_join(l->worker, NULL);
	(void)pthread_mutex_destroy(&l->lock);
	(void)pthread_cond_destroy(&l->wake);
	dirstore_close(l->store);
	free(l);
}

/* Has a task done before those that wait. */
static void local_do(struct local *l, struct task *t)
{
	LOCK_AUTO(&l->lock);
	t->next = l->todo.head;
	l->todo.head = t;
	if (!t->next)
		l->todo.last = t;
	(void)pthread_cond_broadcast(&l->wake);
	while (!t->done)
		(void)pthread_cond_wait(&l->wake, &l->lock);
}

void local_request(struct local *l, const char *namespace_name, const struct store_request *r,
                   struct local_answer *out)
{
	struct task t = { .namespace_name = namespace_name, .r = r };
	local_do(l, &t);
	*out = t.answer;
}

void local_put_status(struct local *l, const char *namespace_name, struct local_status *s, size_t n)
{
	struct task t = { .namespace_name = namespace_name, .status = s, .n_status = n };
	local_do(l, &t);
}

/* ---- a store ----------------------------------------------------------------------- */

static struct local_store *local_of(struct store *s)
{
	return (struct local_store *)s;
}

static void dirstore_begin(struct store *s, struct pending *p)
{
	struct local *l = local_of(s)->local;
	struct task *t = xcalloc(1, sizeof(*t));
	t->namespace_name = s->namespace_name;
	t->r = &p->r;
	t->from = local_of(s);
	t->p = p;
	LOCK_AUTO(&l->lock);
	tasks_append(&l->todo, t);
	(void)pthread_cond_broadcast(&l->wake);
}

static void call_back(struct store *s, struct task *t)
{
	const struct local_answer *a = &t->answer;
	struct store_reply reply = {
		.outcome = a->outcome,
		.status = a->status,
		.body = str_view(&a->body),
		.uid = span_of(a->uid),
		.resource_version = span_of(a->resource_version),
		.message = span_of(a->message ? a->message : ""),
		.date_s = time(NULL),
	};
	store_finish(s, t->p, &reply);
	local_answer_done(&t->answer);
	free(t);
}

static void poll_answers(struct store *s)
{
	struct local_store *ls = local_of(s);
	struct local *l = ls->local;
	uint64_t count;
	ssize_t n = read(ls->event, &count, sizeof(count));
	(void)n; /* EAGAIN if the counter is 0 */
	(void)pthread_mutex_lock(&l->lock);
	struct tasks all = ls->answered;
	ls->answered = (struct tasks){ 0 };
	(void)pthread_mutex_unlock(&l->lock);
	struct task *t;
	while ((t = tasks_take(&all)) != NULL)
		call_back(s, t);
}

static int event_fd(const struct store *s)
{
	return ((const struct local_store *)s)->event;
}

static int no_timeout(const struct store *s)
{
	(void)s;
	return -1;
}

/* Waits for the worker, which has borrowed the requests: some milliseconds. */
static void dirstore_drain(struct store *s)
{
	while (s->in_flight > 0) {
		struct pollfd event = { .fd = local_of(s)->event, .events = POLLIN };
		(void)poll(&event, 1, 1000);
		poll_answers(s);
	}
}

static void free_store(struct store *s)
{
	(void)close(local_of(s)->event);
	store_done(s);
	free(local_of(s));
}

struct store *store_local_new(struct local *l, const char *namespace_name,
                              const struct store_limits *limits, struct err *e)
{
	static const struct store_ops OPS = {
		.begin = dirstore_begin,
		.poll = poll_answers,
		.fd = event_fd,
		.timeout_ms = no_timeout,
		.abort = dirstore_drain,
		.free = free_store,
	};
	if (!segment_ok(namespace_name)) {
		err_set(e, UNKNOWN_ERROR, "\"%s\" is not a valid name of a namespace",
		        namespace_name);
		return NULL;
	}
	int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (event < 0) {
		err_set(e, UNKNOWN_ERROR, "eventfd: %s", strerrordesc_np(errno));
		return NULL;
	}
	struct local_store *ls = xcalloc(1, sizeof(*ls));
	store_init(&ls->s, &OPS, namespace_name, limits);
	ls->local = l;
	ls->event = event;
	return &ls->s;
}
