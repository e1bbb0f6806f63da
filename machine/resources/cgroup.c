/* Makes groups of cgroup v2 with the limits of tasks, and kills and removes them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "machine/resources/resources.h"

static const char OWN_LEAF[] = "rest-lit-server";
enum { CGROUP_TEXT = 4096 };

static bool cgroup_get(const char *dir, const char *file, char text[static CGROUP_TEXT])
{
	FREE_AUTO char *path = xasprintf("%s/%s", dir, file);
	return fd_read_at(AT_FDCWD, path, text, CGROUP_TEXT) >= 0;
}

/* 0 or an errno.  Files of cgroups exist already. */
static int cgroup_put(const char *dir, const char *file, const char *text)
{
	FREE_AUTO char *path = xasprintf("%s/%s", dir, file);
	FD_AUTO fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_TRUNC);
	return fd < 0 || fd_write_all(fd, span_of(text)) != 0 ? errno : 0;
}

/* The directory of this process's group: `0::/path` of /proc/self/cgroup.  NULL if there is none,
 * or it is outside of this process's namespace. */
static char *cgroup_own(const char *root)
{
	char text[CGROUP_TEXT];
	FREE_AUTO char *self = xasprintf("%s/proc/self", root);
	(void)cgroup_get(self, "cgroup", text); /* else it is empty */
	struct span line = { "", 0 };
	for (struct span rest = span_of(text); rest.n && !span_starts(line, "0::/");)
		line = span_next(&rest, '\n');
	if (!span_starts(line, "0::/") || span_find(line, 0, "/..") != SIZE_MAX)
		return NULL;
	line = span_from(line, line.n == 4 ? 4 : 3);
	FREE_AUTO char *dir = xasprintf("%s/sys/fs/cgroup%.*s", root, (int)line.n, line.p);
	return cgroup_get(dir, "cgroup.controllers", text) ? TAKE(dir) : NULL;
}

static void cgroup_least(int64_t *least, double n)
{
	if (n > 0 && n < (double)*least)
		*least = (int64_t)n;
}

void cgroup_limit(const char *root, struct amounts *most)
{
	char text[CGROUP_TEXT];
	FREE_AUTO char *dir = cgroup_own(root);
	size_t top = strlen(root) + strlen("/sys/fs/cgroup");
	while (dir && strlen(dir) >= top) {
		/* "max 100000": strtod reads no number and gives 0. */
		if (cgroup_get(dir, "cpu.max", text)) {
			char *end = NULL;
			double quota = strtod(text, &end);
			double period = strtod(end, NULL);
			cgroup_least(&most->cpus, period > 0 ? 1000 * quota / period : 0);
		}
		if (cgroup_get(dir, "memory.max", text))
			cgroup_least(&most->memory, strtod(text, NULL));
		*strrchr(dir, '/') = '\0';
	}
}

/* ---- the group of the tasks -------------------------------------------------------- */

/* Moves this process into its leaf, then lets the group limit its children.  0 or an errno. */
static int cgroup_enter(const char *group)
{
	FREE_AUTO char *leaf = xasprintf("%s/%s", group, OWN_LEAF);
	if (mkdir(leaf, 0755) != 0 && errno != EEXIST)
		return errno;
	int fault = cgroup_put(leaf, "cgroup.procs", "0");
	fault = fault ?: cgroup_put(group, "cgroup.subtree_control", "+memory");
	if (fault)
		(void)cgroup_put(group, "cgroup.procs", "0");
	else
		(void)cgroup_put(group, "cgroup.subtree_control", "+cpu"); /* if it is there */
	return fault;
}

char *cgroup_open(const char *root, struct str *why)
{
	char text[CGROUP_TEXT] = "";
	FREE_AUTO char *group = cgroup_own(root);
	char *name = group ? strrchr(group, '/') : NULL;
	bool memory = false;
	if (name && strcmp(name + 1, OWN_LEAF) == 0) /* after a restart by exec */
		*name = '\0';
	if (group)
		(void)cgroup_get(group, "cgroup.controllers", text); /* else it is empty */
	for (struct span list = span_trim(span_of(text)); list.n && !memory;)
		memory = span_is(span_next(&list, ' '), "memory");
	int fault = memory ? cgroup_enter(group) : ENOENT;
	if (!fault)
		return TAKE(group);
	str_puts(why, "limits of memory and CPUs are not enforced: ");
	if (!group)
		str_puts(why, "this system has no cgroup v2 that can be seen here");
	else
		str_printf(why, "the cgroup %s %s", group,
		           !memory          ? "has no memory controller"
		           : fault == EBUSY ? "cannot be used (other processes are in it)"
		                            : "is not delegated to this user (a systemd unit needs "
		                              "Delegate=yes)");
	return NULL;
}

/* ---- tasks ------------------------------------------------------------------------- */

/* n 0: no limit.  Only the controller of memory need be there. */
static int cgroup_put_limit(const char *dir, const char *file, int64_t n, const char *after,
                            struct err *e)
{
	FREE_AUTO char *text = n ? xasprintf("%lld%s", (long long)n, after) : xstrdup("max");
	int fault = cgroup_put(dir, file, text);
	if (!fault || (fault == ENOENT && *after))
		return 0;
	return err_set(e, UNKNOWN_ERROR, "writing %s into %s/%s: %s", text, dir, file,
	               strerrordesc_np(fault));
}

int cgroup_make(const char *group, const char *task, const struct amounts *limits, char **dir,
                struct err *e)
{
	FREE_AUTO char *outer = xasprintf("%s/task-%s", group, task);
	FREE_AUTO char *leaf = xasprintf("%s/run", outer);
	if (strchr(task, '/'))
		return err_set(e, UNKNOWN_ERROR, "%s is no name of a cgroup", task);
	if (dir_make_all(leaf, 0755) != 0)
		return err_set(e, UNKNOWN_ERROR, "making the cgroup %s: %s", leaf,
		               strerrordesc_np(errno));
	/* CPUs: microseconds in a tenth of a second. */
	if (cgroup_put_limit(outer, "memory.max", limits->memory, "", e) < 0 ||
	    cgroup_put_limit(outer, "cpu.max", limits->cpus * 100, " 100000", e) < 0)
		return -1;
	/* The limits of Kubernetes: no swap instead of memory, and all processes of a task end
	 * together.  Not every kernel has these files. */
	(void)cgroup_put(outer, "memory.swap.max", limits->memory ? "0" : "max");
	(void)cgroup_put(outer, "memory.oom.group", "1");
	/* A task with namespaces of its own may write the files of its group: of one without
	 * limits, and without groups below it, which would keep this one. */
	(void)cgroup_put(outer, "cgroup.max.descendants", "1");
	*dir = TAKE(leaf);
	return 0;
}

bool cgroup_end(const char *group, const char *task, bool *oom)
{
	static const char KEY[] = "\noom_kill ";
	FREE_AUTO char *outer = xasprintf("%s/task-%s", group, task);
	char text[CGROUP_TEXT];
	(void)cgroup_get(outer, "memory.events", text); /* else it is empty */
	const char *line = strstr(text, KEY);
	*oom = line && strtoll(line + strlen(KEY), NULL, 10) > 0;
	bool killed = cgroup_put(outer, "cgroup.kill", "1") == 0;
	FREE_AUTO char *run = xasprintf("%s/run", outer);
	(void)rmdir(run); /* EBUSY: the kernel still has processes of it */
	(void)rmdir(outer);
	return killed;
}
