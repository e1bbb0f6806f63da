/* rest-lit wait JOB.  A job that is not there is refused; one that vanishes later was deleted. */
#include "server/cli/cli_internal.h"

static int wait_started(struct remote *r, const char *job, struct span detail, struct err *e)
{
	(void)detail;
	(void)e;
	return wait_for_job(r, job, NULL, false);
}

int cmd_wait(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, wait_started, "");
}
