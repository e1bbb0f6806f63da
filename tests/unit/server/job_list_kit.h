/* Jobs made by hand, for tests of lists. */
#pragma once
#include "jobs/cache/job_entry.h"

/* A job like those of OpenPAI; a test sets the members that matter to it. */
#define JOB(...) job_by_hand((struct job_entry){ __VA_ARGS__ })

/* An unset number is 0, so a time of 0 means none. */
static inline struct job_entry job_by_hand(struct job_entry j)
{
	j.name = j.name ?: "0123456789abcdef0123456789abcdef";
	j.uid = j.uid ?: "u";
	j.job = j.job ?: "train";
	j.user = j.user ?: "alice";
	j.maker = j.maker ?: "";
	j.cluster = j.cluster ?: "default";
	j.sub_state = j.sub_state ?: "AttemptRunning";
	j.execution = j.execution ?: "START";
	j.priority = j.priority ?: "";
	j.tags = j.tags ?: "[]";
	j.waits = j.waits ?: "";
	j.resource_version = j.resource_version ?: "7";
	j.retry_delay_s = j.retry_delay_s ?: JOB_ENTRY_NONE;
	j.created_ms = j.created_ms ?: 1000;
	j.launched_ms = j.launched_ms ?: JOB_ENTRY_NONE;
	j.completed_ms = j.completed_ms ?: JOB_ENTRY_NONE;
	j.gpu_idle_ms = j.gpu_idle_ms ?: JOB_ENTRY_NONE;
	return j;
}
