#pragma once
/*
 * Work in the cluster that does not belong to a request: the server follows all Frameworks
 * (follow.c), creates the ConfigMaps that pods refer to and checks the other objects
 * (upkeep.h), runs jobs on this machine (one_machine.c), removes leftovers (gc.c), stops
 * jobs at their time limits or for their images (rounds.c), keeps earlier attempts (history.h) and
 * asks HiveD (scheduler.h).  Begin with follow.c.  Each part that
 * sends requests has a store of its own, so that it cannot delay jobs.
 *
 * The main thread calls X_start (NULL and *e: 500) and X_free, which cancels silently and accepts
 * NULL.  Between them gc.c, history.c and upkeep.c work on threads of
 * their own, follow.c and scheduler.c on the threads of what they follow, and rounds.c (with
 * webhook.c) on the main thread: X_run_once goes on when X_fd is readable or X_timeout_ms (-1: no
 * limit) is over.
 *
 * Thread: main
 */
#include "jobs/store/store.h"
#include "server/state/server.h"

/* A store of this server, with these limits.  NULL and *e: 500. */
struct store *cluster_store(struct server *s, const struct store_limits *limits, struct err *e);
/* Logs `event` when *last is NULL or another text than `why`, and `good` when why is NULL and *last
 * is not.  Keeps why in *last, which the caller frees.  Thread: own. */
void cluster_log_trouble(char **last, const char *why, const char *event, const char *good);
