#pragma once
/*
 * The members of a job that several answers share.  One table: a field is added in one place.
 *
 * Thread: any
 */
#include "jobs/cache/job_entry.h"

enum job_view {
	VIEW_ROW_V1 = 1, /* a row of a list of v1 */
	VIEW_ROW = 2,    /* ... of v2 */
	VIEW_STATUS = 4, /* jobStatus of the job in full */
	VIEW_WEBHOOK = 8 /* the report of its end */
};

/* v1 shows STOPPING as RUNNING. */
enum job_state job_shown_state(const struct job_entry *job, bool v1);

void job_put_ms(struct str *out, const char *key, int64_t ms); /* JOB_ENTRY_NONE: null */
/* Appends the members of this view to an object that has been opened. */
void job_fields_put(struct str *out, const struct job_entry *job, enum job_view view, bool v1);
