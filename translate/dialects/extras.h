#pragma once
/*
 * `extras` of a job, and warnings that depend on the user.
 *
 * Thread: any
 */
#include "translate/job/job.h"

/* Warns of requests that the extension of the user cannot satisfy. Called for jobs that are to be
 * built. */
void job_warn(const struct job *job, const struct facts *f, struct notes *warnings);
