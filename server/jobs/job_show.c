/*
 * The routes that show one job: in full, one attempt, one task, all attempts, the configuration.
 * They find the job, wait if the client asks for it, fetch the attempt, and render it.
 */
#include <inttypes.h>
#include <time.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/cache/hold.h"
#include "machine/engine/engine.h"
#include "server/cluster/history.h"
#include "server/config/options.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/jobs/jobs_internal.h"
#include "translate/reader/redact.h"

enum {
	LATEST = -1,
	BODY_LARGE = 32 << 20, /* no answer is larger */
	SEEN_MAX = 4096,
	END = 4,             /* bytes after a list of attempts */
	READ_MAX = 32 << 20, /* bytes of memory after which no further attempt is read */
};

/* Appends the answer.  Called once, for the requested attempt.  -1 and *e. */
typedef int job_render(struct request *r, const struct job_shown *shown, struct str *out,
                       struct err *e);

struct job_look {
	struct span name; /* of the attempt, in the path: a number or `latest` */
	job_render *render;
	bool plain; /* supports ?wait=, and ETag with If-None-Match */
	int64_t attempt;
	struct span earlier;
};

static struct job_shown job_shown_of(const struct request *r, const struct job_entry *job,
                                     struct span doc)
{
	const struct server *s = r->loop->server;
	return (struct job_shown){
		.job = job,
		.doc = doc,
		.spec = s->exit_spec,
		.v1 = route_is_v1(r->route),
		.hived = s->options->hived_config[0] != '\0',
		.here = s->engine != NULL,
		.host_files = s->host_files,
	};
}

size_t job_look_events(const struct request *r, const struct job_entry *job, struct arena *a,
                       struct event **v)
{
	struct events *events = r->loop->server->events;
	if (!events || job->state != JOB_WAITING || !job_access_allowed(r, job, JOB_SEE))
		return 0;
	return events_of(events, span_of(job->name), a, v);
}

enum neglect job_look_neglect(const struct request *r, const struct job_entry *job)
{
	if (!job->untouched)
		return NEGLECT_NONE;
	return job_neglect(r->loop->server, job, (int64_t)time(NULL) * 1000);
}

/* The reason why a held job is not started. */
static struct span job_look_hold(const struct request *r, const struct job_entry *job,
                                 struct arena *a)
{
	CACHE_VIEW_AUTO *view = cache_view(r->loop->server->cache);
	STR_AUTO why = STR_INIT(SEEN_MAX);
	struct hold h;
	if (!hold_read(span_of(job->hold), a, &h))
		return SPAN("until it is released: its annotation rest-lit/hold is not valid");
	struct hold_judgement j = hold_judge(&h, view, clock_wall_ms(), 0, &why);
	if (j.verdict == HOLD_STARTS && h.max)
		str_printf(&why, "at most %lld of the jobs submitted with the tag %.*s run at once",
		           (long long)h.max, (int)h.tag.n, h.tag.p);
	return arena_span(a, str_view(&why));
}

struct span job_look_machine(const struct request *r, const struct job_entry *job, struct arena *a)
{
	struct engine *engine = r->loop->server->engine;
	struct span why = { "", 0 };
	if (job->state != JOB_WAITING || !job_access_allowed(r, job, JOB_SEE))
		return why;
	int64_t most = atomic_load(&r->loop->server->node_gpus);
	if (job->held)
		return job_look_hold(r, job, a);
	if (*job->waits)
		why = span_of(job->waits);
	else if (engine)
		why = engine_waiting(engine, span_of(job->uid), a);
	else if (most > 0 && job->gpus > most * job->tasks)
		why = span_of(arena_printf(a,
		                           "asks for %" PRId64
		                           " GPUs a task%s; the largest node had %" PRId64
		                           " when the server last looked",
		                           (job->gpus + job->tasks - 1) / (job->tasks ?: 1),
		                           job->roles > 1 ? " on average" : "", most));
	return why;
}

static void job_look_show(struct request *r, const struct job_entry *job, struct span doc)
{
	const struct job_look *l = r->state;
	struct job_shown shown = job_shown_of(r, job, doc);
	struct event *v = NULL;
	ERR_AUTO e = { 0 };
	if (!answer_has_room(r)) /* it may have become full meanwhile */
		return;
	size_t n = job_look_events(r, job, &r->arena, &v);
	shown.why.neglect = job_look_neglect(r, job);
	shown.why.machine = job_look_machine(r, job, &r->arena);
	shown.attempt = l->earlier;
	if (job->completed_ms >= 0 && r->loop->server->engine) {
		const char *dir;
		shown.results_deleted = engine_results(r->loop->server->engine, span_of(job->uid),
		                                       &r->arena, &dir) == RESULTS_DELETED;
	}
	shown.why.event = n ? job_waiting(&shown, v, n, &r->arena) : NULL;
	r->reply.body.max = BODY_LARGE;
	if (l->render(r, &shown, &r->reply.body, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	answer_hold(r);
	answer_json(r, 200);
}

/* ---- ETag ---- */

/* A hash of everything that the answer depends on and this client may see. */
static const char *job_look_etag(struct request *r, const struct job_entry *job)
{
	struct event *v = NULL;
	size_t n = job_look_events(r, job, &r->arena, &v);
	char hash[33];
	STR_AUTO seen = STR_INIT(SEEN_MAX);
	str_printf(&seen, "%s %s %s %d %d", job->uid, job->resource_version, REST_LIT_VERSION,
	           route_is_v1(r->route), job_look_neglect(r, job));
	if (n > 0) {
		str_printf(&seen, " %zu %lld %lld ", n, (long long)v[0].last_ms,
		           (long long)v[0].count);
		str_span(&seen, v[0].uid);
	}
	str_span(&seen, job_look_machine(r, job, &r->arena));
	md5_hex(hash, str_view(&seen));
	return arena_printf(&r->arena, "W/\"%s\"", hash);
}

/* ---- earlier attempts ---- */

/* status: the attemptStatus, in r's arena; empty if it is not available. */
typedef void history_came(struct request *r, const struct job_entry *job, struct span status);

struct history_wanted {
	struct request *r;
	const struct job_entry *job;
	int64_t attempt;
	history_came *came;
};

static void history_answered(void *arg, const struct store_reply *reply)
{
	const struct history_wanted *k = arg;
	struct span status = { NULL, 0 };
	if (job_store_silent(reply)) {
		answer_refuse(k->r, UNAVAILABLE, "earlier attempts cannot be read now; try again");
		return;
	}
	if (reply->outcome == STORE_OK)
		(void)history_read(reply->body, k->job->uid, k->attempt, &k->r->arena, &status);
	k->came(k->r, k->job, status);
}

/* Gets an earlier attempt of the job.  An attempt that is not kept, or not readable, counts as
 * missing.  Calls `came` once, or r is answered 503. */
static void history_request(struct request *r, const struct job_entry *job, int64_t attempt,
                            history_came *came)
{
	bool kept = attempt >= 0 && attempt < job->attempt && !job->legacy &&
	            attempt >= job->attempt - r->loop->server->options->history;
	if (!kept) {
		came(r, job, (struct span){ NULL, 0 });
		return;
	}
	if (!r->loop->store) {
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return;
	}
	struct history_wanted *k = ARENA_NEW(&r->arena, struct history_wanted, 1);
	*k = (struct history_wanted){ r, job, attempt, came };
	job_store_get(r, KIND_CONFIGMAP, history_name(&r->arena, job->name, attempt),
	              history_answered, k);
}

static void earlier_attempt_read(struct request *r, const struct job_entry *job, struct span status)
{
	struct job_look *l = r->state;
	l->earlier = status;
	if (status.n)
		job_doc(r, job, job_look_show);
	else
		answer_refuse(r, 404, "NoJobError", "this attempt of the job is not kept");
}

/* ---- one attempt ---- */

static void job_look_found(struct request *r, const struct job_entry *job)
{
	const struct job_look *l = r->state;
	bool waited = false; /* then the answer is a full one */
	for (size_t i = 0; i < r->reply.n_headers; i++)
		waited = waited || strcmp(r->reply.headers[i].name, "X-Wait") == 0;
	if (!answer_has_room(r))
		return;
	if (l->attempt > job->attempt)
		answer_refuse(r, 404, "NoJobError", "the job has no such attempt");
	else if (l->attempt != LATEST && l->attempt < job->attempt)
		history_request(r, job, l->attempt, earlier_attempt_read);
	else if (!l->plain || waited || !answer_unchanged(r, job_look_etag(r, job)))
		job_doc(r, job, job_look_show);
}

static void job_look_wait(struct request *r, const struct job_entry *job)
{
	const struct job_look *l = r->state;
	if (l->plain)
		job_wait(r, job, job_look_found);
	else
		job_look_found(r, job);
}

static void job_look(struct request *r, const struct job_look *how)
{
	struct job_look *l = ARENA_NEW(&r->arena, struct job_look, 1);
	*l = *how;
	l->attempt = LATEST;
	if (!span_is(how->name, "latest") && parse_i64(how->name, 0, INT32_MAX, &l->attempt) < 0) {
		answer_refuse(r, INVALID_PARAMETERS,
		              "the attempt in the path must be a number from 0, or `latest`");
		return;
	}
	r->state = l;
	job_find(r, job_look_wait);
}

static int render_job(struct request *r, const struct job_shown *shown, struct str *out,
                      struct err *e)
{
	return job_detail(out, shown, &r->arena, e);
}

void job_get(struct request *r)
{
	bool attempt = strstr(r->route->path, "/{attempt}");
	job_look(r, &(struct job_look){ .name = attempt ? r->args[1] : SPAN("latest"),
	                                .render = render_job,
	                                .plain = !attempt });
}

void job_probe(struct request *r)
{
	answer_refuse(r, NO_JOB);
}

static int render_task(struct request *r, const struct job_shown *shown, struct str *out,
                       struct err *e)
{
	struct task_name task = { .role = r->args[2] };
	if (parse_i64(r->args[3], 0, INT32_MAX, &task.index) < 0)
		return err_set(e, INVALID_PARAMETERS,
		               "the index of the task in the path must be a number from 0");
	return job_task(out, shown, &task, &r->arena, e);
}

void job_task_get(struct request *r)
{
	job_look(r, &(struct job_look){ .name = r->args[1], .render = render_task });
}

static int render_attempt(struct request *r, const struct job_shown *shown, struct str *out,
                          struct err *e)
{
	/* OpenPAI sets isLatest on every single attempt here, but not in the list. */
	int failed = job_attempt(out, shown, true, &r->arena, e);
	str_char(out, '\n');
	return failed;
}

void attempt_get(struct request *r)
{
	job_look(r, &(struct job_look){ .name = r->args[1], .render = render_attempt });
}

/* ---- all attempts ---- */

/* The latest attempt, then earlier ones in descending order while there is room. */
struct attempts {
	struct job_shown shown;
	int64_t next, last;
};

static void attempts_ask(struct request *r, struct attempts *all);

static void attempts_history_read(struct request *r, const struct job_entry *job,
                                  struct span status)
{
	struct attempts *all = r->state;
	struct str *out = &r->reply.body;
	ERR_AUTO e = { 0 };
	STR_AUTO one = STR_INIT(BODY_LARGE - out->n);
	(void)job;
	all->shown.attempt = status;
	if (!answer_has_room(r))
		return;
	str_char(&one, ',');
	/* An earlier attempt that cannot be shown, or is too large, is left out. */
	if (status.n && job_attempt(&one, &all->shown, false, &r->arena, &e) == 0 && !one.full)
		str_span(out, str_view(&one));
	answer_hold(r);
	all->next--;
	attempts_ask(r, all);
}

static void attempts_ask(struct request *r, struct attempts *all)
{
	if (all->next >= all->last && r->arena.used < READ_MAX) {
		history_request(r, all->shown.job, all->next, attempts_history_read);
		return;
	}
	str_puts(&r->reply.body, "]\n");
	answer_hold(r);
	answer_json(r, 200);
}

static void attempts_show(struct request *r, const struct job_entry *job, struct span doc)
{
	struct attempts *all = ARENA_NEW(&r->arena, struct attempts, 1);
	struct str *out = &r->reply.body;
	int64_t kept = r->loop->server->options->history;
	ERR_AUTO e = { 0 };
	if (!answer_has_room(r))
		return;
	all->shown = job_shown_of(r, job, doc);
	all->next = (int64_t)job->attempt - 1;
	all->last = job->attempt > kept ? job->attempt - kept : 0;
	r->state = all;
	out->max = BODY_LARGE;
	str_char(out, '[');
	int failed = job_attempt(out, &all->shown, true, &r->arena, &e);
	if (!failed && out->full)
		failed = err_set(&e, UNKNOWN_ERROR, "the stored job is too large");
	if (failed) {
		answer_error(r, &e);
		return;
	}
	out->max += END;
	attempts_ask(r, all);
}

void attempts_get(struct request *r)
{
	job_find_doc(r, attempts_show);
}

void attempts_health(struct request *r)
{
	bool kept = r->loop->server->options->history > 0;
	answer_text(r, kept ? 200 : 501, kept ? "ok" : "Not healthy");
}

/* ---- configuration ---- */

/* NULL: it is not a job. */
static const struct node *submitted_config_read(struct span text, struct arena *a)
{
	const struct node *root = doc_quiet(text, &BUDGET_DEFAULT, a);
	return node_is(root, NODE_MAP) ? root : NULL;
}

/* The only way in which a configuration that other programs have written leaves the server. */
bool config_json(struct str *out, struct span text, struct arena *a)
{
	const struct node *root = submitted_config_read(text, a);
	struct place shared;
	if (root)
		node_json(out, redact_tree(root, a, &shared));
	return root;
}

static void config_refuse(struct request *r, const char *why)
{
	str_done(&r->reply.body);
	r->reply.body = STR_INIT(REPLY_MAX);
	answer_refuse(r, 404, "NoJobConfigError", why);
}

const struct parameter JOB_CONFIG[] = {
	{ .name = "written",
	  .values = "true|false",
	  .doc = "`true`: the stored text, as text/plain: that which was written, if it has no "
	         "secrets." },
	{ .name = NULL },
};

/* Reads ?written=true; *value: its value, p is NULL if it is absent. */
static bool config_written(struct request *r, struct span *value)
{
	if (!parameter_find(r, JOB_CONFIG, value))
		*value = (struct span){ NULL, 0 };
	return span_is(*value, "true");
}

static void config_show(struct request *r, const struct job_entry *job, struct span object)
{
	struct str *out = &r->reply.body;
	struct span text;
	struct span value;
	bool written = config_written(r, &value);
	bool there =
	    scan_string(scan_path(object, "metadata", "annotations", "config"), &r->arena, &text);
	const struct node *root = there ? submitted_config_read(text, &r->arena) : NULL;
	struct place shared;
	/* This server has redacted the secrets at the submission, so that there are none.  Texts of
	 * other programs may have secrets in comments. */
	bool safe = root && job->submitted_ms != JOB_ENTRY_NONE &&
	            redact_tree(root, &r->arena, &shared) == root;
	r->secret = true; /* other programs may have stored secrets in it */
	if (!there) {
		config_refuse(r, "no configuration is stored in this job");
	} else if (written && !safe) {
		config_refuse(r, "this server has not written the configuration of this job, so it "
		                 "is shown without comments only: ask without `written`");
	} else if (written) {
		str_span(out, text);
		answer_text(r, 200, "");
	} else if (!config_json(out, text, &r->arena)) {
		config_refuse(r, "the stored configuration of this job is not a valid job");
	} else if (out->full) {
		config_refuse(r, "the configuration of this job is too long for an answer");
	} else {
		str_char(out, '\n');
		r->reply.status = 200;
		r->reply.type = "text/yaml; charset=utf-8"; /* JSON is YAML */
		answer_send(r);
	}
}

void config_get(struct request *r)
{
	struct span value;
	if (config_written(r, &value) || !value.p || span_is(value, "false"))
		job_find_doc(r, config_show);
	else
		answer_bad(r, "`written` must be true or false", value);
}

void ssh_get(struct request *r)
{
	answer_refuse(r, 404, "NoJobSshInfoError",
	              "there is no SSH information; the job shows host and ports of each task");
}
