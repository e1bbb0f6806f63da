#pragma once
/*
 * Objects that pods refer to; the start of the server waits for none of them.
 *
 * - The ConfigMap with pai-runtime (--runtime=configmap, runtime_configmap.h) is created, with
 *   retries.  No job is accepted before, because its pods could not start.
 * - The ConfigMap with the CA for uploads (--output-url, output_ca.h) is created; jobs do not wait
 * for it.
 * - The checks of a server (check.h) are made: whether there are the service account, the ConfigMap
 *   with the exit specification, the PriorityClass, nodes with the label and the devices that pods
 *   ask for, and the exit codes in the configuration of FrameworkController.  The log has their
 *   lines.
 *
 * A thread does this, and counts the GPUs of nodes (nodes.h).
 *
 * Thread: main
 */
#include "server/state/server.h"

struct upkeep;

/* Starts the thread; from now on server->runtime_problem is set. */
struct upkeep *upkeep_start(struct server *s, struct err *e);
/* Checks everything again and creates what is missing; jobs are accepted meanwhile.  false: this is
 * already going on. */
bool upkeep_check_again(struct upkeep *d);
void upkeep_free(struct upkeep *d);
