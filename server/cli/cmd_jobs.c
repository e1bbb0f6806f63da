/* rest-lit jobs: the latest jobs, as a table. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "k8s/cache/job_entry.h"
#include "server/cli/cli_internal.h"
#include "server/config/exit_spec.h"
#include "server/config/setup.h"

enum { PATH_LIMIT = 4096, TEXT_LIMIT = 64 << 10 };

static const char *const HEADS[] = { "NAME",  "USER", "STATE", "AGE",   "DURATION",
	                             "TASKS", "GPUS", "VC",    "REASON" };
enum { STATE = 2, N_HEADS = ARRAY_SIZE(HEADS) };

struct jobs_output {
	struct table table;
	struct exit_spec *exits; /* the built-in specification */
	int64_t now_ms;          /* since 1970 */
};

/* The time between two times of a row; `to` may be null for now. */
static void put_between(struct jobs_output *l, struct span from, struct span to)
{
	int64_t begin;
	int64_t end = l->now_ms;
	if (!scan_int(from, 1, INT64_MAX, &begin)) {
		table_cell(&l->table, SPAN(""));
		return;
	}
	(void)scan_int(to, 1, INT64_MAX, &end); /* null: until now */
	table_duration(&l->table, end - begin);
}

/* Prints the reason why a job waits, or phrase and exit code of a failure. */
static void put_reason(struct jobs_output *l, struct span job, struct arena *a)
{
	int64_t code;
	STR_AUTO spec = STR_INIT(TEXT_LIMIT);
	STR_AUTO text = STR_INIT(TEXT_LIMIT);
	bool failed = span_is(scan_text(scan_get(job, "state"), a), "FAILED");
	if (failed && scan_int(scan_get(job, "appExitCode"), INT32_MIN, INT32_MAX, &code)) {
		exit_spec_json(&spec, l->exits, code, true);
		struct span phrase = scan_text(scan_get(str_view(&spec), "phrase"), a);
		str_span(&text, phrase);
		str_printf(&text, " (%" PRId64 ")", code);
	} else {
		struct span why = scan_get(job, "waitingReason");
		str_span(&text, scan_text(scan_get(why, "reason"), a));
		str_puts(&text, text.n ? ": " : "");
		str_span(&text, scan_text(scan_get(why, "message"), a));
	}
	table_cell(&l->table, str_view(&text));
}

static int print_table(struct span jobs, struct err *e)
{
	struct jobs_output l = { .now_ms = (int64_t)time(NULL) * 1000 };
	l.exits = exit_spec_new("", e);
	if (!l.exits)
		return -1;
	table_begin(&l.table, HEADS, N_HEADS);
	l.table.states = term_colours(STDOUT_FILENO) ? STATE : 0;
	struct scan walk = scan_begin(jobs);
	for (struct span job; scan_item(&walk, &job);) {
		table_text(&l.table, job, "name");
		table_text(&l.table, job, "username");
		table_text(&l.table, job, "state");
		put_between(&l, scan_get(job, "submissionTime"), SPAN(""));
		put_between(&l, scan_get(job, "launchedTime"), scan_get(job, "completedTime"));
		table_number(&l.table, job, "totalTaskNumber");
		table_number(&l.table, job, "totalGpuNumber");
		table_text(&l.table, job, "virtualCluster");
		put_reason(&l, job, &l.table.arena);
	}
	exit_spec_free(l.exits);
	return table_print(&l.table);
}

/* The options allow no characters that need escapes. */
static int jobs_put_path(struct str *out, const struct options *o, struct err *e)
{
	str_printf(out, "/api/v2/jobs?withTotalCount=true&limit=%lld", (long long)o->limit);
	if (o->user[0])
		str_printf(out, "&username=%s", o->user);
	/* "RUNNING,WAITING".  Unknown states are refused here: the server ignores them. */
	const char *between = "&state=";
	for (struct span rest = span_of(o->state); rest.n; between = ",") {
		struct span one = span_next(&rest, ',');
		enum job_state state = job_state_named(one);
		if (state == JOB_STATE_MAX)
			return err_set(e, 400, NULL,
			               "--state: must be WAITING, RUNNING, STOPPING, SUCCEEDED, "
			               "STOPPED, FAILED or UNKNOWN, is \"%.*s\"",
			               (int)one.n, one.p);
		str_printf(out, "%s%s", between, JOB_STATES[state]);
	}
	return 0;
}

static int list_jobs(struct remote *r, const void *none, struct err *e)
{
	ERR_AUTO no_machine = { 0 };
	REPLY_AUTO reply = { 0 };
	REPLY_AUTO second = { 0 };
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	struct span body;
	struct span machine;
	int64_t total = 0;
	(void)none;
	if (jobs_put_path(&path, r->o, e) < 0 || remote_get(r, str_c(&path), &reply, &body, e) < 0)
		return -1;
	struct span jobs = scan_get(body, "data");
	if (scan_type(jobs) != SCAN_ARRAY)
		return err_set(e, UNKNOWN_ERROR, "%s: the answer is not a list of jobs",
		               r->o->server);
	int code =
	    strcmp(r->o->output, "json") == 0 ? remote_print_json(jobs) : print_table(jobs, e);
	if (scan_int(scan_get(body, "totalCount"), 0, INT64_MAX, &total) && total > r->o->limit)
		(void)fprintf(stderr,
		              "rest-lit: these are the latest %" PRId64 " of %" PRId64
		              " jobs; use a larger --limit to see more\n",
		              r->o->limit, total);
	if (remote_get(r, "/api/v2/machine", &second, &machine, &no_machine) == 0 &&
	    span_is(scan_get(machine, "hostFiles"), "true"))
		(void)fputs("rest-lit: jobs of this server run on its machine's files, not in "
		            "their images\n",
		            stderr);
	return code;
}

int cmd_jobs(const struct command *c, struct options *o)
{
	if (strcmp(o->output, "yaml") == 0)
		return command_usage(c, "--output: table or json");
	return remote_run(o, NULL, list_jobs, NULL);
}
