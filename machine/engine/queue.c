/*
 * Orders the users and jobs that wait, and starts the tasks that fit, by the rule in queue.h.
 *
 * A user's use is the part of the machine that its tasks held, in seconds of the whole machine,
 * halved every ten minutes.  A start counts as a second more, so that any number of short jobs
 * comes to an end.  The resources that tasks hold now count as HELD_S seconds in advance, which
 * keeps users from taking turns with the whole machine.  When a user begins to wait, its use is
 * brought near that of the users that wait already (queue_enter), because otherwise a user that had
 * the machine for an hour would get nothing for minutes after that.
 */
#include "machine/engine/queue.h"

#include <math.h>
#include <stdlib.h>

#define HALF_LIFE_S 600.0
#define START_S     1.0
#define HELD_S      2.0
#define LEAD_S      60.0 /* of the machine: the lead, or lag, of a user that begins to wait */
#define QUEUE_ENDLESS                                                                              \
	{                                                                                          \
		.of = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX }                               \
	}
#define FORGOTTEN_S 0.01 /* a user without jobs that used less is forgotten */

enum {
	TRIES_MOST = 256, /* in a row that start nothing: the end of a pick */
	WHOLE_MS = 1000,  /* but one in this time tries all */
};

/* ---- pools ------------------------------------------------------------------------- */

/* The first pool of a job: users without a limit are none. */
static size_t queue_from(const struct queue_job *job)
{
	static const struct amounts ENDLESS = QUEUE_ENDLESS;
	return memcmp(&job->user->total, &ENDLESS, sizeof(ENDLESS)) ? QUEUE_USER : QUEUE_QUOTA;
}

/* Returns the time when a job gives back the resources that it holds. */
static int64_t queue_job_end_ms(const struct queue_job *job)
{
	return job->end_ms != QUEUE_NEVER ? job->end_ms : job->by_ms;
}

/* Returns the free resources of a pool at a time, without those that the head holds, by the known
 * ends; at QUEUE_NEVER: when all tasks have ended that did not pass the head. */
static struct amounts pool_free_at(const struct queue *q, const struct queue_job *head, size_t i,
                                   int64_t at_ms)
{
	const struct queue_group *p = head->pool[i];
	struct amounts room = pool_free(p);
	const struct queue_job *job = NULL;
	TAILQ_FOREACH(job, &q->holders, hold)
	{
		const struct queue_task *t = TAILQ_FIRST(&job->tasks);
		if (job->pool[i] != p || (job == head && job->gang))
			continue;
		if (at_ms != QUEUE_NEVER)
			amounts_add(&room, &job->sum.held,
			            job != head && queue_job_end_ms(job) <= at_ms);
		for (; t && at_ms == QUEUE_NEVER; t = TAILQ_NEXT(t, link))
			amounts_add(&room, &t->need, t->holds && t->started <= p->since);
	}
	return room;
}

/* The first end of a job after which the first n pools of the head have what it needs. */
static int64_t queue_first_fit_ms(const struct queue *q, const struct queue_job *head, size_t n,
                                  const struct amounts *need)
{
	int64_t at_ms = QUEUE_NEVER;
	const struct queue_job *job = NULL;
	TAILQ_FOREACH(job, &q->holders, hold)
	{
		int64_t end_ms = queue_job_end_ms(job);
		bool fits = end_ms < at_ms;
		for (size_t i = queue_from(head); i < n && fits; i++)
			fits = amounts_fit(need, pool_free_at(q, head, i, end_ms));
		at_ms = fits ? end_ms : at_ms;
	}
	return at_ms;
}

static void pool_set_head(const struct queue *q, struct queue_group *p, struct queue_job *job)
{
	if (p->head != job)
		p->since = q->starts;
	p->head = job;
	p->at_ms = QUEUE_NEVER;
}

/* A job cannot start: it has the reservation of each of its first n pools in which it is the first.
 * Its start is known if it is so in all, so that no other job delays it. */
static void queue_reserve(const struct queue *q, struct queue_job *job, size_t n,
                          const struct amounts *need)
{
	bool first = true;
	for (size_t i = queue_from(job); i < n; i++)
		first = first && !job->pool[i]->met;
	int64_t at_ms = first ? queue_first_fit_ms(q, job, n, need) : QUEUE_NEVER;
	for (size_t i = queue_from(job); i < n; i++) {
		struct queue_group *p = job->pool[i];
		if (p->met)
			continue;
		pool_set_head(q, p, job);
		p->met = true;
		p->need = *need;
		p->at_ms = at_ms;
		p->spare = pool_free_at(q, job, i, at_ms);
		amounts_add(&p->spare, need, -1);
	}
}

/* ---- users and clusters ------------------------------------------------------------ */

/* The part of the machine that a task takes: of its GPUs if it has any, else of what it takes most
 * of. */
static double queue_share(const struct queue *q, const struct amounts *need)
{
	double part[AMOUNTS];
	for (enum amount i = 0; i < AMOUNTS; i++)
		part[i] = q->total.of[i] > 0 ? (double)need->of[i] / (double)q->total.of[i] : 0;
	return part[AMOUNT_GPUS] > 0 ? part[AMOUNT_GPUS]
	                             : fmax(part[AMOUNT_CPUS], part[AMOUNT_MEMORY]);
}

/* The one of this name in a list; made if there is none. */
static struct queue_group *queue_group(struct queue_group **at, struct span name)
{
	for (; *at; at = &(*at)->next)
		if (span_is(name, (*at)->name))
			return *at;
	*at = xcalloc(1, sizeof(**at));
	(*at)->name = xstrndup(name.p, name.n);
	(*at)->total = (struct amounts)QUEUE_ENDLESS;
	(*at)->at_ms = QUEUE_NEVER;
	TAILQ_INIT(&(*at)->waits);
	return *at;
}

void queue_time_now(struct queue *q, int64_t now_ms)
{
	if (now_ms <= q->now_ms)
		return;
	double keeps = exp2((double)(q->now_ms - now_ms) / 1000 / HALF_LIFE_S);
	double grows = (1 - keeps) * HALF_LIFE_S / M_LN2;
	for (struct queue_group *p = q->machine.next; p && q->now_ms; p = p->next)
		p->gpu_ms += (now_ms - q->now_ms) * p->sum.held.gpus;
	q->now_ms = now_ms;
	for (struct queue_group **at = &q->users, *u = *at; u; u = *at) {
		u->use = u->use * keeps + u->share * grows;
		if (u->jobs || u->use >= FORGOTTEN_S) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		free(u->name);
		free(u);
	}
}

void queue_quota(struct queue *q, struct span virtual_cluster, const struct amounts *quota)
{
	queue_group(&q->machine.next, virtual_cluster)->total = *quota;
}

void queue_limit(struct queue *q, struct span user, const struct amounts *limit)
{
	queue_group(&q->users, user)->total = *limit;
}

/* ---- jobs and tasks ---------------------------------------------------------------- */

/* The more important, or older, job is first. */
static bool queue_before(const struct queue_job *a, const struct queue_job *b)
{
	return a->priority != b->priority ? a->priority > b->priority
	                                  : a->submitted_ms < b->submitted_ms;
}

/* A task, which holds what it needs or waits for it, enters the sums and lists, or leaves them
 * (times -1). */
static void queue_count(struct queue *q, struct queue_task *t, int times)
{
	struct queue_job *job = t->job;
	struct amounts_sum *const sums[] = { &job->sum, &job->pool[QUEUE_USER]->sum,
		                             &job->pool[QUEUE_QUOTA]->sum,
		                             &job->pool[QUEUE_MACHINE]->sum };
	size_t before = t->holds ? job->sum.running : job->sum.waiting;
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		amounts_add(t->holds ? &sums[i]->held : &sums[i]->wanted, &t->need, times);
		*(t->holds ? &sums[i]->running : &sums[i]->waiting) += (size_t)times;
	}
	if (t->holds)
		job->user->share += times * queue_share(q, &t->need);
	if (job->user->sum.running == 0)
		job->user->share = 0; /* removes rounding errors */
	if (before != (times > 0 ? 0 : 1))
		return; /* other tasks of the job are there */
	struct queue_jobs *list = t->holds ? &q->holders : &job->user->waits;
	if (t->holds && times > 0) {
		TAILQ_INSERT_TAIL(list, job, hold);
	} else if (t->holds) {
		TAILQ_REMOVE(list, job, hold);
	} else if (times < 0) {
		TAILQ_REMOVE(list, job, wait);
		job->place = 0;
	} else {
		struct queue_job *after = TAILQ_LAST(list, queue_jobs);
		while (after && queue_before(job, after))
			after = TAILQ_PREV(after, queue_jobs, wait);
		if (after)
			TAILQ_INSERT_AFTER(list, after, job, wait);
		else
			TAILQ_INSERT_HEAD(list, job, wait);
	}
}

static void queue_change(struct queue *q, struct queue_task *t, bool holds)
{
	queue_count(q, t, -1);
	t->holds = holds;
	queue_count(q, t, 1);
}

void queue_add_task(struct queue *q, struct queue_job *job, struct queue_task *task, bool holds)
{
	if (!holds && job->sum.waiting == 0)
		job->why = NOT_SEEN;
	task->job = job;
	task->holds = holds;
	TAILQ_INSERT_TAIL(&job->tasks, task, link);
	queue_count(q, task, 1);
}

void queue_end(struct queue *q, struct queue_task *task)
{
	queue_count(q, task, -1);
	TAILQ_REMOVE(&task->job->tasks, task, link);
}

void queue_undo(struct queue *q, struct queue_task *task)
{
	struct queue_group *u = task->job->user;
	u->use = fmax(0, u->use - START_S * queue_share(q, &task->need));
	queue_change(q, task, false);
	task->job->why = NOT_SEEN;
}

struct queue_job *queue_add(struct queue *q, struct span user, struct span virtual_cluster)
{
	struct queue_job *job = xcalloc(1, sizeof(*job));
	job->user = job->pool[QUEUE_USER] = queue_group(&q->users, user);
	job->user->jobs++;
	job->pool[QUEUE_QUOTA] = queue_group(&q->machine.next, virtual_cluster);
	job->pool[QUEUE_MACHINE] = &q->machine;
	job->limit_ms = job->end_ms = job->by_ms = QUEUE_NEVER;
	TAILQ_INIT(&job->tasks);
	return job;
}

void queue_remove(struct queue *q, struct queue_job *job)
{
	if (!job)
		return;
	while (!TAILQ_EMPTY(&job->tasks))
		queue_end(q, TAILQ_FIRST(&job->tasks));
	for (size_t i = 0; i < QUEUE_POOLS; i++)
		if (job->pool[i]->head == job)
			pool_set_head(q, job->pool[i], NULL);
	job->user->jobs--;
	free(job);
}

int64_t queue_start_by(const struct queue_job *job)
{
	bool bound = job->sum.running && job->by_ms != QUEUE_NEVER && job->end_ms == QUEUE_NEVER;
	return bound ? job->by_ms - job->limit_ms : QUEUE_NEVER;
}

struct queue *queue_new(void)
{
	struct queue *q = xcalloc(1, sizeof(*q));
	TAILQ_INIT(&q->holders);
	q->machine.at_ms = QUEUE_NEVER;
	return q;
}

void queue_free(struct queue *q)
{
	for (size_t i = 0; q && i < 2; i++)
		for (struct queue_group *g = i ? q->users : q->machine.next, *next; g; g = next) {
			next = g->next;
			free(g->name);
			free(g);
		}
	free(q);
}

/* ---- a pick ------------------------------------------------------------------------ */

/*
 * Users that have begun to wait for the machine since the last pick: their use is brought to at
 * most LEAD_S, divided by the number of waiting users, from the uses of those that waited already.
 */
static void queue_enter(struct queue *q)
{
	double low = INFINITY;
	double high = -INFINITY;
	double n = 0;
	for (struct queue_group *u = q->users; u; u = u->next) {
		const struct queue_job *job = TAILQ_FIRST(&u->waits);
		while (job && job->why != NOT_SEEN && job->why != BUSY)
			job = TAILQ_NEXT(job, wait);
		u->enters = job && !u->waited;
		u->waited = job != NULL;
		n += u->waited;
		if (u->waited && !u->enters) {
			low = fmin(low, u->use);
			high = fmax(high, u->use);
		}
	}
	for (struct queue_group *u = q->users; u; u = u->next) {
		if (u->enters && low <= high)
			u->use = fmin(fmax(u->use, low - LEAD_S / n), high + LEAD_S / n);
		else if (u->enters)
			low = high = u->use; /* nobody waited */
	}
}

static enum queue_why queue_judge(const struct queue *q, const struct queue_job *job,
                                  const struct amounts *need)
{
	int64_t end_ms = job->end_ms;
	if (end_ms == QUEUE_NEVER && job->limit_ms != QUEUE_NEVER)
		end_ms = q->now_ms + job->limit_ms;
	struct amounts all = *need;
	if (job->gang)
		amounts_add(&all, &job->sum.held, 1);
	if (!amounts_fit(&all, q->total))
		return NEVER_MACHINE;
	if (!amounts_fit(&all, job->pool[QUEUE_QUOTA]->total))
		return NEVER_QUOTA;
	if (!amounts_fit(&all, job->user->total))
		return NEVER_LIMIT;
	bool fits[QUEUE_POOLS] = { true };
	for (size_t i = queue_from(job); i < QUEUE_POOLS; i++) {
		const struct queue_group *p = job->pool[i];
		/* A start past the head must not delay it. */
		bool ends = p->at_ms != QUEUE_NEVER && end_ms <= p->at_ms;
		fits[i] = amounts_fit(need, pool_free(p)) &&
		          (!p->met || ends || amounts_fit(need, p->spare));
	}
	/* Tasks that have passed a job whose start is known can take of its quota until then. */
	bool promised = job == q->machine.head && q->machine.at_ms != QUEUE_NEVER;
	if (!fits[QUEUE_USER] || !fits[QUEUE_QUOTA])
		return promised ? BUSY : !fits[QUEUE_USER] ? LIMIT : QUOTA;
	if (!amounts_fit(need, q->machine.total))
		return FOREIGN;
	return fits[QUEUE_MACHINE] ? STARTS : BUSY;
}

static void queue_start(struct queue *q, struct queue_task *t)
{
	struct queue_job *job = t->job;
	double charge = START_S * queue_share(q, &t->need);
	if (job->sum.running == 0)
		job->by_ms = QUEUE_NEVER;
	for (size_t i = queue_from(job); i < QUEUE_POOLS; i++) {
		struct queue_group *p = job->pool[i];
		if (!p->met)
			continue;
		if (amounts_fit(&t->need, p->spare))
			amounts_add(&p->spare, &t->need, -1);
		else if (p->at_ms < job->by_ms)
			job->by_ms = p->at_ms; /* it must have ended when the head can start */
	}
	t->started = ++q->starts;
	queue_change(q, t, true);
	job->user->use += charge;
	job->user->key += charge;
}

/* The first task that waits, from t on. */
static struct queue_task *queue_waiting(struct queue_task *t)
{
	while (t && t->holds)
		t = TAILQ_NEXT(t, link);
	return t;
}

/* Tries a job, or its next task; job->at is NULL when nothing of it is left to try.  A task that
 * could not start reserves its resources and gives the reason; the first task of a job gives that
 * of the job.  false: nothing starts. */
static bool queue_try(struct queue *q, struct queue_job *job, struct queue_tasks *started)
{
	if (job->pick != q->picks) {
		job->pick = q->picks;
		job->why = NOT_SEEN;
		job->place = 0;
		job->at = queue_waiting(TAILQ_FIRST(&job->tasks));
	}
	struct queue_task *t = job->at;
	if (!t)
		return false;
	const struct amounts need = job->gang ? job->sum.wanted : t->need;
	enum queue_why why = queue_judge(q, job, &need);
	job->user->key += HELD_S * queue_share(q, &need);
	if (why == LIMIT || why == QUOTA || why == BUSY)
		queue_reserve(q, job,
		              why == BUSY    ? QUEUE_POOLS
		              : why == QUOTA ? QUEUE_MACHINE
		                             : QUEUE_QUOTA,
		              &need);
	if (why != STARTS && job->why == NOT_SEEN) {
		job->why = why;
		job->lack = need;
		if (why == BUSY)
			job->place = ++q->places;
	}
	do {
		if (why == STARTS) {
			queue_start(q, t);
			TAILQ_INSERT_TAIL(started, t, start);
		}
		t = queue_waiting(TAILQ_NEXT(t, link));
		/* A task with the needs of one that cannot start cannot start either. */
	} while (t && (job->gang || (why != STARTS && !memcmp(&t->need, &need, sizeof(need)))));
	job->at = t;
	return why == STARTS;
}

/* The user whose turn it is: its next job is the most important, or else it has used the least. */
static struct queue_group *queue_turn(const struct queue *q)
{
	struct queue_group *best = NULL;
	for (struct queue_group *u = q->users; u; u = u->next) {
		if (!u->first)
			continue;
		bool equal =
		    best && u->first->priority == best->first->priority && u->key != best->key;
		if (!best || (equal ? u->key < best->key : queue_before(u->first, best->first)))
			best = u;
	}
	return best;
}

/* Notes the users whose jobs without a limit delay the start of the head. */
static void queue_note_endless(struct queue *q)
{
	const struct amounts room = pool_free(&q->machine);
	const struct queue_job *job = NULL;
	TAILQ_FOREACH(job, &q->holders, hold)
	for (enum amount i = 0; i < AMOUNTS; i++)
		job->user->endless |= q->machine.met && job->limit_ms == QUEUE_NEVER &&
		                      job->sum.held.of[i] > 0 && q->machine.need.of[i] > room.of[i];
}

void queue_pick(struct queue *q, struct queue_tasks *started)
{
	size_t most = q->now_ms >= q->whole_ms + WHOLE_MS ? SIZE_MAX : TRIES_MOST;
	size_t tries = 0; /* since the last start */
	struct queue_group *u;
	TAILQ_INIT(started);
	q->machine.total = q->total;
	amounts_add(&q->machine.total, &q->foreign, -1);
	queue_enter(q);
	q->picks++;
	q->places = 0;
	for (u = q->users; u; u = u->next) {
		u->key = u->use + HELD_S * u->share;
		u->endless = false;
	}
	/* A job whose start is known is tried before all others until it has started: jobs that
	 * have become more important meanwhile must not delay it either. */
	if (q->machine.at_ms != QUEUE_NEVER)
		(void)queue_try(q, q->machine.head, started);
	for (u = q->users; u; u = u->next)
		u->first = TAILQ_FIRST(&u->waits);
	while (tries <= most && (u = queue_turn(q))) {
		struct queue_job *job = u->first;
		struct queue_job *next = TAILQ_NEXT(job, wait);
		tries = queue_try(q, job, started) ? 0 : tries + 1;
		u->first = job->at ? job : next;
	}
	queue_note_endless(q);
	for (size_t i = 0; i < 2; i++)
		for (struct queue_group *p = i ? q->users : &q->machine; p; p = p->next) {
			if (!p->met && tries <= most)
				pool_set_head(q, p, NULL);
			p->met = false; /* tasks that start from now on pass nobody */
		}
	if (tries <= most)
		q->whole_ms = q->now_ms;
}
