/* rest-lit jobs: the latest jobs, as a table. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/cache/job_entry.h"
#include "server/cli/cli_internal.h"
#include "server/config/exit_spec.h"
#include "server/config/setup.h"

enum {
	PATH_LIMIT = 64 << 10,
	TEXT_LIMIT = 64 << 10,
	WATCH_MS = 2000,
	LINES_BELOW = 3,
	REASON_COLUMNS = 100, /* `show` has the whole */
	LIMIT = 50,           /* jobs without --limit */
	SWEEP_LIMIT = 200,    /* with --metric; as many as a sweep may have */
};

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
	(void)scan_int(to, 1, INT64_MAX, &end); /* null: until now */
	if (scan_int(from, 1, INT64_MAX, &begin))
		table_duration(&l->table, end - begin);
	else
		table_cell(&l->table, SPAN(""));
}

/* Appends "BEFORE ContainerSigKillReceived (137)"; false: the row has no such exit code. */
static bool put_exit(const struct jobs_output *l, struct str *out, const char *before,
                     struct span code_json, struct arena *a)
{
	int64_t code;
	STR_AUTO spec = STR_INIT(TEXT_LIMIT);
	if (!scan_int(code_json, INT32_MIN, INT32_MAX, &code))
		return false;
	exit_spec_json(&spec, l->exits, code, true);
	struct span phrase = scan_text(scan_get(str_view(&spec), "phrase"), a);
	str_printf(out, "%s%.*s (%" PRId64 ")", before, (int)phrase.n, phrase.p, code);
	return true;
}

/* Prints phrase and exit code of a failure; else which try this is, how the one before ended, and
 * why the job waits. */
static void put_reason(struct jobs_output *l, struct span job, struct arena *a)
{
	int64_t retries = 0;
	STR_AUTO text = STR_INIT(TEXT_LIMIT);
	enum job_state state = job_state_named(scan_text(scan_get(job, "state"), a));
	if (state != JOB_FAILED || !put_exit(l, &text, "", scan_get(job, "appExitCode"), a)) {
		struct span why = scan_get(job, "waitingReason");
		struct span message = scan_text(scan_get(why, "message"), a);
		(void)scan_int(scan_get(job, "retries"), 0, INT32_MAX, &retries); /* else 0 */
		if (retries && !job_state_final(state)) {
			str_printf(&text, "try %" PRId64, retries + 1);
			(void)put_exit(l, &text, " after ", scan_get(job, "previousExitCode"), a);
		}
		str_puts(&text, text.n && message.n ? "; " : "");
		str_span(&text, scan_text(scan_get(why, "reason"), a));
		str_puts(&text, message.n ? ": " : "");
		str_span(&text, message);
	}
	struct span shown = visible_cut(str_view(&text), REASON_COLUMNS);
	bool cut = shown.n < text.n;
	text.n = shown.n;
	str_puts(&text, cut ? "..." : "");
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

/* The orders of the server for --sort. */
static const char *const ORDERS[][2] = {
	{ "name", "jobName,ASC" },         { "user", "username,ASC" }, { "state", "state,ASC" },
	{ "gpus", "totalGpuNumber,DESC" }, { "vc", "vc,ASC" },
};

/* The options allow no characters that need escapes. */
static int jobs_put_path(struct str *out, const struct options *o, int64_t limit, struct err *e)
{
	str_printf(out, "/api/v2/jobs?withTotalCount=true&limit=%lld", (long long)limit);
	for (size_t i = 0; i < ARRAY_SIZE(ORDERS); i++)
		if (strcmp(o->sort, ORDERS[i][0]) == 0)
			str_printf(out, "&order=%s", ORDERS[i][1]);
	remote_put_tags(out, &o->tag);
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

static int list_once(struct remote *r, int64_t limit, struct err *e)
{
	REPLY_AUTO reply = { 0 };
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	struct span body;
	int64_t total = 0;
	if (jobs_put_path(&path, r->o, limit, e) < 0 ||
	    remote_get(r, str_c(&path), &reply, &body, e) < 0)
		return -1;
	struct span jobs = scan_get(body, "data");
	if (scan_type(jobs) != SCAN_ARRAY)
		return err_set(e, UNKNOWN_ERROR, "%s: the answer is not a list of jobs",
		               r->o->server);
	int code = r->o->metric[0]                     ? sweep_print(r, jobs, e)
	           : strcmp(r->o->output, "json") == 0 ? remote_print_json(jobs)
	                                               : print_table(jobs, e);
	bool latest = !r->o->sort[0] || strcmp(r->o->sort, "age") == 0;
	if (scan_int(scan_get(body, "totalCount"), 0, INT64_MAX, &total) && total > limit)
		(void)fprintf(stderr,
		              "rest-lit: these are the %s %" PRId64 " of %" PRId64
		              " jobs; use a larger --limit to see more\n",
		              latest ? "latest" : "first", limit, total);
	return code;
}

/* A terminal shows as many jobs as it has lines. */
static int watch_jobs(struct remote *r, struct err *e)
{
	bool terminal = isatty(STDOUT_FILENO);
	r->patient = true;
	int code = EXIT_OK;
	while (code == EXIT_OK) {
		int64_t limit = r->o->limit ?: LIMIT;
		int64_t rows = terminal ? (int64_t)term_size().rows - LINES_BELOW : limit;
		(void)fputs(terminal ? "\033[H\033[J" : "", stdout);
		code = list_once(r, rows > 0 && rows < limit ? rows : limit, e);
		if (r->end_ms - clock_ms() <= WATCH_MS)
			return code;
		(void)poll(NULL, 0, code == EXIT_OK ? WATCH_MS : 0);
		(void)fputs(terminal ? "" : "\n", stdout);
	}
	return code;
}

static int list_jobs(struct remote *r, const void *none, struct err *e)
{
	(void)none;
	int64_t limit = r->o->limit ?: r->o->metric[0] ? SWEEP_LIMIT : LIMIT;
	return r->o->watch ? watch_jobs(r, e) : list_once(r, limit, e);
}

/* NULL, or what is wrong with the options together. */
static const char *jobs_misused(const struct options *o)
{
	bool known = strcmp(o->sort, "age") == 0 || strcmp(o->sort, o->metric) == 0;
	for (size_t i = 0; i < ARRAY_SIZE(ORDERS); i++)
		known |= strcmp(o->sort, ORDERS[i][0]) == 0;
	if (o->sort[0] && !known)
		return "--sort: must be age, gpus, name, state, user, vc, or the name that "
		       "--metric has";
	if (!o->metric[0])
		return strcmp(o->output, "csv") == 0 ? "--output: csv needs --metric" : NULL;
	if (o->watch)
		return "--metric reads the log of each job: --watch is for lists without it";
	if (o->limit > SWEEP_LIMIT)
		return "--limit: with --metric at most 200 jobs; choose them by --tag";
	return NULL;
}

int cmd_jobs(const struct command *c, struct options *o)
{
	const char *misused = jobs_misused(o);
	if (misused)
		return command_usage(c, misused);
	return remote_run(o, NULL, list_jobs, NULL);
}
