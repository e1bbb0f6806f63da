/* Reads a job in full, and writes it as a line, as a block with bars, or as a verdict. */
#include "server/cli/cli_internal.h"

#include <time.h>

#include "base/json/scan.h"
#include "base/time.h"

enum {
	FIELD_MAX = 64 * 1024,
	FIELD_LINES = 20,
	LINE_MAX = 1024, /* bytes of a line in a field */
	BAR_MIN = 8,
	BAR_MAX = 32,
	NAME_COLUMNS = 24,
	SECOND = 1000,
	MINUTE = 60,
	HOUR = 3600,
	DAY = 86400,
	SHOWN_FOLLOWERS = 8
};

/* Words for states, in order of display; `sign` is a task in a bar. */
static const struct shown_state {
	enum job_state state;
	char sign;
	const char *word;
} SHOWN[] = {
	{ JOB_SUCCEEDED, '#', "succeeded" }, { JOB_RUNNING, '=', "running" },
	{ JOB_FAILED, 'x', "failed" },       { JOB_STOPPED, 'o', "stopped" },
	{ JOB_STOPPING, '-', "stopping" },   { JOB_WAITING, '.', "waiting" },
	{ JOB_UNKNOWN, '?', "unknown" },
};

enum { N_SHOWN = ARRAY_SIZE(SHOWN) };

/* The keys of the task whose end the controller names, in jobStatus; of a task in firstFailure. */
static const char *const TRIGGER[2] = { "appExitTriggerTaskRoleName", "appExitTriggerTaskIndex" };
static const char *const FAILED[2] = { "taskRole", "taskIndex" };

/* ---- reading --------------------------------------------------------------------------------- */

static enum job_state progress_state_of(struct span value, struct arena *a)
{
	enum job_state s = job_state_named(scan_text(value, a));
	return s == JOB_STATE_MAX ? JOB_UNKNOWN : s;
}

static int64_t progress_time_of(struct span status, const char *key)
{
	int64_t ms = 0;
	(void)scan_int(scan_get(status, key), 0, INT64_MAX, &ms); /* else 0 */
	return ms;
}

const char *progress_task(struct span object, const char *const keys[2], struct arena *a)
{
	struct span role = scan_text(scan_get(object, keys[0]), a);
	int64_t index;
	if (!role.n || !scan_int(scan_get(object, keys[1]), 0, INT32_MAX, &index))
		return arena_dup(a, role);
	return arena_printf(a, "%.*s[%lld]", (int)role.n, role.p, (long long)index);
}

/* "worker[0]: FailedScheduling: 0/3 nodes are available" */
static const char *waiting_text(struct span why, struct arena *a)
{
	static const char *const TASK[] = { "taskRoleName", "taskIndex" };
	STR_AUTO out = STR_INIT(FIELD_MAX);
	str_puts(&out, progress_task(why, TASK, a));
	static const char *const KEYS[] = { "reason", "message" };
	/* A reason that is about the machine only says that the job waits. */
	bool here = span_is(scan_text(scan_get(why, "kind"), a), "machine");
	for (size_t i = here; i < ARRAY_SIZE(KEYS); i++) {
		struct span text = scan_text(scan_get(why, KEYS[i]), a);
		str_puts(&out, out.n && text.n ? ": " : "");
		str_span(&out, text);
	}
	return visible_line(a, str_view(&out));
}

enum job_state progress_task_state(struct span task, struct arena *a)
{
	enum job_state state = progress_state_of(scan_get(task, "taskState"), a);
	if (state != JOB_RUNNING)
		return state;
	/* While FrameworkController retries a rejected pod, the task is RUNNING; so it is, with an
	 * exit code, while its node removes the pod. */
	bool ends = scan_type(scan_get(task, "containerExitCode")) == SCAN_NUMBER;
	bool none = scan_type(scan_get(task, "containerId")) == SCAN_NULL;
	return ends ? JOB_STOPPING : none ? JOB_WAITING : JOB_RUNNING;
}

static void progress_read_roles(struct progress *p, struct span roles, struct arena *a)
{
	struct scan walk = scan_begin(roles);
	p->role = ARENA_NEW(a, struct role_progress, scan_count(roles));
	for (struct span name, value; scan_member(&walk, &name, &value);) {
		struct role_progress *role = &p->role[p->n_roles++];
		struct scan tasks = scan_begin(scan_get(value, "taskStatuses"));
		role->name = visible_line(a, name);
		(void)scan_int(scan_path(value, "taskRoleStatus", "gpuNumber"), 0, INT32_MAX,
		               &role->gpus); /* else 0 */
		for (struct span task; scan_item(&tasks, &task); role->tasks++)
			role->in[progress_task_state(task, a)]++;
	}
}

struct task_walk progress_tasks(struct span detail)
{
	return (struct task_walk){ .roles = scan_begin(scan_get(detail, "taskRoles")),
		                   .tasks = scan_begin(SPAN("")) };
}

bool progress_next_task(struct task_walk *w)
{
	for (struct span role;;) {
		while (scan_item(&w->tasks, &w->task))
			if (scan_int(scan_get(w->task, "taskIndex"), 0, INT32_MAX, &w->index))
				return true;
		if (!scan_member(&w->roles, &w->role, &role))
			return false;
		w->tasks = scan_begin(scan_get(role, "taskStatuses"));
	}
}

int progress_read(struct progress *p, struct span detail, struct arena *a, struct err *e)
{
	*p = (struct progress){ 0 };
	if (!scan_valid(detail, PROGRESS_DEPTH))
		return err_set(e, UNKNOWN_ERROR, "the answer is not a job: invalid JSON");
	p->status = scan_get(detail, "jobStatus");
	if (scan_type(p->status) != SCAN_OBJECT)
		return err_set(e, UNKNOWN_ERROR, "the answer is not a job: it has no jobStatus");
	p->state = progress_state_of(scan_get(p->status, "state"), a);
	p->stopping = span_is(scan_text(scan_get(p->status, "executionType"), a), "STOP") &&
	              !job_state_final(p->state);
	(void)scan_int(scan_get(p->status, "retries"), 0, INT64_MAX, &p->retries); /* else 0 */
	p->previous = scan_get(p->status, "previousEnd");
	p->submitted_ms = progress_time_of(p->status, "submissionTime");
	p->launched_ms = progress_time_of(p->status, "appLaunchedTime");
	p->completed_ms = progress_time_of(p->status, "completedTime");
	p->waiting = p->stopping ? visible_line(a, scan_text(scan_get(p->status, "stopReason"), a))
	                         : waiting_text(scan_get(p->status, "waitingReason"), a);
	p->failed = progress_task(scan_get(p->status, "firstFailure"), FAILED, a);
	if (!p->failed[0])
		p->failed = progress_task(p->status, TRIGGER, a);
	progress_read_roles(p, scan_get(detail, "taskRoles"), a);
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

void duration_put_short(struct str *out, int64_t ms)
{
	long s = (long)(ms < 0 ? 0 : ms / SECOND);
	if (s < MINUTE)
		str_printf(out, "%lds", s);
	else if (s < HOUR)
		str_printf(out, "%ldm %02lds", s / MINUTE, s % MINUTE);
	else if (s < DAY)
		str_printf(out, "%ldh %02ldm", s / HOUR, s % HOUR / MINUTE);
	else
		str_printf(out, "%ldd %02ldh", s / DAY, s % DAY / HOUR);
}

/* A job that was asked to stop is STOPPING. */
static struct span state_text(const struct progress *p)
{
	return span_of(JOB_STATES[p->stopping ? JOB_STOPPING : p->state]);
}

/* "3/4 running, 1 waiting" */
static void progress_put_counts(struct str *out, const struct role_progress *role)
{
	bool first = true;
	for (size_t i = 0; i < N_SHOWN; i++) {
		unsigned n = role->in[SHOWN[i].state];
		if (n == 0)
			continue;
		str_printf(out, "%s%u", first ? "" : ", ", n);
		if (first)
			str_printf(out, "/%u", role->tasks);
		str_printf(out, " %s", SHOWN[i].word);
		first = false;
	}
}

/* "retry 2 after exit code 137" */
static void progress_put_retries(struct str *out, const struct progress *p)
{
	int64_t code;
	str_printf(out, "retry %lld", (long long)p->retries);
	if (scan_int(scan_get(p->previous, "appExitCode"), INT32_MIN, INT32_MAX, &code))
		str_printf(out, " after exit code %lld", (long long)code);
}

bool progress_put_idle(struct str *out, struct span job, const char *before)
{
	char since[RFC3339_MAX];
	int64_t ms;
	if (!scan_int(scan_get(job, "gpuIdleSince"), 1, INT64_MAX, &ms))
		return false;
	str_printf(out, "%sGPUs idle since %s", before, rfc3339_put(since, ms, 0));
	return true;
}

void progress_line(struct str *out, const struct progress *p)
{
	state_put(out, state_text(p), p->colour);
	if (p->retries) {
		str_puts(out, " (");
		progress_put_retries(out, p);
		str_char(out, ')');
	}
	for (size_t i = 0; i < p->n_roles; i++) {
		str_printf(out, "%s%s ", i ? "; " : "  ", p->role[i].name);
		progress_put_counts(out, &p->role[i]);
	}
	if (p->waiting[0])
		str_printf(out, "  %s", p->waiting);
}

static void progress_put_row(struct str *out, const struct str *row, size_t columns)
{
	str_span(out, visible_cut(str_view(row), columns));
	str_char(out, '\n');
}

static void progress_put_bar(struct str *out, const struct role_progress *role, size_t width)
{
	size_t done = 0;
	uint64_t tasks = 0;
	str_char(out, '[');
	for (size_t i = 0; i < N_SHOWN && role->tasks; i++) {
		tasks += role->in[SHOWN[i].state];
		for (; done < tasks * width / role->tasks; done++)
			str_char(out, SHOWN[i].sign);
	}
	for (; done < width; done++)
		str_char(out, ' ');
	str_puts(out, "] ");
}

/* The width of a column of names, which has `most` so far. */
static size_t name_columns(size_t most, const char *name)
{
	size_t n = visible_width(span_of(name));
	n = n < NAME_COLUMNS ? n : NAME_COLUMNS;
	return n > most ? n : most;
}

static void progress_put_name(struct str *row, const char *text, size_t width)
{
	struct span name = visible_cut(span_of(text), width);
	str_printf(row, "  %.*s%*s", (int)name.n, name.p, (int)(width - visible_width(name) + 2),
	           "");
}

static void progress_put_more(struct str *out, size_t n, const char *what, size_t columns)
{
	STR_AUTO row = STR_INIT(FIELD_MAX);
	str_printf(&row, "  and %zu more %s", n, what);
	progress_put_row(out, &row, columns);
}

static void progress_put_role(struct str *out, const struct role_progress *role, size_t name_width,
                              size_t columns)
{
	STR_AUTO row = STR_INIT(FIELD_MAX);
	size_t bar = columns / 3;
	bar = bar > BAR_MAX ? BAR_MAX : bar < BAR_MIN ? BAR_MIN : bar;
	progress_put_name(&row, role->name, name_width);
	progress_put_bar(&row, role, bar);
	progress_put_counts(&row, role);
	if (role->gpus)
		str_printf(&row, ", %lld GPU%s%s", (long long)role->gpus, role->gpus > 1 ? "s" : "",
		           role->tasks > 1 ? " each" : "");
	progress_put_row(out, &row, columns);
}

static void progress_put_head(struct str *out, const struct progress *p,
                              const struct progress_frame *f)
{
	STR_AUTO row = STR_INIT(FIELD_MAX);
	str_printf(&row, "%s  ", f->job);
	size_t state = row.n;
	str_span(&row, state_text(p));
	size_t end = row.n;
	if (p->submitted_ms) {
		str_puts(&row, "  ");
		duration_put_short(&row, (p->completed_ms ?: f->now_ms) - p->submitted_ms);
	}
	if (p->retries) {
		str_puts(&row, "  ");
		progress_put_retries(&row, p);
	}
	struct span cut = visible_cut(str_view(&row), f->columns);
	bool colour = p->colour && cut.n >= end;
	str_span(out, span_to(cut, colour ? state : cut.n));
	if (colour) {
		state_put(out, state_text(p), true);
		str_span(out, span_from(cut, end));
	}
	str_char(out, '\n');
}

/* Appends as many tasks as fit, those that run first, then the number of further tasks. */
static void progress_put_tasks(struct str *out, const struct progress_frame *f, size_t room)
{
	size_t n = f->n_tasks <= room ? f->n_tasks : room ? room - 1 : 0;
	size_t width = 1;
	size_t put = 0;
	for (size_t i = 0; i < f->n_tasks; i++)
		width = name_columns(width, f->task[i].name);
	for (int running = 1; running >= 0; running--) {
		for (size_t i = 0; i < f->n_tasks && put < n; i++) {
			if (f->task[i].running != running)
				continue;
			STR_AUTO row = STR_INIT(FIELD_MAX);
			progress_put_name(&row, f->task[i].name, width);
			for (const char *p = f->task[i].line; *p; p++)
				str_char(&row, (char)(*p == '\t' ? ' ' : *p));
			progress_put_row(out, &row, f->columns);
			put++;
		}
	}
	if (n < f->n_tasks && room)
		progress_put_more(out, f->n_tasks - n, "tasks", f->columns);
}

void progress_block(struct str *out, const struct progress *p, const struct progress_frame *f)
{
	STR_AUTO why = STR_INIT(FIELD_MAX);
	size_t room = f->rows - 1; /* below the head */
	progress_put_head(out, p, f);
	if (p->waiting[0] && room) {
		str_printf(&why, "  %s", p->waiting);
		room--;
	}
	/* As many roles as fit are shown, then the number of further ones. */
	size_t n = p->n_roles <= room ? p->n_roles : room ? room - 1 : 0;
	size_t width = 1;
	for (size_t i = 0; i < p->n_roles; i++)
		width = name_columns(width, p->role[i].name);
	for (size_t i = 0; i < n; i++)
		progress_put_role(out, &p->role[i], width, f->columns);
	if (n < p->n_roles && room)
		progress_put_more(out, p->n_roles - n, "task roles", f->columns);
	progress_put_tasks(out, f, room > p->n_roles ? room - p->n_roles : 0);
	if (why.n)
		progress_put_row(out, &why, f->columns);
}

/* ---- result ---------------------------------------------------------------------------------- */

/* "  reason:   text"; further lines are below. */
static void verdict_put_field(struct str *out, const char *name, struct span text)
{
	size_t lines = 0;
	while (text.n && lines < FIELD_LINES) {
		struct span line = span_next(&text, '\n');
		line.n -= line.n && line.p[line.n - 1] == '\r';
		if (!span_trim(line).n)
			continue;
		str_printf(out, "  %-9s ", lines++ ? "" : name);
		visible_text(out, span_to(line, line.n < LINE_MAX ? line.n : LINE_MAX));
		str_puts(out, line.n > LINE_MAX ? " ...\n" : "\n");
	}
	if (lines == FIELD_LINES)
		str_printf(out, "  %-9s ...\n", "");
}

/* "exit code 137 (ContainerSigKilled) of worker[0]" */
static void verdict_put_code(struct str *out, struct span status, struct arena *a)
{
	int64_t code;
	if (!scan_int(scan_get(status, "appExitCode"), INT32_MIN, INT32_MAX, &code))
		return;
	str_printf(out, ", exit code %lld", (long long)code);
	const char *phrase =
	    visible_line(a, scan_text(scan_path(status, "appExitSpec", "phrase"), a));
	if (phrase[0])
		str_printf(out, " (%s)", phrase);
	const char *task = visible_line(a, span_of(progress_task(status, TRIGGER, a)));
	if (task[0])
		str_printf(out, " of %s", task);
	struct span runtime = scan_path(status, "appExitMessages", "runtime");
	int64_t own = code;
	(void)scan_int(scan_get(runtime, "originUserExitCode"), INT32_MIN, INT32_MAX, &own);
	if (own != code) /* pai-runtime has explained it by another code */
		str_printf(out, "; the command ended with %lld", (long long)own);
}

/* " (rank 5, 12:03:04.120)" */
static void verdict_put_rank_and_time(struct str *out, struct span first)
{
	char clock[sizeof("00:00:00")];
	STR_AUTO text = STR_INIT(FIELD_MAX);
	struct tm tm;
	int64_t rank;
	int64_t ms;
	if (scan_int(scan_get(first, "rank"), 0, INT32_MAX, &rank))
		str_printf(&text, "rank %lld", (long long)rank);
	bool timed = scan_int(scan_get(first, "time"), 0, INT64_MAX, &ms);
	time_t s = timed ? (time_t)(ms / SECOND) : 0;
	if (timed && localtime_r(&s, &tm) && strftime(clock, sizeof(clock), "%H:%M:%S", &tm)) {
		str_printf(&text, "%s%s", text.n ? ", " : "", clock);
		if (ms % SECOND)
			str_printf(&text, ".%03d", (int)(ms % SECOND));
	}
	if (text.n)
		str_printf(out, " (%s)", str_c(&text));
}

/* "worker[0], worker[1] and 3 more only followed (lost its peer)" */
static void verdict_put_followers(struct str *out, struct span first, struct arena *a)
{
	STR_AUTO causes = STR_INIT(FIELD_MAX);
	struct scan walk = scan_begin(scan_get(first, "followers"));
	int64_t all = 0;
	int64_t n = 0;
	(void)scan_int(scan_get(first, "followersCount"), 0, INT32_MAX, &all); /* else 0 */
	for (struct span f; scan_item(&walk, &f); n++) {
		struct span cause = scan_text(scan_get(f, "cause"), a);
		if (n < SHOWN_FOLLOWERS)
			str_printf(out, "%s%s", n ? ", " : "", progress_task(f, FAILED, a));
		if (span_find(str_view(&causes), 0, arena_dup(a, cause)) == SIZE_MAX) {
			str_puts(&causes, causes.n ? "; " : "");
			str_span(&causes, cause);
		}
	}
	if (!n)
		return;
	n = n < SHOWN_FOLLOWERS ? n : SHOWN_FOLLOWERS;
	if (all > n)
		str_printf(out, " and %lld more", (long long)(all - n));
	str_printf(out, " only followed (%s)\n", str_c(&causes));
}

/* Tells which of several tasks failed first, and which only followed. */
static void verdict_put_first(struct str *out, const struct progress *p, struct span first,
                              struct arena *a)
{
	STR_AUTO text = STR_INIT(FIELD_MAX);
	struct span cause = scan_text(scan_get(first, "cause"), a);
	uint64_t tasks = 0;
	for (size_t i = 0; i < p->n_roles; i++)
		tasks += p->role[i].tasks;
	if (tasks < 2 || scan_type(first) != SCAN_OBJECT)
		return;
	str_printf(&text, "%s failed first", progress_task(first, FAILED, a));
	verdict_put_rank_and_time(&text, first);
	str_printf(&text, ": %.*s\n", (int)cause.n, cause.p);
	verdict_put_followers(&text, first, a);
	verdict_put_field(out, "first:", str_view(&text));
}

/* Appends further facts: the last lines of the log in the report of pai-runtime, else the
 * diagnostics before that report, which is for programs. */
static void verdict_put_details(struct str *out, struct span details, struct span runtime,
                                struct arena *a)
{
	struct span log = scan_text(scan_path(runtime, "errorLogs", "user"), a);
	if (!span_trim(log).n)
		log = scan_text(scan_path(runtime, "errorLogs", "platform"), a);
	log = span_trim(log);
	size_t lines = 0;
	for (size_t i = log.n; i > 0; i--) {
		lines += log.p[i - 1] == '\n';
		if (lines == FIELD_LINES - 1) {
			log = span_from(log, i);
			break;
		}
	}
	size_t report = span_find(details, 0, "[PAI_RUNTIME_ERROR_START]");
	details = span_to(details, report < details.n ? report : details.n);
	verdict_put_field(out, log.n ? "lines:" : "details:", log.n ? log : details);
}

static void verdict_put_reason(struct str *out, const struct progress *p, struct arena *a)
{
	struct span status = p->status;
	struct span first = scan_get(status, "firstFailure");
	struct span spec = scan_get(first, "exitSpec");
	struct span runtime = scan_path(status, "appExitMessages", "runtime");
	if (scan_type(spec) != SCAN_OBJECT)
		spec = scan_get(status, "appExitSpec");
	verdict_put_first(out, p, first, a);
	verdict_put_field(out, "reason:", scan_text(scan_get(spec, "reason"), a));
	verdict_put_field(out, "", scan_text(scan_get(runtime, "reason"), a));
	verdict_put_field(out, "", scan_text(scan_get(runtime, "failedLine"), a));
	const char *name = "solution:";
	struct scan solutions = scan_begin(scan_get(spec, "solution"));
	for (struct span s; scan_item(&solutions, &s); name = "")
		verdict_put_field(out, name, scan_text(s, a));
	verdict_put_field(out, "", scan_text(scan_get(runtime, "solution"), a));
	if (p->brief)
		return;
	/* The last lines of the first task that failed. */
	STR_AUTO text = STR_INIT(FIELD_MAX);
	struct scan lines = scan_begin(scan_get(first, "lines"));
	for (struct span line; scan_item(&lines, &line);) {
		str_span(&text, scan_text(line, a));
		str_char(&text, '\n');
	}
	verdict_put_field(out, "lines:", str_view(&text));
	if (!span_trim(str_view(&text)).n)
		verdict_put_details(out, scan_text(scan_get(status, "appExitDiagnostics"), a),
		                    runtime, a);
}

/* Tells how many tries have ended, and how the last of them did: of a job that waits for the next
 * one with its reason and its lines. */
static void verdict_put_tries(struct str *out, const struct progress *p, struct arena *a)
{
	struct span last = p->previous;
	STR_AUTO text = STR_INIT(FIELD_MAX);
	int64_t code;
	int64_t alike = 0;
	if (!p->retries)
		return;
	str_printf(&text, "%lld %s ended", (long long)p->retries, p->retries > 1 ? "have" : "has");
	if (scan_int(scan_get(last, "appExitCode"), INT32_MIN, INT32_MAX, &code)) {
		struct span phrase = scan_text(scan_path(last, "appExitSpec", "phrase"), a);
		str_printf(&text, ", the last with exit code %lld (%.*s)", (long long)code,
		           (int)phrase.n, phrase.p);
	}
	(void)scan_int(scan_get(last, "alike"), 0, INT32_MAX, &alike); /* else 0 */
	if (alike > 1)
		str_printf(&text, "; the last %lld ended alike", (long long)alike);
	verdict_put_field(out, "tries:", str_view(&text));
	if (p->state != JOB_WAITING || scan_type(last) != SCAN_OBJECT)
		return;
	verdict_put_field(out, "reason:", scan_text(scan_path(last, "appExitSpec", "reason"), a));
	verdict_put_details(out, scan_text(scan_get(last, "appExitDiagnostics"), a),
	                    scan_path(last, "appExitMessages", "runtime"), a);
}

void progress_verdict(struct str *out, const struct progress *p, const char *job)
{
	ARENA_AUTO arena = { 0 };
	str_printf(out, "%s ", job);
	state_put(out, state_text(p), p->colour);
	if (!job_state_final(p->state)) {
		str_char(out, '\n');
		verdict_put_tries(out, p, &arena);
		return;
	}
	int64_t begin_ms = p->launched_ms ?: p->submitted_ms; /* as DURATION of `jobs` */
	if (begin_ms && p->completed_ms) {
		str_puts(out, " after ");
		duration_put_short(out, p->completed_ms - begin_ms);
	}
	if (p->retries)
		str_printf(out, ", %lld retries", (long long)p->retries);
	if (p->state != JOB_SUCCEEDED)
		verdict_put_code(out, p->status, &arena);
	str_char(out, '\n');
	if (p->state == JOB_FAILED) {
		verdict_put_tries(out, p, &arena);
		verdict_put_reason(out, p, &arena);
	}
	if (p->state == JOB_STOPPED)
		verdict_put_field(out,
		                  "reason:", scan_text(scan_get(p->status, "stopReason"), &arena));
}
