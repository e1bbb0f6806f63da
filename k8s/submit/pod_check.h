#pragma once
/*
 * Has the API server check the pods of users before a Framework has them, since one pod that
 * FrameworkController cannot decode stops it for all users: each is created as a PodTemplate with
 * ?dryRun=All, which stores nothing.  Right: podtemplates create.
 *
 * Errors: 400 InvalidProtocolError (names role and field), 503 UnavailableError, 500 UnknownError
 * (the right is missing).
 */
#include "base/err.h"
#include "base/object.h"
#include "k8s/transport/store.h"

/* *e is borrowed; e->http is 0 if all pods are accepted. */
typedef void pod_check_callback(void *arg, const struct err *e);

/* The objects are borrowed until the callback, which is called exactly once, later, from store_reap
 * or store_free.  There must be pods to check. */
void pod_check_start(struct store *s, const struct objects *o, const char *user,
                     int64_t deadline_ms, pod_check_callback *done, void *arg);
