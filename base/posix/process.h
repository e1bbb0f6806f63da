#pragma once
/*
 * Other processes, as /proc shows them.
 *
 * Thread: any
 */
#include <sys/types.h>

#include "base/str.h"

/* A number of /proc/PID/stat, counted as in proc(5) from 4 (the parent) on; -1 if the process has
 * ended, also if it has not been reaped. */
int64_t process_field(pid_t pid, int field);

/* Sends SIGKILL to all processes that `mine` takes; returns how many these are. */
int process_kill_all(bool (*mine)(pid_t pid, void *arg), void *arg);

enum { PROCESS_IDENTITY_MAX = 160, PROCESS_BOOT_MAX = 64 };

/* Differs after each boot of the machine.  Empty if it cannot be read. */
void process_boot(char out[static PROCESS_BOOT_MAX]);

/* "PID START BOOT": differs from that of every other process of this machine, earlier and later
 * ones too.  Empty if the process has ended. */
void process_identity(pid_t pid, char out[static PROCESS_IDENTITY_MAX]);
