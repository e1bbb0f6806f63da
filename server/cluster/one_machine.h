#pragma once
/*
 * Jobs on this machine.  machine_start makes server->engine from the options; its settings live in
 * the arena.  The directory is followed next; then machine_start_jobs lets the engine begin.  -1
 * and *e (400, 500).
 *
 * Thread: main
 */
#include "server/state/server.h"

int machine_start(struct server *s, struct arena *a, struct err *e);
int machine_start_jobs(struct server *s, struct err *e);
