#include "server/cluster/neglect.h"

enum neglect job_neglect(const struct job_entry *job, bool in_directory, int64_t now_ms)
{
	if (job->state != JOB_WAITING || !job->untouched)
		return NEGLECT_NONE;
	if (in_directory)
		return NEGLECT_DIRECTORY;
	return job->created_ms != JOB_ENTRY_NONE && now_ms - job->created_ms >= NEGLECT_MS
	           ? NEGLECT_CONTROLLER
	           : NEGLECT_NONE;
}
