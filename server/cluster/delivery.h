#pragma once
/*
 * What every pod of a job refers to, seen to when the server starts, and in the background: the
 * start waits for none of it, nor for an API server that is not there yet.
 *
 * - The service account and the ConfigMap with the exit specification are looked for once.  What is
 *   missing is logged, with the command that mends it.  Not being allowed to look is no fault.
 *   SIGHUP looks again.
 * - So are a PriorityClass that all pods name, and, if they are for nodes with a label, such nodes
 *   and each device that pods ask for on them.
 * - If the configuration of FrameworkController can be read, exit codes that it lacks are logged.
 * - With --runtime=configmap the ConfigMap with pai-runtime is made.  Until it is there,
 *   no job is taken: its pods could not start.  This is tried for as long as it takes.
 *
 * - With --output-url the ConfigMap is made that says which server pods trust with their output. No
 *   job waits for it: pods run without, and upload nothing.
 *
 * It has a store of its own, so that it cannot be in the way of jobs.  All of it on one thread, but
 * for delivery_problem.
 */
#include "base/object.h"
#include "server/options.h"
#include "server/server.h"
#include "translate/translate.h"

struct delivery;

/* Begin; server->delivery says from now on how it goes.  NULL and *e (500). */
struct delivery *delivery_start(struct server *s, struct err *e);
/* Go on.  To be called when the descriptor is readable, or after the time. */
void delivery_run_once(struct delivery *d);
int delivery_fd(const struct delivery *d);
int delivery_timeout_ms(const struct delivery *d); /* -1: no limit */
/* Look for it all once more, and make what is no longer there; jobs are taken meanwhile.  false,
 * and nothing is done, while that is under way anyway. */
bool delivery_again(struct delivery *d);
/* Give up what is under way, silently. */
void delivery_free(struct delivery *d);

/* Why no job can be taken now, for people; NULL if jobs can.  Any thread. */
const char *delivery_problem(const struct server *s);

/*
 * Which server pods trust with their output: the ConfigMap OUTPUT_CA in the namespace of the jobs,
 * with the certificates of --output-ca, or else of --tls-cert.  Reads a file; at start, and after
 * SIGHUP.  Appends the ConfigMap, which is a merge patch of one that is there as well; nothing if
 * pods need none.  Certificates only: a key in the same file stays where it is.  -1 and *e: 400,
 * the file cannot be read, or holds no certificate.
 */
int output_ca_write(struct str *out, const struct options *o, struct err *e);

/*
 * What pods of this server's templates need of a cluster, whatever the job: found by translating a
 * small job.  Pure.
 */
enum { POD_NEEDS_DEVICES = 8 };

struct pod_needs {
	const char *priority_class;            /* NULL: none, or each job makes its own */
	const char *node_key, *node_value;     /* label of the nodes that they are for; NULL: any */
	const char *device[POD_NEEDS_DEVICES]; /* of a task that asks for one GPU; NULL ends them */
};

/* Texts live in the arena.  What cannot be found out is NULL. */
void pod_needs_read(const struct translator *t, struct arena *a, struct pod_needs *out);
/* Of a list of nodes (JSON, valid): how many there are, and which devices at least one of them has.
 */
size_t pod_needs_nodes(const struct pod_needs *needs, struct span list,
                       bool has[POD_NEEDS_DEVICES]);
