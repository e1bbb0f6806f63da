/* Limits by cgroup v2; see cgroup.h. */
#include "machine/resources/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static const char OWN_LEAF[] = "rest-lit-server";
enum { CPU_PERIOD_US = 100000, CGROUP_TEXT = 4096 };

struct cgroup {
	char *dir;
	bool cpu; /* this controller is there; memory always is */
};

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

/* The directory of this process's group: `0::/path` of /proc/self/cgroup.  NULL if there is none.
 * On systems with both versions, version 2 is mounted at unified/. */
static char *cgroup_own(const char *proc, const char *root, size_t *root_n)
{
	proc = proc ? proc : "/proc";
	root = root ? root : "/sys/fs/cgroup";
	char text[CGROUP_TEXT];
	if (!cgroup_get(proc, "self/cgroup", text))
		return NULL;
	const char *line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
	if (line == NULL)
		return NULL;
	line = strchr(line, '/');
	size_t n = strcspn(line, "\n");
	while (n && line[n - 1] == '/')
		n--;
	FREE_AUTO char *path = xstrndup(line, n);
	if (strstr(path, "/..")) /* outside of this process's namespace */
		return NULL;
	static const char *const PLACES[] = { "", "/unified" };
	for (size_t i = 0; i < 2; i++) {
		FREE_AUTO char *dir = xasprintf("%s%s%s", root, PLACES[i], path);
		if (cgroup_get(dir, "cgroup.controllers", text)) {
			*root_n = strlen(root);
			return TAKE(dir);
		}
	}
	return NULL;
}

static void cgroup_least(int64_t *least, double n)
{
	if (n > 0 && n < 9e18 && (*least < 0 || n < (double)*least))
		*least = (int64_t)n;
}

void cgroup_own_limits(const char *proc, const char *root, int64_t *cpus, int64_t *memory)
{
	*cpus = *memory = -1;
	size_t root_n = 0;
	FREE_AUTO char *dir = cgroup_own(proc, root, &root_n);
	while (dir && strlen(dir) >= root_n) {
		char text[CGROUP_TEXT];
		/* "max 100000": strtod reads no number and gives 0. */
		if (cgroup_get(dir, "cpu.max", text)) {
			char *end = NULL;
			double quota = strtod(text, &end);
			double period = strtod(end, NULL);
			cgroup_least(cpus, period > 0 ? 1000 * quota / period : 0);
		}
		if (cgroup_get(dir, "memory.max", text))
			cgroup_least(memory, strtod(text, NULL));
		*strrchr(dir, '/') = '\0';
	}
}

/* ---- the group of the tasks -------------------------------------------------------- */

/* The name is a word of a list. */
static bool cgroup_has(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = list; (p = strstr(p, name)) != NULL; p += n) {
		bool begins = p == list || p[-1] == ' ';
		if (begins && strchr(" \n", p[n])) /* also the end */
			return true;
	}
	return false;
}

static bool cgroup_writable(const char *dir)
{
	static const char *const NEEDED[] = { ".", "cgroup.procs", "cgroup.subtree_control" };
	for (size_t i = 0; i < ARRAY_SIZE(NEEDED); i++) {
		FREE_AUTO char *path = xasprintf("%s/%s", dir, NEEDED[i]);
		if (access(path, W_OK) != 0)
			return false;
	}
	return true;
}

/* Moves this process into its leaf, then lets the group limit its children.  NULL, else why not;
 * the caller frees it. */
static char *cgroup_enter(const struct cgroup *g)
{
	FREE_AUTO char *leaf = xasprintf("%s/%s", g->dir, OWN_LEAF);
	int fault = mkdir(leaf, 0755) != 0 && errno != EEXIST ? errno : 0;
	fault = fault ? fault : cgroup_put(leaf, "cgroup.procs", "0");
	if (fault == 0) {
		fault = cgroup_put(g->dir, "cgroup.subtree_control",
		                   g->cpu ? "+memory +cpu" : "+memory");
		if (fault)
			(void)cgroup_put(g->dir, "cgroup.procs", "0");
	}
	return fault ? xasprintf("cannot be used (%s)", fault == EBUSY ? "other processes are in it"
	                                                               : strerrordesc_np(fault))
	             : NULL;
}

struct cgroup *cgroup_open(const char *proc, const char *root, struct str *why)
{
	size_t root_n = 0;
	char controllers[CGROUP_TEXT] = "";
	FREE_AUTO char *dir = cgroup_own(proc, root, &root_n);
	if (dir == NULL) {
		str_puts(why, "limits of memory and CPUs are not enforced: this system has no "
		              "cgroup v2 that can be seen here");
		return NULL;
	}
	/* After a restart by exec. */
	char *name = strrchr(dir, '/');
	if (strcmp(name + 1, OWN_LEAF) == 0)
		*name = '\0';
	bool readable = cgroup_get(dir, "cgroup.controllers", controllers);
	struct cgroup g = { dir, cgroup_has(controllers, "cpu") };
	FREE_AUTO char *fault = NULL;
	if (!readable || !cgroup_has(controllers, "memory"))
		fault = xstrdup("has no memory controller");
	else if (!cgroup_writable(dir))
		fault = xstrdup("is not delegated to this user (a systemd unit needs "
		                "Delegate=yes)");
	else
		fault = cgroup_enter(&g);
	if (fault) {
		str_printf(why, "limits of memory and CPUs are not enforced: the cgroup %s %s", dir,
		           fault);
		return NULL;
	}
	struct cgroup *made = xmalloc(sizeof(*made));
	*made = g;
	dir = NULL;
	return made;
}

void cgroup_close(struct cgroup *g)
{
	if (g)
		free(g->dir);
	free(g);
}

/* ---- tasks ------------------------------------------------------------------------- */

static char *cgroup_leaf(const struct cgroup *g, const char *task)
{
	return xasprintf("%s/task-%s", g->dir, task);
}

int cgroup_make(struct cgroup *g, const char *task, const struct cgroup_limits *limits, char **dir,
                struct err *e)
{
	const struct {
		const char *file;
		bool there;
		int64_t n;
		const char *after;
	} wanted[] = {
		{ "memory.max", true, limits->memory, "" },
		{ "cpu.max", g->cpu, limits->cpus * (CPU_PERIOD_US / 1000), " 100000" },
	};
	FREE_AUTO char *leaf = cgroup_leaf(g, task);
	if (strchr(task, '/'))
		return err_set(e, UNKNOWN_ERROR, "%s is no name of a cgroup", task);
	if (mkdir(leaf, 0755) != 0 && errno != EEXIST)
		return err_set(e, UNKNOWN_ERROR, "making the cgroup %s: %s", leaf,
		               strerrordesc_np(errno));
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		FREE_AUTO char *text =
		    wanted[i].n ? xasprintf("%lld%s", (long long)wanted[i].n, wanted[i].after)
				: xstrdup("max");
		int fault = wanted[i].there ? cgroup_put(leaf, wanted[i].file, text) : 0;
		if (fault)
			return err_set(e, UNKNOWN_ERROR, "writing %s into %s/%s: %s", text, leaf,
			               wanted[i].file, strerrordesc_np(fault));
	}
	/* As in Kubernetes: no swap instead of memory, and all of a task ends.  Not every kernel
	 * has these. */
	(void)cgroup_put(leaf, "memory.swap.max", limits->memory ? "0" : "max");
	(void)cgroup_put(leaf, "memory.oom.group", "1");
	*dir = TAKE(leaf);
	return 0;
}

int64_t cgroup_oom_kills(const struct cgroup *g, const char *task)
{
	FREE_AUTO char *leaf = cgroup_leaf(g, task);
	char text[CGROUP_TEXT];
	if (!cgroup_get(leaf, "memory.events", text))
		return 0;
	static const char KEY[] = "\noom_kill ";
	const char *line = strstr(text, KEY);
	struct span n = span_of(line ? line + sizeof(KEY) - 1 : "");
	int64_t kills = 0;
	(void)parse_i64(span_to(n, span_chr(n, '\n')), 0, INT64_MAX, &kills);
	return kills;
}

bool cgroup_kill(const struct cgroup *g, const char *task)
{
	FREE_AUTO char *leaf = cgroup_leaf(g, task);
	return cgroup_put(leaf, "cgroup.kill", "1") == 0;
}

bool cgroup_remove(const struct cgroup *g, const char *task)
{
	FREE_AUTO char *leaf = cgroup_leaf(g, task);
	return rmdir(leaf) == 0 || errno == ENOENT;
}
