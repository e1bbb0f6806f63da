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

struct waited_job {
	const char *name;
	enum job_state state;
	bool there; /* in the latest answer */
};

/* Takes a job of an answer.  It is one of those that are waited for, usually behind the last one:
 * *at. */
static void jobs_take(struct waited_job *v, size_t n, size_t *at, struct span row, struct arena *a)
{
	struct span name = scan_text(scan_get(row, "name"), a);
	for (size_t i = 0; i < n; i++) {
		struct waited_job *one = &v[(*at + i) % n];
		if (!span_is(name, one->name))
			continue;
		enum job_state now = job_state_named(scan_text(scan_get(row, "state"), a));
		one->there = true;
		if (now != one->state && job_state_final(now))
			(void)fprintf(stderr, "%s %s\n", one->name, JOB_STATES[now]);
		one->state = now;
		*at = (*at + i + 1) % n;
		return;
	}
}

/* Prints the number of jobs in each state, if it is not the last text.  Returns the number of those
 * that have not ended. */
static size_t jobs_count(const struct waited_job *v, size_t n, struct str *last)
{
	size_t in[JOB_STATE_MAX + 1] = { 0 };
	size_t left = 0;
	STR_AUTO text = STR_INIT(COUNTS_MAX);
	for (size_t i = 0; i < n; i++) {
		in[v[i].there ? v[i].state : JOB_STATE_MAX]++;
		left += v[i].there && !job_state_final(v[i].state);
	}
	str_printf(&text, "%zu job%s:", n, n == 1 ? "" : "s");
	for (enum job_state s = 0; s <= JOB_STATE_MAX; s++)
		if (in[s])
			str_printf(&text, " %zu %s", in[s],
			           s == JOB_STATE_MAX ? "deleted" : JOB_STATES[s]);
	if (!span_eq(str_view(&text), str_view(last)))
		(void)fprintf(stderr, "%s\n", str_c(&text));
	last->n = 0;
	str_span(last, str_view(&text));
	return left;
}

/* Ends the program by a signal: the jobs go on. */
static void jobs_interrupted(int signo)
{
	(void)signo;
	_exit(EXIT_SERVER);
}

int wait_for_jobs(struct remote *r, const struct option_list *tags, const char *const *names,
                  size_t n, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	STR_AUTO last = STR_INIT(COUNTS_MAX);
	const struct sigaction ends = { .sa_handler = jobs_interrupted };
	struct waited_job *v = n ? ARENA_NEW(&arena, struct waited_job, n) : NULL;
	const char *path = remote_tagged(r, tags, "", &arena, e);
	for (size_t i = 0; i < n; i++)
		v[i] = (struct waited_job){ names[i], JOB_STATE_MAX, false };
	(void)sigaction(SIGINT, &ends, NULL); /* these cannot fail */
	(void)sigaction(SIGTERM, &ends, NULL);
	r->patient = true;
	for (size_t left = 1; left;) {
		ARENA_AUTO turn = { 0 };
		REPLY_AUTO reply = { 0 };
		struct span rows;
		size_t at = 0;
		if (!path || remote_get(r, path, &reply, &rows, e) < 0)
			return -1;
		struct scan walk = scan_begin(rows);
		if (!v) {
			n = scan_count(rows);
			v = ARENA_NEW(&arena, struct waited_job, n);
			for (struct span row; scan_item(&walk, &row); at++)
				v[at].name =
				    arena_dup(&arena, scan_text(scan_get(row, "name"), &arena));
			walk = scan_begin(rows);
		}
		if (n == 0)
			return remote_none_tagged(tags, "", e);
		for (at = 0; at < n; at++)
			v[at].there = false;
		at = 0;
		for (struct span row; scan_item(&walk, &row);)
			jobs_take(v, n, &at, row, &turn);
		left = jobs_count(v, n, &last);
		int64_t ms = r->end_ms - clock_ms();
		if (left && ms <= 0)
			return err_set(e, OUTCOME_UNKNOWN, "--timeout is over; the jobs go on");
		(void)poll(NULL, 0, !left ? 0 : ms < r->pace->poll ? (int)ms : (int)r->pace->poll);
	}
	for (size_t i = 0; i < n; i++)
		if (!v[i].there || v[i].state != JOB_SUCCEEDED)
			return EXIT_REFUSED;
	return EXIT_OK;
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
	return wait_for_jobs(r, &r->o->tag, NULL, 0, e);
}

/* A job that is not there is refused; one that vanishes later was deleted. */
int cmd_wait(const struct command *c, struct options *o)
{
	if (o->n_files == !!o->tag.n)
		return command_usage(c, c->wanted);
	return o->tag.n ? remote_run(o, NULL, wait_tagged, NULL)
	                : remote_job_command(c, o, wait_started, "");
}
