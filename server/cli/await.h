#pragma once
/*
 * Wait for the end of a job, and show how it goes.  That something has changed is told by the
 * server's events (/watch), and what it is the job itself is asked for; without events it is asked
 * again and again.  A server that dies is waited for, for 60 s (patience).  One thread; blocks.
 */
#include "server/cli/remote.h"
#include "server/cli/screen.h"

/* job: USER~NAME, visible text.  Prints all, and returns the exit code. */
int await_job(struct remote *r, const char *job, bool logs);

/*
 * What the tasks of a job print, printed here as it comes: lines with "worker[0] | " before them.
 * Of many tasks some: first the first of each task role.  One thread.
 */
struct echo;

struct echo *echo_new(struct remote *r, struct screen *s);
void echo_free(struct echo *e); /* NULL is nothing */
/* How the job is now (/api/v2/jobs/USER~NAME): logs of tasks that have begun are followed. */
void echo_update(struct echo *e, struct span detail);
/* Begin what is due.  Milliseconds until something is, or INT64_MAX. */
int64_t echo_run_once(struct echo *e);
/* Nothing more will come of the tasks that have ended. */
bool echo_idle(const struct echo *e);
