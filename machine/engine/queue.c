/*
 * The scheduler; see queue.h.
 *
 * A user's use is the part of the machine that its tasks held, in seconds of the whole machine,
 * halved every ten minutes.  A start counts as a second more, so that any number of short jobs
 * comes to an end.  What tasks hold now counts as HELD_S seconds in advance, which keeps users from
 * taking turns with the whole machine.  When a user begins to wait, its use is brought near that of
 * the users that wait already (queue_enter), because otherwise somebody who had the machine for an
 * hour would get nothing for minutes after that.
 */
#include "machine/engine/queue.h"

#include <math.h>
#include <stdlib.h>

#include "machine/engine/queue_internal.h"

#define HALF_LIFE_S 600.0
#define START_S     1.0
#define HELD_S      2.0
#define LEAD_S      60.0 /* of the machine: what a user that begins to wait can be ahead, or behind */
#define FORGOTTEN_S 0.01 /* a user without jobs that used less is forgotten */

enum {
	TRIES_MOST = 256, /* in a row that start nothing: the end of a pick */
	WHOLE_MS = 1000,  /* but one in this time tries all */
};

/* ---- pools ------------------------------------------------------------------------- */

static const struct amounts UNLIMITED = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };

static bool queue_holds(const struct queue_job *job)
{
	return !queue_fits(&job->held, (struct amounts){ 0 });
}

/* When a job gives back what it holds. */
static int64_t queue_ends(const struct queue_job *job)
{
	return job->end_ms != NEVER ? job->end_ms : job->by_ms;
}

/* The same of one that starts now. */
static int64_t queue_would_end(const struct queue *q, const struct queue_job *job)
{
	if (job->end_ms != NEVER || job->limit_ms == NEVER)
		return job->end_ms;
	return q->now_ms + job->limit_ms;
}

/* What is free at a time, beside what the head holds, by the ends that are known. */
static struct amounts pool_free_at(const struct queue *q, const struct queue_pool *p, int64_t at_ms)
{
	struct amounts room = pool_free(p);
	const struct queue_job *job;
	TAILQ_FOREACH(job, &q->holders, hold)
	if ((p == &q->machine || p == &job->cluster->pool) && job != p->head &&
	    queue_ends(job) <= at_ms)
		amounts_add(&room, &job->held);
	return room;
}

/* The first end of a job after which the pools have what their head needs. */
static int64_t queue_when(const struct queue *q, struct queue_pool *const pools[], size_t n)
{
	int64_t at_ms = NEVER;
	const struct queue_job *job;
	TAILQ_FOREACH(job, &q->holders, hold)
	{
		int64_t end_ms = queue_ends(job);
		bool fits = end_ms < at_ms && queue_holds(job);
		for (size_t i = 0; i < n; i++)
			fits = fits &&
			       queue_fits(&pools[i]->head_need, pool_free_at(q, pools[i], end_ms));
		at_ms = fits ? end_ms : at_ms;
	}
	return at_ms;
}

/* The head starts as soon as jobs have ended that end in time; until then others may pass it. */
static void queue_reserve(const struct queue *q, struct queue_pool *const pools[], size_t n)
{
	int64_t at_ms = queue_when(q, pools, n);
	for (size_t i = 0; i < n; i++) {
		pools[i]->at_ms = at_ms;
		pools[i]->spare = pool_free_at(q, pools[i], at_ms);
		amounts_subtract(&pools[i]->spare, &pools[i]->head_need);
	}
}

/* Does a start past the head not delay it?  Without a known time it must leave enough of all. */
static bool pool_lets_pass(const struct queue_pool *p, const struct amounts *need, int64_t end_ms)
{
	if (!p->met)
		return true;
	if (p->at_ms != NEVER)
		return end_ms <= p->at_ms || queue_fits(need, p->spare);
	struct amounts room = p->total;
	amounts_subtract(&room, &p->head_need);
	amounts_subtract(&room, &p->passed);
	return queue_fits(need, room);
}

/* Does the head lack some of this? */
static bool pool_waits_for(const struct queue_pool *p, const struct amounts *held)
{
	struct amounts room = pool_free(p);
	bool lacks = false;
	for (enum resource r = 0; r < RESOURCES && p->met; r++)
		lacks |= queue_amount(held, r) > 0 &&
		         queue_amount(&p->head_need, r) > queue_amount(&room, r);
	return lacks;
}

static void pool_set_head(struct queue_pool *p, struct queue_job *job)
{
	p->at_ms = NEVER;
	if (p->head == job)
		return;
	p->head = job;
	p->passed = (struct amounts){ 0 };
	p->turn++;
}

/* A job cannot start: if it is the first, it has the reservation. */
static bool pool_meet(struct queue_pool *p, struct queue_job *job, const struct amounts *need)
{
	if (p->met)
		return false;
	p->met = true;
	pool_set_head(p, job);
	p->head_need = *need;
	return true;
}

/* ---- users and clusters ------------------------------------------------------------ */

static double queue_part(int64_t n, int64_t of)
{
	return of > 0 ? (double)n / (double)of : 0;
}

/* The part of the machine that tasks take: of its GPUs if they have any, else of what they take
 * most of.  bare: the amounts of those without GPUs. */
static double queue_share(const struct queue *q, const struct amounts *all,
                          const struct amounts *bare)
{
	bare = q->total.gpus ? bare : all;
	double cpus = queue_part(bare->cpus, q->total.cpus);
	double memory = queue_part(bare->memory, q->total.memory);
	return queue_part(all->gpus, q->total.gpus) + (cpus > memory ? cpus : memory);
}

static double queue_share_of(const struct queue *q, const struct amounts *need)
{
	static const struct amounts NONE = { 0 };
	return queue_share(q, need, need->gpus ? &NONE : need);
}

static struct queue_user *queue_user(struct queue *q, struct span name)
{
	struct queue_user **at = &q->users;
	for (; *at; at = &(*at)->next) {
		if (span_is(name, (*at)->name))
			return *at;
	}
	struct queue_user *u = *at = xcalloc(1, sizeof(*u));
	u->name = xstrndup(name.p, name.n);
	TAILQ_INIT(&u->waits_by_age);
	q->users_n++;
	return u;
}

static struct queue_cluster *queue_cluster(struct queue *q, struct span name)
{
	for (struct queue_cluster *c = q->clusters; c; c = c->next) {
		if (span_is(name, c->name))
			return c;
	}
	struct queue_cluster *c = xcalloc(1, sizeof(*c));
	c->name = xstrndup(name.p, name.n);
	c->pool.total = UNLIMITED;
	c->pool.at_ms = NEVER;
	c->next = q->clusters;
	q->clusters = c;
	return c;
}

void queue_now(struct queue *q, int64_t now_ms)
{
	if (now_ms <= q->now_ms)
		return;
	double keeps = exp2((double)(q->now_ms - now_ms) / 1000 / HALF_LIFE_S);
	double grows = (1 - keeps) * HALF_LIFE_S / M_LN2;
	q->now_ms = now_ms;
	for (struct queue_user **at = &q->users, *u = *at; u; u = *at) {
		u->use = u->use * keeps + queue_share(q, &u->held, &u->bare) * grows;
		if (u->jobs == 0 && u->use < FORGOTTEN_S) {
			*at = u->next;
			q->users_n--;
			free(u->name);
			free(u);
		} else {
			at = &u->next;
		}
	}
}

void queue_machine(struct queue *q, const struct amounts *total, const struct amounts *foreign)
{
	q->total = *total;
	q->machine.total = *total;
	amounts_subtract(&q->machine.total, foreign);
}

void queue_quota(struct queue *q, struct span virtual_cluster, const struct amounts *quota)
{
	queue_cluster(q, virtual_cluster)->pool.total = quota ? *quota : UNLIMITED;
}

/* ---- jobs and tasks ---------------------------------------------------------------- */

/* A task begins to hold what it needs (amounts_add), or gives it back (amounts_subtract). */
static void queue_count(struct queue *q, struct queue_task *t,
                        void (*count)(struct amounts *, const struct amounts *))
{
	struct queue_user *u = t->job->user;
	struct queue_pool *const pools[POOLS] = { &q->machine, &t->job->cluster->pool };
	t->holds = count == amounts_add;
	if (t->holds && t->job->holding++ == 0)
		TAILQ_INSERT_TAIL(&q->holders, t->job, hold);
	if (!t->holds && --t->job->holding == 0)
		TAILQ_REMOVE(&q->holders, t->job, hold);
	count(&t->job->held, &t->need);
	count(&u->held, &t->need);
	if (t->need.gpus == 0)
		count(&u->bare, &t->need);
	for (size_t i = 0; i < POOLS; i++) {
		if (t->holds)
			t->turn[i] = pools[i]->met ? pools[i]->turn : 0;
		count(&pools[i]->held, &t->need);
		if (t->turn[i] && t->turn[i] == pools[i]->turn)
			count(&pools[i]->passed, &t->need);
	}
}

/* The more important, or older, job is first. */
static bool queue_before(const struct queue_job *a, const struct queue_job *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return a->submitted_ms != b->submitted_ms ? a->submitted_ms < b->submitted_ms
	                                          : a->number < b->number;
}

static void queue_task_wait(struct queue_task *t)
{
	struct queue_job *job = t->job;
	amounts_add(&job->want, &t->need);
	if (job->waiting++ > 0)
		return;
	struct queue_job *after = TAILQ_LAST(&job->user->waits_by_age, queue_waits);
	while (after && queue_before(job, after))
		after = TAILQ_PREV(after, queue_waits, wait);
	if (after)
		TAILQ_INSERT_AFTER(&job->user->waits_by_age, after, job, wait);
	else
		TAILQ_INSERT_HEAD(&job->user->waits_by_age, job, wait);
}

static void queue_task_unwait(struct queue_task *t)
{
	amounts_subtract(&t->job->want, &t->need);
	if (--t->job->waiting == 0)
		TAILQ_REMOVE(&t->job->user->waits_by_age, t->job, wait);
}

static struct queue_task *queue_task_new(struct queue_job *job, const struct amounts *need,
                                         void *owner)
{
	struct queue_task *t = xcalloc(1, sizeof(*t));
	t->job = job;
	t->need = *need;
	t->owner = owner;
	TAILQ_INSERT_TAIL(&job->tasks, t, link);
	return t;
}

struct queue_task *queue_want(struct queue *q, struct queue_job *job, const struct amounts *need,
                              void *owner)
{
	(void)q;
	if (job->waiting == 0)
		job->why = NOT_SEEN;
	struct queue_task *t = queue_task_new(job, need, owner);
	queue_task_wait(t);
	return t;
}

struct queue_task *queue_hold(struct queue *q, struct queue_job *job, const struct amounts *need,
                              void *owner)
{
	struct queue_task *t = queue_task_new(job, need, owner);
	queue_count(q, t, amounts_add);
	return t;
}

void queue_end(struct queue *q, struct queue_task *task)
{
	if (task->holds)
		queue_count(q, task, amounts_subtract);
	else
		queue_task_unwait(task);
	TAILQ_REMOVE(&task->job->tasks, task, link);
	free(task);
}

void queue_undo(struct queue *q, struct queue_task *task)
{
	double use = task->job->user->use - START_S * queue_share_of(q, &task->need);
	task->job->user->use = use > 0 ? use : 0;
	queue_count(q, task, amounts_subtract);
	queue_task_wait(task);
	task->job->why = NOT_SEEN;
}

struct queue_job *queue_add(struct queue *q, const struct queue_order *order)
{
	struct queue_job *job = xcalloc(1, sizeof(*job));
	job->user = queue_user(q, order->user);
	job->user->jobs++;
	job->cluster = queue_cluster(q, order->virtual_cluster);
	job->priority = order->priority;
	job->submitted_ms = order->submitted_ms;
	job->gang = order->gang;
	job->number = q->numbers++;
	job->limit_ms = job->end_ms = job->by_ms = NEVER;
	TAILQ_INIT(&job->tasks);
	TAILQ_INSERT_TAIL(&q->jobs, job, link);
	return job;
}

void queue_remove(struct queue *q, struct queue_job *job)
{
	if (!job)
		return;
	for (struct queue_task *t = TAILQ_FIRST(&job->tasks), *next; t; t = next) {
		next = TAILQ_NEXT(t, link);
		queue_end(q, t);
	}
	if (q->machine.head == job)
		pool_set_head(&q->machine, NULL);
	if (job->cluster->pool.head == job)
		pool_set_head(&job->cluster->pool, NULL);
	TAILQ_REMOVE(&q->jobs, job, link);
	job->user->jobs--;
	free(job);
}

void queue_gang(struct queue_job *job, bool gang)
{
	job->gang = gang;
}

void queue_time(struct queue_job *job, int64_t limit_ms, int64_t end_ms)
{
	job->limit_ms = limit_ms;
	job->end_ms = end_ms;
}

int64_t queue_start_by(const struct queue_job *job)
{
	bool bound = queue_holds(job) && job->by_ms != NEVER && job->end_ms == NEVER;
	return bound ? job->by_ms - job->limit_ms : NEVER;
}

struct queue *queue_new(void)
{
	struct queue *q = xcalloc(1, sizeof(*q));
	TAILQ_INIT(&q->jobs);
	TAILQ_INIT(&q->holders);
	q->whole_ms = -WHOLE_MS;
	q->machine.at_ms = NEVER;
	return q;
}

void queue_free(struct queue *q)
{
	if (q == NULL)
		return;
	for (struct queue_job *j = TAILQ_FIRST(&q->jobs), *next; j; j = next) {
		next = TAILQ_NEXT(j, link);
		queue_remove(q, j);
	}
	for (struct queue_user *u = q->users, *next; u; u = next) {
		next = u->next;
		free(u->name);
		free(u);
	}
	for (struct queue_cluster *c = q->clusters, *next; c; c = next) {
		next = c->next;
		free(c->name);
		free(c);
	}
	free(q->started);
	free(q);
}

/* ---- a pick ------------------------------------------------------------------------ */

/*
 * Users that have begun to wait for the machine since the last pick: their use is brought to at
 * most LEAD_S, divided by the number of waiting users, from the uses of those that waited already.
 */
static void queue_enter(struct queue *q)
{
	for (struct queue_user *u = q->users; u; u = u->next) {
		const struct queue_job *job = TAILQ_FIRST(&u->waits_by_age);
		while (job && job->why != NOT_SEEN && job->why != BUSY)
			job = TAILQ_NEXT(job, wait);
		u->waited = u->waits;
		u->waits = job != NULL;
	}
	size_t n = 0;
	double low = INFINITY;
	double high = -INFINITY;
	double least = INFINITY;
	for (const struct queue_user *u = q->users; u; u = u->next) {
		if (!u->waits)
			continue;
		n++;
		least = u->use < least ? u->use : least;
		if (u->waited) {
			low = u->use < low ? u->use : low;
			high = u->use > high ? u->use : high;
		}
	}
	if (n == 0)
		return;
	double lead = LEAD_S / (double)n;
	low = (low > high ? least : low) - lead; /* low > high: nobody waited */
	high = (high < 0 ? least : high) + lead;
	for (struct queue_user *u = q->users; u; u = u->next) {
		if (u->waits && !u->waited)
			u->use = u->use < low ? low : u->use > high ? high : u->use;
	}
}

/* It is the first, and its start is known.  What has passed it can take of its quota until then. */
static bool queue_is_promised(const struct queue *q, const struct queue_job *job)
{
	return job == q->machine.head && q->machine.at_ms != NEVER;
}

static enum queue_why queue_judge(const struct queue *q, const struct queue_job *job,
                                  const struct amounts *need)
{
	const struct queue_pool *quota = &job->cluster->pool;
	int64_t end_ms = queue_would_end(q, job);
	struct amounts all = *need;
	if (job->gang)
		amounts_add(&all, &job->held);
	if (!queue_fits(&all, q->total))
		return NEVER_MACHINE;
	if (!queue_fits(&all, quota->total))
		return NEVER_QUOTA;
	if (!queue_fits(need, pool_free(quota)) || !pool_lets_pass(quota, need, end_ms))
		return queue_is_promised(q, job) ? BUSY : QUOTA;
	if (!queue_fits(need, q->machine.total))
		return FOREIGN;
	if (!queue_fits(need, pool_free(&q->machine)) || !pool_lets_pass(&q->machine, need, end_ms))
		return BUSY;
	return STARTS;
}

/* What does not fit beside the head must have ended when the head can start. */
static void pool_pass(struct queue_pool *p, struct queue_task *t)
{
	if (!p->met || p->at_ms == NEVER)
		return;
	if (queue_fits(&t->need, p->spare))
		amounts_subtract(&p->spare, &t->need);
	else if (p->at_ms < t->job->by_ms)
		t->job->by_ms = p->at_ms;
}

static void queue_start(struct queue *q, struct queue_task *t)
{
	double charge = START_S * queue_share_of(q, &t->need);
	if (!queue_holds(t->job))
		t->job->by_ms = NEVER;
	pool_pass(&q->machine, t);
	pool_pass(&t->job->cluster->pool, t);
	queue_task_unwait(t);
	queue_count(q, t, amounts_add);
	t->job->user->use += charge;
	t->job->user->key += charge;
	if (q->started_n == q->started_cap) {
		q->started_cap = q->started_cap ? 2 * q->started_cap : 16;
		q->started = xrealloc(q->started, q->started_cap * sizeof(*q->started));
	}
	q->started[q->started_n++] = t->owner;
}

/* What could not start reserves, and says why; the first task of a job speaks for it. */
static void queue_block(struct queue *q, struct queue_job *job, enum queue_why why,
                        const struct amounts *need)
{
	struct queue_pool *const pools[] = { &job->cluster->pool, &q->machine };
	bool first = (why == QUOTA || why == BUSY) && pool_meet(pools[0], job, need);
	if (why == BUSY)
		first = pool_meet(pools[1], job, need) && first;
	if (first) /* of both, so that neither delays it */
		queue_reserve(q, pools, why == BUSY ? 2 : 1);
	if (job->why != NOT_SEEN)
		return;
	job->why = why;
	job->lack = *need;
	if (why == BUSY)
		job->place = ++q->places;
}

/* The first task that waits, from t on. */
static struct queue_task *queue_waiting(struct queue_task *t)
{
	while (t && t->holds)
		t = TAILQ_NEXT(t, link);
	return t;
}

/* Tries a job, or its next task.  true: nothing of the job is left to try. */
static bool queue_try(struct queue *q, struct queue_job *job)
{
	struct queue_task *task = job->at;
	struct amounts need = job->gang ? job->want : task->need;
	if (job->pick != q->picks)
		job->why = NOT_SEEN;
	job->pick = q->picks;
	enum queue_why why = queue_judge(q, job, &need);
	job->user->key += HELD_S * queue_share_of(q, &need);
	if (why != STARTS)
		queue_block(q, job, why, &need);
	if (job->gang) {
		for (; why == STARTS && task; task = queue_waiting(task))
			queue_start(q, task);
		return true;
	}
	if (why == STARTS)
		queue_start(q, task);
	do /* what needs the same as one that cannot start cannot start either */
		task = queue_waiting(TAILQ_NEXT(task, link));
	while (why != STARTS && task && memcmp(&task->need, &need, sizeof(need)) == 0);
	job->at = task;
	return task == NULL;
}

/* The user whose turn is earlier is first. */
static int queue_user_order(const void *a, const void *b)
{
	const struct queue_user *x = *(struct queue_user *const *)a;
	const struct queue_user *y = *(struct queue_user *const *)b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return queue_before(x->first, y->first) ? -1 : 1;
}

/* The first job from this one on that is still to be tried; NULL. */
static struct queue_job *queue_next(const struct queue *q, struct queue_job *job)
{
	while (job && job->gang && job->pick == q->picks)
		job = TAILQ_NEXT(job, wait);
	if (job)
		job->at = queue_waiting(TAILQ_FIRST(&job->tasks));
	return job;
}

/* Jobs of the highest priority that is left: always the next one of the user that has used least.
 * `turns` has room for all users.  false: this was the end. */
static bool queue_pick_level(struct queue *q, bool whole, struct queue_user **turns)
{
	int64_t priority = INT64_MIN;
	size_t n = 0;
	for (const struct queue_user *u = q->users; u; u = u->next)
		if (u->first && u->first->priority > priority)
			priority = u->first->priority;
	for (struct queue_user *u = q->users; u; u = u->next)
		if (u->first && u->first->priority == priority)
			turns[n++] = u;
	if (n == 0)
		return false;
	qsort(turns, n, sizeof(struct queue_user *), queue_user_order);
	while (n) {
		struct queue_user *u = turns[0];
		struct queue_job *next = TAILQ_NEXT(u->first, wait);
		size_t started = q->started_n;
		if (queue_try(q, u->first))
			u->first = queue_next(q, next);
		q->tries = q->started_n > started ? 0 : q->tries + 1;
		q->partial = !whole && q->tries > TRIES_MOST;
		if (q->partial)
			return false;
		if (u->first == NULL || u->first->priority != priority) {
			turns++;
			n--;
			continue;
		}
		size_t i = 0;
		for (; i + 1 < n && queue_user_order(&turns[i + 1], &u) < 0; i++)
			turns[i] = turns[i + 1];
		turns[i] = u;
	}
	return true;
}

static void queue_pool_end(const struct queue *q, struct queue_pool *p)
{
	if (!p->met && !q->partial)
		pool_set_head(p, NULL);
	p->met = false; /* what is held from now on passes nobody */
}

/* A job whose start is known is tried before all others until it has started: what has become more
 * important meanwhile must not delay it either. */
static void queue_pick_first(struct queue *q)
{
	struct queue_job *job = q->machine.head;
	if (!job || !queue_is_promised(q, job) || job->waiting == 0)
		return;
	job->at = queue_waiting(TAILQ_FIRST(&job->tasks));
	(void)queue_try(q, job);
}

size_t queue_pick(struct queue *q, void *const **owners)
{
	FREE_AUTO struct queue_user **turns = xcalloc(q->users_n + 1, sizeof(struct queue_user *));
	bool whole = q->now_ms >= q->whole_ms + WHOLE_MS;
	queue_enter(q);
	q->picks++;
	q->started_n = q->tries = q->places = 0;
	q->partial = false;
	for (struct queue_user *u = q->users; u; u = u->next) {
		u->key = u->use + HELD_S * queue_share(q, &u->held, &u->bare);
		u->endless = false;
	}
	queue_pick_first(q);
	for (struct queue_user *u = q->users; u; u = u->next)
		u->first = queue_next(q, TAILQ_FIRST(&u->waits_by_age));
	while (queue_pick_level(q, whole, turns))
		;
	struct queue_job *each;
	TAILQ_FOREACH(each, &q->holders, hold)
	each->user->endless |= each->limit_ms == NEVER && pool_waits_for(&q->machine, &each->held);
	queue_pool_end(q, &q->machine);
	for (struct queue_cluster *c = q->clusters; c; c = c->next)
		queue_pool_end(q, &c->pool);
	if (!q->partial)
		q->whole_ms = q->now_ms;
	*owners = q->started;
	return q->started_n;
}

bool queue_partial(const struct queue *q)
{
	return q->partial;
}
