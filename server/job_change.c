/* Stop, tag, scale and remove a job. */
#include "server/answer.h"
#include "server/handlers.h"

void execution_put(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void tag_put(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void tag_delete(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void job_delete(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void scale_patch(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}
