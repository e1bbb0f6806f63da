/* Logs of tasks. */
#include "server/answer.h"
#include "server/handlers.h"

void logs_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void log_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}
