/* Attempts of jobs and tasks. */
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/jobs/history.h"
#include "server/jobs/job_look.h"

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

static void came(struct request *r, const struct cached *job, struct span status)
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

static void show(struct request *r, const struct cached *job, struct span doc)
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

static void found(struct request *r, const struct cached *job)
{
	if (answer_has_room(r))
		job_doc(r, job, show);
}

void attempts_get(struct request *r)
{
	job_find(r, found);
}

void attempts_health(struct request *r)
{
	if (r->loop->server->options->history > 0)
		answer_text(r, 200, "ok\n");
	else
		answer_text(r, 501, "Not healthy\n");
}
