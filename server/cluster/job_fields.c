#include "server/cluster/job_fields.h"

#include "base/json/put.h"

enum job_state job_shown_state(const struct job_entry *job, bool v1)
{
	return v1 && job->state == JOB_STOPPING ? JOB_RUNNING : job->state;
}

void job_put_ms(struct str *out, const char *key, int64_t ms)
{
	json_put_known(out, key, ms != JOB_ENTRY_NONE, ms);
}

void job_fields_put(struct str *out, const struct job_entry *job, enum job_view view, bool v1)
{
	if (view != VIEW_STATUS)
		json_put_word(out, "name", job->job);
	json_put_word(out, "username", job_entry_shown_user(job));
	json_put_word(out, "state", JOB_STATES[job_shown_state(job, v1)]);
	json_put_word(out, "virtualCluster", job->cluster);
	json_put_int(out, "retries", job->retries);
	job_put_ms(out, "createdTime", job->created_ms);
	job_put_ms(out, "completedTime", job->completed_ms);
	if (view != VIEW_WEBHOOK) {
		json_put_word(out, "subState", job->sub_state);
		json_put_word(out, "executionType", job->execution);
	}
	if (view == VIEW_ROW_V1) {
		json_put_known(out, "appExitCode", job->has_code, job->code);
		if (job->legacy)
			json_put_bool(out, "legacy", true);
		return;
	}
	job_put_ms(out, "launchedTime", job->launched_ms);
	json_put_open(out, "retryDetails", '{');
	json_put_int(out, "user", job->accountable);
	json_put_int(out, "platform", (int64_t)job->retries - job->accountable);
	if (view != VIEW_WEBHOOK)
		json_put_int(out, "resource", 0);
	str_char(out, '}');
	if (job->gpu_idle_ms != JOB_ENTRY_NONE)
		job_put_ms(out, "gpuIdleSince", job->gpu_idle_ms);
	if (view != VIEW_WEBHOOK) {
		job_put_ms(out, "submissionTime", job->created_ms);
		job_put_ms(out, "retryDelayTime", job->retry_delay_s);
	}
	if (view == VIEW_WEBHOOK) {
		json_put_word(out, "uid", job->uid);
		json_put_known(out, "exitCode", job->has_code, job->code);
	}
	if (view != VIEW_STATUS)
		json_put_word(out, "debugId", job->name);
	if (view == VIEW_ROW) {
		json_put_known(out, "appExitCode", job->has_code, job->code);
		if (job->has_last)
			json_put_int(out, "previousExitCode", job->last_code);
		json_put_raw(out, "tags", span_of(job->tags));
		json_put_int(out, "totalGpuNumber", job->gpus);
		json_put_int(out, "totalTaskNumber", job->tasks);
		json_put_int(out, "totalTaskRoleNumber", job->roles);
		json_put_word(out, "jobPriority", job->priority[0] ? job->priority : NULL);
	}
}
