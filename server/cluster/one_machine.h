#pragma once
/*
 * Jobs on this machine.  machine_start makes server->engine from the options; its settings live in
 * the arena.  The directory is followed next; then machine_start_jobs lets the engine begin.  -1
 * and *e (400, 500).
 *
 * Thread: main
 */
#include "machine/task/sandbox.h"
#include "server/config/options.h"
#include "server/state/server.h"

int machine_start(struct server *s, struct arena *a, struct err *e);
int machine_start_jobs(struct server *s, struct err *e);
/* Tells the engine the limits of users, from the file of --facts as it was read last. */
void machine_limit_users(struct server *s);
/* Reads --mount behind n mounts in a list that has room for MOUNTS_MAX more; adds their number to
 * *n.  -1 and *e: the form, no such directory, too many. */
enum { MOUNTS_MAX = 64 };
int machine_read_mounts(const struct option_list *list, struct sandbox_mount *m, size_t *n,
                        struct arena *a, struct err *e);
