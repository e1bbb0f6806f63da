/* rest-lit events JOB: the reports of the cluster about the tasks of a job, the last one below. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "server/cli/cli_internal.h"

static const char *const HEADS[] = { "AGE", "TYPE", "TASK", "REASON", "COUNT", "MESSAGE" };
enum { N_HEADS = ARRAY_SIZE(HEADS) };

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
	table_begin(&t, HEADS, N_HEADS);
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
