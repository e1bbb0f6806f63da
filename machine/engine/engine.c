/* The engine's thread, and the requests of other threads to it. */
#include "machine/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "machine/engine/engine_internal.h"

enum {
	READY_MAX = 64,
	TRIM_MS = 2000, /* without work: unused memory is returned */
	READ_AGAIN_MS = 1000,
	WHY_MAX = 1024,
	CHANGES_MAX = 256, /* of a round, so that the others and a stop do not wait for long */
	FIRST_MS = 10000,  /* from the time when all jobs are read to the first starts, at most */
};

/* ---- small things ---------------------------------------------------------------------------- */

void engine_due(struct engine_job *job, int64_t when_ms)
{
	if (when_ms == 0)
		when_ms = clock_ms(); /* so that jobs are looked at in the order of the calls */
	if (when_ms != ENGINE_NEVER && (!job->due.place || when_ms < job->due.at_ms))
		heap_put(&job->e->due, &job->due, when_ms);
}

void engine_notice(struct engine *e, enum engine_level level, const char *fmt, ...)
{
	va_list args;
	char text[1024];
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args); /* may be cut */
	va_end(args);
	e->set.notice(e->set.arg, level, text);
}

void engine_watch(struct engine *e, int fd, struct engine_pod *p)
{
	struct epoll_event event = { .events = EPOLLIN | (p ? EPOLLONESHOT : 0), .data.ptr = p };
	/* epoll_ctl fails only without memory; then the next start sees the end of the task. */
	(void)epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &event);
}

enum store_outcome engine_get(struct engine *e, enum object_kind kind, const char *name,
                              struct local_answer *out)
{
	const struct store_request r = {
		.verb = STORE_GET, .kind = kind, .name = name, .whole = true
	};
	local_request(e->set.store, &r, out);
	return out->outcome;
}

/* ---- the jobs -------------------------------------------------------------------------------- */

static struct engine_jobs *engine_jobs_of_hash(struct engine *e, struct span uid)
{
	return &e->jobs[hash_bytes(&e->hash_key, uid) % ARRAY_SIZE(e->jobs)];
}

struct engine_job *engine_find(struct engine *e, struct span uid)
{
	struct engine_job *job;
	LIST_FOREACH(job, engine_jobs_of_hash(e, uid), same_hash)
	if (span_is(uid, job->uid))
		return job;
	return NULL;
}

struct engine_job *engine_job_of(struct engine *e, struct span uid)
{
	struct engine_job *job = engine_find(e, uid);
	if (job)
		return job;
	job = xcalloc(1, sizeof(*job));
	job->e = e;
	job->sync_ms = job->stops_ms = ENGINE_NEVER;
	(void)snprintf(job->uid, sizeof(job->uid), "%.*s", (int)uid.n, uid.p);
	LIST_INSERT_HEAD(engine_jobs_of_hash(e, uid), job, same_hash);
	TAILQ_INSERT_TAIL(&e->live, job, live);
	return job;
}

void engine_drop(struct engine_job *job)
{
	struct engine *e = job->e;
	if (job->in_round != ROUND_NONE)
		TAILQ_REMOVE(&e->round, job, round);
	e->n_gone -= job->life >= LIFE_GONE;
	heap_remove(&e->due, &job->due);
	allocations_end(job, NULL, 0);
	LOCK_AUTO(&e->lock);
	LIST_REMOVE(job, same_hash);
	if (job->life != LIFE_COMPLETE && job->life != LIFE_CLEARED)
		TAILQ_REMOVE(&e->live, job, live);
	if (job->changed)
		TAILQ_REMOVE(&e->changes, job, changes);
	queue_remove(e->queue, job->queued);
	for (struct engine_pod *p; (p = job->pods) != NULL; pod_free(p))
		job->pods = p->next;
	framework_free(job->framework);
	json_decref(job->refusal);
	free(job->name);
	free(job->label);
	free(job->problem);
	free(job);
}

/* ---- changes ------------------------------------------------------------------------------------
 */

static void engine_wake(struct engine *e)
{
	(void)eventfd_write(e->event, 1); /* cannot overflow */
}

void engine_limit_users(struct engine *e, const struct engine_limit *v, size_t n,
                        const struct amounts *others)
{
	struct engine_limits new = { .n = n, .others = *others, .changed = true };
	new.v = ARENA_NEW(&new.arena, struct engine_limit, n + 1);
	for (size_t i = 0; i < n; i++)
		new.v[i] =
		    (struct engine_limit){ arena_dup(&new.arena, span_of(v[i].user)), v[i].most };
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	struct engine_limits old = e->limits;
	e->limits = new;
	(void)pthread_mutex_unlock(&e->lock);
	arena_done(&old.arena);
	engine_wake(e);
}

/* Queues the job to be read.  Locked. */
static void changes_put(struct engine_job *job, int64_t version)
{
	if (!job->changed)
		TAILQ_INSERT_TAIL(&job->e->changes, job, changes);
	job->changed = true;
	job->latest = version > job->latest ? version : job->latest;
}

void engine_look(struct engine *e, struct span uid, int64_t version, const struct job_entry *entry)
{
	if (uid.n == 0 || uid.n >= UID_TEXT)
		return;
	LOCK_AUTO(&e->lock);
	struct engine_job *job = entry ? engine_job_of(e, uid) : engine_find(e, uid);
	if (!job)
		return;
	if (entry && !job->name) /* then the engine reads these without the lock */
		job_read_order(job, entry);
	changes_put(job, version);
	engine_wake(e);
}

void engine_forget(struct engine *e, struct span uid)
{
	struct engine_job *job;
	if (uid.n == 0 || uid.n >= UID_TEXT || engine_find(e, uid))
		return;
	job = engine_job_of(e, uid);
	job_become(job, LIFE_GONE); /* it is looked at when its pods are known */
}

/* Reads the Framework.  false: it cannot be read now. */
static bool changes_read(struct engine_job *job)
{
	struct engine *e = job->e;
	struct local_answer answer;
	bool found = engine_get(e, KIND_FRAMEWORK, job->name, &answer) == STORE_OK;
	bool known = found || answer.outcome == STORE_NOT_FOUND;
	if (known && (!found || strcmp(answer.uid, job->uid) != 0)) {
		job_remove(job);
	} else if (found) {
		job_put(job, &answer);
	} else {
		job_trouble(job, "its Framework cannot be read", span_of(answer.message));
		engine_due(job, clock_ms() + READ_AGAIN_MS);
		LOCK_AUTO(&e->lock);
		changes_put(job, 0);
	}
	local_answer_done(&answer);
	return known;
}

/* Reads the changes that are present at the begin of a round; false: one cannot be read.  *more:
 * there are others. */
static bool changes_read_all(struct engine *e, bool *more)
{
	bool all = true;
	(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	const struct engine_job *last = TAILQ_LAST(&e->changes, engine_changes);
	struct engine_job *job = NULL;
	for (size_t n = 0; job != last && n < CHANGES_MAX; n++) {
		job = TAILQ_FIRST(&e->changes);
		TAILQ_REMOVE(&e->changes, job, changes);
		job->changed = false;
		bool seen = job->latest <= job->version;
		bool ended = job->life == LIFE_NEW && job->ended_version &&
		             job->latest <= job->ended_version;
		(void)pthread_mutex_unlock(&e->lock);
		if (ended) /* there can be thousands */
			job_put_ended(job);
		else
			all = (seen || changes_read(job)) && all;
		(void)pthread_mutex_lock(&e->lock); /* cannot fail */
	}
	(void)pthread_mutex_unlock(&e->lock);
	*more = job != last;
	if (*more && all) /* else they are read again when one of them is due */
		engine_wake(e);
	return all;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Looks at the jobs that are due. */
static void engine_steps(struct engine *e)
{
	int64_t now = clock_ms();
	struct heap_item *first;
	struct engine_job *job = NULL;
	while ((first = heap_first(&e->due)) && first->at_ms <= now) {
		job = (struct engine_job *)((char *)first - offsetof(struct engine_job, due));
		heap_remove(&e->due, first);
		if (job->in_round == ROUND_NONE)
			TAILQ_INSERT_TAIL(&e->round, job, round);
		job->in_round = ROUND_DUE;
	}
	TAILQ_FOREACH(job, &e->round, round)
	{
		if (job->in_round == ROUND_DUE)
			job_step(job);
		job->in_round = ROUND_LOOKED;
	}
}

/* Foreground: stops all tasks, or kills them.  true: the last one has ended. */
static bool engine_stop_tasks(struct engine *e, bool stop, bool now)
{
	const struct engine_job *job;
	bool ended = true;
	LOCK_AUTO(&e->lock);
	TAILQ_FOREACH(job, &e->live, live)
	for (const struct engine_pod *p = job->pods; p; p = p->next) {
		if (p->state != POD_STARTED)
			continue;
		ended = false;
		if (now)
			task_kill(p->pidfd);
		else if (stop)
			task_stop(p->pidfd, -1);
	}
	return ended;
}

/* Executes the requests of other threads; false ends the thread. */
static bool engine_follow_orders(struct engine *e)
{
	bool stop = e->stop;
	bool kill_now = e->kill && !e->killed;
	bool first = stop && !e->ending && e->set.foreground;
	e->killed |= kill_now;
	e->ending = stop;
	/* A killed one may have been tried again. */
	bool ended =
	    !(stop || kill_now) || engine_stop_tasks(e, first, kill_now || (first && e->killed));
	return !stop || (e->set.foreground && !ended);
}

static int engine_timeout(const struct engine *e, int timeout)
{
	const struct heap_item *first = heap_first(&e->due);
	int64_t due = first && first->at_ms < e->probe_ms ? first->at_ms : e->probe_ms;
	due = e->trim_ms < due ? e->trim_ms : due;
	due = e->rows_ms < due ? e->rows_ms : due;
	int64_t ms = due - clock_ms();
	if (e->schedule && !e->ending)
		return 0;
	if (due == ENGINE_NEVER || e->ending || (timeout >= 0 && timeout < ms))
		return timeout;
	return ms <= 0 ? 0 : ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static void engine_wait(struct engine *e)
{
	struct epoll_event ready[READY_MAX];
	eventfd_t wakes;
	int timeout = e->images ? images_run_once(e->images) : -1;
	int n = epoll_wait(e->epoll, ready, READY_MAX, engine_timeout(e, timeout));
	(void)eventfd_read(e->event, &wakes); /* EAGAIN: no other thread wants something */
	if (n > 0) {
		e->trim_ms = clock_ms() + TRIM_MS;
	} else if (clock_ms() >= e->trim_ms) {
		(void)malloc_trim(0); /* 0: there was nothing to return */
		e->trim_ms = ENGINE_NEVER;
	}
	for (int i = 0; i < n; i++) {
		struct engine_pod *p = ready[i].data.ptr;
		if (!p)
			continue;
		pod_become(p, POD_EXITED);
		engine_due(p->job, 0);
	}
}

static void *engine_run(void *arg)
{
	struct engine *e = arg;
	bool known = false;
	bool more = true;
	bool begun = false;  /* before, not all is known that tasks hold and which jobs are first */
	int64_t read_ms = 0; /* all are read; 0: not yet */
	while (engine_follow_orders(e)) {
		if (!e->ending) {
			e->starts = 0;
			bool all = changes_read_all(e, &more);
			if (all && !more && !known) {
				results_set_orphans_aside(e); /* the logs have their owners */
				logs_set_orphans_aside(e);
				orphans_end(e);
				known = true;
			}
			engine_look_at_usage(e);
			engine_steps(e);
			if (begun)
				engine_schedule(e);
			engine_steps(e);
			jobs_settle(e);
			read_ms = read_ms || more ? read_ms : clock_ms();
			/* None is to be looked at now: those whose tasks were lost are in the queue
			 * again, before younger ones start. */
			const struct heap_item *due = heap_first(&e->due);
			int64_t now = clock_ms();
			begun |= read_ms && (!due || due->at_ms > now || now >= read_ms + FIRST_MS);
		}
		engine_wait(e);
	}
	return NULL;
}

/* ---- questions of other threads -------------------------------------------------------------- */

/* The processes of others on GPUs that no job has. */
static void engine_put_outside(struct engine *e, struct str *out)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO list = STR_INIT(WHY_MAX / 2);
	const char *why;
	const struct usage_gpu *now = usage_gpus(e->usage, &a, &why);
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		if (!e->inventory.gpus[i].holder)
			usage_put_outside(&list, i, &now[i]);
	if (list.n)
		str_printf(out, "; %s", str_c(&list));
}

struct span engine_waiting(struct engine *e, struct span framework_uid, struct arena *a)
{
	STR_AUTO text = STR_INIT(WHY_MAX);
	LOCK_AUTO(&e->lock);
	const struct engine_job *job = engine_find(e, framework_uid);
	const char *problem = job ? job->problem : NULL;
	for (const struct engine_pod *p = job ? job->pods : NULL; p && !problem; p = p->next)
		problem = p->problem;
	if (problem)
		str_puts(&text, problem);
	else if (job && job->queued && queue_reason(e->queue, job->queued, &text) &&
	         job->queued->why == FOREIGN)
		engine_put_outside(e, &text);
	return arena_span(a, str_view(&text));
}

int engine_task_find(struct engine *e, const struct engine_task *t, struct arena *a,
                     struct engine_entrance *out, struct err *err)
{
	STR_AUTO roles = STR_INIT(WHY_MAX);
	size_t n = 0;
	LOCK_AUTO(&e->lock);
	const struct engine_job *job = engine_find(e, t->framework_uid);
	for (const struct engine_pod *p = job ? job->pods : NULL; p; p = p->next) {
		bool named = t->role.n == 0 || span_is(t->role, p->role) ||
		             span_equals_lower_alnum(t->role, span_of(p->role));
		if (p->state != POD_STARTED || p->index != t->index || !named)
			continue;
		str_printf(&roles, "%s%s", n++ ? ", " : "", p->role);
		*out = (struct engine_entrance){ arena_dup(a, span_of(p->dir)), e->set.runtime,
			                         arena_dup(a, span_of(p->role)) };
	}
	if (n == 1)
		return 0;
	if (n > 1)
		return err_set(err, INVALID_PARAMETERS, "name the role of the task: %s",
		               str_c(&roles));
	return err_set(err, 409, "TaskNotRunningError",
	               "task %lld of %.*s does not run: it waits, has ended, or does not exist",
	               (long long)t->index, t->role.n ? (int)t->role.n : (int)strlen("the job"),
	               t->role.n ? t->role.p : "the job");
}

/* ---- life ------------------------------------------------------------------------------------ */

struct engine *engine_start(const struct engine_settings *settings, struct err *err)
{
	struct engine *e = xcalloc(1, sizeof(*e));
	e->set = *settings;
	e->pods_dir = e->logs_dir = e->results_dir = e->trash_dir = e->trash = -1;
	e->probe_ms = e->trim_ms = e->rows_ms = ENGINE_NEVER;
	(void)pthread_mutex_init(&e->lock, NULL); /* cannot fail with default attributes */
	e->hash_key = hash_key_new();
	TAILQ_INIT(&e->round);
	TAILQ_INIT(&e->live);
	TAILQ_INIT(&e->changes);
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	e->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	e->trash = eventfd(0, EFD_CLOEXEC);
	bool bad = e->epoll < 0 || e->event < 0 || e->trash < 0;
	if (bad)
		err_set(err, UNKNOWN_ERROR, "no descriptors for the engine: %s",
		        strerrordesc_np(errno));
	if (bad || engine_find_machine(e, err) < 0) {
		engine_stop(e);
		return NULL;
	}
	engine_watch(e, e->event, NULL);
	return e;
}

/* A round of the sampler has changed something; on its thread. */
static void engine_usage_changed(void *arg)
{
	struct engine *e = arg;
	e->usage_changed = true;
	engine_wake(e);
}

static void engine_usage_notice(void *arg, const char *text)
{
	engine_notice(arg, ENGINE_WARNING, "%s", text);
}

int engine_begin(struct engine *e, struct err *err)
{
	static void *(*const RUN[])(void *) = { engine_run, trash_run };
	int bad = 0;
	e->usage = usage_start(&(struct usage_settings){ .root = e->set.machine.root,
	                                                 .cgroup = e->cgroup,
	                                                 .gpus = e->inventory.gpus,
	                                                 .gpus_n = e->inventory.gpus_n,
	                                                 .arg = e,
	                                                 .changed = engine_usage_changed,
	                                                 .notice = engine_usage_notice },
	                       err);
	if (!e->usage)
		return -1;
	while (!bad && e->n_threads < ARRAY_SIZE(RUN)) {
		bad = pthread_create(&e->thread[e->n_threads], NULL, RUN[e->n_threads], e);
		e->n_threads += !bad;
	}
	return bad ? err_set(err, UNKNOWN_ERROR, "no thread for the engine: %s",
	                     strerrordesc_np(bad))
	           : 0;
}

void engine_want_gpus(struct engine *e)
{
	usage_want(e->usage);
}

void engine_kill(struct engine *e)
{
	e->kill = true;
	engine_wake(e);
}

void engine_stop(struct engine *e)
{
	if (!e)
		return;
	e->stop = true;
	engine_wake(e);
	(void)eventfd_write(e->trash, 1); /* cannot overflow */
	while (e->n_threads > 0)
		(void)pthread_join(e->thread[--e->n_threads], NULL);
	if (e->usage) { /* for the next start */
		engine_note_rows(e);
		engine_store_rows(e);
	}
	for (size_t i = 0; i < ARRAY_SIZE(e->jobs); i++)
		while (!LIST_EMPTY(&e->jobs[i]))
			engine_drop(LIST_FIRST(&e->jobs[i])); /* NOLINT: leaves the list, too */
	free(e->due.v);
	results_measure_ended(e); /* frees what is left */
	const int fds[] = { e->epoll,       e->event,     e->pods_dir, e->logs_dir,
		            e->results_dir, e->trash_dir, e->trash };
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fd_cleanup(&fds[i]);
	usage_stop(e->usage);
	free(e->rows);
	arena_done(&e->rows_arena);
	images_free(e->images);
	free(e->cgroup);
	queue_free(e->queue);
	framework_config_free(e->config);
	inventory_done(&e->inventory);
	(void)pthread_mutex_destroy(&e->lock);
	arena_done(&e->limits.arena);
	arena_done(&e->arena);
	free(e);
}
