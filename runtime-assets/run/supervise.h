#pragma once
/*
 * The processes of a task, one after the other, from one loop: their output to where it belongs in
 * the order in which it was written, signals on to them, every orphan reaped.
 *
 * The main process of a task decides when it is over.  What is left of its process group then has
 * DRAIN_MS while it still holds the streams, gets SIGTERM, and SIGKILL after ASK_MS.
 *
 * SIGTERM goes to the group; to every process of the container where this is process 1.  The task
 * is over when all of them have ended, also if the main process (a shell) ends at once.  A second
 * before the end of the grace period they get SIGKILL: that is the time to tell how the task ended.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime-assets/run/logs.h"

enum {
	DRAIN_MS = 2000, /* for background processes that hold the streams */
	ASK_MS = 1000,   /* between SIGTERM and SIGKILL for what is left of a group */
	STALL_MS = 10000 /* at the end: how long to wait for a reader that takes nothing */
};

enum task_kind {
	TASK_BEFORE, /* output to runtime.log; what it leaves running stays until supervise_close */
	TASK_USER,   /* output to the user's logs and the container's streams */
	TASK_AFTER   /* output to runtime.log */
};

struct task {
	enum task_kind kind;
	char *const *argv;
	char *const *env;
};

struct supervisor;

/* Blocks signals, ignores what must not stop it, becomes the reaper of orphans.  `grace_ms` is the
 * pod's grace period.  Outlets of descriptors 1 and 2, which also get what the logs get.  NULL and
 * *e.  One per process. */
struct supervisor *supervise_open(struct logs *l, struct outlet out[static 2], int64_t grace_ms,
                                  struct err *e);

/* For RUNTIME_LOG_PIPE: a path that processes of the task open for writing; each line goes to
 * runtime.log.  Borrowed. */
const char *supervise_pipe(const struct supervisor *s);

/* Run it to its end.  Its exit status, 128 + n if signal n ended it, 126 if it was not to be
 * started. */
int supervise_task(struct supervisor *s, const struct task *t);

/* Was the task asked to stop (SIGTERM)?  Looks for signals that wait. */
bool supervise_stopping(struct supervisor *s);

/* When to be done with everything (clock_ms()): INT64_MAX if nothing asked to stop. */
int64_t supervise_deadline(const struct supervisor *s);

/* End what is left of all groups, bring everything to its readers; the supervisor is gone then.
 * Signals stay blocked.  Returns what supervise_deadline would say. */
int64_t supervise_close(struct supervisor *s);
