#pragma once
/*
 * Wait for the end of a job, and show how it goes.  That something has changed is told by the
 * server's events (/watch), and what it is the job itself is asked for; without events it is asked
 * again and again.  A server that dies is waited for, for --patience.  One thread; blocks.
 */
#include "server/cli/remote.h"

/* job: USER~NAME, visible text.  Prints all, and returns the exit code. */
int await_job(struct remote *r, const char *job, bool logs);
