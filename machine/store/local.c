/*
 * The thread that does all requests, since a commit blocks, and the store backend of each loop.
 *
 *	take the tasks that wait; do each of them; commit once; tell the follower; answer all
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

#include "base/posix/fd.h"
#include "jobs/store/store_backend.h"
#include "machine/store/local_internal.h"

enum {
	GROUP_BYTES = 16 << 20, /* of a commit */
	TASK_BYTES = 64 << 10,  /* of them for each task beside its bodies */
	IDLE_MS = 1000,         /* after that without a request the log is emptied */
	BACKUP_STEPS = 100,     /* of SQLite, after which a backup looks whether it must end */
};

struct local {
	struct database db;                    /* only the worker uses these three */
	const struct local_follower *follower; /* or NULL */
	void *follower_arg;
	pthread_t thread[2];
	size_t n_threads;
	struct mailbox todo;
	atomic_bool ends;
	int stop_fd; /* of a backup; its thread's */
};

struct local_store {
	struct store s; /* first */
	struct local *local;
	struct mailbox answered;
};

/* ---- the worker -------------------------------------------------------------------- */

/* failed: why nothing of the group is stored, or it is not known; 0. */
static void group_do(struct local *l, struct mail *first, const struct mail *end, int failed)
{
	for (struct mail *m = first; m != end; m = m->next) {
		struct local_task *t = (struct local_task *)m;
		if (t->step)
			t->answer.status = failed ?: db_write(&l->db, t->step, t->step_arg);
		else
			request_do(&l->db, t, failed);
	}
}

/* Does the first of these tasks in one transaction; returns the others. */
static struct mail *group_run(struct local *l, struct mail *first)
{
	size_t bytes = 0;
	struct mail *end = first;
	for (; end && bytes < GROUP_BYTES; end = end->next) {
		const struct store_request *r = ((const struct local_task *)end)->r;
		bytes += TASK_BYTES + r->body[0].n + r->body[1].n + r->body[2].n;
		for (size_t i = 0; i < r->n_with; i++)
			bytes += r->with[i].body.n;
	}
	db_begin(&l->db);
	group_do(l, first, end, 0);
	int code = db_commit(&l->db);
	if (code)
		group_do(l, first, end, code);
	while (first != end) {
		struct local_task *t = (struct local_task *)first;
		if (l->follower && t->state && t->answer.outcome == STORE_OK)
			l->follower->stated(l->follower_arg, t->state, t->answer.version);
		else if (l->follower && t->answer.told.n > 0)
			(t->r->verb == STORE_DELETE ? l->follower->remove : l->follower->put)(
			    l->follower_arg, str_view(&t->answer.told));
		first = first->next; /* the waiting thread may free its task at once */
		if (t->done)
			(void)sem_post(t->done);
		else
			(void)mailbox_put(t->to, &t->mail); /* has room for all */
	}
	return end;
}

static void *local_worker_main(void *arg)
{
	struct local *l = arg;
	size_t lost;
	do {
		struct pollfd todo = { .fd = l->todo.fd, .events = POLLIN };
		if (poll(&todo, 1, l->db.wal > 0 ? IDLE_MS : -1) == 0)
			(void)db_empty_log(&l->db); /* the log must not keep deleted texts */
		for (struct mail *m = mailbox_take(&l->todo, &lost); m;)
			m = group_run(l, m);
	} while (!l->ends);
	return NULL;
}

/* Copies the log of the database into its file when it has grown, because that takes as long as
 * many commits, which go on meanwhile.  If it fails, the log grows to its limit. */
static void *local_copier_main(void *arg)
{
	struct local *l = arg;
	struct database own = { .path = l->db.path };
	bool open = db_connect(&own, DB_FILE) == 0;
	while (sem_wait(&l->db.copy) != 0 || !l->ends) { /* a signal does no harm */
		if (open)
			(void)db_copy_log(&l->db, own.db, SQLITE_CHECKPOINT_PASSIVE);
	}
	db_disconnect(&own);
	return NULL;
}

/* ---- opening ------------------------------------------------------------------------- */

void local_close(struct local *l)
{
	if (l == NULL)
		return;
	l->ends = true;
	(void)eventfd_write(l->todo.fd, 1); /* wakes the worker */
	(void)sem_post(&l->db.copy);
	while (l->n_threads > 0)
		(void)pthread_join(l->thread[--l->n_threads], NULL);
	mailbox_done(&l->todo);
	db_disconnect(&l->db);
	str_done(&l->db.damaged);
	free(l->db.path);
	fd_cleanup(&l->db.root); /* releases the lock */
	free(l);
}

struct local *local_open(const char *dir, const char *namespace_name, bool transient, struct err *e)
{
	static void *(*const MAIN[])(void *) = { local_worker_main, local_copier_main };
	struct local *l = xcalloc(1, sizeof(*l));
	l->db = (struct database){ .root = -1, .jobs = namespace_name, .transient = transient };
	/* The limits of all stores bound what waits. */
	int bad = mailbox_init(&l->todo, SIZE_MAX, e);
	bad = bad ?: db_open(&l->db, dir, e);
	while (!bad && l->n_threads < ARRAY_SIZE(MAIN)) {
		bad = pthread_create(&l->thread[l->n_threads], NULL, MAIN[l->n_threads], l);
		l->n_threads += bad == 0;
		if (bad)
			err_set(e, UNKNOWN_ERROR, "no thread for %s: %s", dir,
			        strerrordesc_np(bad));
	}
	if (bad)
		local_close(TAKE(l));
	return l;
}

int local_follow(struct local *l, const struct local_follower *f, void *arg, struct err *e)
{
	/* The worker has no task yet. */
	struct span all = str_view(&l->db.damaged);
	l->follower = f;
	l->follower_arg = arg;
	while (all.n > 0) {
		struct span next = span_next(&all, '\n');
		FREE_AUTO char *sentence = xstrndup(next.p, next.n);
		(void)aside_note(l->db.path, sentence); /* all are told */
		f->damaged(arg, sentence);
	}
	STMT_AUTO *gone = db_bind(&l->db, "SELECT uid FROM status WHERE id < 0", "");
	while (f->removed && gone && sqlite3_step(gone) == SQLITE_ROW)
		f->removed(arg, db_text(gone, 0));
	STMT_AUTO *s = db_bind(&l->db, ROW_LIST, "it", (int64_t)KIND_FRAMEWORK, SPAN(""));
	struct object_row r;
	int code;
	while ((code = row_find(s, &r)) == 0) {
		STR_AUTO text = STR_INIT(TEXT_MAX);
		row_text(&text, &r, true);
		f->put(arg, str_view(&text));
	}
	/* Tasks of a job that is not known would be ended. */
	return code == ROW_ABSENT ? 0
	                          : err_set(e, UNKNOWN_ERROR, "%s/%s cannot be read: %s",
	                                    l->db.path, DB_FILE, sqlite3_errstr(code));
}

/* Has the tasks done, which say what. */
static void local_wait(struct local *l, struct local_task *t, size_t n, struct local_answer *out)
{
	sem_t done;
	(void)sem_init(&done, 0, 0); /* cannot fail */
	for (size_t i = 0; i < n; i++) {
		t[i].done = &done;
		(void)mailbox_put(&l->todo, &t[i].mail);
	}
	/* They are done in this order. */
	for (size_t i = 0; i < n; i++) {
		while (sem_wait(&done) != 0) { /* a signal */
		}
		out[i] = t[i].answer;
	}
	(void)sem_destroy(&done);
}

void local_request(struct local *l, const struct store_request *r, struct local_answer *out)
{
	local_wait(l, &(struct local_task){ .r = r }, 1, out);
}

void local_request_states(struct local *l, const struct local_state *s, size_t n,
                          struct local_answer *out)
{
	ARENA_AUTO a = { 0 };
	struct store_request *r = ARENA_NEW(&a, struct store_request, n);
	struct local_task *t = ARENA_NEW(&a, struct local_task, n);
	for (size_t i = 0; i < n; i++) {
		r[i] = (struct store_request){ .verb = STORE_PATCH,
			                       .kind = KIND_FRAMEWORK,
			                       .name = s[i].name,
			                       .uid = s[i].uid,
			                       .body = { s[i].status } };
		t[i] = (struct local_task){ .r = &r[i], .state = &s[i] };
	}
	local_wait(l, t, n, out);
}

int local_call(struct local *l, bool writes, int (*step)(struct database *d, void *arg), void *arg,
               struct err *e)
{
	static const struct store_request NONE = { 0 };
	struct local_answer out = { 0 };
	struct database own = { .path = l->db.path };
	if (writes) {
		local_wait(l, &(struct local_task){ .r = &NONE, .step = step, .step_arg = arg }, 1,
		           &out);
	} else {
		out.status = db_connect(&own, DB_FILE) ?: step(&own, arg);
		db_disconnect(&own);
	}
	return out.status == 0 ? 0
	                       : err_set(e, UNAVAILABLE, "%s/%s: %s", l->db.path, DB_FILE,
	                                 sqlite3_errstr(out.status));
}

/* ---- backups ------------------------------------------------------------------------- */

/* Meanwhile the log cannot be emptied. */
static int backup_must_end(void *arg)
{
	const struct local *l = arg;
	struct pollfd stop = { .fd = l->stop_fd, .events = POLLIN };
	return l->db.wal > 2 * LOG_MAX || poll(&stop, 1, 0) > 0;
}

int local_backup(struct local *l, int stop_fd, struct err *e)
{
	struct database own = { .path = l->db.path };
	l->stop_fd = stop_fd;
	FREE_AUTO char *path = xasprintf("%s/%s", own.path, DB_COPY);
	/* SQLite writes into the empty file. */
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(e, UNAVAILABLE, "%s: %s", path, strerrordesc_np(errno));
	int code = db_connect(&own, DB_FILE);
	sqlite3_progress_handler(own.db, BACKUP_STEPS, backup_must_end, l);
	code = code ?: db_run(&own, "VACUUM INTO ?1", "t", span_of(path));
	db_disconnect(&own);
	(void)unlink(path); /* else the next start does it */
	if (code == 0)
		return fd;
	(void)close(fd);
	return err_set(e, UNAVAILABLE, "the database cannot be copied: %s",
	               code == SQLITE_INTERRUPT
	                   ? "too much is being stored meanwhile, or this server ends; try again"
	                   : sqlite3_errstr(code));
}

/* ---- a store ----------------------------------------------------------------------- */

static struct local_store *local_store_of(struct store *s)
{
	return (struct local_store *)s;
}

static void local_begin(struct store *s, struct pending *p)
{
	struct local_task *t = xcalloc(1, sizeof(*t));
	*t = (struct local_task){ .r = &p->r, .to = &local_store_of(s)->answered, .p = p };
	(void)mailbox_put(&local_store_of(s)->local->todo, &t->mail);
}

static void local_poll_answers(struct store *s)
{
	size_t lost;
	struct mail *m = mailbox_take(&local_store_of(s)->answered, &lost);
	while (m) {
		struct local_task *t = (struct local_task *)m;
		struct local_answer *a = &t->answer;
		FREE_AUTO char *version = xasprintf("%lld", (long long)a->version);
		const struct store_reply reply = {
			.outcome = a->outcome,
			.status = a->status,
			.body = str_view(&a->body),
			.uid = span_of(a->uid),
			.resource_version = span_of(a->outcome == STORE_OK ? version : ""),
			.message = span_of(a->message ?: ""),
			.date_s = time(NULL),
		};
		m = m->next;
		store_finish(s, t->p, &reply);
		local_answer_done(a);
		free(t);
	}
}

static int local_event_fd(const struct store *s)
{
	return ((const struct local_store *)s)->answered.fd;
}

/* Waits for the worker, which has borrowed the requests: some milliseconds. */
static void local_drain(struct store *s)
{
	while (s->in_flight > 0) {
		struct pollfd event = { .fd = local_event_fd(s), .events = POLLIN };
		(void)poll(&event, 1, 1000);
		local_poll_answers(s);
	}
}

static void local_free_store(struct store *s)
{
	mailbox_done(&local_store_of(s)->answered);
	store_done(s);
	free(local_store_of(s));
}

struct store *store_local_new(struct local *l, const struct store_limits *limits, struct err *e)
{
	static const struct store_ops OPS = {
		.begin = local_begin,
		.poll = local_poll_answers,
		.fd = local_event_fd,
		.abort = local_drain,
		.free = local_free_store,
		.atomic = true,
	};
	struct local_store *ls = xcalloc(1, sizeof(*ls));
	store_init(&ls->s, &OPS, l->db.jobs, limits);
	ls->local = l;
	if (mailbox_init(&ls->answered, limits->in_flight, e) < 0) {
		local_free_store(&ls->s);
		return NULL;
	}
	return &ls->s;
}
