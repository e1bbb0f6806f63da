#include "server/jobs/job_wait.h"

#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/lasting.h"
#include "server/http/query.h"
#include "server/jobs/follower.h"

struct wait {
	struct follower follower; /* first */
	struct request *r;
	const struct job_entry *job; /* as it was found; r keeps it */
	job_found *go_on;
	bool running; /* that is enough */
	bool known;   /* it was in the cache: if it is not any more, it is gone */
};

/* What a query says of it. */
struct asked {
	bool given, running;
	int64_t seconds;
};

/* ---- what is asked for ---- */

static int bad(struct err *e, const char *name, const char *wanted, struct span found)
{
	char quoted[4 * QUOTE_MAX];
	return err_set(e, INVALID_PARAMETERS, "%s must be %s, is \"%s\"", name, wanted,
	               quote(quoted, found));
}

static int read_query(const struct request *r, struct arena *a, struct asked *asked, struct err *e)
{
	struct span query = span_of(r->query);
	struct span value;
	asked->given = query_find(query, "wait", a, &value);
	if (!asked->given)
		return 0;
	if (parse_i64(value, 0, INT64_MAX, &asked->seconds) < 0)
		return bad(e, "wait", "a number of seconds", value);
	if (!query_find(query, "for", a, &value))
		return 0;
	asked->running = span_is(value, "running");
	if (!asked->running && !span_is(value, "completed"))
		return bad(e, "for", "running or completed", value);
	return 0;
}

static bool has_come(bool running, const struct job_entry *job)
{
	return job_state_final(job->state) ||
	       (running && (job->state == JOB_RUNNING || job->state == JOB_STOPPING));
}

/* ---- the end of it ---- */

static void answer(struct request *r, const struct job_entry *job, bool reached, job_found *go_on)
{
	answer_header(r, "X-Wait", reached ? "reached" : "timeout");
	go_on(r, job);
}

static void stop(struct wait *w)
{
	follower_end(w->r->loop->has->followers, &w->follower);
	lasting_end(w->r);
}

/* Ends if the job has come so far, or if it is to end anyway. */
static bool settle(struct wait *w, const struct job_entry *job, bool anyway)
{
	struct request *r = w->r;
	bool reached = has_come(w->running, job);
	if (!reached && !anyway)
		return false;
	stop(w);
	if (job != w->job)
		job_keep(r, job_entry_hold(job));
	answer(r, job, reached, w->go_on);
	return true;
}

static bool gone(struct wait *w)
{
	stop(w);
	answer_refuse(w->r, 404, "NoJobError", "the job was deleted meanwhile");
	return true;
}

/* As it is now; whether that was the end. */
static bool look(struct wait *w, bool anyway)
{
	CACHE_VIEW_AUTO *view = cache_view(w->r->loop->server->cache);
	const struct job_entry *job = view_find(view, w->follower.name);
	if (!job && w->known)
		return gone(w);
	w->known = job;
	return settle(w, job ? job : w->job, anyway);
}

/* ---- what happens ---- */

static void changed(struct follower *f, const struct job_entry *now, const struct job_entry *before,
                    int64_t told)
{
	(void)before;
	(void)told;
	struct wait *w = (struct wait *)f;
	if (!now) {
		(void)gone(w);
		return;
	}
	w->known = true;
	(void)settle(w, now, false);
}

static void lost(struct follower *f)
{
	(void)look((struct wait *)f, false);
}

static void refuse(struct wait *w)
{
	stop(w);
	answer_header(w->r, "WWW-Authenticate", "Bearer");
	answer_refuse(w->r, UNAUTHORIZED, "Your token has expired or was revoked; log in again");
}

static void hear(void *arg, enum lasting_news news)
{
	struct wait *w = arg;
	switch (news) {
	case LASTING_TICK:
		break;
	case LASTING_REFUSED:
		refuse(w);
		break;
	case LASTING_OVER:
	case LASTING_SHUTDOWN:
	case LASTING_LEFT:
		(void)look(w, true);
		break;
	}
}

void job_wait(struct request *r, const struct job_entry *job, job_found *go_on)
{
	struct asked asked = { .given = false };
	ERR_AUTO e = { 0 };
	bool head = strcmp(r->method, "HEAD") == 0;
	if (read_query(r, &r->arena, &asked, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	if (!asked.given) {
		go_on(r, job);
		return;
	}
	bool reached = has_come(asked.running, job);
	if (reached || !asked.seconds || head || !r->loop->has->followers) {
		answer(r, job, reached, go_on);
		return;
	}
	struct wait *w = ARENA_NEW(&r->arena, struct wait, 1);
	if (!lasting_begin(r, asked.seconds, hear, w))
		return;
	*w = (struct wait){ .r = r, .job = job, .go_on = go_on, .running = asked.running };
	w->follower.name = span_of(job->name);
	w->follower.changed = changed;
	w->follower.lost = lost;
	follower_begin(r->loop->has->followers, &w->follower);
	if (!look(w, false))
		request_wait(r);
}
