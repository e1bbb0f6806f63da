/* The lists of jobs. */
#include "server/answer.h"
#include "server/handlers.h"

void jobs_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void jobs_get_v1(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}
