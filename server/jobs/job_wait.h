#pragma once
/*
 * ?wait=SECONDS[&for=running|completed] of one job: its answer is put off until the job has come so
 * far, or the time is over.  running: it runs, or will not any more; completed (the default): it
 * has ended.  At most stream-lifetime; 0 is not at all.  It counts among the requests that last
 * (lasting.h).
 */
#include "server/jobs/job_find.h"

/*
 * Call go_on(r, job), at once or later, with what is known of the job by then; it is r's until r
 * ends.  If it was asked to wait, the answer has the header X-Wait, "reached" or "timeout" (also
 * when the server stops).  Else r has been answered: 400 what was asked is nonsense, 404 the job is
 * gone meanwhile, 401 so is the token's right, 429 or 503 too many wait.  On the loop's thread.
 */
void job_wait(struct request *r, const struct job_entry *job, job_found *go_on);
