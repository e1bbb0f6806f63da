/* rest-lit stop, delete and wait: commands about jobs that are named, or have a tag. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "k8s/cache/job_entry.h"
#include "server/cli/cli_internal.h"
#include "server/jobs/jobs.h"

enum { REPLY_BYTES = 64 * 1024, PATH_LIMIT = 4096, COUNTS_MAX = 1024 };

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
	return remote_jobs_command(c, o,
	                           &(struct job_command){ stop_job, NULL, "WAITING,RUNNING" });
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
	job_path_segment(&path, (struct span){ job, n });
	str_puts(&path, "/jobs/");
	job_path_segment(&path, span_of(job + n + (job[n] != '\0')));
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
	return remote_jobs_command(c, o, &(struct job_command){ delete_job, "", "" });
}

/* ---- wait ------------------------------------------------------------------------------------ */

/* Counts the jobs of a list by their states, and prints the text if it is not the last one. Returns
 * the number of those that have not ended. */
static size_t jobs_count(struct span rows, size_t in[static JOB_STATE_MAX + 1], struct str *last)
{
	ARENA_AUTO arena = { 0 };
	STR_AUTO text = STR_INIT(COUNTS_MAX);
	size_t left = 0;
	struct scan walk = scan_begin(rows);
	memset(in, 0, (JOB_STATE_MAX + 1) * sizeof(*in));
	for (struct span row; scan_item(&walk, &row);) {
		enum job_state s = job_state_named(scan_text(scan_get(row, "state"), &arena));
		in[s]++;
		left += !job_state_final(s);
	}
	size_t n = scan_count(rows);
	str_printf(&text, "%zu job%s:", n, n == 1 ? "" : "s");
	for (enum job_state s = 0; s < JOB_STATE_MAX; s++)
		if (in[s])
			str_printf(&text, " %zu %s", in[s], JOB_STATES[s]);
	if (!span_eq(str_view(&text), str_view(last)))
		(void)fprintf(stderr, "%s\n", str_c(&text));
	last->n = 0;
	str_span(last, str_view(&text));
	return left;
}

/* Ends the program by a signal: the jobs go on. */
static void jobs_interrupted(int signo)
{
	static const char TEXT[] =
	    "rest-lit: interrupted; the jobs go on, rest-lit stop --tag TAG stops them\n";
	(void)signo;
	ssize_t written = write(STDERR_FILENO, TEXT, sizeof(TEXT) - 1);
	(void)written;
	_exit(EXIT_SERVER);
}

int wait_for_jobs(struct remote *r, const struct option_list *tags, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	STR_AUTO last = STR_INIT(COUNTS_MAX);
	const struct sigaction ends = { .sa_handler = jobs_interrupted };
	const char *path = remote_tagged(r, tags, "", &arena, e);
	size_t most = 0;
	(void)sigaction(SIGINT, &ends, NULL); /* these cannot fail */
	(void)sigaction(SIGTERM, &ends, NULL);
	r->patient = true;
	while (path) {
		REPLY_AUTO reply = { 0 };
		struct span rows;
		size_t in[JOB_STATE_MAX + 1];
		if (remote_get(r, path, &reply, &rows, e) < 0)
			return -1;
		size_t n = scan_count(rows);
		most = n > most ? n : most;
		if (most == 0)
			return remote_none_tagged(tags, "", e);
		if (jobs_count(rows, in, &last) == 0) {
			struct scan walk = scan_begin(rows);
			for (struct span row; scan_item(&walk, &row);) {
				struct span state = scan_text(scan_get(row, "state"), &arena);
				struct span name = scan_text(scan_get(row, "name"), &arena);
				if (!span_is(state, JOB_STATES[JOB_SUCCEEDED]))
					(void)fprintf(stderr, "%.*s %.*s\n", (int)name.n, name.p,
					              (int)state.n, state.p);
			}
			if (n < most)
				(void)fprintf(stderr, "%zu deleted\n", most - n);
			return in[JOB_SUCCEEDED] == most ? EXIT_OK : EXIT_REFUSED;
		}
		int64_t ms = r->end_ms - clock_ms();
		(void)poll(NULL, 0, (int)(ms < r->pace->poll ? ms > 0 ? ms : 0 : r->pace->poll));
		if (clock_ms() >= r->end_ms)
			return err_set(e, OUTCOME_UNKNOWN, "--timeout is over; the jobs go on");
	}
	return -1;
}

static int wait_started(struct remote *r, const char *job, struct span detail, struct err *e)
{
	(void)detail;
	(void)e;
	return wait_for_job(r, job, NULL, false);
}

static int wait_tagged(struct remote *r, const void *none, struct err *e)
{
	(void)none;
	return wait_for_jobs(r, &r->o->tag, e);
}

/* A job that is not there is refused; one that vanishes later was deleted. */
int cmd_wait(const struct command *c, struct options *o)
{
	if (o->n_files == !!o->tag.n)
		return command_usage(c, c->wanted);
	return o->tag.n ? remote_run(o, NULL, wait_tagged, NULL)
	                : remote_job_command(c, o, wait_started, "");
}
