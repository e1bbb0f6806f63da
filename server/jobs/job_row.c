/* A job as a row of a list. */
#include "server/jobs/job_show.h"

enum job_state job_shown_state(const struct cached *job, bool v1)
{
	return v1 && job->state == JOB_STOPPING ? JOB_RUNNING : job->state;
}

static void put_text(struct str *out, const char *key, const char *value)
{
	str_puts(out, key);
	str_json(out, span_of(value));
}

static void put_int(struct str *out, const char *key, int64_t value)
{
	str_puts(out, key);
	str_int(out, value);
}

static void put_known(struct str *out, const char *key, bool known, int64_t value)
{
	str_puts(out, key);
	if (known)
		str_int(out, value);
	else
		str_puts(out, "null");
}

/* A time, or a span of time. */
static void put_time(struct str *out, const char *key, int64_t value)
{
	put_known(out, key, value != CACHED_NONE, value);
}

static void put_priority(struct str *out, const char *priority)
{
	str_puts(out, ",\"jobPriority\":");
	if (priority[0])
		str_json(out, span_of(priority));
	else
		str_puts(out, "null");
}

/* What v1 has, and v2 as well. */
static void put_common(struct str *out, const struct cached *job, bool v1)
{
	put_text(out, "\"name\":", job->job);
	put_text(out, ",\"username\":", cached_shown_user(job));
	put_text(out, ",\"state\":", JOB_STATES[job_shown_state(job, v1)]);
	put_text(out, ",\"subState\":", job->sub_state);
	put_text(out, ",\"executionType\":", job->execution);
	put_text(out, ",\"virtualCluster\":", job->cluster);
	put_int(out, ",\"retries\":", job->retries);
	put_time(out, ",\"createdTime\":", job->created_ms);
	put_time(out, ",\"completedTime\":", job->completed_ms);
	put_known(out, ",\"appExitCode\":", job->has_code, job->code);
	if (v1 && job->legacy)
		str_puts(out, ",\"legacy\":true");
}

static void put_v2(struct str *out, const struct cached *job)
{
	put_text(out, ",\"debugId\":", job->name);
	str_puts(out, ",\"tags\":");
	str_puts(out, job->tags);
	put_int(out, ",\"retryDetails\":{\"user\":", job->accountable);
	put_int(out, ",\"platform\":", (int64_t)job->retries - job->accountable);
	str_puts(out, ",\"resource\":0}");
	put_time(out, ",\"retryDelayTime\":", job->retry_delay_s);
	put_time(out, ",\"submissionTime\":", job->created_ms);
	put_time(out, ",\"launchedTime\":", job->launched_ms);
	put_int(out, ",\"totalGpuNumber\":", job->gpus);
	put_int(out, ",\"totalTaskNumber\":", job->tasks);
	put_int(out, ",\"totalTaskRoleNumber\":", job->roles);
	put_priority(out, job->priority);
}

void job_row(struct str *out, const struct cached *job, const struct job_why *why, bool v1)
{
	str_char(out, '{');
	put_common(out, job, v1);
	if (!v1)
		put_v2(out, job);
	if (why)
		job_row_waiting(out, job, why);
	str_char(out, '}');
}
