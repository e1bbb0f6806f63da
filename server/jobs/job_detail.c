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

/* ---- summary ---- */

static void show_summary(struct shower *w)
{
	const struct job_entry *job = w->s->job;
	enum job_state state = job_shown_state(job, w->s->v1);
	show_word(w->out, "{\"username\":", job_entry_shown_user(job));
	show_word(w->out, ",\"state\":", JOB_STATES[state]);
	show_word(w->out, ",\"subState\":", job->sub_state);
	show_word(w->out, ",\"executionType\":", job->execution);
	show_number(w->out, ",\"retries\":", job->retries);
	show_number(w->out, ",\"retryDetails\":{\"user\":", job->accountable);
	show_number(w->out, ",\"platform\":", (int64_t)job->retries - job->accountable);
	show_number(w->out, ",\"resource\":", 0);
	str_char(w->out, '}');
	show_ms(w->out, ",\"retryDelayTime\":", job->retry_delay_s);
	show_ms(w->out, ",\"submissionTime\":", job->created_ms);
	show_ms(w->out, ",\"createdTime\":", job->created_ms);
	show_ms(w->out, ",\"launchedTime\":", job->launched_ms);
	show_ms(w->out, ",\"completedTime\":", job->completed_ms);
	show_word(w->out, ",\"virtualCluster\":", job->cluster);
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
	show_text(w, ",\"appExitTriggerMessage\":", v[MESSAGE]);
	show_text(w, ",\"appExitTriggerTaskRoleName\":", v[ROLE]);
	show_int(w->out, ",\"appExitTriggerTaskIndex\":", v[INDEX]);
}

static void show_code(struct shower *w, const char *key, const struct outcome *o)
{
	if (o->has_code)
		show_number(w->out, key, o->code);
	else
		show_null(w->out, key);
}

/* The members "runtime" and "launcher", and the closing brace. */
static void show_who_said(struct shower *w, const struct said *said)
{
	str_puts(w->out, ",\"runtime\":");
	str_span(w->out, said->runtime.p ? said->runtime : SPAN("null"));
	str_puts(w->out, ",\"launcher\":");
	if (said->runtime.p)
		str_puts(w->out, "null");
	else
		str_json(w->out, said->summary);
	str_char(w->out, '}');
}

static void show_messages(struct shower *w, const char *key, const struct said *said)
{
	if (!said->summary.p) {
		show_null(w->out, key);
		return;
	}
	str_puts(w->out, key);
	str_puts(w->out, "{\"container\":null");
	show_who_said(w, said);
}

/* `,"appExitDiagnostics":` and `,"appExitMessages":` */
static void show_said(struct shower *w, const struct said *said)
{
	str_puts(w->out, ",\"appExitDiagnostics\":");
	if (said->summary.p)
		str_json(w->out, said->summary);
	else
		str_puts(w->out, "null");
	show_messages(w, ",\"appExitMessages\":", said);
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
	if (!reason.n)
		return;
	str_puts(w->out, ",\"stopReason\":");
	str_json(w->out, reason);
}

/* true: it has failed, and not because it was stopped. */
static bool show_attempt(struct shower *w)
{
	struct span v[ATTEMPT_MEMBERS];
	attempt_members(shown_attempt(w->s), v);
	const struct outcome o = outcome_read(v[ATTEMPT_OUTCOME]);
	const struct said said = attempt_said(w, &o);
	if (v[ATTEMPT_ID].p)
		show_int(w->out, ",\"attemptId\":", v[ATTEMPT_ID]);
	show_word(w->out, ",\"attemptState\":", JOB_STATES[shown_attempt_state(w->s, &o)]);
	if (v[ATTEMPT_INSTANCE].p)
		show_text(w, ",\"appId\":", v[ATTEMPT_INSTANCE]);
	show_number(w->out, ",\"appProgress\":", scan_type(v[ATTEMPT_OUTCOME]) == SCAN_OBJECT);
	show_word(w->out, ",\"appTrackingUrl\":", "");
	show_time(w->out, ",\"appCreatedTime\":", v[ATTEMPT_STARTED]);
	show_either(w->out, ",\"appLaunchedTime\":", v[ATTEMPT_RAN], v[ATTEMPT_ENDED]);
	show_time(w->out, ",\"appCompletedTime\":", v[ATTEMPT_ENDED]);
	show_code(w, ",\"appExitCode\":", &o);
	show_exit_spec(w, ",\"appExitSpec\":", &o);
	show_text(w, ",\"appExitType\":", o.type);
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
	show_word(w.out, "{\"debugId\":", s->job->name);
	show_word(w.out, ",\"name\":", s->job->job);
	str_puts(out, ",\"tags\":");
	str_puts(out, s->job->tags);
	str_puts(out, ",\"jobStatus\":");
	show_summary(&w);
	w.ends = show_attempt(&w) ? &ends : NULL;
	size_t at = out->n;
	show_waiting(&w);
	str_puts(out, "},\"taskRoles\":");
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
	show_word(w.out, "{\"username\":", job_entry_shown_user(s->job));
	show_word(w.out, ",\"jobName\":", s->job->job);
	show_int(w.out, ",\"jobAttemptId\":", scan_get(attempt, "id"));
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
	const struct job_entry *job = w->s->job;
	show_number(w->out, ",\"totalGpuNumber\":", job->gpus);
	show_number(w->out, ",\"totalTaskNumber\":", job->tasks);
	show_number(w->out, ",\"totalTaskRoleNumber\":", job->roles);
	if (job->priority[0])
		show_word(w->out, ",\"jobPriority\":", job->priority);
}

static void show_end(struct shower *w, const struct outcome *o)
{
	const struct said said = attempt_said(w, o);
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
	show_word(w.out, "{\"jobName\":", s->job->job);
	show_word(w.out, ",\"frameworkName\":", s->job->name);
	show_word(w.out, ",\"uid\":", s->job->uid);
	show_word(w.out, ",\"userName\":", job_entry_shown_user(s->job));
	show_word(w.out, ",\"state\":", JOB_STATES[state]);
	show_word(w.out,
	          ",\"originState\":", s->attempt.n ? "AttemptCompleted" : s->job->sub_state);
	show_int(w.out, ",\"attemptIndex\":", v[ATTEMPT_ID]);
	show_ms(w.out, ",\"jobStartedTime\":", s->job->created_ms);
	show_time(w.out, ",\"attemptStartedTime\":", v[ATTEMPT_STARTED]);
	show_time(w.out, ",\"attemptCompletedTime\":", v[ATTEMPT_ENDED]);
	show_end(&w, &o);
	show_sizes(&w);
	str_puts(out, ",\"taskRoles\":");
	if (show_roles(&w, attempt, e) < 0)
		return -1;
	str_puts(out, latest ? ",\"isLatest\":true}" : ",\"isLatest\":false}");
	return 0;
}

static void counts_put(struct str *out, const size_t counts[JOB_STATE_MAX])
{
	bool first = true;
	str_char(out, '{');
	for (int i = 0; i < JOB_STATE_MAX; i++) {
		if (counts[i] == 0)
			continue;
		str_printf(out, "%s\"%s\":%zu", first ? "" : ",", JOB_STATES[i], counts[i]);
		first = false;
	}
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
		if (roles)
			str_char(out, ',');
		str_json(out, scan_text(scan_get(status, "name"), a));
		str_char(out, ':');
		counts_add(scan_get(status, "taskStatuses"), counts, &tasks, a);
		counts_put(out, counts);
	}
	str_char(out, '}');
}

void show_null(struct str *out, const char *key)
{
	str_puts(out, key);
	str_put(out, "null", 4);
}

void show_word(struct str *out, const char *key, const char *text)
{
	str_puts(out, key);
	str_json(out, span_of(text));
}

/* A string without escapes is copied. */
void show_text(struct shower *w, const char *key, struct span value)
{
	struct span text;
	str_puts(w->out, key);
	if (scan_type(value) == SCAN_STRING && !memchr(value.p, '\\', value.n))
		str_span(w->out, value);
	else if (scan_string(value, w->a, &text))
		str_json(w->out, text);
	else
		str_put(w->out, "null", 4);
}

void show_number(struct str *out, const char *key, int64_t n)
{
	str_puts(out, key);
	str_int(out, n);
}

void show_int(struct str *out, const char *key, struct span value)
{
	int64_t n;
	if (scan_int(value, INT32_MIN, INT32_MAX, &n))
		show_number(out, key, n);
	else
		show_null(out, key);
}

void show_ms(struct str *out, const char *key, int64_t ms)
{
	if (ms == JOB_ENTRY_NONE)
		show_null(out, key);
	else
		show_number(out, key, ms);
}

void show_time(struct str *out, const char *key, struct span value)
{
	int64_t ms;
	if (scan_time_ms(value, &ms))
		show_number(out, key, ms);
	else
		show_null(out, key);
}

void show_either(struct str *out, const char *key, struct span first, struct span second)
{
	int64_t ms;
	show_time(out, key, scan_time_ms(first, &ms) ? first : second);
}
