/* rest-lit top, usage JOB and report: what jobs use on the machine of a server, what the tasks of
 * one have used, and sums. */
#include <stdio.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/store/paths.h"
#include "server/cli/cli_internal.h"
#include "server/jobs/jobs.h"

enum { OUT_MAX = 16 << 20, PATH_LIMIT = 1024, TEXT_LIMIT = 4096, BAR = 20 };

/* "at most 3.1 of 16.0 GiB" of numbers in MiB, of which the second may be unknown, in the arena; ""
 * if the first is. */
static const char *usage_memory(struct arena *a, struct span mb, struct span of_mb, bool at_most)
{
	static const double GIB_MB = 1024;
	double n = scan_figure(mb);
	double of = scan_figure(of_mb);
	const char *most = at_most ? "at most " : "";
	if (n < 0)
		return "";
	return of < 0 ? arena_printf(a, "%s%.1f GiB", most, n / GIB_MB)
	              : arena_printf(a, "%s%.1f of %.1f GiB", most, n / GIB_MB, of / GIB_MB);
}

static bool usage_at_most(struct span figures)
{
	return span_is(scan_get(figures, "memoryAtMost"), "true");
}

/* "68 %", in the arena; "" if it is unknown. */
static const char *usage_percent(struct arena *a, struct span number)
{
	double n = scan_figure(number);
	return n < 0 ? "" : arena_printf(a, "%.0f %%", n);
}

/* ---- top ------------------------------------------------------------------------------------- */

static void top_put_job(struct table *t, struct span job)
{
	struct arena *a = &t->arena;
	struct span used = scan_get(job, "used");
	struct span gpus = scan_get(job, "gpuIndexes");
	struct span user = scan_text(scan_get(job, "username"), a);
	struct span name = scan_text(scan_get(job, "name"), a);
	double cpus = scan_figure(scan_get(used, "cpus"));
	int64_t since_ms;
	bool idle = scan_int(scan_get(used, "gpuIdleSince"), 1, INT64_MAX, &since_ms);
	const char *const cells[] = {
		arena_printf(a, "%.*s~%.*s", (int)user.n, user.p, (int)name.n, name.p),
		gpus.n > 2 ? arena_printf(a, "%.*s", (int)gpus.n - 2, gpus.p + 1) : "",
		usage_percent(a, scan_get(used, "busy")),
		usage_memory(a, scan_get(used, "gpuMemoryMB"), SPAN(""), false),
		cpus < 0 ? ""
			 : arena_printf(a, "%.1f of %g", cpus, scan_figure(scan_get(job, "cpus"))),
		usage_memory(a, scan_get(used, "memoryMB"), scan_get(job, "memoryMB"),
		             usage_at_most(used)),
	};
	for (size_t i = 0; i < ARRAY_SIZE(cells); i++)
		table_cell(t, span_of(cells[i]));
	if (idle)
		table_duration(t, clock_wall_ms() - since_ms);
	else
		table_cell(t, SPAN(""));
}

/* With the programs on it that are of no job: "python3 (pid 4711, bob, 12.1 GiB)". */
static void top_put_gpu(struct table *t, struct span gpu)
{
	struct arena *a = &t->arena;
	STR_AUTO text = STR_INIT(TEXT_LIMIT);
	struct scan walk = scan_begin(scan_get(gpu, "outside"));
	table_number(t, gpu, "index");
	table_cell(t, span_of(usage_percent(a, scan_get(gpu, "busy"))));
	table_cell(t, span_of(usage_memory(a, scan_get(gpu, "memoryMB"), scan_get(gpu, "totalMB"),
	                                   false)));
	for (struct span p; scan_item(&walk, &p);) {
		const char *memory = usage_memory(a, scan_get(p, "memoryMB"), SPAN(""), false);
		struct span name = scan_text(scan_get(p, "program"), a);
		struct span user = scan_text(scan_get(p, "user"), a);
		str_printf(&text, "%s%.*s (pid %.0f, %.*s%s%s)", text.n ? ", " : "", (int)name.n,
		           name.p, scan_figure(scan_get(p, "pid")), (int)user.n, user.p,
		           memory[0] ? ", " : "", memory);
	}
	table_cell(t, str_view(&text));
}

static int top_once(struct remote *r, int64_t rows, struct err *e)
{
	static const char *const JOBS[] = { "JOB",  "GPUS",   "BUSY", "GPU MEMORY",
		                            "CPUS", "MEMORY", "IDLE" };
	static const char *const GPUS[] = { "GPU", "BUSY", "MEMORY", "PROGRAM" };
	(void)rows; /* all are shown */
	REPLY_AUTO reply = { 0 };
	STR_AUTO out = STR_INIT(OUT_MAX);
	struct span machine;
	struct table t;
	if (remote_get(r, "/api/v2/machine", &reply, &machine, e) < 0)
		return -1;
	table_begin(&t, JOBS, ARRAY_SIZE(JOBS));
	struct scan walk = scan_begin(scan_get(machine, "running"));
	for (struct span job; scan_item(&walk, &job);)
		if (!r->o->user[0] ||
		    span_is(scan_text(scan_get(job, "username"), &t.arena), r->o->user))
			top_put_job(&t, job);
	table_write(&out, &t, output_columns());
	struct span why = scan_text(scan_get(machine, "gpuFigures"), &t.arena);
	if (why.n)
		str_printf(&out, "\n%s\n", visible_line(&t.arena, why));
	table_done(&t);
	table_begin(&t, GPUS, ARRAY_SIZE(GPUS));
	walk = scan_begin(scan_get(machine, "gpuStates"));
	for (struct span gpu; scan_item(&walk, &gpu);)
		if (scan_count(scan_get(gpu, "outside")) ||
		    scan_type(scan_get(gpu, "job")) != SCAN_STRING)
			top_put_gpu(&t, gpu);
	str_puts(&out, t.n > t.columns ? "\n" : "");
	if (t.n > t.columns)
		table_write(&out, &t, output_columns());
	table_done(&t);
	return remote_print(str_view(&out));
}

static int top_watch(struct remote *r, const void *none, struct err *e)
{
	(void)none;
	return remote_watch(r, r->o->tail, top_once, e);
}

int cmd_top(const struct command *c, struct options *o)
{
	if (o->tail == 0)
		return command_usage(c, "-n: at least 1; without it, until Ctrl-C");
	return remote_run(o, NULL, top_watch, NULL);
}

/* ---- usage ----------------------------------------------------------------------------------- */

/* "    CPUs    [||||                ] 0.8 of 4"; the text is "" if nothing is known. */
static void usage_put_bar(struct str *out, const char *name, double part, double whole,
                          const char *text)
{
	double share = part > 0 && whole > 0 ? part / whole : 0;
	int full = share > 1 ? BAR : (int)(share * BAR + 0.5);
	str_printf(out, "    %-8s[%.*s%*s] %s\n", name, full, "||||||||||||||||||||", BAR - full,
	           "", text[0] ? text : "unknown");
}

static void usage_put_gpu(struct str *out, struct span gpu, struct arena *a)
{
	static const double FULL = 100;
	struct span busy = scan_get(gpu, "busy");
	const char *percent = usage_percent(a, busy);
	const char *memory =
	    usage_memory(a, scan_get(gpu, "memoryMostMB"), scan_get(gpu, "totalMB"), false);
	bool unused = span_is(scan_get(gpu, "used"), "false");
	usage_put_bar(out, arena_printf(a, "GPU %.0f", scan_figure(scan_get(gpu, "index"))),
	              scan_figure(busy), FULL,
	              arena_printf(a, "%s%s%s%s%s", percent, percent[0] ? " busy" : "",
	                           percent[0] && memory[0] ? ", " : "", memory,
	                           unused ? ", never used" : ""));
}

static void usage_put_task(struct str *out, struct span task, struct arena *a)
{
	static const char *const NAMES[] = { "taskRole", "taskIndex" };
	struct span figures = scan_get(task, "figures");
	struct span most = scan_get(figures, "memoryMostMB");
	struct span memory = scan_get(task, "memoryMB");
	double held_s = scan_figure(scan_get(task, "heldSeconds"));
	double asked = scan_figure(scan_get(task, "cpuNumber"));
	double cpu_s = scan_figure(scan_get(figures, "cpuSeconds"));
	double cpus = held_s > 0 && cpu_s >= 0 ? cpu_s / held_s : -1;
	str_printf(out, "  %s, attempt %.0f.%.0f: %s for %.0f s\n", progress_task(task, NAMES, a),
	           scan_figure(scan_get(task, "jobAttempt")),
	           scan_figure(scan_get(task, "taskAttempt")),
	           span_is(scan_get(task, "running"), "true") ? "runs" : "ran", held_s);
	usage_put_bar(out, "CPUs", cpus, asked,
	              cpus < 0 ? "" : arena_printf(a, "%.1f of %g", cpus, asked));
	usage_put_bar(out, "memory", scan_figure(most), scan_figure(memory),
	              usage_memory(a, most, memory, usage_at_most(figures)));
	struct scan walk = scan_begin(scan_get(figures, "gpus"));
	for (struct span gpu; scan_item(&walk, &gpu);)
		usage_put_gpu(out, gpu, a);
}

static int usage_print(struct remote *r, const char *job, struct span usage, struct err *e)
{
	(void)e;
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(OUT_MAX);
	struct span tasks = scan_get(usage, "tasks");
	struct scan walk = scan_begin(tasks);
	double more = scan_figure(scan_get(usage, "tasksTotal")) - (double)scan_count(tasks);
	if (strcmp(r->o->output, "json") == 0)
		return remote_print_json(usage);
	str_printf(&out, "%s%s\n", visible_line(&a, span_of(job)),
	           scan_count(tasks) ? "" : " has had nothing of this machine yet");
	for (struct span task; scan_item(&walk, &task);)
		usage_put_task(&out, task, &a);
	if (more > 0)
		str_printf(&out, "  and %.0f more\n", more);
	walk = scan_begin(scan_get(usage, "notes"));
	for (struct span note; scan_item(&walk, &note);)
		str_printf(&out, "note: %s\n", visible_line(&a, scan_text(note, &a)));
	return remote_print(str_view(&out));
}

int cmd_usage(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, usage_print, "/usage");
}

/* ---- report ---------------------------------------------------------------------------------- */

enum { BY_COLUMNS = 3, WEEK = 2, N_COLUMNS = 9 };
/* Of the answer, and of the table; the first ones are those of --by. */
static const char *const COLUMNS[N_COLUMNS][2] = {
	{ "user", "USER" },          { "virtualCluster", "VC" }, { "week", "WEEK" },
	{ "gpuHours", "GPU HOURS" }, { "gpuIdleHours", "IDLE" }, { "cpuHours", "CPU HOURS" },
	{ "energyWh", "WH" },        { "attempts", "ATTEMPTS" }, { "failed", "FAILED" },
};

static void report_put_cell(struct table *t, struct span value, bool week, bool csv)
{
	enum { DATE_BYTES = sizeof("2026-11-01") - 1 };
	char date[RFC3339_MAX];
	int64_t ms;
	struct span text = scan_text(value, &t->arena);
	/* Programs that read CSV take a text that begins so for a formula. */
	if (csv && text.n && strchr("=+-@\t", text.p[0]) && text.p[0])
		text = span_of(arena_printf(&t->arena, "'%.*s", (int)text.n, text.p));
	if (week && scan_int(value, INT64_MIN, INT64_MAX, &ms))
		text = span_to(span_of(rfc3339_put(date, ms, 0)), DATE_BYTES);
	else if (scan_type(value) == SCAN_NUMBER)
		text = value;
	table_cell(t, text);
}

static int report_print(struct remote *r, struct span report)
{
	STR_AUTO out = STR_INIT(OUT_MAX);
	const char *heads[N_COLUMNS];
	size_t shown[N_COLUMNS];
	size_t n = 0;
	struct span by = span_of(r->o->by[0] ? r->o->by : "user");
	struct table t;
	for (size_t i = 0; i < N_COLUMNS; i++) {
		if (i < BY_COLUMNS && span_find(by, 0, COLUMNS[i][0]) == SIZE_MAX)
			continue;
		heads[n] = COLUMNS[i][!r->o->csv];
		shown[n++] = i;
	}
	table_begin(&t, heads, n);
	struct scan walk = scan_begin(scan_get(report, "rows"));
	for (struct span row; scan_item(&walk, &row);)
		for (size_t i = 0; i < n; i++)
			report_put_cell(&t, scan_get(row, COLUMNS[shown[i]][0]), shown[i] == WEEK,
			                r->o->csv);
	if (r->o->csv)
		table_csv(&out, &t);
	else
		table_write(&out, &t, output_columns());
	table_done(&t);
	if (span_is(scan_get(report, "more"), "true"))
		(void)fputs("rest-lit: there are more rows; ask for less time\n", stderr);
	return remote_print(str_view(&out));
}

static int report_ask(struct remote *r, const void *none, struct err *e)
{
	(void)none;
	ARENA_AUTO a = { 0 };
	REPLY_AUTO reply = { 0 };
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	struct span report;
	const char *since;
	const char *until = "";
	if (remote_time("since", r->o->since, &since, &a, e) < 0 ||
	    (r->o->until[0] && remote_time("until", r->o->until, &until, &a, e) < 0))
		return -1;
	str_printf(&path, "/api/v2/report?since=%s&until=%s&by=", since, until);
	query_encode(&path, span_to(span_of(r->o->by), strnlen(r->o->by, PATH_LIMIT / 4)));
	return remote_get(r, str_c(&path), &reply, &report, e) < 0 ? -1 : report_print(r, report);
}

int cmd_report(const struct command *c, struct options *o)
{
	if (!o->since[0])
		return command_usage(c, "--since: a time is needed, as 30d or 2026-11-01");
	return remote_run(o, NULL, report_ask, NULL);
}
