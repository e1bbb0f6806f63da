#pragma once
/*
 * Objects that pods refer to; the start of the server waits for none of them.
 *
 * - The ConfigMap with pai-runtime (--runtime=configmap) is created, with retries.  No job is
 *   accepted before, because its pods could not start.
 * - The ConfigMap with the CA for uploads (--output-url) is created; jobs do not wait for it.
 * - The service account, the ConfigMap with the exit specification, the PriorityClass, nodes with
 *   the label and the devices that pods ask for, and the exit codes in the configuration of
 *   FrameworkController are checked once.  The log names each missing object and the command that
 *   creates it.  A missing right to read them is not an error.
 *
 * Thread: main
 */
#include "base/str.h"
#include "server/state/server.h"

struct runtime_configmap;

/* Starts a thread of its own; from now on server->runtime_configmap has the state. */
struct runtime_configmap *runtime_configmap_start(struct server *s, struct err *e);
/* Checks everything again and creates what is missing; jobs are accepted meanwhile.  false: this is
 * already going on. */
bool runtime_configmap_check_again(struct runtime_configmap *d);
void runtime_configmap_free(struct runtime_configmap *d);
/* Returns true if an existing ConfigMap holds the wanted program (runtime_object), immutably.
 * Thread: any. */
bool runtime_configmap_is_same(struct span wanted, struct span there);
/* Returns the reason why no job can be accepted now, for users; NULL: jobs can.  Thread: any. */
const char *runtime_configmap_problem(const struct server *s);
