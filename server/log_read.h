#pragma once
/* From a task to the bytes of its log, as the API server gives them. */
#include "server/log_link.h"
#include "server/request.h"

#define NO_TASK_LOG 404, "NoTaskLogError"

/*
 * Answer r with the log that l names: l->file "all" is what the task's container writes, "runtime"
 * what its init container `init` does.  With l->tail the last --log-tail bytes, unless `follow`:
 * then what it writes from now on, too, after its last lines.
 *
 * The pod is looked at first: it goes by the name that FrameworkController gives it, and must be
 * the one of l->pod_uid and of the task by its marks, for what a status says anybody may have
 * written.
 */
void log_read(struct request *r, const struct log_link *l, bool follow);
