/* rest-lit logs [-f] JOB [TASK]: the output of tasks. */
#include "base/json/scan.h"
#include "server/cli/cli_internal.h"

enum { LIST_MAX = 4096 };

/* The tasks that are named, and their roles. */
struct named_tasks {
	size_t tasks, roles;
};

static struct named_tasks logs_count(struct span detail, const char *task)
{
	struct named_tasks found = { 0 };
	const char *role = NULL;
	for (struct task_walk w = progress_tasks(detail); progress_next_task(&w);) {
		if (task && !log_task_named(task, w.role, w.index))
			continue;
		found.tasks++;
		found.roles += w.role.p != role;
		role = w.role.p;
	}
	return found;
}

/* "worker[0] to worker[3], ps[0]" */
static void logs_list_tasks(struct str *out, struct span detail)
{
	struct scan walk = scan_begin(scan_get(detail, "taskRoles"));
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
static int logs_choose(struct span detail, const char *task, struct log_wanted *wanted,
                       struct err *e)
{
	struct named_tasks found = logs_count(detail, task);
	wanted->alone = found.tasks == 1;
	if (found.tasks && (!task || found.roles == 1))
		return 0;
	STR_AUTO tasks = STR_INIT(LIST_MAX);
	STR_AUTO shown = STR_INIT(LIST_MAX);
	logs_list_tasks(&tasks, detail);
	if (!task || tasks.n == 0)
		return err_set(e, 404, NULL, "the job has no tasks yet; -f waits for them");
	visible_text(&shown, span_of(task));
	return err_set(e, 404, NULL,
	               found.tasks ? "%s could be a task of several roles; the tasks are %s"
	                           : "there is no task %s; the tasks are %s",
	               str_c(&shown), str_c(&tasks));
}

static int print_logs(struct remote *r, const char *job, struct span detail, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	struct log_wanted wanted = { .once = !r->o->follow, .tail = r->o->tail + 1 };
	if (r->o->since[0] && remote_time("since", r->o->since, &wanted.since, &arena, e) < 0)
		return -1;
	wanted.task = r->o->n_files > 1 ? r->o->files[1] : NULL;
	/* Tasks that do not exist yet can be waited for. */
	bool later = r->o->follow && logs_count(detail, NULL).tasks == 0;
	if (!later && logs_choose(detail, wanted.task, &wanted, e) < 0)
		return -1;
	return r->o->follow ? wait_for_job(r, job, &wanted, true)
	                    : wait_for_logs(r, job, detail, &wanted);
}

int cmd_logs(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, print_logs, "");
}
