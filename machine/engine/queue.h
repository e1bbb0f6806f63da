#pragma once
/*
 * The queue decides which tasks may start on this machine, and why the others wait.  Pure: no I/O
 * and no clock.  The caller adds jobs, says which of their tasks want resources, takes from
 * queue_pick the tasks that may start, and gives back the resources of those that have ended.  The
 * queue counts GPUs; the caller chooses them (resources.h).
 *
 * Order: priority, then the user with the least recent use of the machine, then age.  No
 * preemption. The first job that must wait has a reservation.  If its start is known, because jobs
 * that have time limits will make enough room, others pass it if they have ended by then or leave
 * what it needs then ("EASY backfill": Lifka, The ANL/IBM SP scheduling system, 1995); it stays the
 * first, so that it starts at that time at the latest.  Else others start only with what it leaves
 * of the whole machine.  The same holds within the quota of a virtual cluster, and within the limit
 * of a user; a job that waits for its quota reserves nothing of the machine, and one that waits for
 * the limit of its user nothing of both.
 *
 * Thread: own
 */
#include <sys/queue.h>

#include "machine/resources/amounts.h"

static const int64_t QUEUE_NEVER = INT64_MAX;

enum queue_why {
	NOT_SEEN,
	STARTS,
	NEVER_MACHINE,
	NEVER_QUOTA,
	NEVER_LIMIT,
	LIMIT,   /* of the user: the same */
	QUOTA,   /* too much of it is in use, or kept for a job that is ahead */
	FOREIGN, /* other programs hold too much of the machine */
	BUSY     /* the queue's tasks do, or it is kept for a job that is ahead */
};

/* A task, whose memory is the caller's: `need` is set before queue_add_task (no negative amounts),
 * the rest is the queue's, to be read only. */
struct queue_task {
	struct amounts need;
	bool holds;       /* it holds what it needs; else it waits for it */
	uint64_t started; /* q->starts at its last start */
	struct queue_job *job;
	TAILQ_ENTRY(queue_task) link, start;
};
TAILQ_HEAD(queue_tasks, queue_task);

enum { QUEUE_USER, QUEUE_QUOTA, QUEUE_MACHINE, QUEUE_POOLS };

struct queue_job {
	/* The caller sets these before the first queue_add_task: */
	int64_t priority;     /* larger is earlier */
	int64_t submitted_ms; /* of any clock; equal jobs start in the order of queue_add_task */
	/* The caller sets these at any time: */
	bool gang; /* its waiting tasks start all at once or not at all */
	/* The time limit: it gives everything back at most limit_ms after its first task runs; at
	 * end_ms, by the clock of queue_time_now, if one runs.  QUEUE_NEVER: unknown (the default).
	 */
	int64_t limit_ms, end_ms;
	/* The caller reads these: */
	struct amounts_sum sum;
	size_t place; /* of its waiting tasks, in the queue; from 1; 0: not for the machine */
	struct queue_tasks tasks; /* in the order of their making */
	/* The queue's: */
	TAILQ_ENTRY(queue_job) wait, hold;            /* of those of the user; of q->holders */
	struct queue_group *user, *pool[QUEUE_POOLS]; /* pool[QUEUE_USER] is the user */
	int64_t by_ms; /* it passed a head that can start then, so it must have ended; or NEVER */
	enum queue_why why;
	struct amounts lack;   /* the needs that could not be met */
	uint64_t pick;         /* that has tried it last */
	struct queue_task *at; /* the task that pick tries next; NULL: it has tried all */
};
TAILQ_HEAD(queue_jobs, queue_job);

/* Jobs that have something in common: those of a user, those of a virtual cluster, all. */
struct queue_group {
	struct queue_group *next;
	char *name;
	struct amounts_sum sum;
	/* A pool, the machine, the quota of a virtual cluster or the limit of a user: */
	struct amounts total;   /* all INT64_MAX: no pool */
	int64_t gpu_ms;         /* GPUs times the time for which its tasks held them */
	struct queue_job *head; /* the first that waits for it, as of the last pick */
	struct amounts need;    /* of the head */
	int64_t at_ms;          /* the head can start then; QUEUE_NEVER: unknown */
	struct amounts spare;   /* the room beside the head then, for jobs that pass it */
	uint64_t since;         /* q->starts when it became the head: later ones have passed it */
	bool met;               /* this pick has come to the head: tasks that start now pass it */
	/* A user: */
	size_t jobs;
	struct queue_jobs waits; /* jobs with tasks that wait; the first one is tried first */
	double share, use;       /* of the machine: by its tasks now; recently, in seconds */
	bool enters, waited;     /* it waits for the machine: now, at the last pick */
	bool endless; /* it has what the head lacks, without time limit, as of the last pick */
	double key;   /* of one pick, as the next */
	struct queue_job *first; /* the next that is tried */
};

static inline struct amounts pool_free(const struct queue_group *p)
{
	struct amounts room = p->total;
	amounts_add(&room, &p->sum.held, -1);
	return room;
}

struct queue {
	/* The caller sets these at any time: the resources of the machine, and those of them that
	 * programs outside of the queue hold. */
	struct amounts total, foreign;
	int64_t now_ms;
	struct queue_group
	    machine; /* all jobs, without what is foreign; then the virtual clusters */
	struct queue_group *users;
	struct queue_jobs holders; /* jobs with tasks that hold something */
	uint64_t picks, starts;
	int64_t whole_ms; /* of the last pick that has tried all jobs */
	size_t places;
};

/* Makes a queue without users and quotas; the caller sets the resources of the machine. */
struct queue *queue_new(void);
/* Frees the queue; the jobs must be removed before. */
void queue_free(struct queue *q);

/* Sets the time of the next calls, in milliseconds of any clock; times in the past are ignored. */
void queue_time_now(struct queue *q, int64_t now_ms);
/* The most that the jobs of a virtual cluster may hold together, all there is by default.
 * INT64_MAX: this resource is not limited. */
void queue_quota(struct queue *q, struct span virtual_cluster, const struct amounts *quota);

/* The same for the jobs of a user; forgotten when the user has no jobs. */
void queue_limit(struct queue *q, struct span user, const struct amounts *limit);

/* A job without tasks.  Texts are copied. */
struct queue_job *queue_add(struct queue *q, struct span user, struct span virtual_cluster);
/* A job that holds something, but has no end_ms, must have one by then, or the caller undoes its
 * tasks: it has passed another.  QUEUE_NEVER: it need not. */
int64_t queue_start_by(const struct queue_job *job);
/* Ends its tasks and frees the job, which may be NULL. */
void queue_remove(struct queue *q, struct queue_job *job);

/* A task waits for what it needs, or holds it already (found after a restart). */
void queue_add_task(struct queue *q, struct queue_job *job, struct queue_task *task, bool holds);
/* A task is Completed or deleted; gives back what it holds. */
void queue_end(struct queue *q, struct queue_task *task);
/* A picked task cannot start after all, for instance because another program took the GPU: it waits
 * again, in its old place.  Call it for all tasks that one queue_pick gave for a gang; before the
 * next queue_pick, q->foreign must have the missing resources.  Also for tasks of a job that is
 * late (queue_start_by). */
void queue_undo(struct queue *q, struct queue_task *task);

/*
 * Decides: all tasks that may start now hold their resources from now on, and are in *started, by
 * `start`; those of a gang are consecutive.  If many jobs wait, it does not come to those behind
 * the first 256 that could not start: queue_reason and job.place are then older for these, and
 * q->whole_ms, too.  A pick that is a second later than the last one that has tried all jobs tries
 * all.
 */
void queue_pick(struct queue *q, struct queue_tasks *started);

/* Writes the reason why the waiting tasks of a job wait, as of the last queue_pick: "3rd in the
 * queue: 4 GPUs wanted, 2 free, 6 held by jobs of bob".  Writes nothing, and returns false, if none
 * of them waits. */
bool queue_reason(const struct queue *q, const struct queue_job *job, struct str *out);
/* Returns true if so much can never start.  Appends the amounts that exceed the machine, the quota
 * of the virtual cluster or this limit of the user: "16 GPUs and 2 TiB of memory for a task; this
 * machine has 8 and 64 GiB"; `each`: " for a task" or "". */
struct queue_bounds {
	struct span virtual_cluster;
	const struct amounts *limit; /* of the user */
};
bool queue_never(const struct queue *q, const struct queue_bounds *b, const struct amounts *need,
                 const char *each, struct str *out);
