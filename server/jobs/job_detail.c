/* A job in full. */
#include "server/jobs/job_detail.h"

struct span shown_attempt(const struct job_shown *s)
{
	return s->attempt.n ? s->attempt : scan_inside(s->doc, "status", "attemptStatus");
}

void attempt_members(struct span attempt, struct span v[static ATTEMPT_MEMBERS])
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
	if (cached_roles(attempt, a, roles))
		return 0;
	return err_set(e, UNKNOWN_ERROR,
	               "the status of the job's tasks, which is stored compressed, cannot be read");
}

/* ---- what lists have, too ---- */

static void show_job(struct shower *w)
{
	const struct cached *job = w->s->job;
	enum job_state state = job_shown_state(job, w->s->v1);
	show_word(w, "{\"username\":", cached_shown_user(job));
	show_word(w, ",\"state\":", JOB_STATES[state]);
	show_word(w, ",\"subState\":", job->sub_state);
	show_word(w, ",\"executionType\":", job->execution);
	show_number(w, ",\"retries\":", job->retries);
	show_number(w, ",\"retryDetails\":{\"user\":", job->accountable);
	show_number(w, ",\"platform\":", (int64_t)job->retries - job->accountable);
	show_number(w, ",\"resource\":", 0);
	str_char(w->out, '}');
	show_ms(w, ",\"retryDelayTime\":", job->retry_delay_s);
	show_ms(w, ",\"submissionTime\":", job->created_ms);
	show_ms(w, ",\"createdTime\":", job->created_ms);
	show_ms(w, ",\"launchedTime\":", job->launched_ms);
	show_ms(w, ",\"completedTime\":", job->completed_ms);
	show_word(w, ",\"virtualCluster\":", job->cluster);
}

/* ---- an attempt ---- */

enum job_state shown_attempt_state(const struct job_shown *s, const struct outcome *o)
{
	/* An earlier one is over. */
	struct span state = s->attempt.n ? SPAN("AttemptCompleted") : span_of(s->job->sub_state);
	enum job_state is = attempt_state_of(state, o->has_code, o->code);
	return s->v1 && is == JOB_STOPPING ? JOB_RUNNING : is;
}

void show_trigger(struct shower *w, const struct outcome *o)
{
	enum { MESSAGE, ROLE, INDEX, N };
	static const char *const KEYS[N] = { "message", "taskRoleName", "taskIndex" };
	struct span v[N];
	scan_members(o->trigger, KEYS, v, N);
	show_text(w, ",\"appExitTriggerMessage\":", v[MESSAGE]);
	show_text(w, ",\"appExitTriggerTaskRoleName\":", v[ROLE]);
	show_int(w, ",\"appExitTriggerTaskIndex\":", v[INDEX]);
}

void show_code(struct shower *w, const char *key, const struct outcome *o)
{
	if (o->has_code)
		show_number(w, key, o->code);
	else
		show_null(w, key);
}

/* `,"appExitDiagnostics":` and `,"appExitMessages":` */
void show_said(struct shower *w, const struct said *said)
{
	str_puts(w->out, ",\"appExitDiagnostics\":");
	if (said->summary.p)
		str_json(w->out, said->summary);
	else
		str_puts(w->out, "null");
	show_messages(w, ",\"appExitMessages\":", said);
}

static void show_attempt(struct shower *w)
{
	struct span v[ATTEMPT_MEMBERS];
	attempt_members(shown_attempt(w->s), v);
	const struct outcome o = outcome_read(v[ATTEMPT_OUTCOME]);
	const struct said said = said_read(o.diagnostics, true, w->a);
	if (v[ATTEMPT_ID].p)
		show_int(w, ",\"attemptId\":", v[ATTEMPT_ID]);
	show_word(w, ",\"attemptState\":", JOB_STATES[shown_attempt_state(w->s, &o)]);
	if (v[ATTEMPT_INSTANCE].p)
		show_text(w, ",\"appId\":", v[ATTEMPT_INSTANCE]);
	show_number(w, ",\"appProgress\":", scan_type(v[ATTEMPT_OUTCOME]) == SCAN_OBJECT);
	show_word(w, ",\"appTrackingUrl\":", "");
	show_time(w, ",\"appCreatedTime\":", v[ATTEMPT_STARTED]);
	show_either(w, ",\"appLaunchedTime\":", v[ATTEMPT_RAN], v[ATTEMPT_ENDED]);
	show_time(w, ",\"appCompletedTime\":", v[ATTEMPT_ENDED]);
	show_code(w, ",\"appExitCode\":", &o);
	show_exit_spec(w, ",\"appExitSpec\":", &o);
	show_text(w, ",\"appExitType\":", o.type);
	show_trigger(w, &o);
	show_said(w, &said);
}

/* ---- all of it ---- */

struct shower shower_of(struct str *out, const struct job_shown *s, struct arena *a)
{
	return (struct shower){
		.out = out, .s = s, .a = a, .readable = SHOWN_READABLE, .ports = SHOWN_PORTS
	};
}

int job_detail(struct str *out, const struct job_shown *s, struct arena *a, struct err *e)
{
	struct shower w = shower_of(out, s, a);
	show_word(&w, "{\"debugId\":", s->job->name);
	show_word(&w, ",\"name\":", s->job->job);
	str_puts(out, ",\"tags\":");
	str_puts(out, s->job->tags);
	str_puts(out, ",\"jobStatus\":");
	show_job(&w);
	show_attempt(&w);
	show_waiting(&w);
	str_puts(out, "},\"taskRoles\":");
	if (show_roles(&w, shown_attempt(s), e) < 0)
		return -1;
	str_puts(out, "}\n");
	return 0;
}
