#include "k8s/cache/job_state.h"

#include <strings.h>

enum { STOPPED_BY_USER = -210, STOPPED_BY_TASK = -220 };

const char *const JOB_STATES[JOB_STATE_MAX] = {
	[JOB_WAITING] = "WAITING",     [JOB_RUNNING] = "RUNNING", [JOB_STOPPING] = "STOPPING",
	[JOB_SUCCEEDED] = "SUCCEEDED", [JOB_STOPPED] = "STOPPED", [JOB_FAILED] = "FAILED",
	[JOB_UNKNOWN] = "UNKNOWN",
};

/* By the exit code of the latest attempt: that of a stop, 0, any other or none. */
struct outcome {
	const char *state;
	enum job_state stopped, zero, other;
};

/* The end of a job, a task, and of an attempt of either. */
#define ENDED     JOB_STOPPED, JOB_SUCCEEDED, JOB_FAILED
#define ENDING    JOB_STOPPING, JOB_RUNNING, JOB_RUNNING
#define ALWAYS(s) (s), (s), (s)

static const struct outcome OUTCOMES[] = {
	{ "AttemptRunning", ALWAYS(JOB_RUNNING) },
	{ "Completed", ENDED },
	{ "AttemptCreationPending", ALWAYS(JOB_WAITING) },
	{ "AttemptCreationRequested", ALWAYS(JOB_WAITING) },
	{ "AttemptPreparing", ALWAYS(JOB_WAITING) },
	{ "AttemptDeletionPending", ENDING },
	{ "AttemptDeletionRequested", ENDING },
	{ "AttemptDeleting", ENDING },
	{ "AttemptCompleted", ENDING },
};

enum job_state job_state_of(struct span state, bool has_code, int64_t code)
{
	for (size_t i = 0; i < sizeof(OUTCOMES) / sizeof(OUTCOMES[0]); i++) {
		const struct outcome *o = &OUTCOMES[i];
		if (!span_is(state, o->state))
			continue;
		if (has_code && (code == STOPPED_BY_USER || code == STOPPED_BY_TASK))
			return o->stopped;
		return has_code && code == 0 ? o->zero : o->other;
	}
	return JOB_UNKNOWN;
}

enum job_state attempt_state_of(struct span state, bool has_code, int64_t code)
{
	if (span_is(state, "AttemptCompleted"))
		state = SPAN("Completed");
	return job_state_of(state, has_code, code);
}

enum job_state job_state_named(struct span name)
{
	for (int s = 0; s < JOB_STATE_MAX; s++) {
		if (strlen(JOB_STATES[s]) == name.n &&
		    strncasecmp(JOB_STATES[s], name.p, name.n) == 0)
			return (enum job_state)s;
	}
	return JOB_STATE_MAX;
}
