/* Attempts of jobs and tasks. */
#include "server/answer.h"
#include "server/handlers.h"

void job_task_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void attempts_health(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void attempts_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void attempt_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}
