/* Changes of jobs, as they happen. */
#include "server/answer.h"
#include "server/handlers.h"

void jobs_watch(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void job_watch(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}
