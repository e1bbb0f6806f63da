#pragma once
/*
 * CPU time and memory of tasks: of a delegated cgroup v2, else by one pass over /proc.  A task is
 * the tree below its shim, which is a subreaper: no orphan leaves it.
 *
 * Thread: own
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCS_MAX = 65536 }; /* with more processes on the machine, all is unknown */

struct procs_task {
	pid_t shim;
	uint64_t start; /* field 22 of its /proc/PID/stat, so that a pid that is used again is not
	                   taken */
	const char
	    *cgroup; /* directory of its group, of cgroup_make's `task-UID`; NULL: there is none */
	/* Of the last look; -1: unknown. */
	int64_t
	    cpu_ms; /* of all its processes, also of those that have ended and were waited for */
	int64_t memory; /* bytes; by /proc the sum of resident pages, so shared ones count often */
	int64_t memory_most; /* by the kernel (memory.peak); -1: the greatest of the looks counts */
};

/* Looks at n tasks.  root: above /proc, "" unless a test has its own tree.  cpu_ms of /proc can
 * fall, or jump for one look, when a process ends meanwhile or its parent does not wait for it. */
void procs_look(const char *root, struct procs_task *v, size_t n);

/* The start time of a process (field 22); 0: there is none. */
uint64_t procs_start(const char *root, pid_t pid);

enum { PROCS_OUTSIDE = -1, PROCS_GONE = -2, PROCS_DEPTH = 1024 /* parents that are looked at */ };
/* Returns the index of the task below whose shim the process is, PROCS_OUTSIDE, or PROCS_GONE: it
 * has ended, or cannot be seen. */
int procs_owner(const char *root, pid_t pid, const struct procs_task *v, size_t n);

/* Name and real user of a process, of /proc/PID/status, which writes a line break in a name as
 * "\n"; the number of a user without a name.  Printable ASCII: other bytes become "?".  Empty if
 * the process cannot be seen. */
enum { PROCS_NAME = 41, PROCS_USER = 33 };
void procs_name(const char *root, pid_t pid, char program[static PROCS_NAME],
                char user[static PROCS_USER]);
