#pragma once
/*
 * Work in the cluster that does not belong to a request: the server follows all Frameworks
 * (follow.c), creates the ConfigMap with pai-runtime and checks the objects that pods refer to
 * (runtime_configmap.c), runs jobs on this machine (one_machine.c), removes leftovers (gc.c), stops
 * jobs at their time limits or for their images (rounds.c), keeps earlier attempts (history.h) and
 * asks HiveD (scheduler.h).  Begin with follow.c.  Except for follow, everything runs on the main
 * thread and has a store of its own, so that it cannot delay jobs.
 *
 * Members of one pattern: X_start begins (NULL and *e: 500); X_run_once goes on when X_fd is
 * readable or X_timeout_ms (-1: no limit) is over; X_free cancels silently and accepts NULL.
 */
#include "k8s/transport/store.h"
#include "server/state/server.h"

/* A store of this server, with these limits.  NULL and *e: 500. */
struct store *cluster_store(struct server *s, const struct store_limits *limits, struct err *e);
/* Logs `event` when *last is NULL or another text than `why`, and `good` when why is NULL and *last
 * is not.  Keeps why in *last, which the caller frees. */
void cluster_log_trouble(char **last, const char *why, const char *event, const char *good);
