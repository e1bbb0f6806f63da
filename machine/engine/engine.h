#pragma once
/*
 * Jobs on this machine, without a cluster.  The engine follows the Frameworks of the database
 * (machine/store/) and does what FrameworkController, scheduler, kubelet and garbage collector do
 * for them in a cluster: engine.c has its thread and its inbox, job_life.c the ConfigMaps and pods,
 * pod_life.c the life of one pod.  jobs/framework/ decides what becomes of a Framework, queue.h
 * which job starts, task.h runs a pod's containers.  Begin with engine.c.
 *
 * A thread of its own reads and writes the files.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/err.h"
#include "jobs/cache/events.h"
#include "jobs/cache/job_entry.h"
#include "jobs/logs/log_file.h"
#include "machine/resources/resources.h"
#include "machine/store/attempts.h"
#include "machine/store/local.h"
#include "machine/task/pod.h"
#include "machine/task/sandbox.h"
#include "machine/usage/usage.h"

/* The most that the jobs of a virtual cluster may hold together; INT64_MAX: no limit. */
struct engine_quota {
	const char *virtual_cluster;
	struct amounts most;
};

/* The same of the jobs of a user. */
struct engine_limit {
	const char *user;
	struct amounts most;
};

/* NO_IMAGE: three pulls in a row for a task have failed for the same reason, with the image.  The
 * engine goes on trying. */
enum engine_level { ENGINE_NOTE, ENGINE_WARNING, ENGINE_NO_IMAGE };

/* Borrowed until engine_stop.  The callbacks are called from the engine's thread, from
 * engine_start and engine_admit; they must not block for long and must not call the engine. */
struct engine_settings {
	const char *dir;     /* pods, logs, results, images are below; the store's directory */
	struct local *store; /* its follower calls engine_look */
	const char *runtime; /* path of pai-runtime */

	struct inventory_settings machine;
	struct port_range ports; /* of tasks */

	bool own_images;    /* tasks see the files of their images, else this machine's */
	bool only_images;   /* ... also those whose image is IMAGE_OF_HOST */
	bool needs_sandbox; /* else there is one if it is possible, or for images */
	/* Tasks start in this directory, which is read-only, and empty if the machine's contains
	 * what a sandbox hides; or NULL. */
	const char *cwd;
	const char *const *secrets; /* files that no task sees; NULL */
	size_t n_secrets;
	const struct sandbox_mount *mounts; /* of each task */
	size_t n_mounts;
	const struct pod_storage *storages;
	size_t n_storages;
	const struct engine_quota *quotas;
	size_t n_quotas;

	int64_t gpu_idle_ms; /* GPUs of a job that do nothing for so long are told; 0: never */
	bool ignore_foreign; /* GPUs with processes of others are given */

	bool once;              /* no task is tried again, and no log is shortened */
	const char *const *env; /* NAME=VALUE, of each task that does not set them; or NULL */

	int input;         /* standard input of each task; 0: it is empty */
	bool foreground;   /* tasks end with this process, however it ends */
	int64_t keep_logs; /* bytes of all logs of ended tasks */

	int64_t keep_results; /* bytes of all results of ended jobs */
	const char *results;  /* of the only job, absolute; NULL: DIR/results/UID of each job */

	void *arg;                                           /* of the callbacks */
	void (*event)(void *arg, const struct event *event); /* as the components of a cluster */
	void (*notice)(void *arg, enum engine_level level, const char *text); /* a sentence */
};

struct engine;

/* Each port of a task is a descriptor of this process from the decision to start it until its shim
 * runs, and images are pulled meanwhile.  Tasks that start together have at most half as many. */
enum { ENGINE_PORTS_HELD = 8192 };

/* Finds out what the machine has.  NULL and *e (500), e.g. if a sandbox is needed and impossible:
 * the sentence says what to do.  Thread: main. */
struct engine *engine_start(const struct engine_settings *settings, struct err *e);

/*
 * The order at a start: local_open, engine_start, local_follow with a follower that calls
 * engine_look for each Framework that is put or removed, engine_begin, which starts the thread (-1
 * and *err: 500).  engine_look does not wait: it notes that the thread shall read the Framework.
 * job: NULL, it was removed, with this version.
 */
void engine_look(struct engine *e, struct span uid, int64_t version, const struct job_entry *job);
/* Before engine_begin: the Framework of this uid was removed, so its files go.  Files of others
 * that the store does not have are set aside (machine/store/aside.h).  Thread: main. */
void engine_forget(struct engine *e, struct span uid);
/* Thread: main. */
int engine_begin(struct engine *e, struct err *err);

/* Replaces the limits of all users; texts are copied.  others: of users who are not among them.
 * Nothing that runs is stopped. */
void engine_limit_users(struct engine *e, const struct engine_limit *v, size_t n,
                        const struct amounts *others);

/* A job that shall be submitted or scaled. */
struct engine_asked {
	struct span framework; /* valid JSON */
	struct span user, virtual_cluster;
	const struct place *where; /* of each role in the job file; NULL: unknown */
	struct span role;          /* this one shall have `number` tasks; empty: as it says */
	int64_t number;
};
/* Checks if the job can ever run here.  -1 and *err (400): a pod is none for one machine, or a
 * task, or all tasks that start together, want more than the machine, the quota or the limit of the
 * user has. */
int engine_admit(struct engine *e, const struct engine_asked *job, struct err *err);

/* Returns the reason why a job does not run (yet), as a sentence: its place in the queue, a pull, a
 * full disk; or that it can never run.  "": there is no reason. */
struct span engine_waiting(struct engine *e, struct span framework_uid, struct arena *a);

/* The name of one run of a task; attempt: FrameworkAttempt, retry: TaskAttempt; from 0. */
struct engine_task {
	struct span framework_uid, role; /* role: name in the Framework */
	int64_t index, attempt, retry;
	bool init; /* the log of its init container */
};
/* The configuration that this project gives to a FrameworkController in a cluster: exit codes and
 * their retry policy.  NULL and *e. */
struct framework_config *machine_config(struct err *e);

/* The way into a task. */
struct engine_entrance {
	const char *dir;     /* its directory (task.h), in the arena */
	const char *runtime; /* the path of pai-runtime */
	const char *role;    /* in the Framework, in the arena */
};
/* Finds the task of a job that runs, for a session in it.  role: as in the job or in the Framework;
 * empty: the only one.  -1 and *err: 400 (several roles have such a task), 409 (it does not run).
 */
int engine_task_find(struct engine *e, const struct engine_task *t, struct arena *a,
                     struct engine_entrance *out, struct err *err);

/* The files of its log; a file can move while the task ends, then ask again.  false: there is none
 * yet, or, with `ended`, none any more. */
bool engine_log_find(struct engine *e, const struct engine_task *t, struct arena *a,
                     struct log_files *out);
/* Returns why a log is not there, as a sentence: logs of this Framework were deleted to keep the
 * newest ones, else it is lost.  job: USER~JOB. */
const char *engine_log_absence(const struct engine *e, struct span framework_uid, struct span job,
                               struct arena *a);

enum results_state {
	RESULTS_NONE,    /* it has none (yet) */
	RESULTS_KEPT,    /* *dir */
	RESULTS_DELETED, /* --keep-results had to make room for newer ones */
};
/* Tells if the job of this Framework has results, and where: *dir (in the arena, absolute) is
 * DIR/results/UID, 0700. */
enum results_state engine_results(const struct engine *e, struct span framework_uid,
                                  struct arena *a, const char **dir);

/* The use of the tasks of a job, in the last ten minutes; -1: unknown. */
struct engine_used {
	double cpus, busy;          /* busy: percent, mean of its GPUs */
	int64_t memory, gpu_memory; /* bytes, now */
	int64_t gpus_idle_ms;       /* all its GPUs have done nothing for so long; 0 */
	bool memory_at_most;
};

/* The resources that a job holds and wants. */
struct engine_share {
	struct span framework; /* its name */
	struct amounts_sum sum;
	size_t place; /* in the queue, from 1; 0: it waits for something else, or runs */
	struct engine_used used;
};
/* The shares as of the last decision about starts: the sums, and, unless the arena is NULL, the
 * jobs with tasks, in no order; in the arena. */
struct engine_shares {
	struct amounts total;   /* resources of the machine */
	struct amounts foreign; /* GPUs and ports that other programs had when they were wanted */
	struct amounts_sum all;
	struct engine_share *v;
	size_t n;
	const struct engine_share **gpus;   /* the holder of each of total.gpus; NULL: no job */
	const char **gpu_name, **gpu_uuid;  /* of each; the UUID is NULL if it is unknown */
	const struct usage_gpu *gpu;        /* of each */
	const char *no_figures;             /* why none of GPUs is known, or NULL */
	const char *node;                   /* the name of this machine */
	const struct sandbox_mount *mounts; /* engine_settings.mounts */
	size_t n_mounts;
};
void engine_shares(struct engine *e, struct arena *a, struct engine_shares *out);

/* The rows of the tasks of a job that have resources now, as the store has those of earlier ones;
 * curves only of the first 200. */
void engine_attempts(struct engine *e, struct span framework_uid, struct arena *a,
                     struct attempt **v, size_t *n);
/* Somebody looks at GPUs, see usage_want. */
void engine_want_gpus(struct engine *e);
/* Calls `put` for each virtual cluster: GPUs times the time for which its jobs have held them since
 * the start of the engine.  It must not call the engine. */
void engine_gpus_held(struct engine *e, void (*put)(void *arg, const char *name, int64_t gpu_ms),
                      void *arg);

/* Kills all tasks at once; for the second Ctrl-C of a foreground program. */
void engine_kill(struct engine *e);

/* Ends the thread and frees the engine.  Tasks go on without it, unless `foreground`: then they are
 * stopped with their grace first.  Thread: main. */
void engine_stop(struct engine *e);
