/*
 * The thread that does all requests, since a commit blocks, and the store backend of each loop.
 *
 *	take the tasks that wait; do each of them; commit once; tell the follower; answer all
 *
 * A second thread copies the log of the database into its file when it has grown, because that
 * takes as long as many commits.
 */
#include "machine/store/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/store_internal.h"
#include "machine/store/local_internal.h"

enum {
	GROUP_TASKS = 256,
	GROUP_BYTES = 16 << 20, /* of their bodies */
	LOG_COPIED = 1024,      /* pages of the log from which on it is copied */
	IDLE_MS = 1000,         /* after that without a request the log is emptied */
};

struct local_store;

/* A request, or statuses, on its way to the worker and back. */
struct task {
	struct task *next;
	const char *namespace_name;
	const struct store_request *r; /* NULL: statuses */
	struct local_answer answer;
	struct local_status *statuses;
	size_t n_statuses;
	struct local_store *from; /* NULL: its thread waits until it is done */
	struct pending *p;        /* of `from` */
	bool done;
};

struct tasks {
	struct task *head, *last;
};

struct local {
	struct database db; /* only the worker uses these four */
	struct requests requests;
	const struct local_follower *follower; /* or NULL */
	void *follower_arg;
	pthread_t worker, copier;
	pthread_mutex_t lock; /* protects all below, and each store's `answered` */
	pthread_cond_t wake;  /* `todo`, `stop`, or `done` of a task has changed */
	pthread_cond_t copy;  /* `copy_due` or `stop` has changed */
	struct tasks todo;
	int copied; /* pages of the log, when it was last to be copied */
	bool copy_due;
	bool copy_failed; /* a sync of the database */
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

/* ---- the log of the database --------------------------------------------------------- */

/* With a connection of its own; the worker goes on meanwhile.  If this fails, the log grows to its
 * limit, and then the worker tries. */
static void *copy_log(void *arg)
{
	struct local *l = arg;
	sqlite3 *db = NULL;
	(void)pthread_mutex_lock(&l->lock);
	while (!l->stop) {
		if (!l->copy_due) {
			(void)pthread_cond_wait(&l->copy, &l->lock);
			continue;
		}
		l->copy_due = false;
		(void)pthread_mutex_unlock(&l->lock);
		int code = db ? 0 : db_connect(l->db.path, DB_FILE, &db);
		if (code == 0)
			code = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
			                                 NULL);
		(void)pthread_mutex_lock(&l->lock);
		l->copy_failed |= db_unsure(code);
	}
	(void)pthread_mutex_unlock(&l->lock);
	(void)sqlite3_close(db);
	return NULL;
}

/* After a commit: has the log copied when it has grown so much again. */
static void worker_log(struct local *l)
{
	LOCK_AUTO(&l->lock);
	l->db.unsure |= l->copy_failed;
	if (l->db.wal < l->copied)
		l->copied = 0; /* it has begun anew */
	if (l->db.wal - l->copied > LOG_COPIED) {
		l->copied = l->db.wal;
		l->copy_due = true;
		(void)pthread_cond_signal(&l->copy);
	}
}

/* ---- the worker -------------------------------------------------------------------- */

/* Waits for tasks, and takes some; NULL at the end. */
static struct task *take_group(struct local *l)
{
	struct tasks group = { 0 };
	struct timespec until;
	size_t bytes = 0;
	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += IDLE_MS / 1000;
	(void)pthread_mutex_lock(&l->lock);
	while (l->todo.head == NULL && !l->stop) {
		if (l->db.wal == 0) {
			(void)pthread_cond_wait(&l->wake, &l->lock);
		} else if (pthread_cond_clockwait(&l->wake, &l->lock, CLOCK_MONOTONIC, &until) !=
		           0) {
			(void)pthread_mutex_unlock(&l->lock);
			(void)db_empty_log(&l->db); /* what was deleted is not left in it */
			(void)pthread_mutex_lock(&l->lock);
			break;
		}
	}
	for (size_t n = 0; n < GROUP_TASKS && bytes < GROUP_BYTES; n++) {
		struct task *t = tasks_take(&l->todo);
		if (t == NULL)
			break;
		for (size_t i = 0; t->r && i < 3; i++)
			bytes += t->r->body[i].n;
		for (size_t i = 0; t->r && i < t->r->n_with; i++)
			bytes += t->r->with[i].body.n;
		tasks_append(&group, t);
	}
	(void)pthread_mutex_unlock(&l->lock);
	return group.head;
}

/* failed: why nothing of the group is stored, or it is not known; 0. */
static void group_do(struct local *l, struct task *group, int failed)
{
	for (struct task *t = group; t; t = t->next) {
		if (t->r)
			request_do(&l->requests, t->namespace_name, t->r, failed, &t->answer);
		else
			request_statuses(&l->requests, t->statuses, t->n_statuses, failed);
	}
}

static void signal_event(int event)
{
	uint64_t one = 1;
	ssize_t n = write(event, &one, sizeof(one));
	(void)n; /* fails only when the counter is full: then it is readable anyway */
}

static void group_answer(struct local *l, struct task *group)
{
	struct tasks all = { .head = group };
	struct task *t;
	bool waits = false;
	LOCK_AUTO(&l->lock);
	while ((t = tasks_take(&all)) != NULL) {
		struct local_store *to = t->from;
		t->done = true; /* the memory of one that waits is its thread's after the lock */
		if (to == NULL) {
			waits = true;
			continue;
		}
		bool first = to->answered.head == NULL;
		tasks_append(&to->answered, t);
		/* Under the lock: the store can be freed as soon as it has the answer. */
		if (first)
			signal_event(to->event);
	}
	if (waits)
		(void)pthread_cond_broadcast(&l->wake);
}

static void *work(void *arg)
{
	struct local *l = arg;
	struct requests *q = &l->requests;
	for (;;) {
		struct task *group = take_group(l);
		if (group == NULL) {
			LOCK_AUTO(&l->lock);
			if (l->stop)
				return NULL;
			continue;
		}
		group_do(l, group, 0);
		int code = db_commit(&l->db);
		if (code) {
			told_done(q);
			group_do(l, group, code);
		}
		for (size_t i = 0; i < q->n_told; i++) {
			const struct told *told = &q->told[i];
			(told->gone ? l->follower->remove
			            : l->follower->put)(l->follower_arg, str_view(&told->text));
		}
		told_done(q);
		group_answer(l, group);
		worker_log(l);
	}
}

/* ---- opening ------------------------------------------------------------------------- */

static void local_free(struct local *l)
{
	(void)pthread_mutex_destroy(&l->lock);
	(void)pthread_cond_destroy(&l->wake);
	(void)pthread_cond_destroy(&l->copy);
	db_close(&l->db);
	free(l);
}

static void local_stop(struct local *l)
{
	LOCK_AUTO(&l->lock);
	l->stop = true;
	(void)pthread_cond_broadcast(&l->wake);
	(void)pthread_cond_broadcast(&l->copy);
}

static struct local *local_begin_at(const char *dir, bool transient, struct err *e)
{
	struct local *l = xcalloc(1, sizeof(*l));
	l->requests.db = &l->db;
	l->db.transient = transient;
	/* These cannot fail with default attributes. */
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_cond_init(&l->wake, NULL);
	(void)pthread_cond_init(&l->copy, NULL);
	if (db_open(&l->db, dir, e) < 0) {
		local_free(l);
		return NULL;
	}
	int bad = pthread_create(&l->copier, NULL, copy_log, l);
	if (bad == 0) {
		bad = pthread_create(&l->worker, NULL, work, l);
		if (bad == 0)
			return l;
		local_stop(l);
		(void)pthread_join(l->copier, NULL);
	}
	err_set(e, UNKNOWN_ERROR, "no thread for %s: %s", dir, strerrordesc_np(bad));
	local_free(l);
	return NULL;
}

struct local *local_open(const char *dir, struct err *e)
{
	return local_begin_at(dir, false, e);
}

struct local *local_open_transient(const char *dir, struct err *e)
{
	return local_begin_at(dir, true, e);
}

void local_follow(struct local *l, const struct local_follower *f, void *arg)
{
	/* The worker has no task yet, and takes this lock before its first one. */
	LOCK_AUTO(&l->lock);
	size_t i;
	json_t *sentence;
	l->follower = f;
	l->follower_arg = arg;
	l->requests.follows = true;
	json_array_foreach (l->db.damaged, i, sentence) {
		if (f->damaged)
			f->damaged(arg, json_string_value(sentence));
	}
	sqlite3_stmt *s = db_bind(&l->db, ROW_LIST, "is", (int64_t)KIND_FRAMEWORK, "");
	while (s && sqlite3_step(s) == SQLITE_ROW) {
		STR_AUTO text = STR_INIT(TEXT_MAX);
		struct row r = row_of(s);
		row_text(&text, &r, true);
		f->put(arg, str_view(&text));
	}
	(void)sqlite3_reset(s);
}

void local_close(struct local *l)
{
	if (l == NULL)
		return;
	local_stop(l);
	(void)pthread_join(l->worker, NULL);
	(void)pthread_join(l->copier, NULL);
	local_free(l);
}

/* ---- threads that wait ----------------------------------------------------------------- */

static void wait_done(struct local *l, struct task *t)
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
	wait_done(l, &t);
	*out = t.answer;
}

void local_put_status(struct local *l, const char *namespace_name, struct local_status *s, size_t n)
{
	(void)namespace_name; /* a uid names an object of any */
	struct task t = { .statuses = s, .n_statuses = n };
	wait_done(l, &t);
}

/* ---- backups ------------------------------------------------------------------------- */

int local_backup(struct local *l, struct err *e)
{
	const struct database *d = &l->db;
	sqlite3 *db = NULL;
	sqlite3_stmt *s = NULL;
	FREE_AUTO char *path = xasprintf("%s/%s", d->path, DB_COPY);
	/* SQLite writes into the empty file. */
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(e, UNAVAILABLE, "%s: %s", path, strerrordesc_np(errno));
	int code = db_connect(d->path, DB_FILE, &db);
	code = code ? code : sqlite3_prepare_v2(db, "VACUUM INTO ?1", -1, &s, NULL);
	code = code ? code : sqlite3_bind_text(s, 1, path, -1, SQLITE_STATIC);
	code = code ? code : db_finish(s);
	(void)sqlite3_finalize(s); /* its code is known */
	(void)sqlite3_close(db);
	(void)unlink(path); /* else the next start does it */
	if (code == 0)
		return fd;
	(void)close(fd);
	return err_set(e, UNAVAILABLE, "the database cannot be copied: %s", sqlite3_errstr(code));
}

/* ---- a store ----------------------------------------------------------------------- */

static struct local_store *local_of(struct store *s)
{
	return (struct local_store *)s;
}

static void local_begin(struct store *s, struct pending *p)
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
static void local_drain(struct store *s)
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
		.begin = local_begin,
		.poll = poll_answers,
		.fd = event_fd,
		.timeout_ms = no_timeout,
		.abort = local_drain,
		.free = free_store,
		.atomic = true,
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
