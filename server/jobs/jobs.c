/* One job: is it there, and how is it?  What clients ask before and after they submit. */
#include "server/jobs/jobs.h"

#include "base/json/scan.h"
#include "base/tree.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/routes.h"
#include "server/jobs/history.h"
#include "server/jobs/job_find.h"
#include "server/jobs/job_look.h"
#include "translate/dialects/render.h"

static int render(struct request *r, const struct job_shown *shown, struct str *out, struct err *e)
{
	return job_detail(out, shown, &r->arena, e);
}

void job_get(struct request *r)
{
	bool attempt = strstr(r->route->path, "/{attempt}");
	job_look(r, &(struct job_looking){
			.attempt = attempt ? r->args[1] : SPAN("latest"),
			.render = render,
			.waits = !attempt,
			.tags = !attempt,
		    });
}

void job_get_v1(struct request *r)
{
	job_look(r, &(struct job_looking){
			.attempt = SPAN("latest"),
			.render = render,
			.waits = true,
			.tags = true,
		    });
}

void job_probe(struct request *r)
{
	answer_refuse(r, 404, "NoJobError", "there is no such job");
}

static const char MASK[] = "\"******\"";

/* ---- masked JSON ----------------------------------------------------------------------------- */

typedef void write_member(struct str *out, const struct member *m);

/* A map whose members are written by a function; anything else as it is. */
static void write_map(struct str *out, const struct node *n, write_member *write)
{
	if (n->type != NODE_MAP) {
		node_json(out, n);
		return;
	}
	str_char(out, '{');
	for (uint32_t i = 0; i < n->n; i++) {
		str_puts(out, i ? "," : "");
		str_json(out, member_key(&n->member[i]));
		str_char(out, ':');
		write(out, &n->member[i]);
	}
	str_char(out, '}');
}

/* Of `auth`: nothing is shown but where to log in, and which secret is meant. */
static void write_auth_member(struct str *out, const struct member *m)
{
	const struct node *v = &m->value;
	bool reference = node_is(v, NODE_TEXT) &&
	                 (v->n == 0 || span_starts(render_only_name(node_span(v)), "$secrets."));
	if (reference || v->type == NODE_NULL || span_is(member_key(m), "registryuri"))
		node_json(out, v);
	else
		str_puts(out, MASK);
}

static void write_prerequisite_member(struct str *out, const struct member *m)
{
	if (!span_is(member_key(m), "auth"))
		node_json(out, &m->value);
	else if (m->value.type == NODE_MAP)
		write_map(out, &m->value, write_auth_member);
	else
		str_puts(out, MASK);
}

static void write_prerequisites(struct str *out, const struct node *n)
{
	if (n->type != NODE_LIST) {
		write_map(out, n, write_prerequisite_member);
		return;
	}
	str_char(out, '[');
	for (uint32_t i = 0; i < n->n; i++) {
		str_puts(out, i ? "," : "");
		write_map(out, &n->item[i], write_prerequisite_member);
	}
	str_char(out, ']');
}

static void write_job_member(struct str *out, const struct member *m)
{
	if (span_is(member_key(m), "secrets"))
		str_puts(out, MASK);
	else if (span_is(member_key(m), "prerequisites"))
		write_prerequisites(out, &m->value);
	else
		node_json(out, &m->value);
}

bool config_json(struct str *out, struct span text, struct arena *a)
{
	struct doc doc = { 0 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	const struct budget budget = BUDGET_DEFAULT;
	if (doc_read(text, &budget, a, &doc, &warnings, &e) < 0 || doc.root.type != NODE_MAP)
		return false;
	write_map(out, &doc.root, write_job_member);
	return true;
}

/* ---- the routes ------------------------------------------------------------------------------ */

static void no_config(struct request *r, const char *why)
{
	str_done(&r->reply.body);
	r->reply.body = STR_INIT(REPLY_MAX);
	answer_refuse(r, 404, "NoJobConfigError", why);
}

static void show(struct request *r, const struct job_entry *job, struct span object)
{
	(void)job;
	struct str *out = &r->reply.body;
	struct span text;
	r->secret = true; /* others may have stored what they should not */
	if (!scan_string(scan_path(object, "metadata", "annotations", "config", NULL), &r->arena,
	                 &text)) {
		no_config(r, "what was submitted does not stand in this job");
	} else if (!config_json(out, text, &r->arena)) {
		no_config(r, "what stands in this job as its configuration cannot be read");
	} else if (out->full) {
		no_config(r, "the configuration of this job is too long for an answer");
	} else {
		str_char(out, '\n');
		r->reply.status = 200;
		r->reply.type = "text/yaml; charset=utf-8"; /* which JSON is, too */
		answer_send(r);
	}
}

static void found(struct request *r, const struct job_entry *job)
{
	job_doc(r, job, show);
}

void config_get(struct request *r)
{
	job_find(r, found);
}

void ssh_get(struct request *r)
{
	answer_refuse(r, 404, "NoJobSshInfoError",
	              "there is no such information: host and ports of each task stand in the job");
}

/* Attempts of jobs and tasks. */

enum {
	LIST_MAX = 32 << 20, /* bytes of all attempts, as they are shown */
	END = 4,             /* of what is behind them */
	READ_MAX = 32 << 20, /* bytes of memory after which no more is read */
};

/* ---- a task ---- */

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
	job_look(r, &(struct job_looking){ .attempt = r->args[1], .render = render_task });
}

/* ---- one attempt ---- */

static int render_attempt(struct request *r, const struct job_shown *shown, struct str *out,
                          struct err *e)
{
	/* true of all of them, as OpenPAI has it here, though not in the list. */
	int failed = job_attempt(out, shown, true, &r->arena, e);
	str_char(out, '\n');
	return failed;
}

void attempt_get(struct request *r)
{
	job_look(r, &(struct job_looking){ .attempt = r->args[1], .render = render_attempt });
}

/* ---- all of them ---- */

/* The latest, and then those before it, one after the other, as far as there is room. */
struct attempts {
	struct job_shown shown;
	int64_t next, last; /* which to ask for */
};

static void ask(struct request *r, struct attempts *all);

/* What cannot be shown of an earlier one, or is too much, is not there. */
static void add(struct request *r, const struct attempts *all)
{
	struct str *out = &r->reply.body;
	ERR_AUTO e = { 0 };
	STR_AUTO one = STR_INIT(LIST_MAX - out->n);
	str_char(&one, ',');
	if (job_attempt(&one, &all->shown, false, &r->arena, &e) == 0 && !one.full)
		str_span(out, str_view(&one));
}

static void came(struct request *r, const struct job_entry *job, struct span status)
{
	struct attempts *all = r->state;
	(void)job;
	all->shown.attempt = status;
	if (!answer_has_room(r))
		return;
	if (status.n)
		add(r, all);
	answer_hold(r);
	all->next--;
	ask(r, all);
}

static void ask(struct request *r, struct attempts *all)
{
	ERR_AUTO none = { 0 };
	if (all->next >= all->last && r->arena.used < READ_MAX) {
		history_get(r, all->shown.job, all->next, came);
		return;
	}
	str_puts(&r->reply.body, "]\n");
	job_answer(r, 0, &none);
}

static void job_attempts_show(struct request *r, const struct job_entry *job, struct span doc)
{
	struct attempts *all = ARENA_NEW(&r->arena, struct attempts, 1);
	struct str *out = &r->reply.body;
	int64_t kept = r->loop->server->options->history;
	ERR_AUTO e = { 0 };
	if (!answer_has_room(r)) /* any more */
		return;
	all->shown = job_shown_of(r, job, doc);
	all->next = (int64_t)job->attempt - 1;
	all->last = job->attempt > kept ? job->attempt - kept : 0;
	if (kept == 0)
		all->last = job->attempt; /* none */
	r->state = all;
	out->max = LIST_MAX;
	str_char(out, '[');
	int failed = job_attempt(out, &all->shown, true, &r->arena, &e);
	if (!failed && out->full)
		failed = err_set(&e, UNKNOWN_ERROR, "what is stored of the job is too large");
	if (failed) {
		answer_error(r, &e);
		return;
	}
	out->max += END;
	ask(r, all);
}

static void job_attempts_found(struct request *r, const struct job_entry *job)
{
	if (answer_has_room(r))
		job_doc(r, job, job_attempts_show);
}

void attempts_get(struct request *r)
{
	job_find(r, job_attempts_found);
}

void attempts_health(struct request *r)
{
	if (r->loop->server->options->history > 0)
		answer_text(r, 200, "ok\n");
	else
		answer_text(r, 501, "Not healthy\n");
}
