#pragma once
/* From a task to the bytes of its log, as the API server gives them. */
#include "server/http/request.h"
#include "server/logs/log_link.h"

#define NO_TASK_LOG 404, "NoTaskLogError"
#define LOG_GONE                                                                                   \
	NO_TASK_LOG, "the pod of this task is gone, and the end of its output was not kept: of "   \
		     "a task that failed, the exit diagnostics of the job have the last lines"

/*
 * Which logs of a task there are.  A pod's: while it lives.  The kept end of its output
 * (uploads.h): when it has ended.  An API server does not tell stdout and stderr of a pod apart, so
 * that both then are what `all` is.
 */
enum log_there { LOG_NONE, LOG_OF_POD, LOG_KEPT };

/* Find out which there are of the task attempt of l; l->pod_uid is "" if it is not known, and then
 * the pod is gone.  `done` is called later, unless r has been answered: 503, 500.  dropped: of what
 * is kept, how many bytes the task had written before. */
typedef void log_looked(struct request *r, const struct log_link *l, enum log_there there,
                        int64_t dropped);
void log_look(struct request *r, const struct log_link *l, log_looked *done);

/*
 * Answer r with the log that l names: l->file "all" is what the task's container writes, and so are
 * "stdout" and "stderr" (see above); "runtime" what its init container `init` does.  With l->tail
 * the last --log-tail bytes, unless `follow`: then what it writes from now on, too, after its last
 * lines.
 *
 * The pod is looked at first: it goes by the name that FrameworkController gives it, and must be
 * the one of l->pod_uid and of the task by its marks, for what a status says anybody may have
 * written.
 */
void log_read(struct request *r, const struct log_link *l, bool follow);
