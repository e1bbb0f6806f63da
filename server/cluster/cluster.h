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
#include "base/json/scan.h"
#include "k8s/cache/job_entry.h"
#include "k8s/transport/store.h"
#include "server/config/exit_spec.h"
#include "server/state/server.h"

/* A store of this server, with these limits.  NULL and *e: 500. */
struct store *cluster_store(struct server *s, const struct store_limits *limits, struct err *e);
/* Logs `event` when *last is NULL or another text than `why`, and `good` when why is NULL and *last
 * is not.  Keeps why in *last, which the caller frees. */
void cluster_log_trouble(char **last, const char *why, const char *event, const char *good);

/*
 * Keeps the cache of all Frameworks (k8s/cache/cache.h) and the Events of their pods
 * (k8s/cache/events.h) up to date, each by a thread that watches the API server; with --local
 * the store of --local reports changes.  server->cache and server->events exist from follow_start
 * to follow_free; follow_stop ends the threads.
 */
struct follow;
struct reflector_counts;

struct follow *follow_start(struct server *s, struct err *e);
void follow_stop(struct follow *f);
void follow_free(struct follow *f);
/* Returns the reason why lists cannot be answered now, in the arena; NULL: they can.  Any
 * thread. */
const char *follow_problem(const struct server *s, struct arena *a);
/* Milliseconds since the API server was heard about Frameworks: a change, a bookmark (about once a
 * minute) or the end of a list; before that, since the start.  0: a directory.  Any thread. */
int64_t follow_age_ms(const struct server *s);
/* Returns the counts of the reflector of Frameworks, or of Events; NULL: a directory.  Any
 * thread. */
const struct reflector_counts *follow_counts(const struct server *s, bool events);

/*
 * Jobs on this machine.  machine_start makes server->engine from the options; its settings live in
 * the arena.  The directory is followed next; then machine_start_jobs lets the engine begin.  -1
 * and *e (400, 500).
 */
int machine_start(struct server *s, struct arena *a, struct err *e);
int machine_start_jobs(struct server *s, struct err *e);

/* The reasons why nothing in the cluster processes a waiting job. now_ms since 1970.  Pure. */
enum neglect {
	NEGLECT_NONE,
	NEGLECT_DIRECTORY,  /* --engine=none: nothing processes objects */
	NEGLECT_CONTROLLER, /* FrameworkController has not touched it for NEGLECT_MS */
};
enum { NEGLECT_MS = 30000 };
enum neglect job_neglect(const struct server *s, const struct job_entry *job, int64_t now_ms);

/*
 * Exit codes of pai-runtime that FrameworkController does not know.  It retries tasks by its own
 * configuration, so for such a code the retry rules of the exit specification have no effect. Pure.
 */
#define CONTROLLER_NAMESPACE "frameworkcontroller"
#define CONTROLLER_CONFIGMAP "frameworkcontroller"
#define CONTROLLER_MEND                                                                            \
	"kubectl apply -f k8s/deploy/frameworkcontroller/config.yaml, then kubectl -n "            \
	"frameworkcontroller "                                                                     \
	"rollout restart statefulset/frameworkcontroller"

/* Appends the codes ("248, 250") that the podFailureSpec in this ConfigMap (valid JSON) lacks;
 * nothing if it cannot be read. */
void controller_codes_lacking(struct str *out, struct span configmap, const struct exit_spec *s);

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
 */
struct runtime_configmap;

/* Starts a thread of its own; from now on server->runtime_configmap has the state. */
struct runtime_configmap *runtime_configmap_start(struct server *s, struct err *e);
/* Checks everything again and creates what is missing; jobs are accepted meanwhile.  false: this is
 * already going on. */
bool runtime_configmap_check_again(struct runtime_configmap *d);
void runtime_configmap_free(struct runtime_configmap *d);
/* Returns true if an existing ConfigMap holds the wanted program (runtime_object), immutably.
 * Pure. */
bool runtime_configmap_is_same(struct span wanted, struct span there);
/* Returns the reason why no job can be accepted now, for users; NULL: jobs can.  Any thread. */
const char *runtime_configmap_problem(const struct server *s);

/* Runs the janitor (k8s/gc/janitor.h), which removes leftovers of a killed server.  Logs each round
 * that removed an object, and changes of its trouble. */
struct gc;

struct gc *gc_start(struct server *s, struct err *e);
void gc_free(struct gc *g);

/* Looks at all jobs about once a second, unless nothing has changed: stops those whose time is over
 * (job_entry_left_ms).  The limit and the start are in the Framework, so a restarted server
 * goes on, and two servers can do this at once: a PATCH has uid and resourceVersion.  Shows the
 * jobs also to the webhook (webhook.h), which reports their ends.
 *
 * Every five seconds it looks at jobs with Events of refused pulls (events_refusals), and stops
 * those of which a pod has failed three times: a current one, of a task whose containers do not
 * run yet by the status that the PATCH requires to be unchanged. */
struct rounds;

struct rounds *rounds_start(struct server *s, struct err *e);
void rounds_run_once(struct rounds *r);
int rounds_fd(const struct rounds *r); /* readable when rounds_run_once has something to do */
int rounds_timeout_ms(const struct rounds *r);
/* SIGHUP: reads the secret of --webhook again. */
void rounds_reload(struct rounds *r);
/* The last call before rounds_free: reports no end of a job any more and gives the Lease back.
 * Waits two seconds at most. */
void rounds_end(struct rounds *r);
void rounds_free(struct rounds *r);

/* Appends the merge patch that stops a job, as `PUT .../executionType` does. */
struct job_stop {
	const char *uid;
	const char *version; /* resourceVersion; NULL: any */
	const char *reason;  /* annotation rest-lit/stop-reason, which details show; NULL: none */
};
void job_stop_patch(struct str *out, const struct job_stop *s);
