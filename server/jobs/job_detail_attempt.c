/* One task, and an attempt of a job, each as a route of its own shows it. */
#include "server/jobs/job_detail_task.h"

static int no_task(struct err *e)
{
	return err_set(e, 404, "NoJobError", "there is no such task");
}

/* ---- a task ---- */

static bool find_role(const struct job_shown *s, struct span list, struct span name,
                      struct arena *a, struct role *role)
{
	struct templates templates = templates_read(s, a);
	struct scan roles = scan_begin(list);
	struct span status;
	for (size_t at = 0; scan_item(&roles, &status); at++) {
		if (!span_eq(scan_text(scan_get(status, "name"), a), name))
			continue;
		return role_read(role, status, at, &templates);
	}
	return false;
}

static bool find_task(const struct role *role, int64_t index, struct task *t)
{
	struct scan tasks = scan_begin(role->tasks);
	struct span item;
	while (scan_item(&tasks, &item)) {
		int64_t n;
		if (!scan_int(scan_get(item, "index"), 0, INT32_MAX, &n) || n != index)
			continue;
		task_read(t, item);
		return true;
	}
	return false;
}

int job_task(struct str *out, const struct job_shown *s, const struct task_name *task,
             struct arena *a, struct err *e)
{
	struct shower w = shower_of(out, s, a);
	struct span attempt = shown_attempt(s);
	struct span list;
	struct role role;
	struct task t;
	if (attempt_roles(attempt, a, &list, e) < 0)
		return -1;
	if (!find_role(s, list, task->role, a, &role) || !find_task(&role, task->index, &t))
		return no_task(e);
	show_word(&w, "{\"username\":", cached_shown_user(s->job));
	show_word(&w, ",\"jobName\":", s->job->job);
	show_int(&w, ",\"jobAttemptId\":", scan_get(attempt, "id"));
	str_puts(out, ",\"taskRoleName\":");
	str_json(out, role.name);
	str_char(out, ',');
	show_task(&w, &t);
	str_puts(out, ",\"attempts\":[{");
	show_try(&w, &role, &t);
	str_puts(out, "}]}\n");
	return 0;
}

/* ---- an attempt ---- */

/* exitDiagnostics has the same three as appExitDiagnostics and appExitMessages, in one. */
static void show_exit_diagnostics(struct shower *w, const struct said *said)
{
	str_puts(w->out, ",\"exitDiagnostics\":");
	if (!said->summary.p) {
		str_puts(w->out, "null");
		return;
	}
	str_puts(w->out, "{\"diagnosticsSummary\":");
	str_json(w->out, said->summary);
	show_who_said(w, said);
}

static void show_sizes(struct shower *w)
{
	const struct cached *job = w->s->job;
	show_number(w, ",\"totalGpuNumber\":", job->gpus);
	show_number(w, ",\"totalTaskNumber\":", job->tasks);
	show_number(w, ",\"totalTaskRoleNumber\":", job->roles);
	if (job->priority[0])
		show_word(w, ",\"jobPriority\":", job->priority);
}

static void show_end(struct shower *w, const struct outcome *o)
{
	const struct said said = said_read(o->diagnostics, true, w->a);
	show_code(w, ",\"exitCode\":", o);
	show_text(w, ",\"exitPhrase\":", o->phrase);
	show_text(w, ",\"exitType\":", o->type);
	show_exit_diagnostics(w, &said);
	show_trigger(w, o);
	show_exit_spec(w, ",\"appExitSpec\":", o);
	show_said(w, &said);
}

int job_attempt(struct str *out, const struct job_shown *s, bool latest, struct arena *a,
                struct err *e)
{
	struct shower w = shower_of(out, s, a);
	struct span attempt = shown_attempt(s);
	struct span v[ATTEMPT_MEMBERS];
	attempt_members(attempt, v);
	const struct outcome o = outcome_read(v[ATTEMPT_OUTCOME]);
	enum job_state state =
	    s->attempt.n ? shown_attempt_state(s, &o) : job_shown_state(s->job, s->v1);
	show_word(&w, "{\"jobName\":", s->job->job);
	show_word(&w, ",\"frameworkName\":", s->job->name);
	show_word(&w, ",\"uid\":", s->job->uid);
	show_word(&w, ",\"userName\":", cached_shown_user(s->job));
	show_word(&w, ",\"state\":", JOB_STATES[state]);
	show_word(&w, ",\"originState\":", s->attempt.n ? "AttemptCompleted" : s->job->sub_state);
	show_int(&w, ",\"attemptIndex\":", v[ATTEMPT_ID]);
	show_ms(&w, ",\"jobStartedTime\":", s->job->created_ms);
	show_time(&w, ",\"attemptStartedTime\":", v[ATTEMPT_STARTED]);
	show_time(&w, ",\"attemptCompletedTime\":", v[ATTEMPT_ENDED]);
	show_end(&w, &o);
	show_sizes(&w);
	str_puts(out, ",\"taskRoles\":");
	if (show_roles(&w, attempt, e) < 0)
		return -1;
	str_puts(out, latest ? ",\"isLatest\":true}" : ",\"isLatest\":false}");
	return 0;
}
