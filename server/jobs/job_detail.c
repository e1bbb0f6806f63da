/* A job in full, one attempt or one task, and the numbers of tasks, as JSON. */
#include "base/posix/clock.h"
#include "server/jobs/jobs_internal.h"

void shown_view(const struct job_shown *s, struct arena *a, struct fw_view *out)
{
	if (s->attempt.n)
		fw_view_attempt(s->attempt, a, out);
	else
		fw_view_read(scan_inside(s->doc, "status"), a, out);
}

/* -1 and *e (500): the tasks of the attempt cannot be read. */
static int shower_begin(struct shower *w, struct str *out, const struct job_shown *s,
                        struct arena *a, struct err *e)
{
	*w = (struct shower){
		.out = out, .s = s, .a = a, .readable = SHOWN_READABLE, .ports = SHOWN_PORTS
	};
	shown_view(s, a, &w->attempt);
	w->outcome = fw_view_completion(w->attempt.outcome, a);
	if (!fw_walk_begin(&w->walk, &w->attempt, a))
		return err_set(e, UNKNOWN_ERROR,
		               "the status of the job's tasks, which is stored compressed, cannot "
		               "be read");
	if (!s->attempt.n) /* job_stop_patch writes it */
		w->stop_reason = scan_text(
		    scan_path(s->doc, "metadata", "annotations", "rest-lit/stop-reason"), a);
	return 0;
}

/* ---- an attempt ---- */

static enum job_state shown_attempt_state(const struct shower *w)
{
	const struct job_shown *s = w->s;
	/* An earlier attempt has ended. */
	struct span state = s->attempt.n ? SPAN("AttemptCompleted") : span_of(s->job->sub_state);
	enum job_state is = attempt_state_of(state, w->outcome.has_code, w->outcome.code);
	return s->v1 && is == JOB_STOPPING ? JOB_RUNNING : is;
}

static void show_trigger(struct shower *w)
{
	const struct completion_status *o = &w->outcome;
	json_put_text(w->out, "appExitTriggerMessage", o->trigger_message);
	json_put_text(w->out, "appExitTriggerTaskRoleName", o->trigger_role);
	json_put_known(w->out, "appExitTriggerTaskIndex", o->trigger_index >= 0, o->trigger_index);
}

/* The members "runtime" and "launcher" of an object, and its end. */
static void show_put_reporters(struct shower *w, const struct split_diagnostics *said)
{
	static const struct span NONE = { NULL, 0 };
	json_put_raw(w->out, "runtime", said->runtime);
	json_put_text(w->out, "launcher", said->runtime.p ? NONE : said->summary);
	str_char(w->out, '}');
}

static void show_put_diagnostics(struct shower *w, const struct split_diagnostics *said)
{
	json_put_text(w->out, "appExitDiagnostics", said->summary);
	if (!said->summary.p) {
		json_put_null(w->out, "appExitMessages");
		return;
	}
	json_put_open(w->out, "appExitMessages", '{');
	json_put_null(w->out, "container");
	show_put_reporters(w, said);
}

enum { STOP_CODE = -210 }; /* of FrameworkController */

/* FrameworkController says that a user has stopped the job. */
static struct split_diagnostics attempt_split_diagnostics(const struct shower *w)
{
	struct split_diagnostics said = said_read(w->outcome.diagnostics, true, w->a);
	if (w->outcome.has_code && w->outcome.code == STOP_CODE && w->stop_reason.n)
		said.summary = w->stop_reason;
	return said;
}

static void show_attempt(struct shower *w)
{
	const struct fw_view *v = &w->attempt;
	const struct completion_status *o = &w->outcome;
	const struct split_diagnostics said = attempt_split_diagnostics(w);
	json_put_word(w->out, "attemptState", JOB_STATES[shown_attempt_state(w)]);
	if (v->attempt >= 0) {
		json_put_int(w->out, "attemptId", v->attempt);
		json_put_text(w->out, "appId", v->instance);
	}
	json_put_int(w->out, "appProgress", scan_type(v->outcome) == SCAN_OBJECT);
	json_put_word(w->out, "appTrackingUrl", "");
	job_put_ms(w->out, "appCreatedTime", v->attempt_start_ms);
	job_put_ms(w->out, "appLaunchedTime",
	           v->attempt_run_ms >= 0 ? v->attempt_run_ms : v->attempt_completion_ms);
	job_put_ms(w->out, "appCompletedTime", v->attempt_completion_ms);
	json_put_known(w->out, "appExitCode", o->has_code, o->code);
	show_exit_spec(w, "appExitSpec", o);
	json_put_text(w->out, "appExitType", o->type);
	show_trigger(w);
	show_put_diagnostics(w, &said);
	if (w->stop_reason.n)
		json_put_text(w->out, "stopReason", w->stop_reason);
}

/* How the attempt before the latest one ended, if the controller has kept that. */
static void show_previous(struct shower *w)
{
	const struct completion_status o = fw_view_completion(w->attempt.last, w->a);
	if (!o.has_code) /* also of an earlier attempt */
		return;
	const struct split_diagnostics said = said_read(o.diagnostics, true, w->a);
	json_put_open(w->out, "previousEnd", '{');
	json_put_int(w->out, "appExitCode", o.code);
	show_exit_spec(w, "appExitSpec", &o);
	show_put_diagnostics(w, &said);
	json_put_int(w->out, "alike", w->attempt.alike < 1 ? 1 : w->attempt.alike);
	str_char(w->out, '}');
}

/* That its GPUs may do nothing for a while, and why. */
static void show_keep(struct shower *w)
{
	int64_t hours;
	struct span text =
	    scan_text(scan_path(w->s->doc, "metadata", "annotations", "rest-lit/gpu-keep"), w->a);
	int64_t until_ms = job_keep_read(&text, &hours);
	if (until_ms <= clock_wall_ms() || job_state_final(w->s->job->state))
		return;
	json_put_int(w->out, "gpuKeptUntil", until_ms);
	json_put_text(w->out, "gpuKeepReason", text);
}

/* ---- the job ---- */

int job_detail(struct str *out, const struct job_shown *s, struct arena *a, struct err *e)
{
	struct shower w;
	struct task_ends ends = { .n = 0 };
	if (shower_begin(&w, out, s, a, e) < 0)
		return -1;
	/* It has failed, and not because it was stopped. */
	bool failed = w.outcome.has_code && w.outcome.code != 0 && w.outcome.code != STOP_CODE;
	w.ends = failed ? &ends : NULL;
	str_char(out, '{');
	json_put_word(out, "debugId", s->job->name);
	json_put_word(out, "name", s->job->job);
	json_put_raw(out, "tags", span_of(s->job->tags));
	json_put_key(out, "taskRoles"); /* before what is said about all tasks */
	if (show_roles(&w, e) < 0)
		return -1;
	json_put_open(out, "jobStatus", '{');
	job_fields_put(out, s->job, VIEW_STATUS, s->v1);
	show_attempt(&w);
	show_previous(&w);
	show_keep(&w);
	if (!s->attempt.n)
		job_waiting_put(out, s->job, &s->why, true);
	if (s->results_deleted)
		json_put_bool(out, "resultsDeleted", true);
	size_t end = out->n;
	bool fits = !out->full;
	show_first_failure(&w, &ends);
	str_puts(out, "}}\n");
	if (out->full && fits) { /* the first failure alone is too much: it is left out */
		out->full = false;
		out->n = end;
		str_puts(out, "}}\n");
	}
	return out->full ? err_set(e, UNKNOWN_ERROR, "the stored job is too large") : 0;
}

int job_task(struct str *out, const struct job_shown *s, const struct task_name *task,
             struct arena *a, struct err *e)
{
	struct shower w;
	struct detail_role role;
	struct fw_view t;
	if (shower_begin(&w, out, s, a, e) < 0)
		return -1;
	if (!role_read(&w, &role, task->role, 0) ||
	    !fw_view_task(&w.attempt, task->role, task->index, a, &t))
		return err_set(e, 404, "NoJobError", "there is no such task");
	str_char(out, '{');
	json_put_word(out, "username", job_entry_shown_user(s->job));
	json_put_word(out, "jobName", s->job->job);
	json_put_known(out, "jobAttemptId", w.attempt.attempt >= 0, w.attempt.attempt);
	json_put_text(out, "taskRoleName", role.name);
	const struct completion_status ended = fw_view_completion(t.outcome, a);
	show_task(&w, &t, &ended);
	str_puts(out, ",\"attempts\":[{");
	show_task_attempt(&w, &role, &t, &ended);
	str_puts(out, "}]}\n");
	return 0;
}

int job_attempt(struct str *out, const struct job_shown *s, bool latest, struct arena *a,
                struct err *e)
{
	struct shower w;
	if (shower_begin(&w, out, s, a, e) < 0)
		return -1;
	const struct completion_status *o = &w.outcome;
	const struct job_entry *job = s->job;
	const struct split_diagnostics said = attempt_split_diagnostics(&w);
	enum job_state state = s->attempt.n ? shown_attempt_state(&w) : job_shown_state(job, s->v1);
	str_char(out, '{');
	json_put_word(out, "jobName", job->job);
	json_put_word(out, "frameworkName", job->name);
	json_put_word(out, "uid", job->uid);
	json_put_word(out, "userName", job_entry_shown_user(job));
	json_put_word(out, "state", JOB_STATES[state]);
	json_put_word(out, "originState", s->attempt.n ? "AttemptCompleted" : job->sub_state);
	json_put_known(out, "attemptIndex", w.attempt.attempt >= 0, w.attempt.attempt);
	job_put_ms(out, "jobStartedTime", job->created_ms);
	job_put_ms(out, "attemptStartedTime", w.attempt.attempt_start_ms);
	job_put_ms(out, "attemptCompletedTime", w.attempt.attempt_completion_ms);
	json_put_known(out, "exitCode", o->has_code, o->code);
	json_put_text(out, "exitPhrase", o->phrase);
	json_put_text(out, "exitType", o->type);
	if (said.summary.p) {
		json_put_open(out, "exitDiagnostics", '{');
		json_put_text(out, "diagnosticsSummary", said.summary);
		show_put_reporters(&w, &said);
	} else {
		json_put_null(out, "exitDiagnostics");
	}
	show_trigger(&w);
	show_exit_spec(&w, "appExitSpec", o);
	show_put_diagnostics(&w, &said);
	json_put_int(out, "totalGpuNumber", job->gpus);
	json_put_int(out, "totalTaskNumber", job->tasks);
	json_put_int(out, "totalTaskRoleNumber", job->roles);
	if (job->priority[0])
		json_put_word(out, "jobPriority", job->priority);
	json_put_key(out, "taskRoles");
	if (show_roles(&w, e) < 0)
		return -1;
	json_put_bool(out, "isLatest", latest);
	str_char(out, '}');
	return 0;
}

/* ---- numbers of tasks ---- */

void job_counts(struct str *out, struct span status, struct arena *a)
{
	struct fw_view job;
	struct fw_view t;
	struct fw_walk w;
	size_t roles = 0;
	fw_view_read(status, a, &job);
	(void)fw_walk_begin(&w, &job, a); /* else there is no role */
	str_char(out, '{');
	for (; roles < SHOWN_ROLES && fw_walk_role(&w); roles++) {
		size_t counts[JOB_STATE_MAX] = { 0 };
		while (w.tasks < SHOWN_TASKS && fw_walk_task(&w, &t)) {
			const struct completion_status o = fw_view_completion(t.outcome, a);
			enum job_state is = job_state_of(t.state, o.has_code, o.code);
			/* FrameworkController retries a pod that was rejected. */
			counts[is == JOB_RUNNING && t.attempt >= 0 && !t.uid.p ? JOB_WAITING
			                                                       : is]++;
		}
		json_put_text(out, NULL, w.role);
		str_puts(out, ":{");
		for (int i = 0; i < JOB_STATE_MAX; i++)
			if (counts[i])
				json_put_int(out, JOB_STATES[i], (int64_t)counts[i]);
		str_char(out, '}');
	}
	str_char(out, '}');
}
