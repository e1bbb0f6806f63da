/* rest-lit stop JOB */
#include <stdio.h>

#include "server/cli/commands.h"
#include "server/cli/remote.h"
#include "server/setup.h"

enum { ANSWER_MAX = 64 * 1024 };

static int stop(struct remote *r, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	const char *job = remote_job(r, r->o->files[0], &arena, e);
	if (!job)
		return -1;
	const struct client_call call = { .method = "PUT",
		                          .path = remote_path(job, "/executionType", &arena),
		                          .type = "application/json",
		                          .body = SPAN("{\"value\":\"STOP\"}"),
		                          .max = ANSWER_MAX };
	if (remote_ask(r, &call, &reply, e) < 0 || remote_expect(r, &reply, 202, e) < 0)
		return -1;
	(void)fprintf(stderr, "%s is told to stop\n", job);
	return EXIT_OK;
}

static int open_and_stop(const struct options *o)
{
	ERR_AUTO e = { 0 };
	struct remote r = { 0 };
	int code = remote_open(&r, o, &e) < 0 ? complain(&e, NULL, EXIT_USAGE) : stop(&r, &e);
	remote_close(&r);
	return code < 0 ? complain(&e, NULL, remote_exit(&e)) : code;
}

int cmd_stop(const struct command *c, int argc, char **argv)
{
	struct options o;
	int code = command_options(c, &o, argc, argv);
	if (code < 0 && o.n_files != 1)
		code = command_usage(c, "name one job");
	else if (code < 0)
		code = open_and_stop(&o);
	options_done(&o);
	return code;
}
