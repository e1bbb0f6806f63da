/* rest-lit delete JOB: a job that does not run, with its objects, so that its name is free. */
#include <stdio.h>

#include "k8s/cache/job_entry.h"
#include "server/cli/cli_internal.h"
#include "server/jobs/jobs.h"

enum { DELETED_MAX = 64 * 1024, PATH_LIMIT = 4096 };

static int delete_job(struct remote *r, const char *job, struct span detail, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	struct progress p;
	if (progress_read(&p, detail, &arena, e) < 0)
		return -1;
	/* Deleting kills tasks without their grace. */
	if (p.state == JOB_RUNNING && !p.stopping)
		return err_set(e, 409, NULL, "%s is running; stop it first: rest-lit stop %s", job,
		               job);
	REPLY_AUTO reply = { 0 };
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	size_t n = span_chr(span_of(job), '~');
	str_puts(&path, "/api/v1/user/");
	job_path_segment(&path, (struct span){ job, n });
	str_puts(&path, "/jobs/");
	job_path_segment(&path, span_of(job + n + (job[n] != '\0')));
	const struct client_call call = { .method = "DELETE",
		                          .path = str_c(&path),
		                          .max = DELETED_MAX };
	if (remote_ask(r, &call, 202, &reply, e) < 0)
		return remote_no_job(r, job, e);
	(void)fprintf(stderr, "%s is deleted\n", job);
	return EXIT_OK;
}

int cmd_delete(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, delete_job, "");
}
