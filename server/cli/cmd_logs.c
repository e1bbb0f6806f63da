/* rest-lit logs [-f] JOB [TASK]: the output of tasks. */
#include "base/json/scan.h"
#include "server/cli/cli_internal.h"

enum { DEPTH = 64, LIST_MAX = 4096 };

/* The tasks that are named, and their roles. */
struct named {
	size_t tasks, roles;
};

static struct named logs_count(struct span roles, const char *task)
{
	struct named found = { 0 };
	struct scan walk = scan_begin(roles);
	for (struct span name, role; scan_member(&walk, &name, &role);) {
		size_t before = found.tasks;
		struct scan items = scan_begin(scan_get(role, "taskStatuses"));
		int64_t index;
		for (struct span one; scan_item(&items, &one);)
			found.tasks += scan_int(scan_get(one, "taskIndex"), 0, INT32_MAX, &index) &&
			               (!task || log_task_named(task, name, index));
		found.roles += found.tasks > before;
	}
	return found;
}

/* "worker[0] to worker[3], ps[0]" */
static void logs_list_tasks(struct str *out, struct span roles)
{
	struct scan walk = scan_begin(roles);
	for (struct span name, role; scan_member(&walk, &name, &role);) {
		size_t n = scan_count(scan_get(role, "taskStatuses"));
		if (n == 0)
			continue;
		str_puts(out, out->n ? ", " : "");
		visible_text(out, name);
		str_puts(out, "[0]");
		if (n == 1)
			continue;
		str_puts(out, n > 2 ? " to " : ", ");
		visible_text(out, name);
		str_printf(out, "[%zu]", n - 1);
	}
}

/* The tasks of TASK, all of one role; without TASK, all tasks. */
static int logs_choose(struct span roles, const char *task, struct log_wanted *wanted,
                       struct err *e)
{
	struct named found = logs_count(roles, task);
	wanted->alone = found.tasks == 1;
	if (found.tasks && (!task || found.roles == 1))
		return 0;
	STR_AUTO tasks = STR_INIT(LIST_MAX);
	STR_AUTO shown = STR_INIT(LIST_MAX);
	logs_list_tasks(&tasks, roles);
	if (tasks.n == 0)
		return err_set(e, 404, NULL, "the job has no tasks yet; -f waits for them");
	visible_text(&shown, span_of(task));
	return err_set(e, 404, NULL,
	               found.tasks ? "%s could be a task of several roles; the tasks are %s"
	                           : "there is no task %s; the tasks are %s",
	               str_c(&shown), str_c(&tasks));
}

static int print_logs(struct remote *r, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	struct log_wanted wanted = { .once = !r->o->follow };
	const char *job = remote_job(r, r->o->files[0], &arena, e);
	if (!job || remote_get_job(r, job, "", &reply, e) < 0)
		return -1;
	wanted.task = r->o->n_files > 1 ? r->o->files[1] : NULL;
	struct span detail = str_view(&reply.body);
	if (!scan_valid(detail, DEPTH))
		return err_set(e, UNKNOWN_ERROR, "%s: the answer is not a job", r->o->server);
	/* Tasks that do not exist yet can be waited for. */
	struct span roles = scan_get(detail, "taskRoles");
	bool later = r->o->follow && logs_count(roles, NULL).tasks == 0;
	if (!later && logs_choose(roles, wanted.task, &wanted, e) < 0)
		return -1;
	return r->o->follow ? wait_for_job(r, job, &wanted, true)
	                    : wait_for_logs(r, detail, &wanted);
}

int cmd_logs(const struct command *c, int argc, char **argv)
{
	return remote_job_command(c, argc, argv, 1, print_logs);
}
