/* What Kubernetes says of a job's pods. */
#include "server/answer.h"
#include "server/handlers.h"

void events_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}
