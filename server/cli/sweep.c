/*
 * Jobs that are compared: a row for each, with the parameters in which they differ and the last
 * value of a metric.  The server has no part in it: parameters come from each configuration, the
 * value from the end of the log of the first role's task 0.  The path of this log is known without
 * a request, unless the job is not of v1 or v2, or its tasks are retried one by one.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/json/put.h"
#include "base/posix/clock.h"
#include "jobs/store/paths.h"
#include "server/cli/cli_internal.h"

enum {
	PARALLEL = 6,            /* requests at a time */
	PARAMETERS_MAX = 20,     /* columns */
	LOG_BYTES = 64 << 10,    /* of the end of a log */
	LOG_BYTES_LEAST = 16384, /* of one that is not whole, from an older server */
	ANSWER_MAX = 32 << 20,
	ATTEMPT_MS = 60000,
	WELL_LEAST = 3, /* jobs that succeeded, for an estimate */
	OVERDUE = 10,   /* a job that runs for longer takes this part of the median */
	DEPTH = 64,
	PATH_LIMIT = 8192,
	OUTPUT_MAX = 64 << 20,
	LINE_MAX = 1024,
	SECOND = 1000
};

#define TAIL "/all?tail-mode=true&tail-bytes=65536"

/* ---- how far they are ------------------------------------------------------------------------ */

static int sweep_compare_ms(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

struct sweep_times {
	int64_t *well, *left; /* durations of those that succeeded; those that run: so far */
	size_t n_well, n_left, waiting;
};

/* The time until all have ended, from the median of those that succeeded, if as many run as now;
 * 0: not known, or all have. */
static int64_t sweep_rest(struct sweep_times *t)
{
	if (t->n_well < WELL_LEAST || !t->n_left)
		return 0;
	qsort(t->well, t->n_well, sizeof(*t->well), sweep_compare_ms);
	int64_t median = t->well[t->n_well / 2];
	for (size_t i = 0; i < t->n_left; i++)
		t->left[i] = t->left[i] < median ? median - t->left[i] : median / OVERDUE;
	qsort(t->left, t->n_left, sizeof(*t->left), sweep_compare_ms);
	int64_t most = 0;
	for (size_t i = 0; i < t->n_left; i++) { /* those that wait follow in turn */
		size_t turns = (t->waiting + t->n_left - 1 - i) / t->n_left;
		int64_t end = t->left[i] + (int64_t)turns * median;
		most = end > most ? end : most;
	}
	return most > 1 ? most : 1;
}

/* "18:40", with the date if it is not today. */
static void sweep_put_clock(struct str *out, int64_t ms, int64_t now_ms)
{
	char text[sizeof("2026-11-30 18:40")];
	time_t at = (time_t)(ms / SECOND);
	time_t now = (time_t)(now_ms / SECOND);
	struct tm t = { 0 };
	struct tm today = { 0 };
	(void)localtime_r(&at, &t); /* times of this century */
	(void)localtime_r(&now, &today);
	bool same = t.tm_yday == today.tm_yday && t.tm_year == today.tm_year;
	str_put(out, text, strftime(text, sizeof(text), same ? "%H:%M" : "%F %H:%M", &t));
}

void sweep_put_line(struct str *out, struct span rows, int64_t now_ms)
{
	static const struct {
		enum job_state state;
		const char *one, *more;
	} WORDS[] = {
		{ JOB_SUCCEEDED, "succeeded", "succeeded" },     { JOB_FAILED, "failed", "failed" },
		{ JOB_STOPPED, "was stopped", "were stopped" },  { JOB_RUNNING, "runs", "run" },
		{ JOB_STOPPING, "is stopping", "are stopping" }, { JOB_WAITING, "waits", "wait" },
		{ JOB_UNKNOWN, "is unknown", "are unknown" },
	};
	ARENA_AUTO arena = { 0 };
	size_t n = scan_count(rows);
	size_t in[JOB_STATE_MAX + 1] = { 0 };
	struct sweep_times times = { .well = ARENA_NEW(&arena, int64_t, n),
		                     .left = ARENA_NEW(&arena, int64_t, n) };
	struct scan walk = scan_begin(rows);
	for (struct span row; scan_item(&walk, &row);) {
		enum job_state state = job_state_named(scan_text(scan_get(row, "state"), &arena));
		int64_t begin;
		int64_t end = now_ms;
		in[state]++;
		times.waiting += state == JOB_WAITING;
		if (!scan_int(scan_get(row, "launchedTime"), 1, INT64_MAX, &begin))
			continue;
		(void)scan_int(scan_get(row, "completedTime"), 1, INT64_MAX, &end); /* else now */
		if (state == JOB_SUCCEEDED)
			times.well[times.n_well++] = end - begin;
		else if (state == JOB_RUNNING)
			times.left[times.n_left++] = end - begin;
	}
	str_printf(out, "%zu job%s", n, n == 1 ? "" : "s");
	const char *between = ": ";
	for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++) {
		size_t k = in[WORDS[i].state];
		if (k)
			str_printf(out, "%s%zu %s", between, k,
			           k == 1 ? WORDS[i].one : WORDS[i].more);
		between = k ? ", " : between;
	}
	int64_t rest = sweep_rest(&times);
	str_puts(out, rest ? "; done by about " : "");
	if (rest)
		sweep_put_clock(out, now_ms + rest, now_ms);
	str_char(out, '\n');
}

/* ---- requests -------------------------------------------------------------------------------- */

enum sweep_stage { OF_CONFIG, OF_DETAIL, OF_LOG, COMPLETE };

struct sweep_job {
	struct sweep *of;
	struct span row;        /* of the list */
	const char *id, *path;  /* USER~NAME; of the present request */
	struct span parameters; /* a JSON object; n 0: none */
	struct span metric;     /* p NULL: none */
	enum sweep_stage stage;
	struct client_exchange *exchange;
};

struct sweep {
	struct remote *remote;
	struct arena arena;
	struct sweep_job *job;
	size_t n;
	int64_t due_ms, end_ms; /* of the next request; of the patience */
	unsigned failures;
	struct err *e; /* the first failure that concerns all */
};

static void sweep_ask_log(struct sweep_job *j, const char *log)
{
	j->path = arena_printf(&j->of->arena, "%s" TAIL, log);
	j->stage = OF_LOG;
}

/* The first role of a job of v1 or v2; n 0: of none, or its tasks may have been retried. */
static struct span sweep_role(struct span config, struct arena *a)
{
	struct span roles = scan_get(config, "taskRoles");
	struct scan walk = scan_begin(roles);
	struct span name = { "", 0 };
	struct span role = { "", 0 };
	int64_t retries = 0;
	if (scan_type(roles) == SCAN_OBJECT && scan_member(&walk, &name, &role))
		name = arena_span(a, name);
	else if (scan_type(roles) == SCAN_ARRAY && scan_item(&walk, &role))
		name = scan_text(scan_get(role, "name"), a);
	struct span value = scan_get(role, "taskRetryCount");
	bool none = !value.p || (scan_int(value, 0, 0, &retries) && retries == 0);
	return none ? name : (struct span){ "", 0 };
}

static void sweep_take_config(struct sweep_job *j, struct span config)
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
	struct span role = sweep_role(config, a);
	if (!role.n) {
		j->path = remote_path(j->id, "", a);
		j->stage = OF_DETAIL;
		return;
	}
	(void)scan_int(scan_get(j->row, "retries"), 0, INT32_MAX, &attempt); /* else 0 */
	str_printf(&path, "/attempts/%" PRId64 "/taskRoles/", attempt);
	query_encode(&path, role);
	str_puts(&path, "/taskIndex/0/attempts/0/logs");
	sweep_ask_log(j, remote_path(j->id, str_c(&path), a));
}

static void sweep_take_detail(struct sweep_job *j, struct span detail)
{
	struct task_walk w = progress_tasks(detail);
	struct span log = { "", 0 };
	if (progress_next_task(&w))
		log = scan_text(scan_get(w.task, "containerLog"), &j->of->arena);
	j->stage = COMPLETE;
	if (log.n && log.p[0] == '/')
		sweep_ask_log(j, arena_dup(&j->of->arena, log));
}

/* The first line of an end may be cut within a name. */
static void sweep_take_log(struct sweep_job *j, struct span log)
{
	ARENA_AUTO scratch = { 0 };
	if (log.n >= LOG_BYTES_LEAST)
		log = span_from(log, span_skip_class(log, 0, "^\r\n"));
	struct span found = metric_last(log, j->of->remote->o->metric, &scratch);
	j->stage = COMPLETE;
	if (found.p)
		j->metric = arena_span(&j->of->arena, found);
}

static void sweep_answered(void *arg, const struct client_answer *a)
{
	static void (*const TAKE_ANSWER[])(struct sweep_job *,
	                                   struct span) = { [OF_CONFIG] = sweep_take_config,
		                                            [OF_DETAIL] = sweep_take_detail,
		                                            [OF_LOG] = sweep_take_log };
	struct sweep_job *j = arg;
	struct sweep *s = j->of;
	bool good = a->status == 200 && !a->problem;
	bool again = !good && remote_may_retry(a);
	int64_t now = clock_ms();
	j->exchange = NULL;
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

static void sweep_start(struct sweep_job *j)
{
	struct sweep *s = j->of;
	const struct client_call call = { .method = "GET",
		                          .path = j->path,
		                          .max = ANSWER_MAX,
		                          .timeout_ms = ATTEMPT_MS,
		                          .ended = sweep_answered,
		                          .arg = j };
	j->exchange = client_start(s->remote->client, &call, s->e);
}

/* Asks for all jobs, some at a time.  -1 and *e. */
static int sweep_ask(struct sweep *s)
{
	for (bool more = true; more && !s->e->http;) {
		size_t open = 0;
		int64_t now = clock_ms();
		for (size_t i = 0; i < s->n; i++)
			open += s->job[i].exchange != NULL;
		more = open;
		for (size_t i = 0; i < s->n && !s->e->http; i++) {
			struct sweep_job *j = &s->job[i];
			if (j->stage == COMPLETE || j->exchange)
				continue;
			more = true;
			if (open >= PARALLEL || now < s->due_ms)
				break;
			sweep_start(j);
			open++;
		}
		int64_t pause = now < s->due_ms ? s->due_ms - now : ATTEMPT_MS;
		if (now >= s->remote->end_ms)
			(void)err_set(s->e, UNAVAILABLE, "--timeout is over");
		else if (more && !s->e->http)
			client_run_once(
			    s->remote->client,
			    pause < s->remote->end_ms - now ? pause : s->remote->end_ms - now, -1);
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->job[i].exchange)
			client_stop(TAKE(s->job[i].exchange));
	return s->e->http ? -1 : 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* A parameter as text; p NULL: the job does not have it. */
static struct span sweep_value(const struct sweep_job *j, const char *name, struct arena *a)
{
	struct span value = scan_get(j->parameters, name);
	return scan_type(value) == SCAN_STRING ? scan_text(value, a) : value;
}

static bool sweep_differs(struct sweep *s, const char *name)
{
	struct span first = sweep_value(&s->job[0], name, &s->arena);
	for (size_t i = 1; i < s->n; i++) {
		struct span other = sweep_value(&s->job[i], name, &s->arena);
		if (!first.p != !other.p || !span_eq(first, other))
			return true;
	}
	return false;
}

/* The parameters that differ, in the order of the configurations; returns how many there are. */
static size_t sweep_parameters(struct sweep *s, const char *names[static PARAMETERS_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++) {
		struct scan walk = scan_begin(s->job[i].parameters);
		for (struct span key, value; scan_member(&walk, &key, &value);) {
			const char *name = arena_dup(&s->arena, key);
			bool known = false;
			for (size_t k = 0; k < i && !known; k++)
				known = scan_get(s->job[k].parameters, name).p;
			if (known || !sweep_differs(s, name))
				continue;
			if (n < PARAMETERS_MAX)
				names[n] = name;
			n++;
		}
	}
	return n;
}

/* Numbers, then nan, then none. */
static int sweep_rank(const struct sweep_job *j, double *value)
{
	*value = j->metric.p ? strtod(j->metric.p, NULL) : 0; /* ends in NUL */
	return !j->metric.p ? 2 : isnan(*value) ? 1 : 0;
}

static int sweep_compare(const void *a, const void *b)
{
	double x;
	double y;
	int order = sweep_rank(a, &x) - sweep_rank(b, &y);
	if (order || x < y || x > y)
		return order ? order : x < y ? -1 : 1;
	const struct sweep_job *j = a;
	const struct sweep_job *k = b;
	return j->row.p < k->row.p ? -1 : 1; /* the order of the list */
}

/* Returns true if the jobs are of several users. */
static bool sweep_of_several(const struct sweep *s)
{
	for (size_t i = 1; i < s->n; i++) {
		size_t n = strcspn(s->job[i].id, "~") + 1;
		if (strncmp(s->job[i].id, s->job[0].id, n) != 0)
			return true;
	}
	return false;
}

static int64_t sweep_ran_ms(const struct sweep_job *j, int64_t now_ms)
{
	int64_t begin;
	int64_t end = now_ms;
	if (!scan_int(scan_get(j->row, "launchedTime"), 1, INT64_MAX, &begin))
		return -1;
	(void)scan_int(scan_get(j->row, "completedTime"), 1, INT64_MAX, &end); /* else now */
	return end < begin ? 0 : end - begin;
}

static void sweep_put_rows(struct sweep *s, struct table *t, const char *const names[], size_t n,
                           bool csv)
{
	int64_t now_ms = clock_wall_ms();
	bool several = sweep_of_several(s);
	for (struct sweep_job *j = s->job; j < s->job + s->n; j++) {
		int64_t ms = sweep_ran_ms(j, now_ms);
		table_cell(t, span_of(several ? j->id : strchr(j->id, '~') + 1));
		for (size_t i = 0; i < n; i++) {
			struct span value = sweep_value(j, names[i], &s->arena);
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

static int sweep_print_table(struct sweep *s, bool csv)
{
	const char *names[PARAMETERS_MAX];
	const char *heads[PARAMETERS_MAX + 4] = { csv ? "name" : "NAME" };
	size_t n = sweep_parameters(s, names);
	size_t shown = n < PARAMETERS_MAX ? n : PARAMETERS_MAX;
	STR_AUTO out = STR_INIT(OUTPUT_MAX);
	struct table t;
	for (size_t i = 0; i < shown; i++)
		heads[i + 1] = visible_line(&s->arena, span_of(names[i]));
	heads[shown + 1] = csv ? "state" : "STATE";
	heads[shown + 2] = csv ? "seconds" : "DURATION";
	heads[shown + 3] = visible_line(&s->arena, span_of(s->remote->o->metric));
	table_begin(&t, heads, shown + 4);
	t.states = !csv && term_colours(STDOUT_FILENO) ? shown + 1 : 0;
	sweep_put_rows(s, &t, names, shown, csv);
	if (csv)
		table_csv(&out, &t);
	else
		table_write(&out, &t, output_columns());
	table_done(&t);
	if (n > shown)
		(void)fprintf(stderr, "rest-lit: %zu more parameters differ; -o json has all\n",
		              n - shown);
	return remote_print(str_view(&out));
}

/* The rows of the server, with the members `parameters` and `metric`. */
static int sweep_print_json(const struct sweep *s)
{
	STR_AUTO out = STR_INIT(OUTPUT_MAX);
	str_char(&out, '[');
	for (const struct sweep_job *j = s->job; j < s->job + s->n; j++) {
		str_puts(&out, j > s->job ? "," : "");
		str_span(&out, span_to(j->row, j->row.n - 1)); /* without its last bracket */
		json_put_raw(&out, "parameters", j->parameters.n ? j->parameters : SPAN("{}"));
		bool number = j->metric.p && scan_valid(j->metric, 1);
		if (number || !j->metric.p)
			json_put_raw(&out, "metric", number ? j->metric : SPAN("null"));
		else
			json_put_text(&out, "metric", j->metric);
		str_char(&out, '}');
	}
	str_puts(&out, "]\n");
	return remote_print(str_view(&out));
}

int sweep_print(struct remote *r, struct span rows, struct err *e)
{
	const struct options *o = r->o;
	struct sweep s = { .remote = r, .e = e, .n = scan_count(rows) };
	STR_AUTO line = STR_INIT(LINE_MAX);
	s.end_ms = clock_ms() + o->patience_s * SECOND;
	s.job = ARENA_NEW(&s.arena, struct sweep_job, s.n);
	struct scan walk = scan_begin(rows);
	size_t n = 0;
	for (struct span row; scan_item(&walk, &row); n++) {
		struct span user = scan_text(scan_get(row, "username"), &s.arena);
		struct span name = scan_text(scan_get(row, "name"), &s.arena);
		const char *id =
		    arena_printf(&s.arena, "%.*s~%.*s", (int)user.n, user.p, (int)name.n, name.p);
		s.job[n] = (struct sweep_job){
			.of = &s, .row = row, .id = id, .path = remote_path(id, "/config", &s.arena)
		};
	}
	int code = sweep_ask(&s);
	if (code == 0) {
		if (strcmp(o->sort, o->metric) == 0)
			qsort(s.job, s.n, sizeof(*s.job), sweep_compare);
		code = strcmp(o->output, "json") == 0
		           ? sweep_print_json(&s)
		           : sweep_print_table(&s, strcmp(o->output, "csv") == 0);
		sweep_put_line(&line, rows, clock_wall_ms());
		bool table = !o->output[0] || strcmp(o->output, "table") == 0;
		(void)fprintf(stderr, "%s", table ? str_c(&line) : "");
	}
	arena_done(&s.arena);
	return code;
}
