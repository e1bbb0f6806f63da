/* What was submitted. */
#include "server/answer.h"
#include "server/handlers.h"

void config_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}

void ssh_get(struct request *r)
{
	answer_refuse(r, NOT_IMPLEMENTED, "not yet");
}
