#pragma once
/*
 * Looks at all jobs about once a second, unless nothing has changed: stops those whose time is over
 * (job_entry_left_ms), and those whose GPUs are idle (--gpu-idle-stop).  The limit and the start
 * are in the Framework, so a restarted server goes on, and two servers can do this at once: a PATCH
 * has uid and resourceVersion.  Shows the jobs also to the webhook (webhook.h), which reports their
 * ends.
 *
 * Every five seconds it looks at jobs with Events of refused pulls (events_refusals), and stops
 * those of which a pod has failed three times: a current one, of a task whose containers do not run
 * yet by the status that the PATCH requires to be unchanged.
 *
 * Thread: main
 */
#include "server/state/server.h"

struct rounds;

struct rounds *rounds_start(struct server *s, struct err *e);
void rounds_run_once(struct rounds *r);
int rounds_fd(const struct rounds *r); /* readable when rounds_run_once has something to do */
int rounds_timeout_ms(const struct rounds *r);
/* SIGHUP: reads the secret of --webhook again. */
void rounds_reload(struct rounds *r);
/* The last call before rounds_free: reports no end of a job any more and gives the Lease back.
 * Waits two seconds at most. */
void rounds_end(struct rounds *r);
void rounds_free(struct rounds *r);

/* Appends the merge patch that starts a held job, if it is still as in this entry.  Thread: any. */
struct job_entry;
void job_start_patch(struct str *out, const struct job_entry *job);

/* Appends the merge patch that stops a job, as `PUT .../executionType` does.  Thread: any. */
struct job_stop {
	const char *uid;
	const char *version; /* resourceVersion; NULL: any */
	const char *reason;  /* annotation rest-lit/stop-reason, which details show; NULL: none */
};
void job_stop_patch(struct str *out, const struct job_stop *s);
