#pragma once
/* Jobs on a machine with GPUs in simulated time: the queue decides, each job pulls its image and
 * runs for its duration. Deterministic. sim_run checks at each step that no GPU is assigned twice,
 * that gangs start as a whole, and that the first job in the queue starts no later than the time
 * limits of the others promise; struct sim has the results. */
#include <stdio.h>
#include <stdlib.h>

#include "machine/engine/queue.h"

enum { SIM_USERS = 8, SIM_GPUS = 8, SIM_JOBS = 4096, SIM_STEPS = 5 * SIM_JOBS, SIM_CLUSTERS = 2 };

struct sim_job {
	int user, gpus, tasks, priority;
	int64_t arrives_ms, runs_ms;
	int64_t limit_ms; /* 0: none */
	int64_t pulls_ms;
	int cluster;
	/* Results: */
	int64_t starts_ms; /* -1: not yet */
	int64_t promise_ms;
	unsigned number; /* of starts before its own */
	/* Members of the run: */
	struct queue_job *job;
	struct queue_task task[SIM_GPUS];
	int64_t launches_ms; /* its image is there */
	bool launched;
	unsigned held; /* a bit for each GPU */
};

/* The state from `at_ms` to the next step. */
struct sim_step {
	int64_t at_ms;
	int held[SIM_USERS];
	bool waits[SIM_USERS];
};

struct sim {
	struct sim_job jobs[SIM_JOBS]; /* by arrives_ms */
	size_t n;
	struct sim_step steps[SIM_STEPS];
	size_t steps_n;
	unsigned starts;
	uint64_t random;
	struct queue *queue;
	unsigned busy;
	int64_t quota[SIM_CLUSTERS]; /* GPUs; 0: none */
	int64_t limit[SIM_USERS];    /* the same */
	bool lowers;                 /* a limit is changed at times, also below what runs */
	size_t arrived, promises, undone;
	const char *fault; /* NULL: none */
};

static inline uint64_t sim_random(struct sim *s, uint64_t below)
{
	s->random = s->random * 6364136223846793005u + 1442695040888963407u;
	return (s->random >> 33) % below;
}

static inline struct sim_job *sim_add(struct sim *s, int user, int gpus, int64_t arrives_ms,
                                      int64_t runs_ms)
{
	struct sim_job *j = &s->jobs[s->n++];
	*j = (struct sim_job){ .user = user,
		               .gpus = gpus,
		               .tasks = gpus,
		               .arrives_ms = arrives_ms,
		               .runs_ms = runs_ms,
		               .starts_ms = -1,
		               .promise_ms = INT64_MAX };
	return j;
}

static inline struct span sim_cluster(int i)
{
	return i ? SPAN("other") : SPAN("default");
}

static inline void sim_limit(struct sim *s, int user)
{
	char name[] = { (char)('a' + user), '\0' };
	int64_t gpus = s->limit[user] ? s->limit[user] : INT64_MAX;
	const struct amounts limit = { .of = { gpus, INT64_MAX, INT64_MAX, INT64_MAX } };
	queue_limit(s->queue, span_of(name), &limit);
}

static inline void sim_arrive(struct sim *s, struct sim_job *j)
{
	char user[] = { (char)('a' + j->user), '\0' };
	j->job = queue_add(s->queue, span_of(user), sim_cluster(j->cluster));
	sim_limit(s, j->user);
	j->job->priority = j->priority;
	j->job->submitted_ms = j->arrives_ms;
	j->job->gang = true;
	j->job->limit_ms = j->limit_ms ? j->limit_ms : QUEUE_NEVER;
	struct amounts need = { .gpus = j->gpus / j->tasks, .cpus = 1000, .memory = 1 << 30 };
	for (int i = 0; i < j->tasks; i++) {
		j->task[i].need = need;
		queue_add_task(s->queue, j->job, &j->task[i], false);
	}
}

static inline void sim_pick(struct sim *s, int64_t now_ms)
{
	struct queue_tasks started;
	queue_pick(s->queue, &started);
	for (struct queue_task *task = TAILQ_FIRST(&started); task;) {
		struct sim_job *j =
		    &s->jobs[(size_t)((char *)task - (char *)s->jobs) / sizeof(*s->jobs)];
		int tasks = 0;
		for (; task && task->job == j->job; task = TAILQ_NEXT(task, start))
			tasks++;
		if (tasks != j->tasks)
			s->fault = "part of a gang started";
		for (unsigned g = 0; g < SIM_GPUS; g++) {
			unsigned bit = 1u << g;
			if (!(s->busy & bit) && __builtin_popcount(j->held) < j->gpus)
				j->held |= bit;
		}
		if (__builtin_popcount(j->held) != j->gpus)
			s->fault = "more GPUs given than there are";
		s->busy |= j->held;
		j->launches_ms = j->starts_ms < 0 ? now_ms + j->pulls_ms : j->launches_ms;
		j->launches_ms = j->launches_ms < now_ms ? now_ms : j->launches_ms;
		j->starts_ms = now_ms;
		j->number = s->starts++;
		int64_t own = 0;
		for (size_t i = 0; i < s->arrived; i++)
			own += s->jobs[i].job && s->jobs[i].user == j->user && s->jobs[i].held
			           ? s->jobs[i].gpus
			           : 0;
		if (s->limit[j->user] && own > s->limit[j->user])
			s->fault = "more GPUs given than the user may have";
		if (now_ms > j->promise_ms)
			s->fault = "the first job started later than promised";
	}
}

/* Jobs that have their images run; one that has not in time gives back its GPUs.  true: the queue
 * must decide again. */
static inline bool sim_launch(struct sim *s, int64_t now_ms)
{
	bool again = false;
	for (size_t i = 0; i < s->arrived; i++) {
		struct sim_job *j = &s->jobs[i];
		if (!j->job || !j->held || j->launched)
			continue;
		j->launched = j->launches_ms <= now_ms;
		if (j->launched && j->limit_ms) {
			j->job->end_ms = now_ms + j->limit_ms;
		} else if (!j->launched && queue_start_by(j->job) < now_ms) {
			for (int t = 0; t < j->tasks; t++)
				queue_undo(s->queue, &j->task[t]);
			s->busy &= ~j->held;
			j->held = 0;
			s->undone++;
		}
		again |= !j->held || (j->launched && j->limit_ms);
	}
	return again;
}

/* Is so much free when what has launched has reached its limits until then? */
static inline bool sim_fits(const struct sim *s, const struct sim_job *head, int64_t at_ms)
{
	int64_t all = 0, cluster = 0, own = 0;
	for (size_t i = 0; i < s->arrived; i++) {
		const struct sim_job *j = &s->jobs[i];
		if (!j->job || !j->held || (j->limit_ms && j->launches_ms + j->limit_ms <= at_ms))
			continue;
		all += j->gpus;
		cluster += j->cluster == head->cluster ? j->gpus : 0;
		own += j->user == head->user ? j->gpus : 0;
	}
	int64_t quota = s->quota[head->cluster] ? s->quota[head->cluster] : SIM_GPUS;
	int64_t limit = s->limit[head->user] ? s->limit[head->user] : SIM_GPUS;
	return all + head->gpus <= SIM_GPUS && cluster + head->gpus <= quota &&
	       own + head->gpus <= limit;
}

/* Notes when the first job in the queue can start, as seen now. */
static inline void sim_promise(struct sim *s)
{
	struct sim_job *head = NULL;
	for (size_t i = 0; i < s->arrived; i++) {
		struct sim_job *j = &s->jobs[i];
		if (j->job && j->held && !j->launched)
			return; /* its end is not known yet */
		if (j->job && !j->held && j->job->place == 1)
			head = j;
	}
	int64_t when = INT64_MAX;
	for (size_t i = 0; head && i < s->arrived; i++) {
		const struct sim_job *j = &s->jobs[i];
		/* One that waits for the quota, or the limit, is ahead of it. */
		if (j->job && !j->held && !j->job->place &&
		    (j->cluster == head->cluster || j->user == head->user))
			return;
		int64_t end = j->launches_ms + j->limit_ms;
		if (j->job && j->held && j->limit_ms && end < when && sim_fits(s, head, end))
			when = end;
	}
	if (when == INT64_MAX)
		return;
	s->promises++;
	head->promise_ms = when < head->promise_ms ? when : head->promise_ms;
}

static inline void sim_note(struct sim *s, int64_t now_ms)
{
	struct sim_step *step = &s->steps[s->steps_n++];
	*step = (struct sim_step){ .at_ms = now_ms };
	for (size_t i = 0; i < s->n; i++) {
		struct sim_job *j = &s->jobs[i];
		if (j->job && !j->held)
			step->waits[j->user] = true;
		else if (j->job)
			step->held[j->user] += j->gpus;
	}
}

static inline void sim_open(struct sim *s)
{
	s->queue = queue_new();
	s->queue->total =
	    (struct amounts){ .gpus = SIM_GPUS, .cpus = 64000, .memory = 256LL << 30 };
	for (int c = 0; c < SIM_CLUSTERS; c++) {
		struct amounts quota = { .of = { s->quota[c], INT64_MAX, INT64_MAX, INT64_MAX } };
		if (s->quota[c])
			queue_quota(s->queue, sim_cluster(c), &quota);
	}
}

/* The next time at which something happens; INT64_MAX: all have ended. */
static inline int64_t sim_next(const struct sim *s)
{
	int64_t next = s->arrived < s->n ? s->jobs[s->arrived].arrives_ms : INT64_MAX;
	for (size_t i = 0; i < s->arrived; i++) {
		const struct sim_job *j = &s->jobs[i];
		if (!j->job || !j->held)
			continue;
		int64_t then = j->launches_ms + (j->launched ? j->runs_ms : 0);
		if (!j->launched && queue_start_by(j->job) < then)
			then = queue_start_by(j->job) + 1;
		next = then < next ? then : next;
	}
	return next;
}

/* Until all jobs have ended. */
static inline void sim_run(struct sim *s)
{
	sim_open(s);
	for (int64_t now = 0; now != INT64_MAX && s->fault == NULL; now = sim_next(s)) {
		queue_time_now(s->queue, now);
		for (size_t i = 0; i < s->arrived; i++) {
			struct sim_job *j = &s->jobs[i];
			if (j->job && j->launched && j->launches_ms + j->runs_ms <= now) {
				queue_remove(s->queue, j->job);
				j->job = NULL;
				s->busy &= ~j->held;
			}
		}
		if (s->lowers && sim_random(s, 20) == 0) {
			int user = (int)sim_random(s, 4);
			for (size_t i = 0; i < s->arrived; i++) /* what was promised is void */
				s->jobs[i].promise_ms = INT64_MAX;
			s->limit[user] = 3 + (int64_t)sim_random(s, 6);
			sim_limit(s, user);
		}
		while (s->arrived < s->n && s->jobs[s->arrived].arrives_ms <= now)
			sim_arrive(s, &s->jobs[s->arrived++]);
		(void)sim_launch(s, now);
		do
			sim_pick(s, now);
		while (sim_launch(s, now));
		sim_promise(s);
		sim_note(s, now);
	}
	for (size_t i = 0; i < s->n && s->fault == NULL; i++) {
		if (s->jobs[i].job || s->jobs[i].starts_ms < 0)
			s->fault = "a job never started";
	}
	queue_free(s->queue);
}

/* The least average of GPUs that a user had in any window of this length in which it always had
 * waiting jobs; SIM_GPUS if there is no such window.  *windows counts them. */
static inline double sim_least(const struct sim *s, int user, int64_t window_ms, size_t *windows)
{
	double least = SIM_GPUS;
	*windows = 0;
	for (size_t i = 0; i < s->steps_n; i++) {
		int64_t from = s->steps[i].at_ms, sum = 0;
		bool whole = false;
		for (size_t k = i; k + 1 < s->steps_n && s->steps[k].waits[user] && !whole; k++) {
			int64_t until = s->steps[k + 1].at_ms;
			whole = until >= from + window_ms;
			until = whole ? from + window_ms : until;
			sum += s->steps[k].held[user] * (until - s->steps[k].at_ms);
		}
		if (!whole)
			continue;
		++*windows;
		double mean = (double)sum / (double)window_ms;
		least = mean < least ? mean : least;
	}
	return least;
}

/* The part of the GPUs that was in use while jobs waited. */
static inline double sim_used(const struct sim *s)
{
	int64_t used = 0, time = 0;
	for (size_t i = 0; i + 1 < s->steps_n; i++) {
		int64_t ms = s->steps[i + 1].at_ms - s->steps[i].at_ms;
		bool waits = false;
		for (int u = 0; u < SIM_USERS; u++)
			waits = waits || s->steps[i].waits[u];
		for (int u = 0; u < SIM_USERS && waits; u++)
			used += s->steps[i].held[u] * ms;
		time += waits ? ms : 0;
	}
	return time ? (double)used / (double)time / SIM_GPUS : 1;
}
