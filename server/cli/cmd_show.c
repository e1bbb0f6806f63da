/* rest-lit show JOB, and events JOB: the state of a job, and what has happened to it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "server/cli/cli_internal.h"

enum { LIMIT = 256 << 20 };

static const char *const HEADS[] = { "TASK", "STATE", "NODE", "ADDRESS", "RETRIES", "EXIT" };
enum { STATE = 1, N_HEADS = ARRAY_SIZE(HEADS), NAME_LIMIT = 1024 };

static void put_images(struct str *out, struct span detail)
{
	ARENA_AUTO a = { 0 };
	struct scan roles = scan_begin(scan_get(detail, "taskRoles"));
	for (struct span name, role; scan_member(&roles, &name, &role);) {
		struct span image = scan_text(scan_path(role, "taskRoleStatus", "imageUnused"), &a);
		if (!image.n)
			continue;
		str_puts(out, "  image:    ");
		visible_text(out, name);
		str_puts(out, " runs on this machine's files, not in ");
		visible_text(out, image);
		str_char(out, '\n');
	}
}

/* "code: commit abc1234, with changes (sha ...)", for those who may read the configuration. */
static void put_code(struct str *out, struct remote *r, const char *job)
{
	enum { SHOWN = 12 };
	ARENA_AUTO a = { 0 };
	ERR_AUTO ignored = { 0 };
	REPLY_AUTO reply = { 0 };
	struct span config = { "", 0 };
	(void)remote_get(r, remote_path(job, "/config", &a), &reply, &config, &ignored);
	struct span sha = code_of_config(config, &a);
	struct span code = scan_path(config, "extras", "code");
	struct span commit = span_cut(scan_text(scan_get(code, "commit"), &a), SHOWN);
	if (!sha.n)
		return;
	str_puts(out, "  code:     ");
	if (commit.n) {
		str_puts(out, "commit ");
		visible_text(out, commit);
		str_puts(out, span_is(scan_get(code, "changed"), "true") ? ", with changes " : " ");
	}
	str_printf(out, "(sha %.*s)\n", SHOWN, sha.p);
}

/* "node: n1 does not answer since ...": the grace of a pod that is being deleted is long over.  A
 * line for each node, if its tasks follow each other. */
static void put_lost_nodes(struct str *out, struct span detail)
{
	enum { LATE_MS = 30000 };
	ARENA_AUTO a = { 0 };
	struct span before = SPAN("");
	for (struct task_walk w = progress_tasks(detail); progress_next_task(&w);) {
		char date[RFC3339_MAX];
		int64_t due_ms;
		struct span node = scan_text(scan_get(w.task, "containerNodeName"), &a);
		if (!scan_int(scan_get(w.task, "deletionDue"), 0, INT64_MAX - LATE_MS, &due_ms) ||
		    clock_wall_ms() < due_ms + LATE_MS || !node.n || span_eq(node, before))
			continue;
		before = node;
		str_puts(out, "  node:     ");
		visible_text(out, node);
		str_printf(out, " does not answer since %s: the pod of ",
		           rfc3339_put(date, due_ms, 0));
		visible_text(out, w.role);
		str_printf(out, "[%lld] was to be gone then\n", (long long)w.index);
	}
}

/* Retries of the job and of the task; the exit code, in parentheses that of the try before. */
static void show_put_retries(struct table *t, const struct progress *p, struct span task)
{
	STR_AUTO text = STR_INIT(NAME_LIMIT);
	int64_t n = 0;
	(void)scan_int(scan_get(task, "retries"), 0, INT32_MAX, &n); /* else 0 */
	str_int(&text, n + p->retries);
	table_cell(t, str_view(&text));
	if (scan_type(scan_get(task, "containerExitCode")) == SCAN_NUMBER ||
	    !scan_int(scan_get(task, "previousExitCode"), INT32_MIN, INT32_MAX, &n)) {
		table_number(t, task, "containerExitCode");
		return;
	}
	text.n = 0;
	str_printf(&text, "(%lld)", (long long)n);
	table_cell(t, str_view(&text));
}

/* Until when its GPUs may do nothing, and why. */
static void put_keep(struct str *out, struct span status, struct arena *a)
{
	char until[RFC3339_MAX];
	int64_t ms;
	if (!scan_int(scan_get(status, "gpuKeptUntil"), 1, INT64_MAX, &ms))
		return;
	struct span why = scan_text(scan_get(status, "gpuKeepReason"), a);
	str_printf(out, "  kept:     until %s though its GPUs do nothing%s%s\n",
	           rfc3339_put(until, ms, 0), why.n ? ": " : "", visible_line(a, why));
}

static int show_print(struct remote *r, struct span detail, const char *job, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	struct progress p;
	struct table t;
	STR_AUTO out = STR_INIT(LIMIT);
	if (progress_read(&p, detail, &arena, e) < 0)
		return -1;
	p.colour = term_colours(STDOUT_FILENO);
	progress_verdict(&out, &p, job);
	if (p.waiting[0])
		str_printf(&out, "  %s %s\n", p.stopping ? "reason:  " : "waiting: ", p.waiting);
	if (progress_put_idle(&out, p.status, "  idle:     "))
		str_printf(&out, "; allow it with `rest-lit keep %s`\n", job);
	put_keep(&out, p.status, &arena);
	put_lost_nodes(&out, detail);
	put_images(&out, detail);
	put_code(&out, r, job);
	if (span_is(scan_path(detail, "jobStatus", "resultsDeleted"), "true"))
		str_puts(&out,
		         "  results:  deleted, to make room for newer ones (--keep-results)\n");
	table_begin(&t, HEADS, N_HEADS);
	t.states = p.colour ? STATE : 0;
	for (struct task_walk w = progress_tasks(detail); progress_next_task(&w);) {
		STR_AUTO name = STR_INIT(NAME_LIMIT);
		str_span(&name, w.role);
		str_printf(&name, "[%lld]", (long long)w.index);
		table_cell(&t, str_view(&name));
		table_cell(&t, span_of(JOB_STATES[progress_task_state(w.task, &arena)]));
		table_text(&t, w.task, "containerNodeName");
		table_text(&t, w.task, "containerIp");
		show_put_retries(&t, &p, w.task);
	}
	if (t.n > N_HEADS)
		table_write(&out, &t, SIZE_MAX);
	table_done(&t);
	return remote_print(str_view(&out));
}

static int show_job(struct remote *r, const char *job, struct span detail, struct err *e)
{
	return strcmp(r->o->output, "json") == 0 ? remote_print(detail)
	                                         : show_print(r, detail, job, e);
}

int cmd_show(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, show_job, "");
}

static const char *const EVENT_HEADS[] = { "AGE", "TYPE", "TASK", "REASON", "COUNT", "MESSAGE" };
enum { N_EVENT_HEADS = ARRAY_SIZE(EVENT_HEADS) };

/* The server's order is the last one first. */
static int print_events(struct span events, const char *job)
{
	size_t n = scan_count(events);
	if (n == 0) {
		(void)fprintf(stderr, "%s has no events\n", job);
		return EXIT_OK;
	}
	static const char *const TASK[] = { "taskroleName", "taskIndex" };
	struct table t;
	FREE_AUTO struct span *event = xcalloc(n, sizeof(*event));
	struct scan walk = scan_begin(events);
	for (size_t i = n; i > 0 && scan_item(&walk, &event[i - 1]); i--)
		;
	table_begin(&t, EVENT_HEADS, N_EVENT_HEADS);
	for (size_t i = 0; i < n; i++) {
		int64_t ms;
		if (scan_time_ms(scan_get(event[i], "lastTimestamp"), &ms))
			table_duration(&t, clock_wall_ms() - ms);
		else
			table_cell(&t, SPAN(""));
		table_text(&t, event[i], "type");
		table_cell(&t, span_of(progress_task(event[i], TASK, &t.arena)));
		table_text(&t, event[i], "reason");
		table_number(&t, event[i], "count");
		table_text(&t, event[i], "message");
	}
	return table_print(&t);
}

static int list_events(struct remote *r, const char *job, struct span answer, struct err *e)
{
	struct span events = scan_get(answer, "data");
	if (scan_type(events) != SCAN_ARRAY)
		return err_set(e, UNKNOWN_ERROR, "%s: the answer is not a list of events",
		               r->o->server);
	return strcmp(r->o->output, "json") == 0 ? remote_print_json(events)
	                                         : print_events(events, job);
}

int cmd_events(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, list_events, "/events");
}
