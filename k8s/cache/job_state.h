#pragma once
/*
 * What FrameworkController's states are in OpenPAI.  A job, or a task, and each attempt of one.
 * Pure.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum job_state {
	JOB_WAITING,
	JOB_RUNNING,
	JOB_STOPPING,
	JOB_SUCCEEDED,
	JOB_STOPPED,
	JOB_FAILED,
	JOB_UNKNOWN,
	JOB_STATE_MAX
};

/* "WAITING" */
extern const char *const JOB_STATES[JOB_STATE_MAX];

/* Of a Framework or a task: `state` as the controller writes it, and the exit code of the latest
 * attempt, if it has one. */
enum job_state job_state_of(struct span state, bool has_code, int64_t code);
/* Of its attempt: the same, but AttemptCompleted is the end of it. */
enum job_state attempt_state_of(struct span state, bool has_code, int64_t code);

/* SUCCEEDED, STOPPED, FAILED: nothing will change any more. */
static inline bool job_state_final(enum job_state s)
{
	return s == JOB_SUCCEEDED || s == JOB_STOPPED || s == JOB_FAILED;
}
/* "WAITING" in any case; JOB_STATE_MAX if it is none. */
enum job_state job_state_named(struct span name);
