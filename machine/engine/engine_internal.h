#pragma once
/*
 * The parts of the engine.  Private to machine/engine/ and its tests.  Everything belongs to the
 * engine's thread, except for what `lock` protects.
 */
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "base/heap.h"
#include "jobs/framework/drive.h"
#include "jobs/framework/view.h"
#include "machine/engine/engine.h"
#include "machine/engine/queue.h"
#include "machine/images/images.h"
#include "machine/store/aside.h"
#include "machine/task/pod.h"
#include "machine/task/task.h"
#include "machine/words.h"

enum { UID_TEXT = 40 };
static const int64_t ENGINE_NEVER = INT64_MAX;

struct engine_job;
struct engine_pod;

#define POD_LOST "The process that kept this task has vanished"

/* The resources that a task of a job holds, from its first pod until it is Completed. */
struct engine_allocation {
	struct queue_task task; /* first: one of job->queued->tasks */
	char *role;
	int64_t index;
	struct engine_pod *pod; /* the present one; NULL between two tries */
};

/* In the order of its life; pod_life.c has the table of what may follow. */
enum engine_pod_state {
	POD_QUEUED,  /* waits for resources */
	POD_BOUND,   /* has them; waits until its addresses are stored */
	POD_PULLING, /* waits for its image */
	POD_SOUGHT,  /* its shim, which an earlier process has started or was about to, is sought */
	POD_STARTED, /* has a shim */
	POD_EXITED,  /* its shim has ended, or vanished */
	POD_ENDED,   /* ... and its end is read; or it could not start */
	POD_REMOVED  /* freed at the end of the step */
};

struct engine_pod {
	struct engine_pod *next; /* of the job */
	struct engine *e;
	struct engine_job *job;
	char uid[UID_TEXT];
	struct arena texts; /* of the pointers to const, but `spec` */
	const char *name, *role, *dir, *ip;
	int64_t index, attempt, retry;
	int64_t grace_s; /* terminationGracePeriodSeconds */
	struct amounts need;
	bool gang;
	char *ports;  /* its numbers with commas, in the order of its labels; NULL: not chosen */
	char *gpus;   /* their indexes with commas; NULL: none, or not bound */
	int *port_fd; /* need.ports locks that no shim has yet; NULL */
	enum engine_pod_state state;
	struct engine_allocation *allocation;
	int64_t bound_ms;      /* since 1970, when it got its resources; 0: it has none, or a row */
	int64_t bound_boot_ms; /* by clock_boot_ms; -1: in an earlier boot */
	bool gpu_shared;       /* it was told that others use its GPU */
	struct usage_entry *usage; /* lock: while it is sampled; NULL */
	bool dying;                /* it is deleted: without a shim it is removed at once */
	int64_t deletion_s, deletion_grace_s;
	struct task_state task; /* as last read: tells if it runs, or was lost */
	const struct pod *spec; /* in the arena, while it is about to start; NULL */
	struct arena arena;     /* of `spec` */
	int pidfd;              /* of its shim; -1 */
	struct images_use *image;
	int64_t due_ms;        /* not before */
	unsigned tries;        /* in a row: starts that failed; looks for a task that runs */
	char *problem;         /* lock: why it does not start; NULL */
	char *pull_problem;    /* reason of the last pull's failure; NULL: it has not failed */
	unsigned pulls_failed; /* in a row, for the same reason */
};

/* job_life.c has the table of what may follow. */
enum job_life {
	LIFE_NEW,      /* its Framework was not put yet */
	LIFE_STORED,   /* has a state machine, whose status is stored */
	LIFE_UNSTORED, /* ... is newer than the stored one */
	LIFE_HELD,     /* ... and is stored before the next sync */
	LIFE_COMPLETE, /* without state machine; sync_ms: to be deleted */
	LIFE_GONE,     /* from here on: the Framework is deleted, its pods end */
	LIFE_LOST,     /* ... but not by a user: its pod is set aside */
	LIFE_CLEARED   /* it was COMPLETE */
};

struct engine_job {
	char uid[UID_TEXT];
	struct engine *e;
	LIST_ENTRY(engine_job) same_hash; /* of e->jobs */
	TAILQ_ENTRY(engine_job) live;     /* of e->live, unless COMPLETE or CLEARED */
	struct heap_item due;             /* of e->due */
	TAILQ_ENTRY(engine_job) round;    /* of e->round, if it is */
	enum { ROUND_NONE, ROUND_DUE, ROUND_LOOKED } in_round;
	TAILQ_ENTRY(engine_job) changes; /* lock: of e->changes, if it has `changed` */
	bool changed;                    /* lock */
	int64_t latest;                  /* lock: resourceVersion that its changes tell */
	char *name;                      /* NULL: no Framework of this uid was seen */
	char *label;                     /* USER~JOB; NULL: it was not read */
	enum job_life life;
	struct framework *framework; /* NULL: NEW, COMPLETE, or deleted then */
	int64_t version;             /* resourceVersion at the last look; 0: not put yet */
	/* If it had ended when it was seen first: when, by the wall clock, and resourceVersion
	 * then. */
	int64_t ended_ms, ended_version;
	char configmap[UID_TEXT]; /* uid of its ConfigMap, which owns all pods; "": none */
	bool dying;               /* the ConfigMap is deleted after them */
	struct engine_pod *pods;
	struct engine_pod *last_found; /* the pod found last */
	struct queue_job *queued;      /* lock; NULL: it has ended */
	bool look;                     /* to be synced */
	unsigned sync_failures, store_failures;
	int64_t sync_ms, store_ms; /* sync again; store again */
	char *problem;             /* lock: why its status is not stored, or it is not valid */
	json_t *refusal;           /* for struct framework_created */
	int64_t limit_s;           /* of its time; 0: none */
	bool launched;             /* a task of it runs, or has run */
	int64_t stops_ms;          /* it is stopped then (clock_ms); ENGINE_NEVER: unknown */
	int64_t grace_s;           /* the longest of its tasks */
	int64_t launched_boot_ms;  /* by clock_boot_ms, to be stored; 0: not, or it is */
	/* The annotation rest-lit/gpu-idle: all GPUs do nothing since then, by the wall clock; 0:
	 * it is not there.  As it is stored, is to be stored, and would be if nobody
	 * kept the job (rest-lit/gpu-keep), who does until kept_ms. */
	int64_t idle_stored_ms, idle_next_ms, idle_ms, kept_ms;
	unsigned quick; /* tasks that failed soon after their start, one after the other */
};

struct engine {
	struct engine_settings set;
	struct arena arena; /* of copies in `set` and paths */
	struct pod_settings pods;
	bool sandbox;
	struct words hide; /* from all tasks, unless they mount it */
	bool shows_cwd;    /* set.cwd is mounted */
	struct framework_config *config;
	struct inventory inventory;
	struct queue *queue; /* lock */
	char *cgroup;        /* below it are those of tasks; NULL: there are no limits */
	struct images *images;
	int pods_dir, logs_dir, results_dir, trash_dir;
	int trash; /* eventfd: there is something in it, or `stop` */
	atomic_bool stop, kill;
	int epoll, event;
	pthread_t thread[2]; /* engine_run, trash_run */
	size_t n_threads;
	size_t ports_held; /* descriptors of all port_fd */

	/* Protects what follows, each `problem`, the holders of GPUs, the lists of pods and the
	 * queue: this thread alone changes these, and reads them without it, but for `changes`,
	 * `jobs` and `live`, to which others add. */
	pthread_mutex_t lock;
	struct engine_limits {
		struct arena arena;
		struct engine_limit *v;
		size_t n;
		struct amounts others;
		bool changed; /* the queue must be asked again */
	} limits;
	TAILQ_HEAD(engine_changes, engine_job) changes;   /* jobs whose Frameworks have changed */
	LIST_HEAD(engine_jobs, engine_job) jobs[1 << 14]; /* by the hash of uid */
	struct hash_key hash_key;                         /* of `jobs`; does not change */
	TAILQ_HEAD(engine_live, engine_job) live;         /* those that have not ended */
	struct results_ended *results_ended;              /* to be measured */

	/* Members that only the engine's thread uses: */
	struct heap due;                            /* jobs that are to be looked at */
	TAILQ_HEAD(engine_round, engine_job) round; /* those of this round, whose time has come */
	size_t n_gone;                              /* jobs whose Frameworks are deleted */
	struct engine_pod *latest; /* the pod read last for its needs; NULL: none */
	int64_t probe_ms, trim_ms;
	bool ending, killed;
	bool schedule;
	size_t starts; /* of tasks in this round */
	int64_t log_bytes;
	int64_t result_bytes; /* of ended jobs; of the thread trash_run */
	struct usage *usage;  /* NULL before engine_begin */
	atomic_bool usage_changed;
	struct attempt *rows; /* to be stored; their texts are in rows_arena */
	size_t rows_n, rows_room;
	struct arena rows_arena;
	int64_t rows_ms; /* those of all tasks that run are stored again */
};

/* ---- engine.c ---- */

/* The job is looked at again at this time at the latest (clock_ms); 0: now. */
void engine_due(struct engine_job *job, int64_t when_ms);
/* p: its shim has ended when this is readable; NULL: this only wakes the thread. */
void engine_watch(struct engine *e, int fd, struct engine_pod *p);
void engine_notice(struct engine *e, enum engine_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
struct engine_job *engine_find(struct engine *e, struct span uid);
/* The job of this uid; made if there is none.  Locked. */
struct engine_job *engine_job_of(struct engine *e, struct span uid);
/* Forgets a job. */
void engine_drop(struct engine_job *job);
/* The whole object. */
enum store_outcome engine_get(struct engine *e, enum object_kind kind, const char *name,
                              struct local_answer *out);

/* The limit of a user.  Locked. */
const struct amounts *engine_limit_of(const struct engine *e, struct span user);

/* ---- machine.c: the resources and abilities of this machine ---- */

int engine_find_machine(struct engine *e, struct err *err);

/* ---- job_life.c: Frameworks ---- */

/* Changes `life` as the table allows. */
void job_become(struct engine_job *job, enum job_life life);
/* Its name and its place in the queue.  Locked; once, before the first job_put. */
void job_read_order(struct engine_job *job, const struct job_entry *c);
/* Instead of job_put: the Framework has not changed since job_read_order, and had ended. */
void job_put_ended(struct engine_job *job);
/* The Framework as it is in the store. */
void job_put(struct engine_job *job, const struct local_answer *answer);
void job_remove(struct engine_job *job);
/* One look. */
void job_step(struct engine_job *job);
/* All GPUs of the job do nothing since then, long enough to say so; 0: no, or not known.  A time
 * that is told again, but not later, changes nothing.  The annotation follows in the next round. */
void job_set_gpu_idle(struct engine_job *job, int64_t since_wall_ms);
/* The end of a round: stores the statuses that have changed; then the pods that they announce
 * start. Jobs that are gone are freed. */
void jobs_settle(struct engine *e);
/* Sets the reason why the job waits: "FORMAT: WHAT"; format NULL: it does not wait. */
void job_trouble(struct engine_job *job, const char *format, struct span what);

/* The ConfigMap and the pods that a stored status names. */
void job_restore(struct engine_job *job, struct span status);
/* Ends the tasks in DIR/pods that no Framework has; after all were put.  Their files are removed if
 * the Framework was deleted, else set aside. */
void orphans_end(struct engine *e);

/* ---- pod_life.c: the life of a pod ---- */

/* Changes the state as the table allows. */
void pod_become(struct engine_pod *p, enum engine_pod_state state);
/* It has a shim, may have one, or had one whose end is to be read. */
static inline bool pod_is_started(const struct engine_pod *p)
{
	return p->state >= POD_SOUGHT && p->state <= POD_EXITED;
}
/* Marks it as deleted; grace_s 0: now. */
void pod_delete(struct engine_pod *p, int64_t grace_s);
/* One look.  `stored`: the status that announces this pod is stored, so it may start. */
void pod_step(struct engine_pod *p, bool stored);
void pod_bind(struct engine_pod *p);
/* Sets the reason why the pod does not start; NULL: there is none. */
void pod_notify(struct engine_pod *p, const char *problem);
/* Chooses and locks its ports, before pod_bind; or locks those that it has been given.  NULL, or
 * why not; if too few are free to choose from, queue->foreign says so from now on. */
const char *pod_take_ports(struct engine_pod *p);
/* Closes locks that no shim has inherited. */
void pod_drop_ports(struct engine_pod *p);
void pod_view(struct engine_pod *p, struct framework_pod *out);
/* Computes the resources that the pod needs, which are the same for all pods of its role.  -1 and
 * *err: no such pod can run here. */
int pod_read_need(struct engine_pod *p, struct err *err);
/* `arg`: a pod with other changes for the state machine, or with another status of its image. */
void pod_changes(void *arg);
/* A pull for it has failed. */
void pod_count_pull(struct engine_pod *p, const char *why);
/* Sets the limits of a task that an earlier process has started.  Its unit (systemd before version
 * 254) removes them, because no process can be started in a cgroup that limits its children. */
void pod_limit(struct engine_pod *p);
/* Finds the pod's task after a restart; false if its shim was not started. */
bool pod_find(struct engine_pod *p);
void pod_free(struct engine_pod *p);
void pod_event(struct engine_pod *p, const char *type, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- allocations.c: resources ---- */

/* A pod that was made, or found after a restart, gets what its task holds already, or waits for it;
 * without a job in the queue it gets nothing. */
void allocation_enter(struct engine_pod *p);
/* Ends the allocation of a task; role NULL: all. */
void allocations_end(struct engine_job *job, const char *role, int64_t index);
/* Tells the queue when the job ends at the latest. */
void allocations_time(struct engine_job *job);
/* A job that has passed another in the queue, but does not run in time, waits again. */
void allocations_undo_late(struct engine_job *job);
void engine_schedule(struct engine *e);
/* Locks the GPUs of a allocation, also anew, after its shim has ended; false: too few are free. */
bool allocation_lock(struct engine *e, struct engine_allocation *g);
/* Closes locks that no shim has inherited; keep: nobody else gets the GPUs. */
void allocation_unlock(struct engine *e, struct engine_allocation *g, bool keep);

/* ---- pod_usage.c: what tasks use ---- */

/* It has got its resources. */
void pod_note_bound(struct engine_pod *p);
/* Keeps this time in its directory, for the next start of the server. */
void pod_write_bound(const struct engine_pod *p);
void pod_read_bound(struct engine_pod *p);
/* It has a shim, or its shim was found again. */
void pod_usage_begin(struct engine_pod *p, bool found);
/* It has ended: adds its row to those that are to be stored.  cpu_ms: as waitid says; -1. */
void pod_usage_end(struct engine_pod *p, int64_t cpu_ms);
/* Adds the rows of all tasks that run. */
void engine_note_rows(struct engine *e);
/* Stores the rows; those of a pod before its directory is removed. */
void engine_store_rows(struct engine *e);
/* After a round of the sampler, or when rows_ms has come. */
void engine_look_at_usage(struct engine *e);
/* Sums up the use of the tasks of a job.  Locked; any thread. */
void engine_used(struct engine *e, const struct engine_job *job, struct engine_used *out);

/* ---- logs.c: directories and small files ---- */

int engine_make_directories(struct engine *e, struct err *err);

/* Moves a file or a directory to where it is removed. */
void trash_take(struct engine *e, int dir, const char *name);
/* Removes all that is there; false: `stop`. */
bool trash_empty(const struct engine *e);
/* A thread for that, because it can wait for the disk long. */
void *trash_run(void *arg);

/* Files of an ended task or job, which are kept while there is room. */
struct kept_files {
	const char *user, *path; /* in an arena */
	int64_t ended_ms, bytes;
	int64_t rank; /* bytes of this and of the later ones of the user */
};
/* If these are more than `most` bytes, removes the oldest one of the user who has most, until
 * `until` are left: so nobody's files go for those of another who has more.  Returns what is left.
 */
int64_t kept_bound(struct kept_files *v, size_t n, int64_t most, int64_t until,
                   void (*drop)(struct engine *, const struct kept_files *), struct engine *e);

/* Moves the log of a pod to DIR/logs. */
void logs_keep(struct engine_pod *p);
/* Moves files of a job, which the store does not have or lacks a part of, to damaged/, and tells
 * it. path: with DIR; label: NULL: not known; what: "" or "a part of ". */
void engine_set_aside(struct engine *e, const char *path, const char *label, const char *what);
/* Any thread; NULL: there can be none. */
char *logs_path(const struct engine *e, const struct engine_task *t, struct arena *a);
/* Sets aside the logs of Frameworks that the store does not have. */
void logs_set_orphans_aside(struct engine *e);

/* ---- results.c: DIR/results/UID, and UID.size, its bytes when the job has ended ---- */

/* The directory of a job, which may not exist yet. */
const char *results_path(const struct engine *e, const char *uid, struct arena *a);
/* The pod has a mount of it. */
bool results_wanted(const struct pod *spec);
/* The job has ended: what it has left is measured, and the oldest results go if there are too many.
 * Locked. */
void results_end(const struct engine_job *job);
/* Measures those of jobs that have ended; on the thread of the trash. */
void results_measure_ended(struct engine *e);
/* The results of a Framework that the store does not have become results/unknown-UID; they are its
 * results again if it has it at a later start. */
void results_set_orphans_aside(struct engine *e);

/* The files DIR/logs/UID/job and DIR/pods/UID/job have the line "UID USER~JOB": whose files these
 * are, if the store does not have the job. */
void owner_write(const struct engine_job *job, const char *dir);
/* Returns USER~JOB, in the arena; NULL, and *uid "": it cannot be read. */
const char *owner_read(const char *dir, struct arena *a, struct span *uid);
