/* rest-lit show JOB: state of a job and its tasks, and why it waits or has failed. */
#include "base/json/scan.h"
#include "server/cli/cli_internal.h"

enum { LIMIT = 256 << 20 };

static const char *const HEADS[] = { "TASK", "STATE", "NODE", "ADDRESS", "RETRIES", "EXIT" };
enum { N_HEADS = sizeof(HEADS) / sizeof(HEADS[0]), NAME_LIMIT = 1024 };

static void show_put_task(struct table *t, struct span role, struct span task)
{
	ARENA_AUTO a = { 0 };
	int64_t index = 0;
	STR_AUTO name = STR_INIT(NAME_LIMIT);
	(void)scan_int(scan_get(task, "taskIndex"), 0, INT32_MAX, &index); /* else 0 */
	str_span(&name, role);
	str_printf(&name, "[%lld]", (long long)index);
	table_cell(t, str_view(&name));
	table_cell(t, scan_text(scan_get(task, "taskState"), &a));
	table_cell(t, scan_text(scan_get(task, "containerNodeName"), &a));
	table_cell(t, scan_text(scan_get(task, "containerIp"), &a));
	table_number(t, scan_get(task, "retries"));
	table_number(t, scan_get(task, "containerExitCode"));
}

static void put_tasks(struct str *out, struct span roles)
{
	struct table t;
	struct scan walk = scan_begin(roles);
	table_begin(&t, HEADS, N_HEADS);
	for (struct span name, role; scan_member(&walk, &name, &role);) {
		struct scan tasks = scan_begin(scan_get(role, "taskStatuses"));
		for (struct span task; scan_item(&tasks, &task);)
			show_put_task(&t, name, task);
	}
	if (t.n > N_HEADS)
		table_write(out, &t, SIZE_MAX);
	table_done(&t);
}

static int print(struct span detail, const char *job, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	struct progress p;
	STR_AUTO out = STR_INIT(LIMIT);
	if (progress_read(&p, detail, &arena, e) < 0)
		return -1;
	progress_verdict(&out, &p, job);
	if (p.waiting[0])
		str_printf(&out, "  waiting:  %s\n", p.waiting);
	put_tasks(&out, scan_get(detail, "taskRoles"));
	return remote_print(str_view(&out));
}

static int show_job(struct remote *r, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	const char *job = remote_job(r, r->o->files[0], &arena, e);
	if (!job || remote_get_job(r, job, "", &reply, e) < 0)
		return -1;
	struct span body = str_view(&reply.body);
	return strcmp(r->o->output, "json") == 0 ? remote_print(body) : print(body, job, e);
}

int cmd_show(const struct command *c, int argc, char **argv)
{
	return remote_job_command(c, argc, argv, 0, show_job);
}
