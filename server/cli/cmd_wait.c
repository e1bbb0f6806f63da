/* rest-lit wait JOB */
#include "server/cli/cli_internal.h"

static int wait_started(struct remote *r, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	const char *job = remote_job(r, r->o->files[0], &arena, e);
	/* A job that is not there is refused; one that vanishes later was deleted. */
	if (!job || remote_get_job(r, job, "", &reply, e) < 0)
		return -1;
	return wait_for_job(r, job, NULL, false);
}

int cmd_wait(const struct command *c, int argc, char **argv)
{
	return remote_job_command(c, argc, argv, 0, wait_started);
}
