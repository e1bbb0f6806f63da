/* Looks at all jobs about once a second, in the main thread. */
#include "server/cluster/rounds.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/json/put.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/cache/cache.h"
#include "jobs/cache/events.h"
#include "jobs/framework/view.h"
#include "k8s/http/poster.h"
#include "server/cluster/cluster.h"
#include "server/cluster/order.h"
#include "server/cluster/webhook.h"
#include "server/config/options.h"
#include "server/state/log.h"

enum {
	ROUND_MS = 1000,
	PULLS_MS = 5000, /* between looks at failed pulls */
	PULLS_MAX = 3,
	STOPS_MAX = 64, /* at the same time; the next round finds the others */
	STOP_DEADLINE_MS = 30000,
	STOP_PATCH_MAX = 8192,
	REASON_MAX = 256,
	END_MS = 2000,
};

enum stop_cause { STOP_OVER, STOP_IMAGE, STOP_IDLE };
static const char *const STOPPED_BY[] = {
	[STOP_OVER] = "a job has reached its time limit and was stopped",
	[STOP_IMAGE] = "an image cannot be pulled; the job was stopped",
	[STOP_IDLE] = "the GPUs of a job were idle; it was stopped (--gpu-idle-stop)",
};

/* A job that is being stopped. */
struct stopping_job {
	struct rounds *rounds;
	const struct job_entry *job; /* NULL: free */
	enum stop_cause cause;
	struct str patch;
};

struct rounds {
	struct server *server;
	struct store *store;
	struct webhook *webhook; /* NULL: none */
	struct order *order;
	int epoll_fd;                  /* of both */
	const struct cache_view *seen; /* by the last round; NULL before the first one */
	int64_t next_ms, pulls_ms;
	/* The first deadline that the last round has seen, by two clocks, because one can be set.
	 */
	int64_t due_ms, due_wall_ms;
	struct stopping_job stopping[STOPS_MAX];
	char *trouble; /* the last one that was logged; NULL: none */
	bool ending;
};

/* ---- stopping a job ---- */

void job_stop_patch(struct str *out, const struct job_stop *s)
{
	str_puts(out, "{\"metadata\":{");
	json_put_word(out, "uid", s->uid);
	if (s->version)
		json_put_word(out, "resourceVersion", s->version);
	if (s->reason) {
		json_put_open(out, "annotations", '{');
		json_put_word(out, "rest-lit/stop-reason", s->reason);
		str_char(out, '}');
	}
	str_puts(out, "},\"spec\":{\"executionType\":\"Stop\"}}");
}

void job_start_patch(struct str *out, const struct job_entry *job)
{
	str_puts(out, "{\"metadata\":{");
	json_put_word(out, "uid", job->uid);
	json_put_word(out, "resourceVersion", job->resource_version);
	str_puts(out, "},\"spec\":{\"executionType\":\"Start\"}}");
}

static void rounds_stopped(void *arg, const struct store_reply *reply)
{
	struct stopping_job *s = arg;
	struct rounds *r = s->rounds;
	bool ok = reply->outcome == STORE_OK;
	/* The job has changed meanwhile, is gone, or is another one (422): the next round decides
	 * again. */
	bool known = ok || store_is_outdated(reply->outcome) || reply->status == 422;
	if (ok) {
		struct line line = log_begin(LOG_INFO, STOPPED_BY[s->cause]);
		log_text(&line, "user", span_of(s->job->user));
		log_text(&line, "job", span_of(s->job->job));
		log_text(&line, "framework", span_of(s->job->name));
		if (s->cause == STOP_OVER)
			log_int(&line, "seconds", s->job->max_duration_s);
		log_end(&line);
	}
	if (!r->ending) {
		FREE_AUTO char *why = xstrndup(reply->message.p, known ? 0 : reply->message.n);
		cluster_log_trouble(&r->trouble, known ? NULL : why,
		                    "a job cannot be stopped, although its time is over, its "
		                    "image cannot be pulled, or its GPUs are idle; trying again",
		                    "jobs can be stopped again");
	}
	job_entry_drop(TAKE(s->job));
	str_done(&s->patch);
}

static void rounds_stop(struct rounds *r, const struct job_entry *job, enum stop_cause cause,
                        const char *reason)
{
	struct stopping_job *s = NULL;
	for (struct stopping_job *p = r->stopping; p < r->stopping + STOPS_MAX; p++) {
		if (!p->job)
			s = p;
		else if (strcmp(p->job->uid, job->uid) == 0)
			return;
	}
	if (!s)
		return;
	*s = (struct stopping_job){ r, job_entry_hold(job), cause, STR_INIT(STOP_PATCH_MAX) };
	job_stop_patch(&s->patch, &(struct job_stop){ job->uid, job->resource_version, reason });
	store_request(r->store, &(struct store_request){
				    .verb = STORE_PATCH,
				    .kind = KIND_FRAMEWORK,
				    .name = s->job->name,
				    .body = { str_view(&s->patch) },
				    .deadline_ms = clock_ms() + STOP_DEADLINE_MS,
				    .done = rounds_stopped,
				    .arg = s,
				});
}

/* ---- images that cannot be pulled ---- */

/* The latest refusal of the pod, if there were PULLS_MAX and it has pulled nothing since; or NULL.
 * v[0..n): Events, the latest first. */
static const struct event *rounds_pod_refused(struct span uid, const struct event *v, size_t n)
{
	const struct event *latest = NULL;
	int64_t times = 0;
	for (size_t i = 0; i < n; i++) {
		if (!span_eq(v[i].pod_uid, uid))
			continue;
		if (!latest && span_is(v[i].reason, "Pulled"))
			return NULL;
		if (event_is_refusal(&v[i])) {
			times += v[i].count;
			latest = latest ?: &v[i];
		}
	}
	return times >= PULLS_MAX ? latest : NULL;
}

/* The same for the pods of a job: the current ones of tasks whose containers do not run yet. */
static const struct event *rounds_refused(const struct rounds *r, const struct job_entry *job,
                                          struct arena *a)
{
	struct span status;
	struct fw_view f;
	struct fw_view t;
	struct fw_walk w;
	struct event *v;
	size_t n = events_of(r->server->events, span_of(job->name), a, &v);
	const struct event *found = NULL;
	if (!job_entry_status(job, a, &status))
		return NULL;
	fw_view_read(status, a, &f);
	(void)fw_walk_begin(&w, &f, a); /* else no role is found */
	while (!found && fw_walk_role(&w))
		while (!found && fw_walk_task(&w, &t))
			if (t.uid.n && span_is(t.state, "AttemptPreparing"))
				found = rounds_pod_refused(t.uid, v, n);
	return found;
}

static void rounds_stop_refused(struct rounds *r)
{
	enum { MESSAGE_MAX = 800 };
	ARENA_AUTO names = { 0 };
	struct span *name;
	size_t n = events_refusals(r->server->events, &names, &name);
	for (size_t i = 0; i < n; i++) {
		ARENA_AUTO a = { 0 };
		const struct job_entry *job = view_find(r->seen, name[i]);
		if (!job || job->submitted_ms == JOB_ENTRY_NONE || job_state_final(job->state) ||
		    strcmp(job->execution, "START") != 0)
			continue; /* also jobs of other programs */
		const struct event *v = rounds_refused(r, job, &a);
		struct span why = v ? span_cut(v->message, MESSAGE_MAX) : SPAN("");
		if (v)
			rounds_stop(r, job, STOP_IMAGE,
			            arena_printf(&a,
			                         "The job was stopped, because %.*s[%lld] "
			                         "cannot pull its image: %.*s",
			                         (int)v->role.n, v->role.p, (long long)v->index,
			                         (int)why.n, why.p));
	}
}

/* ---- rounds ---- */

/* Stops the job if its time without work is over; returns what is left of it. */
static int64_t rounds_check_idle(struct rounds *r, const struct job_entry *job)
{
	const struct options *o = r->server->options;
	char since[RFC3339_MAX];
	char warned[RFC3339_MAX];
	char reason[REASON_MAX];
	int64_t left_ms =
	    job_entry_idle_left_ms(job, o->gpu_idle_s ? o->gpu_idle_stop_s * 1000 : 0);
	if (left_ms <= 0) {
		(void)snprintf(reason, sizeof(reason),
		               "GPUs idle since %s, warned at %s; `rest-lit keep JOB` prevents "
		               "this.",
		               rfc3339_put(since, job->gpu_idle_ms, 0),
		               rfc3339_put(warned, job->gpu_warned_ms, 0)); /* it fits */
		rounds_stop(r, job, STOP_IDLE, reason);
	}
	return left_ms;
}

static void rounds_check_jobs(struct rounds *r)
{
	struct view_walk walk = { .view = r->seen };
	char reason[REASON_MAX];
	int64_t first_ms = INT64_MAX / 2;
	if (r->webhook)
		webhook_round_begin(r->webhook);
	for (const struct job_entry *job; (job = view_next(&walk)) != NULL;) {
		if (r->webhook)
			webhook_add_job(r->webhook, job);
		if (job_state_final(job->state)) /* most are */
			continue;
		int64_t left_ms = job_entry_left_ms(job);
		if (left_ms <= 0) {
			(void)snprintf(reason, sizeof(reason),
			               "The job was stopped after %lld seconds, its time limit "
			               "(extras.maxDurationSec of the job, or --max-duration of "
			               "the server).",
			               (long long)job->max_duration_s); /* it fits */
			rounds_stop(r, job, STOP_OVER, reason);
		}
		int64_t idle_ms = rounds_check_idle(r, job);
		left_ms = idle_ms < left_ms ? idle_ms : left_ms;
		first_ms = left_ms < first_ms ? left_ms : first_ms;
	}
	r->due_ms = clock_boot_ms() + first_ms;
	r->due_wall_ms = clock_wall_ms() + first_ms;
	if (r->webhook)
		webhook_round_end(r->webhook, r->seen);
}

/* Runs a round; skips the jobs if nothing has changed and no deadline has passed. */
static void rounds_run_round(struct rounds *r)
{
	const struct cache_view *view = cache_view(r->server->cache);
	bool same = view == r->seen && clock_boot_ms() < r->due_ms &&
	            clock_wall_ms() < r->due_wall_ms && !webhook_wants_round(r->webhook);
	if (r->seen)
		view_drop(r->seen);
	r->seen = view; /* held, so that another one has another address */
	if (!same)
		rounds_check_jobs(r);
	if (clock_ms() >= r->pulls_ms) {
		r->pulls_ms = clock_ms() + PULLS_MS;
		rounds_stop_refused(r);
	}
}

void rounds_run_once(struct rounds *r)
{
	store_reap(r->store);
	if (clock_ms() >= r->next_ms) {
		r->next_ms = clock_ms() + ROUND_MS;
		rounds_run_round(r);
	}
	order_run_once(r->order);
	webhook_run_once(r->webhook);
	store_start(r->store);
}

int rounds_fd(const struct rounds *r)
{
	return r->epoll_fd;
}

int rounds_timeout_ms(const struct rounds *r)
{
	int64_t ms = r->next_ms - clock_ms();
	const struct poster *p = webhook_poster(r->webhook);
	const int others[] = { store_timeout_ms(r->store), order_timeout_ms(r->order),
		               p ? poster_timeout_ms(p) : -1 };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		ms = others[i] >= 0 && others[i] < ms ? others[i] : ms;
	return ms < 0 ? 0 : (int)ms;
}

void rounds_reload(struct rounds *r)
{
	ERR_AUTO e = { 0 };
	if (!r->webhook)
		return;
	if (webhook_reload(r->webhook, &e) < 0)
		log_event(LOG_ERROR, "SIGHUP: the secret of --webhook stays as it was", "why",
		          err_msg(&e));
	else
		log_event(LOG_INFO, "SIGHUP: the secret of --webhook was read again", NULL, NULL);
}

/* ---- life ---- */

static int rounds_watch(const struct rounds *r, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

struct rounds *rounds_start(struct server *s, struct err *e)
{
	struct rounds *r = xcalloc(1, sizeof(*r));
	r->server = s;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r->store = cluster_store(s, &STORE_LIMITS_DEFAULT, e);
	r->order = r->store ? order_new(s, r->store, e) : NULL;
	if (r->order && webhook_start(&r->webhook, s, r->store, e) == 0) {
		const struct poster *p = webhook_poster(r->webhook);
		if (rounds_watch(r, store_fd(r->store)) == 0 &&
		    rounds_watch(r, order_fd(r->order)) == 0 &&
		    (!p || rounds_watch(r, poster_fd(p)) == 0))
			return r;
		(void)err_set(e, UNKNOWN_ERROR, "epoll failed");
	}
	rounds_free(r);
	return NULL;
}

/* Ends that were answered are marked meanwhile. */
void rounds_end(struct rounds *r)
{
	int64_t end_ms = clock_ms() + END_MS;
	r->ending = true;
	webhook_stop(r->webhook);
	for (int64_t left; r->webhook && (left = end_ms - clock_ms()) > 0;) {
		store_start(r->store);
		if (store_pending(r->store) == 0)
			return;
		struct pollfd fd = { .fd = store_fd(r->store), .events = POLLIN };
		int ms = store_timeout_ms(r->store);
		(void)poll(&fd, 1, ms >= 0 && ms < left ? ms : (int)left); /* store_reap sees it */
		store_reap(r->store);
	}
}

void rounds_free(struct rounds *r)
{
	if (!r)
		return;
	r->ending = true;
	webhook_stop(r->webhook);
	if (r->store)
		store_free(r->store);
	order_free(r->order);
	webhook_free(r->webhook);
	if (r->epoll_fd >= 0)
		(void)close(r->epoll_fd);
	if (r->seen)
		view_drop(r->seen);
	free(r->trouble);
	free(r);
}
