#pragma once
/* The parts of the scheduler: queue.c decides, queue_reason.c says why jobs wait. */
#include <sys/queue.h>

#include "machine/engine/queue.h"

static const int64_t NEVER = INT64_MAX;

enum resource { GPUS, CPUS, MEMORY, PORTS, RESOURCES };

static inline int64_t queue_amount(const struct amounts *a, enum resource r)
{
	const int64_t amount[RESOURCES] = { a->gpus, a->cpus, a->memory, a->ports };
	return amount[r];
}

/* What jobs take from: the machine, or the quota of a virtual cluster. */
struct queue_pool {
	struct amounts total, held;
	/* The first job that waits for this pool, as of the last pick; what it needs, and what
	 * tasks hold that started since it is the first. */
	struct queue_job *head;
	struct amounts head_need, passed;
	int64_t at_ms;        /* the head can start then; NEVER: unknown */
	struct amounts spare; /* what is free beside it then */
	uint64_t turn;        /* counts the heads */
	bool met;             /* this pick has come to the head: what starts now passes it */
};

struct queue_cluster {
	struct queue_cluster *next;
	char *name;
	struct queue_pool pool;
};

struct queue_user {
	struct queue_user *next;
	char *name;
	size_t jobs;
	TAILQ_HEAD(queue_waits, queue_job) waits_by_age; /* jobs with tasks that wait; in order */
	double use;
	struct amounts held; /* by all its tasks */
	struct amounts bare; /* by those of them without GPUs */
	bool waits, waited;  /* for the machine: now, at the last pick */
	bool endless; /* its first job waits for one without time limit, as of the last pick */
	/* Of one pick: */
	double key;
	struct queue_job *first; /* the next that is tried */
};

enum queue_why {
	NOT_SEEN,
	STARTS,
	NEVER_MACHINE,
	NEVER_QUOTA,
	QUOTA,   /* too much of it is in use, or kept for a job that is ahead */
	FOREIGN, /* other programs hold too much of the machine */
	BUSY     /* the queue's tasks do, or it is kept for a job that is ahead */
};

struct queue_job {
	TAILQ_ENTRY(queue_job) link;
	TAILQ_ENTRY(queue_job) wait, hold; /* of those of the user; of q->holders */
	uint64_t number;                   /* of queue_add */
	struct queue_user *user;
	struct queue_cluster *cluster;
	int64_t priority, submitted_ms;
	bool gang;
	int64_t limit_ms, end_ms; /* queue_time */
	int64_t by_ms; /* it passed a head that can start then, so it must have ended; NEVER */
	TAILQ_HEAD(queue_tasks, queue_task) tasks; /* in the order of their making */
	size_t waiting, holding;                   /* of these */
	struct amounts want, held;                 /* sums of those that wait, and of the others */
	enum queue_why why;
	size_t place;        /* in the queue, from 1; if BUSY */
	struct amounts lack; /* what could not start */
	uint64_t pick;       /* that has tried it last */
	struct queue_task *at;
};

enum { OF_MACHINE, OF_CLUSTER, POOLS };

struct queue_task {
	TAILQ_ENTRY(queue_task) link;
	struct queue_job *job;
	struct amounts need;
	void *owner;
	bool holds;
	uint64_t turn[POOLS]; /* of the heads that it passed; 0: none */
};

struct queue {
	int64_t now_ms;
	struct amounts total; /* also what others hold; machine.total is without that */
	struct queue_pool machine;
	struct queue_cluster *clusters;
	struct queue_user *users;
	size_t users_n;
	TAILQ_HEAD(queue_jobs, queue_job) jobs;
	TAILQ_HEAD(queue_holders, queue_job) holders; /* jobs with tasks that hold something */
	uint64_t numbers, picks;
	/* Of one pick: */
	bool partial;
	int64_t whole_ms;     /* of the last one that was complete */
	size_t tries, places; /* tries since the last start */
	void **started;
	size_t started_n, started_cap;
};

/* `need` is within `room`, as far as it needs something. */
static inline bool queue_fits(const struct amounts *need, struct amounts room)
{
	for (enum resource r = 0; r < RESOURCES; r++) {
		int64_t n = queue_amount(need, r);
		if (n > 0 && n > queue_amount(&room, r))
			return false;
	}
	return true;
}

static inline struct amounts pool_free(const struct queue_pool *p)
{
	struct amounts room = p->total;
	amounts_subtract(&room, &p->held);
	return room;
}
