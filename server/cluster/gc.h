#pragma once
/* Runs the janitor (k8s/gc/janitor.h), which removes leftovers of a killed server.  Logs each round
 * that removed an object, and changes of its trouble. */
#include "server/state/server.h"

struct gc;

struct gc *gc_start(struct server *s, struct err *e);
void gc_free(struct gc *g);
