#pragma once
/*
 * Messages of the kubelet in the place of a log.  The kubelet answers GET pods/log with 200 before
 * it looks for the log; if there is none, its error is the body, and an error while a log is
 * followed is appended to the log.  Such a message is one line without a newline.  Pure.
 */
#include "base/str.h"

enum { KUBELET_TEXT_MAX = 2048 };

/* How many bytes of `text` cannot belong to such a message: its last line can, as far as it has
 * come, unless `within`: text then begins within a line. */
size_t kubelet_text_begins(struct span text, bool within);

/* Is this last line of a log a message that there is no log?  It must name the pod's uid, which is
 * part of the log's path, or the container's id ("" if it is not known). */
bool kubelet_text_is(struct span line, const char *pod_uid, const char *container_id);
