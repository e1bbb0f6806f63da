#pragma once
/* Events of a job as answers show them.  Pure. */
#include "k8s/cache/events.h"

/*
 * {"totalCount", "data": [...]}, of all n, those of this type ("" for any).  What is of a pod that
 * was there before the job was made is of an earlier job with its name, and left out; created_ms is
 * since 1970, or -1.  Appends; whole if there is room for 4 MiB.
 */
void job_events_show(struct str *out, const struct event *all, size_t n, int64_t created_ms,
                     struct span type);
