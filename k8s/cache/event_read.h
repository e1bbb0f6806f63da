#pragma once
/* One Event of Kubernetes, read.  Pure; private to k8s/. */
#include "base/json/scan.h"
#include "k8s/cache/events.h"

enum { EVENT_TEXT_MAX = 256, EVENT_MESSAGE_MAX = 4096 }; /* bytes; what is longer is cut */

/* The parts of a pod's name FRAMEWORK-ROLE-INDEX: two of [a-z0-9]{1,63}, and 0 ... 9999.  Borrowed
 * from it.  false if it is none. */
bool event_pod_name(struct span pod, struct span *framework, struct span *role, int64_t *index);
/* Into *out, whose texts live in the arena or are borrowed from the object.  false: it is not of
 * such a pod, or has no uid. */
bool event_read(struct span object, struct arena *a, struct event *out);
