/* rest-lit fetch --code JOB -o DIR */
#include "server/cli/cli_internal.h"

static int fetch_job(struct remote *r, const char *job, struct span detail, struct err *e)
{
	(void)r;
	(void)detail;
	return err_set(e, 501, NULL, "%s: not here yet", job);
}

int cmd_fetch(const struct command *c, struct options *o)
{
	if (!o->fetches_code || !o->directory[0])
		return command_usage(c, "say what to fetch, and where to: --code -o DIR");
	return remote_job_command(c, o, fetch_job, "");
}
