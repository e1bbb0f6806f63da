#pragma once
/*
 * Which tasks may start on this machine, and why the others wait.  Pure: no I/O and no clock.  The
 * caller adds jobs, says which of their tasks want resources, takes from queue_pick what may start,
 * and gives back what has ended.  The queue counts GPUs; the caller chooses them (resources.h).
 * One thread at a time.
 *
 * Order: priority, then the user with the least recent use of the machine, then age.  No
 * preemption. The first job that must wait has a reservation.  If its start is known, because jobs
 * that have time limits will make enough room, others pass it if they have ended by then or leave
 * what it needs then ("EASY backfill": Lifka, The ANL/IBM SP scheduling system, 1995); it stays the
 * first, so that it starts at that time at the latest.  Else others start only with what it leaves
 * of the whole machine.  The same holds within the quota of a virtual cluster; a job that waits for
 * its quota reserves nothing of the machine.
 */
#include "base/str.h"
#include "machine/resources/amounts.h"

struct queue;
struct queue_job;
struct queue_task;

struct queue *queue_new(void);
/* Frees also its jobs and tasks. */
void queue_free(struct queue *q);

/* What happens next happens at this time, in milliseconds of any clock; times in the past are
 * ignored. */
void queue_now(struct queue *q, int64_t now_ms);
/* What the machine has, and what programs outside of the queue hold of it. */
void queue_machine(struct queue *q, const struct amounts *total, const struct amounts *foreign);
/* The most that the jobs of a virtual cluster may hold together; NULL: no quota (the default).
 * INT64_MAX: this resource is not limited. */
void queue_quota(struct queue *q, struct span virtual_cluster, const struct amounts *quota);

struct queue_order {
	struct span user, virtual_cluster;
	int priority;         /* larger is earlier */
	int64_t submitted_ms; /* of any clock; earlier is earlier */
	bool gang;            /* waiting tasks of the job start all at once or not at all */
};
/* A job without tasks.  Texts are copied.  Jobs of equal order start in the order of these calls.
 */
struct queue_job *queue_add(struct queue *q, const struct queue_order *order);
/* Waiting tasks of the job start all at once or not at all; the default is one by one. */
void queue_gang(struct queue_job *job, bool gang);
/* The time limit of a job: it gives everything back at most limit_ms after its first task runs; at
 * end_ms, by the clock of queue_now, if one runs.  INT64_MAX: unknown (the default). */
void queue_time(struct queue_job *job, int64_t limit_ms, int64_t end_ms);
/* A job that holds something, but has no end_ms, must have one by then, or the caller undoes its
 * tasks: it has passed another.  INT64_MAX: it need not. */
int64_t queue_start_by(const struct queue_job *job);
/* Frees the job, which may be NULL, and its tasks, and gives back what they hold. */
void queue_remove(struct queue *q, struct queue_job *job);

/* A task that waits for `need` (no negative amounts), or holds it already (found after a restart).
 * `owner` is the caller's. */
struct queue_task *queue_want(struct queue *q, struct queue_job *job, const struct amounts *need,
                              void *owner);
struct queue_task *queue_hold(struct queue *q, struct queue_job *job, const struct amounts *need,
                              void *owner);
/* Frees a task that is Completed or deleted; gives back what it holds. */
void queue_end(struct queue *q, struct queue_task *task);
/* A picked task cannot start after all, for instance because another program took the GPU: it
 * waits again, in its old place.  To be called for all tasks that one queue_pick gave for a gang,
 * and before the next queue_pick queue_machine must say what is missing.  Also of a job that is
 * late (queue_start_by). */
void queue_undo(struct queue *q, struct queue_task *task);

/* Decides: all tasks that may start now hold their resources from now on.  Returns their number and
 * their owners; those of a gang are consecutive.  The list is the queue's, until the next call. */
size_t queue_pick(struct queue *q, void *const **owners);
/* Many jobs wait, and the last pick has not come to those behind the first 256 that could not
 * start: what queue_reason and queue_place say about them is older.  A pick that is a second later
 * than the last one that has tried all jobs tries all. */
bool queue_partial(const struct queue *q);

/* Why the waiting tasks of a job wait, as of the last queue_pick: "3rd in the queue: 4 GPUs wanted,
 * 2 free, 6 held by jobs of bob".  Writes nothing, and returns false, if none of them waits. */
bool queue_reason(const struct queue *q, const struct queue_job *job, struct str *out);
/* Their place in the queue, from 1; 0: none waits, or they wait for something else. */
size_t queue_place(const struct queue_job *job);
/* What `need` has more of than `room`: appends "16 GPUs and 2 TiB of memory" and "8 and 64 GiB".
 * false: nothing. */
bool queue_exceeds(const struct amounts *need, const struct amounts *room, struct str *wanted,
                   struct str *there);
