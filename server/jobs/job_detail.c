/* A job in full, one attempt or one task, and the numbers of tasks, as JSON. */
#include "server/jobs/jobs_internal.h"

struct span shown_attempt(const struct job_shown *s)
{
	return s->attempt.n ? s->attempt : scan_inside(s->doc, "status", "attemptStatus");
}

enum attempt_member {
	ATTEMPT_ID,
	ATTEMPT_STARTED,
	ATTEMPT_RAN,
	ATTEMPT_ENDED,
	ATTEMPT_INSTANCE,
	ATTEMPT_OUTCOME,
	ATTEMPT_MEMBERS
};

static void attempt_members(struct span attempt, struct span v[static ATTEMPT_MEMBERS])
{
	static const char *const KEYS[ATTEMPT_MEMBERS] = {
		[ATTEMPT_ID] = "id",
		[ATTEMPT_STARTED] = "startTime",
		[ATTEMPT_RAN] = "runTime",
		[ATTEMPT_ENDED] = "completionTime",
		[ATTEMPT_INSTANCE] = "instanceUID",
		[ATTEMPT_OUTCOME] = "completionStatus",
	};
	scan_members(attempt, KEYS, v, ATTEMPT_MEMBERS);
}

int attempt_roles(struct span attempt, struct arena *a, struct span *roles, struct err *e)
{
	if (job_entry_roles(attempt, a, roles))
		return 0;
	return err_set(e, UNKNOWN_ERROR,
	               "the status of the job's tasks, which is stored compressed, cannot be read");
}

/* ---- an attempt ---- */

static enum job_state shown_attempt_state(const struct job_shown *s, const struct outcome *o)
{
	/* An earlier attempt has ended. */
	struct span state = s->attempt.n ? SPAN("AttemptCompleted") : span_of(s->job->sub_state);
	enum job_state is = attempt_state_of(state, o->has_code, o->code);
	return s->v1 && is == JOB_STOPPING ? JOB_RUNNING : is;
}

static void show_trigger(struct shower *w, const struct outcome *o)
{
	enum { MESSAGE, ROLE, INDEX, N };
	static const char *const KEYS[N] = { "message", "taskRoleName", "taskIndex" };
	struct span v[N];
	scan_members(o->trigger, KEYS, v, N);
	show_text(w, "appExitTriggerMessage", v[MESSAGE]);
	show_text(w, "appExitTriggerTaskRoleName", v[ROLE]);
	show_int(w->out, "appExitTriggerTaskIndex", v[INDEX]);
}

/* The members "runtime" and "launcher" of an object, and its end. */
static void show_who_said(struct shower *w, const struct said *said)
{
	json_put_raw(w->out, "runtime", said->runtime);
	json_put_text(w->out, "launcher", said->runtime.p ? (struct span){ 0 } : said->summary);
	str_char(w->out, '}');
}

static void show_said(struct shower *w, const struct said *said)
{
	json_put_text(w->out, "appExitDiagnostics", said->summary);
	if (!said->summary.p) {
		json_put_null(w->out, "appExitMessages");
		return;
	}
	json_put_open(w->out, "appExitMessages", '{');
	json_put_null(w->out, "container");
	show_who_said(w, said);
}

/* Why the server has stopped the job (job_stop_patch); n is 0 if it has not. */
static struct span shown_stop_reason(const struct shower *w)
{
	return scan_text(scan_path(w->s->doc, "metadata", "annotations", "rest-lit/stop-reason"),
	                 w->a);
}

enum { STOP_CODE = -210 }; /* of FrameworkController */

/* FrameworkController says that a user has stopped the job. */
static struct said attempt_said(struct shower *w, const struct outcome *o)
{
	struct said said = said_read(o->diagnostics, true, w->a);
	bool stopped = o->has_code && o->code == STOP_CODE && !w->s->attempt.n;
	struct span reason = stopped ? shown_stop_reason(w) : SPAN("");
	if (reason.n)
		said.summary = reason;
	return said;
}

static void show_stop_reason(struct shower *w)
{
	struct span reason = w->s->attempt.n ? SPAN("") : shown_stop_reason(w);
	if (reason.n)
		json_put_text(w->out, "stopReason", reason);
}

/* true: it has failed, and not because it was stopped. */
static bool show_attempt(struct shower *w)
{
	struct span v[ATTEMPT_MEMBERS];
	attempt_members(shown_attempt(w->s), v);
	const struct outcome o = outcome_read(v[ATTEMPT_OUTCOME]);
	const struct said said = attempt_said(w, &o);
	if (v[ATTEMPT_ID].p)
		show_int(w->out, "attemptId", v[ATTEMPT_ID]);
	json_put_word(w->out, "attemptState", JOB_STATES[shown_attempt_state(w->s, &o)]);
	if (v[ATTEMPT_INSTANCE].p)
		show_text(w, "appId", v[ATTEMPT_INSTANCE]);
	json_put_int(w->out, "appProgress", scan_type(v[ATTEMPT_OUTCOME]) == SCAN_OBJECT);
	json_put_word(w->out, "appTrackingUrl", "");
	show_time(w->out, "appCreatedTime", v[ATTEMPT_STARTED]);
	show_either(w->out, "appLaunchedTime", v[ATTEMPT_RAN], v[ATTEMPT_ENDED]);
	show_time(w->out, "appCompletedTime", v[ATTEMPT_ENDED]);
	json_put_known(w->out, "appExitCode", o.has_code, o.code);
	show_exit_spec(w, "appExitSpec", &o);
	show_text(w, "appExitType", o.type);
	show_trigger(w, &o);
	show_said(w, &said);
	show_stop_reason(w);
	return o.has_code && o.code != 0 && o.code != STOP_CODE;
}

/* ---- the job ---- */

struct shower shower_of(struct str *out, const struct job_shown *s, struct arena *a)
{
	return (struct shower){
		.out = out, .s = s, .a = a, .readable = SHOWN_READABLE, .ports = SHOWN_PORTS
	};
}

int job_detail(struct str *out, const struct job_shown *s, struct arena *a, struct err *e)
{
	struct shower w = shower_of(out, s, a);
	struct task_ends ends = { .n = 0 };
	str_char(out, '{');
	json_put_word(w.out, "debugId", s->job->name);
	json_put_word(w.out, "name", s->job->job);
	json_put_raw(out, "tags", span_of(s->job->tags));
	json_put_open(out, "jobStatus", '{');
	job_fields_put(out, s->job, VIEW_STATUS, s->v1);
	w.ends = show_attempt(&w) ? &ends : NULL;
	size_t at = out->n;
	show_waiting(&w);
	str_char(out, '}');
	json_put_key(out, "taskRoles");
	if (show_roles(&w, shown_attempt(s), e) < 0)
		return -1;
	show_first_failure(&w, &ends, at);
	str_puts(out, "}\n");
	return 0;
}

int job_detail_of(struct str *out, struct span framework, const struct exit_spec *spec,
                  struct arena *a, struct err *e)
{
	struct job_entry *job = job_entry_new(framework);
	if (!job)
		return err_set(e, UNKNOWN_ERROR, "the object has no name");
	const struct job_shown shown = { .job = job, .doc = framework, .spec = spec };
	int rc = job_detail(out, &shown, a, e);
	job_entry_drop(job);
	return rc;
}

static int no_task(struct err *e)
{
	return err_set(e, 404, "NoJobError", "there is no such task");
}

/* ---- a task ---- */

static bool detail_find_role(const struct job_shown *s, struct span list, struct span name,
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

static bool detail_find_task(const struct role *role, int64_t index, struct task *t)
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
	if (!detail_find_role(s, list, task->role, a, &role) ||
	    !detail_find_task(&role, task->index, &t))
		return no_task(e);
	str_char(out, '{');
	json_put_word(w.out, "username", job_entry_shown_user(s->job));
	json_put_word(w.out, "jobName", s->job->job);
	show_int(w.out, "jobAttemptId", scan_get(attempt, "id"));
	json_put_text(out, "taskRoleName", role.name);
	show_task(&w, &t);
	json_put_open(out, "attempts", '[');
	str_char(out, '{');
	show_try(&w, &role, &t);
	str_puts(out, "}]}\n");
	return 0;
}

/* ---- an attempt ---- */

static void show_exit_diagnostics(struct shower *w, const struct said *said)
{
	if (!said->summary.p) {
		json_put_null(w->out, "exitDiagnostics");
		return;
	}
	json_put_open(w->out, "exitDiagnostics", '{');
	json_put_text(w->out, "diagnosticsSummary", said->summary);
	show_who_said(w, said);
}

static void show_sizes(struct shower *w)
{
	const struct job_entry *job = w->s->job;
	json_put_int(w->out, "totalGpuNumber", job->gpus);
	json_put_int(w->out, "totalTaskNumber", job->tasks);
	json_put_int(w->out, "totalTaskRoleNumber", job->roles);
	if (job->priority[0])
		json_put_word(w->out, "jobPriority", job->priority);
}

static void show_end(struct shower *w, const struct outcome *o)
{
	const struct said said = attempt_said(w, o);
	json_put_known(w->out, "exitCode", o->has_code, o->code);
	show_text(w, "exitPhrase", o->phrase);
	show_text(w, "exitType", o->type);
	show_exit_diagnostics(w, &said);
	show_trigger(w, o);
	show_exit_spec(w, "appExitSpec", o);
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
	str_char(out, '{');
	json_put_word(w.out, "jobName", s->job->job);
	json_put_word(w.out, "frameworkName", s->job->name);
	json_put_word(w.out, "uid", s->job->uid);
	json_put_word(w.out, "userName", job_entry_shown_user(s->job));
	json_put_word(w.out, "state", JOB_STATES[state]);
	json_put_word(out, "originState", s->attempt.n ? "AttemptCompleted" : s->job->sub_state);
	show_int(w.out, "attemptIndex", v[ATTEMPT_ID]);
	job_put_ms(w.out, "jobStartedTime", s->job->created_ms);
	show_time(w.out, "attemptStartedTime", v[ATTEMPT_STARTED]);
	show_time(w.out, "attemptCompletedTime", v[ATTEMPT_ENDED]);
	show_end(&w, &o);
	show_sizes(&w);
	json_put_key(out, "taskRoles");
	if (show_roles(&w, attempt, e) < 0)
		return -1;
	json_put_bool(out, "isLatest", latest);
	str_char(out, '}');
	return 0;
}

static void counts_put(struct str *out, const size_t counts[JOB_STATE_MAX])
{
	str_char(out, '{');
	for (int i = 0; i < JOB_STATE_MAX; i++)
		if (counts[i])
			json_put_int(out, JOB_STATES[i], (int64_t)counts[i]);
	str_char(out, '}');
}

static void counts_add(struct span tasks, size_t counts[JOB_STATE_MAX], size_t *n, struct arena *a)
{
	struct scan s = scan_begin(tasks);
	struct span item;
	for (; *n < SHOWN_TASKS && scan_item(&s, &item); ++*n) {
		struct span state = scan_text(scan_get(item, "state"), a);
		struct span code = scan_path(item, "attemptStatus", "completionStatus", "code");
		int64_t c = 0;
		bool has_code = scan_int(code, INT32_MIN, INT32_MAX, &c);
		enum job_state is = job_state_of(state, has_code, c);
		/* FrameworkController retries a pod that was rejected. */
		if (is == JOB_RUNNING &&
		    scan_type(scan_path(item, "attemptStatus", "podUID")) == SCAN_NULL)
			is = JOB_WAITING;
		counts[is]++;
	}
}

void job_counts(struct str *out, struct span doc, struct arena *a)
{
	struct span list;
	struct span status;
	size_t roles = 0;
	size_t tasks = 0;
	str_char(out, '{');
	if (!job_entry_roles(scan_path(doc, "status", "attemptStatus"), a, &list))
		list = (struct span){ NULL, 0 };
	struct scan s = scan_begin(list);
	for (; roles < SHOWN_ROLES && scan_item(&s, &status); roles++) {
		size_t counts[JOB_STATE_MAX] = { 0 };
		json_put_text(out, NULL, scan_text(scan_get(status, "name"), a));
		str_char(out, ':');
		counts_add(scan_get(status, "taskStatuses"), counts, &tasks, a);
		counts_put(out, counts);
	}
	str_char(out, '}');
}

/* A string without escapes is copied. */
void show_text(struct shower *w, const char *key, struct span value)
{
	struct span text;
	if (scan_type(value) == SCAN_STRING && !memchr(value.p, '\\', value.n))
		json_put_raw(w->out, key, value);
	else
		json_put_text(w->out, key,
		              scan_string(value, w->a, &text) ? text : (struct span){ 0 });
}

void show_int(struct str *out, const char *key, struct span value)
{
	int64_t n = 0;
	bool known = scan_int(value, INT32_MIN, INT32_MAX, &n);
	json_put_known(out, key, known, n);
}

void show_time(struct str *out, const char *key, struct span value)
{
	int64_t ms = 0;
	bool known = scan_time_ms(value, &ms);
	json_put_known(out, key, known, ms);
}

void show_either(struct str *out, const char *key, struct span first, struct span second)
{
	int64_t ms;
	show_time(out, key, scan_time_ms(first, &ms) ? first : second);
}
