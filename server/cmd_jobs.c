/* rest-lit jobs: the latest jobs, as a table. */
#include <time.h>

#include "base/scan.h"
#include "k8s/job_state.h"
#include "server/commands.h"
#include "server/remote.h"
#include "server/setup.h"
#include "server/table.h"

enum { ANSWER_MAX = 256 << 20, PATH_LIMIT = 4096, DEPTH = 64 };

static const char *const HEADS[] = { "NAME", "USER", "STATE", "SUBMITTED", "TASKS", "GPUS", "VC" };
enum { N_HEADS = sizeof(HEADS) / sizeof(HEADS[0]) };

/* In the time of where one is. */
static void put_time(struct table *t, struct span value)
{
	int64_t ms;
	struct tm tm;
	char text[sizeof("2026-11-22 01:02:03")] = "";
	if (scan_int(value, 1, INT64_MAX, &ms)) {
		time_t s = (time_t)(ms / 1000);
		size_t n = strftime(text, sizeof(text), "%F %T", localtime_r(&s, &tm) ?: &tm);
		text[n] = '\0';
	}
	table_cell(t, span_of(text));
}

static void put_number(struct table *t, struct span value)
{
	int64_t n;
	if (scan_int(value, INT64_MIN, INT64_MAX, &n))
		table_number(t, n);
	else
		table_cell(t, SPAN(""));
}

static void put_job(struct table *t, struct span job)
{
	ARENA_AUTO a = { 0 };
	table_cell(t, scan_text(scan_get(job, "name"), &a));
	table_cell(t, scan_text(scan_get(job, "username"), &a));
	table_cell(t, scan_text(scan_get(job, "state"), &a));
	put_time(t, scan_get(job, "submissionTime"));
	put_number(t, scan_get(job, "totalTaskNumber"));
	put_number(t, scan_get(job, "totalGpuNumber"));
	table_cell(t, scan_text(scan_get(job, "virtualCluster"), &a));
}

static int print_table(struct span jobs)
{
	struct table t;
	STR_AUTO out = STR_INIT(ANSWER_MAX);
	table_begin(&t, HEADS, N_HEADS);
	struct scan walk = scan_begin(jobs);
	for (struct span job; scan_item(&walk, &job);)
		put_job(&t, job);
	table_write(&out, &t);
	table_done(&t);
	return remote_print(str_view(&out));
}

/* "RUNNING,WAITING" as the server wants it.  It has no jobs in a state that there is not, and would
 * just say so. */
static int put_states(struct str *out, const char *states, struct err *e)
{
	const char *between = "&state=";
	for (struct span rest = span_of(states); rest.n; between = ",") {
		const char *comma = memchr(rest.p, ',', rest.n);
		struct span one = { rest.p, comma ? (size_t)(comma - rest.p) : rest.n };
		enum job_state state = job_state_named(one);
		if (state == JOB_STATE_MAX)
			return err_set(e, 400, NULL,
			               "--state: must be WAITING, RUNNING, STOPPING, SUCCEEDED, "
			               "STOPPED, FAILED or UNKNOWN, is \"%.*s\"",
			               (int)one.n, one.p);
		str_printf(out, "%s%s", between, JOB_STATES[state]);
		rest.p += one.n + (comma != NULL);
		rest.n -= one.n + (comma != NULL);
	}
	return 0;
}

/* What the options allow in them needs no escapes. */
static int put_path(struct str *out, const struct options *o, struct err *e)
{
	str_printf(out, "/api/v2/jobs?limit=%lld", (long long)o->limit);
	if (o->user[0])
		str_printf(out, "&username=%s", o->user);
	return put_states(out, o->state, e);
}

static int list(struct remote *r, struct err *e)
{
	REPLY_AUTO reply = { 0 };
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	if (put_path(&path, r->o, e) < 0)
		return -1;
	const struct client_call call = { .method = "GET",
		                          .path = str_c(&path),
		                          .max = ANSWER_MAX };
	if (remote_ask(r, &call, &reply, e) < 0)
		return -1;
	struct span body = str_view(&reply.body);
	if (!scan_valid(body, DEPTH) || scan_type(body) != SCAN_ARRAY)
		return err_set(e, UNKNOWN_ERROR, "%s: what came is no list of jobs", r->o->server);
	return strcmp(r->o->output, "json") == 0 ? remote_print(body) : print_table(body);
}

static int open_and_list(const struct options *o)
{
	ERR_AUTO e = { 0 };
	struct remote r = { 0 };
	int code = remote_open(&r, o, &e) < 0 ? complain(&e, NULL, EXIT_USAGE) : list(&r, &e);
	remote_close(&r);
	return code < 0 ? complain(&e, NULL, remote_exit(&e)) : code;
}

int cmd_jobs(const struct command *c, int argc, char **argv)
{
	struct options o;
	int code = command_options(c, &o, argc, argv);
	if (code < 0 && o.n_files)
		code = command_usage(c, "takes no file; --user and --state choose");
	else if (code < 0 && strcmp(o.output, "yaml") == 0)
		code = command_usage(c, "--output: table or json");
	else if (code < 0)
		code = open_and_list(&o);
	options_done(&o);
	return code;
}
