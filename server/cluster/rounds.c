/* Looks at all jobs about once a second, in the main thread. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "k8s/cache/cache.h"
#include "server/cluster/cluster.h"
#include "server/log.h"

enum {
	ROUND_MS = 1000,
	STOPS_MAX = 64, /* at the same time; the next round finds the others */
	STOP_DEADLINE_MS = 30000,
	STOP_PATCH_MAX = 2048,
};

/* A job that is being stopped. */
struct stopping {
	struct rounds *rounds;
	const struct job_entry *job; /* NULL: free */
	struct str patch;
};

struct rounds {
	struct server *server;
	struct store *store;
	const struct view *seen; /* by the last round; NULL before the first one */
	int64_t next_ms;
	int64_t due_ms; /* the first deadline that the last round has seen; since 1970 */
	struct stopping stopping[STOPS_MAX];
	char *trouble; /* the last one that was logged; NULL: none */
	bool ending;
};

/* ---- the time limit of jobs ---- */

void job_stop_patch(struct str *out, const struct job_stop *s)
{
	str_puts(out, "{\"metadata\":{\"uid\":");
	str_json(out, span_of(s->uid));
	if (s->version) {
		str_puts(out, ",\"resourceVersion\":");
		str_json(out, span_of(s->version));
	}
	if (s->reason) {
		str_puts(out, ",\"annotations\":{\"rest-lit/stop-reason\":");
		str_json(out, span_of(s->reason));
		str_char(out, '}');
	}
	str_puts(out, "},\"spec\":{\"executionType\":\"Stop\"}}");
}

void job_limit_reason(char out[static JOB_STOP_REASON_MAX], int64_t seconds)
{
	(void)snprintf(out, JOB_STOP_REASON_MAX,
	               "The job was stopped after %lld seconds, its time limit "
	               "(extras.maxDurationSec of the job, or --max-duration of the server).",
	               (long long)seconds); /* it fits */
}

static void rounds_stop_ended(struct stopping *s)
{
	job_entry_drop(TAKE(s->job));
	str_done(&s->patch);
}

static void rounds_stop_log(const struct job_entry *job)
{
	struct line line = log_begin(LOG_INFO, "a job has reached its time limit and was stopped");
	log_text(&line, "user", span_of(job->user));
	log_text(&line, "job", span_of(job->job));
	log_text(&line, "framework", span_of(job->name));
	log_int(&line, "seconds", job->max_duration_s);
	log_end(&line);
}

/* The job has changed meanwhile, is gone, or is another one (422): the next round decides again. */
static bool rounds_is_outdated(const struct store_reply *reply)
{
	return store_is_outdated(reply->outcome) || reply->outcome == STORE_NOT_FOUND ||
	       reply->status == 422;
}

static void rounds_stopped(void *arg, const struct store_reply *reply)
{
	struct stopping *s = arg;
	struct rounds *r = s->rounds;
	bool ok = reply->outcome == STORE_OK;
	bool known = ok || rounds_is_outdated(reply);
	if (ok)
		rounds_stop_log(s->job);
	if (!r->ending) {
		FREE_AUTO char *why = xstrndup(reply->message.p, known ? 0 : reply->message.n);
		cluster_log_trouble(&r->trouble, known ? NULL : why,
		                    "a job that has reached its time limit cannot be stopped; "
		                    "trying again",
		                    "jobs can be stopped at their time limits again");
	}
	rounds_stop_ended(s);
}

static struct stopping *rounds_free_place(struct rounds *r, const struct job_entry *job)
{
	struct stopping *place = NULL;
	for (size_t i = 0; i < STOPS_MAX; i++) {
		struct stopping *s = &r->stopping[i];
		if (!s->job)
			place = s;
		else if (strcmp(s->job->uid, job->uid) == 0)
			return NULL;
	}
	return place;
}

static void rounds_stop(struct rounds *r, const struct job_entry *job)
{
	struct stopping *s = rounds_free_place(r, job);
	if (!s)
		return;
	char reason[JOB_STOP_REASON_MAX];
	job_limit_reason(reason, job->max_duration_s);
	*s = (struct stopping){ r, job_entry_hold(job), STR_INIT(STOP_PATCH_MAX) };
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

/* ---- rounds ---- */

static void rounds_look(struct rounds *r, int64_t now_ms)
{
	struct view_walk walk = { .view = r->seen };
	r->due_ms = INT64_MAX;
	for (const struct job_entry *job; (job = view_next(&walk)) != NULL;) {
		int64_t due_ms = job_entry_deadline_ms(job);
		if (due_ms <= now_ms)
			rounds_stop(r, job);
		r->due_ms = due_ms < r->due_ms ? due_ms : r->due_ms;
	}
}

/* Nothing has changed and no deadline has passed: the jobs need not be looked at. */
static void rounds_round(struct rounds *r)
{
	const struct view *view = cache_view(r->server->cache);
	int64_t now_ms = clock_wall_ms();
	bool same = view == r->seen && now_ms < r->due_ms;
	if (r->seen)
		view_drop(r->seen);
	r->seen = view; /* held, so that another one has another address */
	if (!same)
		rounds_look(r, now_ms);
}

void rounds_run_once(struct rounds *r)
{
	store_reap(r->store);
	if (clock_ms() >= r->next_ms) {
		r->next_ms = clock_ms() + ROUND_MS;
		rounds_round(r);
	}
	store_start(r->store);
}

int rounds_fd(const struct rounds *r)
{
	return store_fd(r->store);
}

int rounds_timeout_ms(const struct rounds *r)
{
	int64_t ms = r->next_ms - clock_ms();
	int store = store_timeout_ms(r->store);
	if (ms < 0)
		return 0;
	return store >= 0 && store < ms ? store : (int)ms;
}

/* ---- life ---- */

struct rounds *rounds_start(struct server *s, struct err *e)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	struct rounds *r = xcalloc(1, sizeof(*r));
	r->server = s;
	r->store = cluster_store(s, &limits, e);
	if (r->store)
		return r;
	rounds_free(r);
	return NULL;
}

void rounds_free(struct rounds *r)
{
	if (!r)
		return;
	r->ending = true;
	if (r->store)
		store_free(r->store);
	if (r->seen)
		view_drop(r->seen);
	free(r->trouble);
	free(r);
}
