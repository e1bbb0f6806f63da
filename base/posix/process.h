#pragma once
/*
 * Other processes, as /proc shows them.
 *
 * Thread: any
 */
#include <sys/types.h>

#include "base/str.h"

/* Numbers of /proc/PID/stat, counted as in proc(5); the state is a letter. */
enum process_number {
	STAT_STATE = 3,
	STAT_PARENT = 4,
	STAT_UTIME = 14, /* ticks of itself, then of the children that it has waited for */
	STAT_STIME,
	STAT_CUTIME,
	STAT_CSTIME,
	STAT_START = 22,
	STAT_RSS = 24, /* pages */
	STAT_FIELDS,
};
/* Reads them; root: above /proc.  false: there is no such process. */
bool process_stat(const char *root, pid_t pid, int64_t field[static STAT_FIELDS]);
/* One of them; -1 if the process has ended, also if it has not been reaped. */
int64_t process_field(pid_t pid, enum process_number field);

/* Returns true if the environment of the process has this variable, "NAME=VALUE". */
bool process_has_variable(pid_t pid, const char *variable);

/* Sends SIGKILL to all processes that `mine` takes; returns how many these are. */
int process_kill_all(bool (*mine)(pid_t pid, void *arg), void *arg);

enum { PROCESS_IDENTITY_MAX = 160, PROCESS_BOOT_MAX = 64 };

/* Differs after each boot of the machine.  Empty if it cannot be read. */
void process_boot(char out[static PROCESS_BOOT_MAX]);

/* "PID START BOOT": differs from that of every other process of this machine, earlier and later
 * ones too.  Empty if the process has ended. */
void process_identity(pid_t pid, char out[static PROCESS_IDENTITY_MAX]);
