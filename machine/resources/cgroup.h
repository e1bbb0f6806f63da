#pragma once
/*
 * Limits of tasks by cgroup v2, where this process is in a group that is delegated to it (for
 * instance systemd's Delegate=yes).  The process moves itself into a leaf of its group, because a
 * group with processes cannot limit its children; each task gets a leaf beside it.  The shim stays
 * outside: its child writes "0" into the leaf's cgroup.procs before it executes the task, so that
 * neither the limit nor cgroup_end reaches the shim.  One thread at a time.
 */
#include "base/err.h"
#include "machine/resources/amounts.h"

/* The directory of this process's group, which the caller frees.  root: above /proc and /sys, ""
 * unless a test has its own tree.  NULL, and in *why a sentence, if limits cannot be applied. */
char *cgroup_open(const char *root, struct str *why);

/* Makes the leaf of a task, or finds it, and writes its limits of CPUs and memory, 0: none.  `task`
 * is a file name (the UID of the pod).  *dir is its directory; the caller frees it.  -1 and *e
 * (500). */
int cgroup_make(const char *group, const char *task, const struct amounts *limits, char **dir,
                struct err *e);
/* Kills what is left of the task and removes its leaf.  *oom: processes of it were killed because
 * its memory was used up.  false if it cannot kill (kernel before 5.14), or there is no such leaf.
 */
bool cgroup_end(const char *group, const char *task, bool *oom);

/* Lowers the CPUs and the memory to the most that this process may use by its own group and those
 * above it. */
void cgroup_limit(const char *root, struct amounts *most);
