/* The sessions of all loops: their helpers, and the threads that wait for these. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/child.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "jobs/cache/events.h"
#include "jobs/store/store.h"
#include "machine/engine/engine.h"
#include "server/exec/exec_internal.h"
#include "server/state/log.h"
#include "server/state/server.h"

/* By kind: of a user, and of all; together SESSIONS_MAX. */
static const struct {
	const char *name;
	size_t of_user, of_all;
} BOUNDS[SESSION_KINDS] = { { "commands", 8, 64 }, { "connections", 64, 128 } };

enum { CLAIM_MS = 10000 /* for the last words of a helper to be asked for */, SIDES = 2 };

struct session {
	struct server *server;
	enum { SESSION_FREE, SESSION_STARTS, SESSION_RUNS, SESSION_ENDED } state;
	char id[SESSION_ID + 1];
	struct arena arena; /* of the texts in `facts` */
	struct session_facts facts;
	pid_t pid;     /* of the helper */
	int pidfd;     /* likewise */
	int fd[SIDES]; /* -1: taken */
	int64_t begun_ms;
	pthread_t thread; /* RUNS, ENDED: to be joined */
};

struct sessions {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a side was taken, or `closing` was set */
	bool closing;
	struct session v[SESSIONS_MAX];
};

/* ---- the end of a session -------------------------------------------------------------------- */

static void session_tell(const struct session *x)
{
	ARENA_AUTO a = { 0 };
	char id[17];
	int64_t s = (clock_ms() - x->begun_ms) / 1000;
	const struct session_facts *f = &x->facts;
	struct line line = log_begin(LOG_INFO, "a session in a task has ended");
	log_text(&line, "user", span_of(f->user));
	log_text(&line, "job", span_of(f->job));
	log_text(&line, "task", span_of(f->task));
	log_text(&line, "peer", span_of(f->peer));
	log_int(&line, "s", s);
	log_end(&line);
	if (f->connection) /* a notebook has dozens, which would push out the other Events of the
	                      job */
		return;
	random_hex(id, 8);
	int64_t now_ms = clock_wall_ms() / 1000 * 1000;
	const struct event event = { .uid = span_of(id),
		                     .framework = span_of(f->framework),
		                     .pod_uid = span_of(f->uid),
		                     .type = SPAN("Normal"),
		                     .reason = SPAN("Session"),
		                     .message = span_of(
					 arena_printf(&a, "%s has had a session of %lld s in %s",
		                                      f->user, (long long)s, f->task)),
		                     .component = SPAN("rest-lit"),
		                     .index = -1,
		                     .count = 1,
		                     .first_ms = now_ms - 1000 * s,
		                     .last_ms = now_ms };
	events_add(x->server->events, &event);
}

/* Waits until the helper has ended, and its output was asked for. */
static void *session_run(void *arg)
{
	struct session *x = arg;
	struct sessions *all = x->server->sessions;
	(void)child_wait(x->pid);
	session_tell(x);
	struct timespec until;
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += CLAIM_MS / 1000;
	LOCK_AUTO(&all->lock);
	while (x->fd[SIDE_OUTPUT] >= 0 && !all->closing &&
	       pthread_cond_timedwait(&all->changed, &all->lock, &until) == 0) {
	}
	for (int i = 0; i < SIDES; i++)
		fd_cleanup(&x->fd[i]);
	x->fd[SIDE_OUTPUT] = x->fd[SIDE_INPUT] = -1;
	fd_cleanup(&x->pidfd);
	arena_done(&x->arena);
	x->state = SESSION_ENDED;
	return NULL;
}

/* ---- the begin ------------------------------------------------------------------------------- */

static const char *session_text(struct session *x, const char *text)
{
	return arena_dup(&x->arena, span_of(text));
}

/* A free place, which has the facts then; NULL and *e. */
static struct session *session_take(struct server *s, const struct session_facts *f, struct err *e)
{
	struct sessions *all = s->sessions;
	struct session *found = NULL;
	size_t own = 0;
	size_t same = 0;
	LOCK_AUTO(&all->lock);
	for (struct session *x = all->v; x < all->v + SESSIONS_MAX; x++) {
		bool busy = x->state == SESSION_STARTS || x->state == SESSION_RUNS;
		bool counts = busy && x->facts.connection == f->connection;
		same += counts;
		own += counts && strcmp(x->facts.user, f->user) == 0;
		found = busy ? found : x;
	}
	if (own >= BOUNDS[f->connection].of_user || same >= BOUNDS[f->connection].of_all) {
		(void)err_set(e, 429, "TooManyRequestsError",
		              "there are too many sessions: the limits are %zu %s of a user, and "
		              "%zu of all; end one",
		              BOUNDS[f->connection].of_user, BOUNDS[f->connection].name,
		              BOUNDS[f->connection].of_all);
		return NULL;
	}
	if (found->state == SESSION_ENDED)
		(void)pthread_join(found->thread, NULL); /* it has done its work */
	*found = (struct session){ .server = s,
		                   .state = SESSION_STARTS,
		                   .pidfd = -1,
		                   .fd = { -1, -1 },
		                   .begun_ms = clock_ms() };
	found->facts = (struct session_facts){ .user = session_text(found, f->user),
		                               .job = session_text(found, f->job),
		                               .framework = session_text(found, f->framework),
		                               .uid = session_text(found, f->uid),
		                               .task = session_text(found, f->task),
		                               .peer = session_text(found, f->peer),
		                               .connection = f->connection };
	return found;
}

/* Starts the helper: x->fd and x->pid.  -1 and *e. */
static int session_spawn(struct session *x, const struct session_facts *f, struct err *e)
{
	static const char *const ENV[] = { "PATH=/usr/local/bin:/usr/bin:/bin", NULL };
	const char *const argv[] = { f->at.runtime, "shim", "--enter", f->at.dir, NULL };
	int in[2] = { -1, -1 };
	int out[2] = { -1, -1 };
	FD_AUTO asked = memfd_create("session", MFD_CLOEXEC);
	pid_t pid = -1;
	if (asked >= 0 && fd_write_all(asked, f->request) == 0 && pipe2(in, O_CLOEXEC) == 0 &&
	    pipe2(out, O_CLOEXEC) == 0) {
		const struct child_command helper = { .argv = argv,
			                              .env = ENV,
			                              .in = in[0],
			                              .out = out[1],
			                              .err = STREAM_NONE,
			                              .group = CHILD_SESSION,
			                              .pass = asked };
		(void)fcntl(in[1], F_SETFL, O_NONBLOCK);
		(void)fcntl(out[0], F_SETFL, O_NONBLOCK);
		pid = child_spawn(&helper);
	}
	int error = errno;
	fd_cleanup(&in[0]);
	fd_cleanup(&out[1]);
	x->fd[SIDE_INPUT] = in[1];
	x->fd[SIDE_OUTPUT] = out[0];
	x->pid = pid;
	x->pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (x->pidfd >= 0)
		return 0;
	return err_set(e, UNAVAILABLE, "the session cannot be started: %s: %s", f->at.runtime,
	               strerrordesc_np(error ? error : errno));
}

int session_start(struct server *s, const struct session_facts *f, char id[static SESSION_ID + 1],
                  struct err *e)
{
	struct session *x = session_take(s, f, e);
	bool good = x && session_spawn(x, f, e) == 0;
	if (!x)
		return -1;
	LOCK_AUTO(&s->sessions->lock);
	random_hex(x->id, SESSION_ID / 2);
	memcpy(id, x->id, SESSION_ID + 1);
	errno = good ? pthread_create(&x->thread, NULL, session_run, x) : 0;
	if (good && errno == 0) {
		x->state = SESSION_RUNS;
		return 0;
	}
	if (good)
		(void)err_set(e, UNAVAILABLE, "there is no thread for the session");
	if (x->pid > 0) {
		(void)kill(x->pid, SIGKILL); /* it is not reaped yet */
		(void)child_wait(x->pid);
	}
	fd_cleanup(&x->fd[SIDE_INPUT]);
	fd_cleanup(&x->fd[SIDE_OUTPUT]);
	fd_cleanup(&x->pidfd);
	arena_done(&x->arena);
	x->state = SESSION_FREE;
	return -1;
}

/* ---- its two sides --------------------------------------------------------------------------- */

int session_claim(struct sessions *all, const struct session_key *key, enum session_side side,
                  struct err *e)
{
	LOCK_AUTO(&all->lock);
	for (struct session *x = all->v; x < all->v + SESSIONS_MAX; x++) {
		if (x->state != SESSION_RUNS || !span_is(key->id, x->id) ||
		    strcmp(x->facts.user, key->user) != 0)
			continue;
		int fd = x->fd[side];
		x->fd[side] = -1;
		(void)pthread_cond_broadcast(&all->changed);
		if (fd >= 0)
			return fd;
		return err_set(e, 409, "SessionTakenError",
		               "this side of the session has a connection already");
	}
	return err_set(e, 404, "NoSessionError", "there is no such session, or it has ended");
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sessions *sessions_new(void)
{
	struct sessions *all = xcalloc(1, sizeof(*all));
	(void)pthread_mutex_init(&all->lock, NULL);   /* cannot fail with default attributes */
	(void)pthread_cond_init(&all->changed, NULL); /* likewise */
	return all;
}

void sessions_free(struct sessions *all)
{
	if (!all)
		return;
	(void)pthread_mutex_lock(&all->lock); /* cannot fail */
	all->closing = true;
	(void)pthread_cond_broadcast(&all->changed);
	for (struct session *x = all->v; x < all->v + SESSIONS_MAX; x++)
		if (x->state == SESSION_RUNS) /* its processes in the task end by that */
			(void)syscall(SYS_pidfd_send_signal, x->pidfd, SIGKILL, NULL, 0);
	(void)pthread_mutex_unlock(&all->lock);
	for (struct session *x = all->v; x < all->v + SESSIONS_MAX; x++)
		if (x->state != SESSION_FREE)
			(void)pthread_join(x->thread, NULL);
	(void)pthread_mutex_destroy(&all->lock);
	(void)pthread_cond_destroy(&all->changed);
	free(all);
}
