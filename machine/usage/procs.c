/* Adds up what the processes of tasks use, and finds out whose a process is. */
#include "machine/usage/procs.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "base/posix/process.h"

enum { PROCS_TEXT = 8192, PROCS_UNSEEN = -3 };

struct procs_entry {
	pid_t pid, parent;
	int task; /* an index, PROCS_OUTSIDE, PROCS_UNSEEN: not looked at yet */
	uint64_t start;
	int64_t ticks, pages;
};

/* The rest of the first line that begins with the key; empty if there is none. */
static struct span procs_line(const char *text, const char *key)
{
	struct span line = { "", 0 };
	for (struct span rest = span_of(text); rest.n;) {
		line = span_next(&rest, '\n');
		if (span_starts(line, key))
			return span_from(line, strlen(key));
	}
	return SPAN("");
}

/* The number behind a key in a file of a cgroup; -1: it is not known. */
static int64_t procs_cgroup(const char *dir, const char *file, const char *key)
{
	char text[PROCS_TEXT] NOT_ZEROED;
	int64_t n = -1;
	FREE_AUTO char *path = xasprintf("%s/%s", dir, file);
	(void)fd_read_at(AT_FDCWD, path, text, sizeof(text)); /* else it is empty */
	return parse_i64(procs_line(text, key), 0, INT64_MAX, &n) == 0 ? n : -1;
}

static void procs_look_cgroup(struct procs_task *t)
{
	int64_t cpu_us = procs_cgroup(t->cgroup, "cpu.stat", "usage_usec ");
	int64_t memory = procs_cgroup(t->cgroup, "memory.current", "");
	/* The kernel takes these back first. */
	int64_t cached = procs_cgroup(t->cgroup, "memory.stat", "inactive_file ");
	t->cpu_ms = cpu_us < 0 ? -1 : cpu_us / 1000;
	t->memory = memory < 0 || cached < 0 ? -1 : memory > cached ? memory - cached : 0;
	t->memory_most = procs_cgroup(t->cgroup, "memory.peak", "");
}

/* ---- /proc --------------------------------------------------------------------------- */

/* false: there is no such process. */
static bool procs_read(const char *root, pid_t pid, struct procs_entry *out)
{
	int64_t f[STAT_FIELDS];
	if (!process_stat(root, pid, f))
		return false;
	out->pid = pid;
	out->parent = (pid_t)f[STAT_PARENT];
	out->task = PROCS_UNSEEN;
	out->start = (uint64_t)f[STAT_START];
	out->ticks = f[STAT_UTIME] + f[STAT_STIME] + f[STAT_CUTIME] + f[STAT_CSTIME];
	out->pages = f[STAT_RSS];
	return true;
}

static int procs_compare(const void *a, const void *b)
{
	return ((const struct procs_entry *)a)->pid - ((const struct procs_entry *)b)->pid;
}

/* All processes, by pid; the caller frees them.  None if they are too many, or cannot be seen. */
static struct procs_entry *procs_list(const char *root, size_t *n)
{
	enum { STEP = 1024 };
	FREE_AUTO char *path = xasprintf("%s/proc", root);
	FREE_AUTO struct procs_entry *v = NULL;
	DIR_AUTO *names = dir_list(AT_FDCWD, path);
	int64_t pid;
	size_t all = 0;
	for (const char *name; (name = dir_next(names)) != NULL;) {
		if (parse_i64(span_of(name), 1, INT32_MAX, &pid) != 0)
			continue;
		if (all == PROCS_MAX)
			return NULL;
		if (all % STEP == 0)
			v = xrealloc(v, (all + STEP) * sizeof(*v));
		v[all++].pid = (pid_t)pid;
	}
	if (all > 0)
		qsort(v, all, sizeof(*v), procs_compare);
	for (size_t i = 0; i < all; i++)
		*n += procs_read(root, v[i].pid, &v[*n]);
	return TAKE(v);
}

static struct procs_entry *procs_find(struct procs_entry *all, size_t n, pid_t pid)
{
	return n ? bsearch(&(struct procs_entry){ .pid = pid }, all, n, sizeof(*all), procs_compare)
	         : NULL;
}

/* Finds the task of a process, and of all between it and the shim.  Each process is passed once:
 * also a circle of parents, of pids that were used again meanwhile, comes to an end. */
static void procs_climb(struct procs_entry *all, size_t n, struct procs_entry *e)
{
	struct procs_entry *at = e;
	for (; at && at->task == PROCS_UNSEEN; at = procs_find(all, n, at->parent))
		at->task = PROCS_OUTSIDE;
	for (; at && at->task >= 0 && e != at; e = procs_find(all, n, e->parent))
		e->task = at->task;
}

void procs_look(const char *root, struct procs_task *v, size_t n)
{
	FREE_AUTO struct procs_entry *all = NULL;
	size_t all_n = 0;
	bool listed = false;
	const int64_t second = sysconf(_SC_CLK_TCK); /* ticks */
	const int64_t page = sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < n; i++) {
		v[i].cpu_ms = v[i].memory = v[i].memory_most = -1;
		if (v[i].cgroup)
			procs_look_cgroup(&v[i]);
		else if (!listed)
			all = procs_list(root, &all_n);
		listed |= !v[i].cgroup;
	}
	for (size_t i = 0; i < n; i++) {
		struct procs_entry *shim = v[i].cgroup ? NULL : procs_find(all, all_n, v[i].shim);
		if (shim && shim->start == v[i].start) {
			shim->task = (int)i;
			v[i].cpu_ms = v[i].memory = 0;
		}
	}
	for (size_t i = 0; i < all_n; i++) {
		const struct procs_entry *e = &all[i];
		procs_climb(all, all_n, &all[i]);
		if (e->task >= 0) {
			v[e->task].cpu_ms += e->ticks * 1000 / second;
			v[e->task].memory += e->pages * page;
		}
	}
}

uint64_t procs_start(const char *root, pid_t pid)
{
	int64_t f[STAT_FIELDS];
	return process_stat(root, pid, f) ? (uint64_t)f[STAT_START] : 0;
}

int procs_owner(const char *root, pid_t pid, const struct procs_task *v, size_t n)
{
	int64_t f[STAT_FIELDS];
	int steps = 0;
	/* Again if a parent has ended meanwhile: its children have another one then, and its own is
	 * absent, or 0. */
	for (int tries = 0; tries < 4; tries++) {
		pid_t at = pid;
		pid_t last = pid;
		for (steps = 0; steps < PROCS_DEPTH && process_stat(root, at, f); steps++) {
			if (steps == 0 && f[STAT_STATE] == 'Z')
				return PROCS_GONE;
			for (size_t i = 0; i < n; i++)
				if (v[i].shim == at && v[i].start == (uint64_t)f[STAT_START])
					return (int)i;
			last = at;
			at = (pid_t)f[STAT_PARENT];
		}
		if (at == 0 && last == 1)
			break;
	}
	return steps ? PROCS_OUTSIDE : PROCS_GONE;
}

/* Copies text; a byte that is no printable one of ASCII becomes "?". */
static void procs_print(char *out, size_t room, struct span text)
{
	size_t n = text.n < room ? text.n : room - 1;
	for (size_t i = 0; i < n; i++)
		out[i] = (char)(text.p[i] >= ' ' && text.p[i] <= '~' ? text.p[i] : '?');
	out[n] = '\0';
}

void procs_name(const char *root, pid_t pid, char program[static PROCS_NAME],
                char user[static PROCS_USER])
{
	char text[PROCS_TEXT] NOT_ZEROED;
	char room[PROCS_TEXT] NOT_ZEROED;
	struct passwd entry;
	struct passwd *found = NULL;
	int64_t id;
	FREE_AUTO char *path = xasprintf("%s/proc/%ld/status", root, (long)pid);
	(void)fd_read_at(AT_FDCWD, path, text, sizeof(text)); /* else it is empty */
	struct span uid = procs_line(text, "Uid:\t");
	uid = span_next(&uid, '\t');
	if (parse_i64(uid, 0, UINT32_MAX, &id) == 0 &&
	    getpwuid_r((uid_t)id, &entry, room, sizeof(room), &found) == 0 && found)
		uid = span_of(entry.pw_name);
	procs_print(user, PROCS_USER, uid);
	procs_print(program, PROCS_NAME, procs_line(text, "Name:\t"));
}
