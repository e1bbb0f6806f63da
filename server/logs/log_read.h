#pragma once
/* From a task to the bytes of its log, as the API server gives them. */
#include "base/str.h"
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
 * the last log-tail bytes, unless `follow`: then what it writes from now on, too, after its last
 * lines.
 *
 * The pod is looked at first: it goes by the name that FrameworkController gives it, and must be
 * the one of l->pod_uid and of the task by its marks, for what a status says anybody may have
 * written.
 */
void log_read(struct request *r, const struct log_link *l, bool follow);

/*
 * Messages of the kubelet in the place of a log.  The kubelet answers GET pods/log with 200 before
 * it looks for the log; if there is none, its error is the body, and an error while a log is
 * followed is appended to the log.  Such a message is one line without a newline.  Pure.
 */
enum { KUBELET_TEXT_MAX = 2048 };

/* How many bytes of `text` cannot belong to such a message: its last line can, as far as it has
 * come, unless `within`: text then begins within a line. */
size_t kubelet_text_begins(struct span text, bool within);

/* Is this last line of a log a message that there is no log?  It must name the pod's uid, which is
 * part of the log's path, or the container's id ("" if it is not known). */
bool kubelet_text_is(struct span line, const char *pod_uid, const char *container_id);
