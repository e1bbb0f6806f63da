/* rest-lit stop, keep, delete and wait: commands about jobs that are named, or have a tag. */
#include <stdio.h>

#include "base/json/put.h"
#include "jobs/cache/job_entry.h"
#include "jobs/store/paths.h"
#include "server/cli/cli_internal.h"
#include "server/jobs/jobs.h"

enum { REPLY_BYTES = 64 * 1024, PATH_LIMIT = 4096 };

/* ---- stop ------------------------------------------------------------------------------------ */

struct client_call stop_call(const char *job, struct arena *a)
{
	return (struct client_call){ .method = "PUT",
		                     .path = remote_path(job, "/executionType", a),
		                     .type = "application/json",
		                     .body = SPAN("{\"value\":\"STOP\"}"),
		                     .max = REPLY_BYTES };
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
	return remote_jobs_command(
	    c, o, &(struct job_command){ stop_job, NULL, "WAITING,RUNNING", false });
}

/* ---- release: a job that is held --------------------------------------------------------------
 */

static int release_job(struct remote *r, const char *job, struct span detail, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	struct span why = scan_get(scan_get(detail, "jobStatus"), "waitingReason");
	if (!span_is(scan_text(scan_get(why, "reason"), &arena), "Held"))
		return err_set(e, 409, NULL, "%s is not held: it waits for no time, job or release",
		               job);
	const struct client_call call = { .method = "PUT",
		                          .path = remote_path(job, "/executionType", &arena),
		                          .type = "application/json",
		                          .body = SPAN("{\"value\":\"START\"}"),
		                          .max = REPLY_BYTES };
	if (remote_ask(r, &call, 202, &reply, e) < 0)
		return remote_no_job(r, job, e);
	(void)fprintf(stderr, "%s is started\n", job);
	return EXIT_OK;
}

int cmd_release(const struct command *c, struct options *o)
{
	return remote_jobs_command(c, o,
	                           &(struct job_command){ release_job, "", "WAITING", false });
}

/* ---- keep: a job whose GPUs are idle --------------------------------------------------------- */

static int keep_job(struct remote *r, const char *job, struct span none, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	STR_AUTO body = STR_INIT(REPLY_BYTES);
	int64_t hours = (r->o->keep_s + 3599) / 3600;
	(void)none;
	json_put_open(&body, NULL, '{');
	json_put_int(&body, "hours", hours);
	json_put_word(&body, "reason", r->o->reason);
	str_char(&body, '}');
	const struct client_call call = { .method = "PUT",
		                          .path = remote_path(job, "/keep", &arena),
		                          .type = "application/json",
		                          .body = str_view(&body),
		                          .max = REPLY_BYTES };
	if (remote_ask(r, &call, 200, &reply, e) < 0)
		return remote_no_job(r, job, e);
	(void)fprintf(stderr, "%s is kept for %lld hours more\n", job, (long long)hours);
	return EXIT_OK;
}

int cmd_keep(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, keep_job, NULL);
}

/* ---- delete: a job that does not run, with its objects, so that its name is free ------------- */

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
	query_encode(&path, (struct span){ job, n });
	str_puts(&path, "/jobs/");
	query_encode(&path, span_of(job + n + (job[n] != '\0')));
	const struct client_call call = { .method = "DELETE",
		                          .path = str_c(&path),
		                          .max = REPLY_BYTES };
	if (remote_ask(r, &call, 202, &reply, e) < 0)
		return remote_no_job(r, job, e);
	(void)fprintf(stderr, "%s is deleted\n", job);
	return EXIT_OK;
}

int cmd_delete(const struct command *c, struct options *o)
{
	return remote_jobs_command(c, o, &(struct job_command){ delete_job, "", "", false });
}

/* ---- wait ------------------------------------------------------------------------------------ */

static int wait_started(struct remote *r, const char *job, struct span detail, struct err *e)
{
	(void)detail;
	(void)e;
	return wait_for_job(r, job, NULL, false);
}

/* A job that is not there is refused; one that vanishes later was deleted. */
int cmd_wait(const struct command *c, struct options *o)
{
	return remote_jobs_command(
	    c, o, &(struct job_command){ wait_started, o->tag.n ? NULL : "", "", true });
}
