/* rest-lit stop JOB */
#include <stdio.h>

#include "server/cli/cli_internal.h"

enum { ANSWER_MAX = 64 * 1024 };

struct client_call stop_call(const char *job, struct arena *a)
{
	return (struct client_call){ .method = "PUT",
		                     .path = remote_path(job, "/executionType", a),
		                     .type = "application/json",
		                     .body = SPAN("{\"value\":\"STOP\"}"),
		                     .max = ANSWER_MAX };
}

static int stop_job(struct remote *r, const char *job, struct span none, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	(void)none;
	const struct client_call call = stop_call(job, &arena);
	if (remote_ask(r, &call, 202, &reply, e) < 0)
		return remote_no_job(r, job, e);
	(void)fprintf(stderr, "%s is being stopped\n", job);
	return EXIT_OK;
}

int cmd_stop(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, stop_job, NULL);
}
