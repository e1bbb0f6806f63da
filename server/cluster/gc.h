#pragma once
/*
 * Runs the janitor (jobs/gc/janitor.h), which removes leftovers of a killed server, and removes
 * code that no job names (jobs/code/code_store.h).  Logs each round that removed something, and
 * changes of its trouble.
 *
 * Thread: main
 */
#include "jobs/code/code_store.h"
#include "server/state/server.h"

struct gc;

struct gc *gc_start(struct server *s, struct err *e);
void gc_free(struct gc *g);

/* Where this server keeps code; for requests until deadline_ms.  Thread: any. */
struct code_store gc_code_store(const struct server *s, struct caller *c, int64_t deadline_ms);
