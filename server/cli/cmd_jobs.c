/*
 * rest-lit jobs: the latest jobs, as a table; with --metric the parameters in which they differ and
 * the last value of a metric.  The server has no part in the comparison: parameters come from each
 * configuration, the value from the end of the log of the first role's task 0.  The path of this
 * log is known without a request, unless the job is not of v1 or v2, or its tasks are retried one
 * by one.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/cache/job_entry.h"
#include "jobs/store/paths.h"
#include "server/cli/cli_internal.h"
#include "server/config/exit_spec.h"
#include "server/config/setup.h"
#include "server/runs/runs.h"

enum {
	PATH_LIMIT = 64 << 10,
	TEXT_LIMIT = 64 << 10,
	LINES_BELOW = 3,
	REASON_COLUMNS = 100, /* `show` has the whole */
	LIMIT = 50,           /* jobs without --limit */
	SWEEP_LIMIT = 200,    /* with --metric; as many as a sweep may have */
	PARALLEL = 6,         /* requests at a time */
	PARAMETERS_MAX = 20,  /* columns */
	LOG_BYTES_LEAST =
	    16384, /* of a log that may not be whole; from servers without tail-bytes */
	ANSWER_MAX = 32 << 20,
	ATTEMPT_MS = 60000,
	DEPTH = 64,
	TABLE_BYTES = 64 << 20,
	SECOND = 1000
};

#define LOG_END "/all?tail-mode=true&tail-bytes=65536"

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
		progress_put_idle(&text, job, text.n ? "; " : "");
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

/* ---- jobs that are compared: requests -------------------------------------------------------- */

enum compared_stage { OF_CONFIG, OF_DETAIL, OF_LOG, COMPLETE };

struct compared_job {
	struct comparison *of;
	struct span row;        /* of the list */
	const char *id, *path;  /* USER~NAME; of the present request */
	struct span parameters; /* a JSON object; n 0: none */
	struct span metric;     /* p NULL: none */
	enum compared_stage stage;
	struct client_exchange *exchange;
};

struct comparison {
	struct remote *remote;
	struct arena arena;
	struct compared_job *job;
	size_t n, open;         /* jobs; requests */
	int64_t due_ms, end_ms; /* of the next request; of the patience */
	unsigned failures;
	struct err *e; /* the first failure that concerns all */
};

static void compared_ask_log(struct compared_job *j, const char *log)
{
	j->path = arena_printf(&j->of->arena, "%s" LOG_END, log);
	j->stage = OF_LOG;
}

/* The first role of a job of v1 or v2, as its pods name it; n 0: of none, or its tasks may have
 * been retried. */
static struct span compared_role(struct span config, struct arena *a)
{
	struct span roles = scan_get(config, "taskRoles");
	struct scan walk = scan_begin(roles);
	struct span name = { "", 0 };
	struct span role = { "", 0 };
	int64_t retries = 0;
	if (scan_type(roles) == SCAN_OBJECT)
		(void)scan_member(&walk, &name, &role); /* else there is none */
	else if (scan_item(&walk, &role))
		name = scan_text(scan_get(role, "name"), a);
	struct span value = scan_get(role, "taskRetryCount");
	bool none = !value.p || (scan_int(value, 0, 0, &retries) && retries == 0);
	char *bare = arena_dup(a, name);
	return (struct span){ bare, none ? span_lower_alnum(bare, name) : 0 };
}

static void compared_take_config(struct compared_job *j, struct span config)
{
	struct arena *a = &j->of->arena;
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	struct span parameters = scan_get(config, "parameters");
	int64_t attempt = 0;
	j->stage = COMPLETE;
	if (scan_type(parameters) == SCAN_OBJECT)
		j->parameters = arena_span(a, parameters);
	if (scan_type(scan_get(j->row, "launchedTime")) != SCAN_NUMBER)
		return; /* it has no log yet */
	struct span role = compared_role(config, a);
	if (!role.n) {
		j->path = remote_path(j->id, "", a);
		j->stage = OF_DETAIL;
		return;
	}
	(void)scan_int(scan_get(j->row, "retries"), 0, INT32_MAX, &attempt); /* else 0 */
	str_printf(&path, "/attempts/%" PRId64 "/taskRoles/", attempt);
	query_encode(&path, role);
	str_puts(&path, "/taskIndex/0/attempts/0/logs");
	compared_ask_log(j, remote_path(j->id, str_c(&path), a));
}

static void compared_take_detail(struct compared_job *j, struct span detail)
{
	struct task_walk w = progress_tasks(detail);
	struct span log = { "", 0 };
	if (progress_next_task(&w))
		log = scan_text(scan_get(w.task, "containerLog"), &j->of->arena);
	j->stage = COMPLETE;
	if (log.n && log.p[0] == '/')
		compared_ask_log(j, arena_dup(&j->of->arena, log));
}

/* The first line of an end may be cut within a name. */
static void compared_take_log(struct compared_job *j, struct span log)
{
	ARENA_AUTO scratch = { 0 };
	if (log.n >= LOG_BYTES_LEAST)
		log = span_from(log, span_skip_class(log, 0, "^\r\n"));
	struct span found = log_metric_last(log, j->of->remote->o->metric, &scratch);
	j->stage = COMPLETE;
	if (found.p)
		j->metric = arena_span(&j->of->arena, found);
}

static void compared_answered(void *arg, const struct client_answer *a)
{
	static void (*const TAKE_ANSWER[])(struct compared_job *,
	                                   struct span) = { [OF_CONFIG] = compared_take_config,
		                                            [OF_DETAIL] = compared_take_detail,
		                                            [OF_LOG] = compared_take_log };
	struct compared_job *j = arg;
	struct comparison *s = j->of;
	bool good = a->status == 200 && !a->problem;
	bool again = !good && remote_may_retry(a);
	int64_t now = clock_ms();
	j->exchange = NULL;
	s->open--;
	if (again && now < s->end_ms) {
		s->due_ms = now + remote_pause_ms(s->remote, a, ++s->failures);
		return;
	}
	if ((again || a->problem || a->status == 401) && !s->e->http)
		remote_error(s->remote, a, s->e);
	if (good) {
		s->failures = 0;
		s->end_ms = now + s->remote->o->patience_s * SECOND;
	}
	/* Another user's job may be seen without its configuration and its log; a log may be gone.
	 */
	if (good && (j->stage == OF_LOG || scan_valid(a->body, DEPTH)))
		TAKE_ANSWER[j->stage](j, a->body);
	else
		j->stage = COMPLETE;
}

/* Asks for all jobs, some at a time.  -1 and *e. */
static int comparison_ask(struct comparison *s)
{
	int64_t end_ms = s->remote->end_ms;
	for (bool more = true; more && !s->e->http;) {
		int64_t now = clock_ms();
		more = false;
		for (struct compared_job *j = s->job; j < s->job + s->n; j++) {
			more |= j->stage != COMPLETE;
			if (j->stage == COMPLETE || j->exchange || s->open == PARALLEL ||
			    now < s->due_ms || s->e->http)
				continue;
			const struct client_call call = { .method = "GET",
				                          .path = j->path,
				                          .max = ANSWER_MAX,
				                          .timeout_ms = ATTEMPT_MS,
				                          .ended = compared_answered,
				                          .arg = j };
			j->exchange = client_start(s->remote->client, &call, s->e);
			s->open++;
		}
		int64_t until = now < s->due_ms ? s->due_ms : now + ATTEMPT_MS;
		if (more && now >= end_ms)
			(void)err_set(s->e, UNAVAILABLE, "--timeout is over");
		else if (more && !s->e->http)
			client_run_once(s->remote->client, (until < end_ms ? until : end_ms) - now,
			                -1);
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->job[i].exchange)
			client_stop(TAKE(s->job[i].exchange));
	return s->e->http ? -1 : 0;
}

/* ---- jobs that are compared: table ----------------------------------------------------------- */

/* A parameter as text; p NULL: the job does not have it. */
static struct span compared_value(const struct compared_job *j, const char *name, struct arena *a)
{
	struct span value = scan_get(j->parameters, name);
	return scan_type(value) == SCAN_STRING ? scan_text(value, a) : value;
}

static bool compared_differs(struct comparison *s, const char *name)
{
	struct span first = compared_value(&s->job[0], name, &s->arena);
	for (size_t i = 1; i < s->n; i++) {
		struct span other = compared_value(&s->job[i], name, &s->arena);
		if (first.p && other.p ? !span_eq(first, other) : first.p != other.p)
			return true;
	}
	return false;
}

/* The parameters that differ, in the order of the configurations; returns how many there are. */
static size_t compared_parameters(struct comparison *s, const char *names[static PARAMETERS_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++) {
		struct scan walk = scan_begin(s->job[i].parameters);
		for (struct span key, value; scan_member(&walk, &key, &value);) {
			const char *name = arena_dup(&s->arena, key);
			bool known = false;
			for (size_t k = 0; k < i && !known; k++)
				known = scan_get(s->job[k].parameters, name).p;
			if (known || !compared_differs(s, name))
				continue;
			if (n < PARAMETERS_MAX)
				names[n] = name;
			n++;
		}
	}
	return n;
}

/* Numbers, then nan, then none. */
static int compared_rank(const struct compared_job *j, double *value)
{
	*value = j->metric.p ? strtod(j->metric.p, NULL) : 0; /* ends in NUL */
	return !j->metric.p ? 2 : isnan(*value) ? 1 : 0;
}

static int compared_order(const void *a, const void *b)
{
	double x;
	double y;
	int order = compared_rank(a, &x) - compared_rank(b, &y);
	if (order || x < y || x > y)
		return order ? order : x < y ? -1 : 1;
	const struct compared_job *j = a;
	const struct compared_job *k = b;
	return j->row.p < k->row.p ? -1 : 1; /* the order of the list */
}

/* Returns true if the jobs are of several users. */
static bool compared_of_several(const struct comparison *s)
{
	for (size_t i = 1; i < s->n; i++) {
		size_t n = strcspn(s->job[i].id, "~") + 1;
		if (strncmp(s->job[i].id, s->job[0].id, n) != 0)
			return true;
	}
	return false;
}

static int64_t compared_ran_ms(const struct compared_job *j, int64_t now_ms)
{
	int64_t begin;
	int64_t end = now_ms;
	if (!scan_int(scan_get(j->row, "launchedTime"), 1, INT64_MAX, &begin))
		return -1;
	(void)scan_int(scan_get(j->row, "completedTime"), 1, INT64_MAX, &end); /* else now */
	return end < begin ? 0 : end - begin;
}

static void compared_put_rows(struct comparison *s, struct table *t, const char *const names[],
                              size_t n, bool csv)
{
	int64_t now_ms = clock_wall_ms();
	bool several = compared_of_several(s);
	for (struct compared_job *j = s->job; j < s->job + s->n; j++) {
		int64_t ms = compared_ran_ms(j, now_ms);
		table_cell(t, span_of(several ? j->id : strchr(j->id, '~') + 1));
		for (size_t i = 0; i < n; i++) {
			struct span value = compared_value(j, names[i], &s->arena);
			table_cell(t, value.p ? value : SPAN(""));
		}
		table_text(t, j->row, "state");
		if (ms < 0)
			table_cell(t, SPAN(""));
		else if (csv)
			table_cell(t, span_of(arena_printf(&s->arena, "%" PRId64 ".%03d",
			                                   ms / SECOND, (int)(ms % SECOND))));
		else
			table_duration(t, ms);
		table_cell(t, j->metric.p ? j->metric : SPAN(""));
	}
}

static int comparison_print_table(struct comparison *s, bool csv)
{
	const char *names[PARAMETERS_MAX];
	const char *heads[PARAMETERS_MAX + 4] = { csv ? "name" : "NAME" };
	size_t n = compared_parameters(s, names);
	size_t shown = n < PARAMETERS_MAX ? n : PARAMETERS_MAX;
	STR_AUTO out = STR_INIT(TABLE_BYTES);
	struct table t;
	for (size_t i = 0; i < shown; i++)
		heads[i + 1] = visible_line(&s->arena, span_of(names[i]));
	heads[shown + 1] = csv ? "state" : "STATE";
	heads[shown + 2] = csv ? "seconds" : "DURATION";
	heads[shown + 3] = visible_line(&s->arena, span_of(s->remote->o->metric));
	table_begin(&t, heads, shown + 4);
	t.states = !csv && term_colours(STDOUT_FILENO) ? shown + 1 : 0;
	compared_put_rows(s, &t, names, shown, csv);
	if (csv)
		table_csv(&out, &t);
	else
		table_write(&out, &t, output_columns());
	table_done(&t);
	if (n > shown)
		(void)fprintf(stderr, "rest-lit: %zu more parameters differ\n", n - shown);
	return remote_print(str_view(&out));
}

static int comparison_print(struct remote *r, struct span rows, struct err *e)
{
	const struct options *o = r->o;
	struct comparison s = { .remote = r, .e = e, .n = scan_count(rows) };
	STR_AUTO line = STR_INIT(TEXT_LIMIT);
	s.end_ms = clock_ms() + o->patience_s * SECOND;
	s.job = ARENA_NEW(&s.arena, struct compared_job, s.n);
	struct scan walk = scan_begin(rows);
	size_t n = 0;
	for (struct span row; scan_item(&walk, &row); n++) {
		struct span user = scan_text(scan_get(row, "username"), &s.arena);
		struct span name = scan_text(scan_get(row, "name"), &s.arena);
		const char *id =
		    arena_printf(&s.arena, "%.*s~%.*s", (int)user.n, user.p, (int)name.n, name.p);
		s.job[n] = (struct compared_job){
			.of = &s, .row = row, .id = id, .path = remote_path(id, "/config", &s.arena)
		};
	}
	int code = comparison_ask(&s);
	if (code == 0) {
		if (strcmp(o->sort, o->metric) == 0)
			qsort(s.job, s.n, sizeof(*s.job), compared_order);
		bool csv = strcmp(o->output, "csv") == 0;
		code = comparison_print_table(&s, csv);
		run_counts_put(&line, rows, clock_wall_ms());
		(void)fprintf(stderr, "%s", csv ? "" : str_c(&line));
	}
	arena_done(&s.arena);
	return code;
}

/* ---- the list -------------------------------------------------------------------------------- */

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
	int code = r->o->metric[0]                     ? comparison_print(r, jobs, e)
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
static int watch_jobs(struct remote *r, int64_t rows, struct err *e)
{
	int64_t limit = r->o->limit ?: LIMIT;
	rows -= rows < INT64_MAX ? LINES_BELOW : 0;
	return list_once(r, rows > 0 && rows < limit ? rows : limit, e);
}

static int list_jobs(struct remote *r, const void *none, struct err *e)
{
	(void)none;
	int64_t limit = r->o->limit ?: r->o->metric[0] ? SWEEP_LIMIT : LIMIT;
	return r->o->watch ? remote_watch(r, -1, watch_jobs, e) : list_once(r, limit, e);
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
	if (strcmp(o->output, "json") == 0)
		return "--output: table or csv with --metric";
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
