#pragma once
/*
 * Earlier attempts of jobs, as history_keep.h keeps them: read back by one GET each.
 */
#include "k8s/cache/job_entry.h"
#include "server/http/request.h"

/* status: the attemptStatus, in r's arena; empty if it is not to be had. */
typedef void history_came(struct request *r, const struct job_entry *job, struct span status);

/* Ask for an attempt of the job of r.  `came` is called once: later, or at once if nothing is kept
 * at all; what is not kept, not of this job, or cannot be read counts as not there.  When the store
 * does not answer, r has been answered 503. */
void history_get(struct request *r, const struct job_entry *job, int64_t attempt,
                 history_came *came);
