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
#include "k8s/local/queue.h"

#include <math.h>
#include <stdlib.h>
#include <sys/queue.h>

#define HALF_LIFE_S 600.0
#define START_S     1.0
#define HELD_S      2.0
#define LEAD_S      60.0 /* of the machine: what a user that begins to wait can be ahead, or behind */
#define FORGOTTEN_S 0.01 /* a user without jobs that used less is forgotten */

enum resource { GPUS, CPUS, MEMORY, PORTS, RESOURCES };

static int64_t queue_amount(const struct amounts *a, enum resource r)
{
	const int64_t amount[RESOURCES] = { a->gpus, a->cpus, a->memory, a->ports };
	return amount[r];
}

/* What jobs take from: the machine, or the quota of a virtual cluster. */
struct queue_pool {
	struct amounts total, held;
	/* The first job that waits for this pool, as of the last pick; what it needs, and what
	 * tasks hold that started since it is the first. */
	const struct queue_job *head;
	struct amounts head_need, passed;
	uint64_t turn; /* counts the heads */
	bool met;      /* this pick has come to the head: what starts now passes it */
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
	double use;
	struct amounts held; /* by all its tasks */
	struct amounts bare; /* by those of them without GPUs */
	bool waits, waited;  /* for the machine: now, at the last pick */
	/* Of one pick: */
	double key;
	struct queue_job *first, **end; /* waiting jobs of one priority */
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
	TAILQ_ENTRY(queue_job) link; /* by priority and age */
	struct queue_user *user;
	struct queue_cluster *cluster;
	int64_t priority, submitted_ms;
	bool gang;
	TAILQ_HEAD(queue_tasks, queue_task) tasks; /* in the order of their making */
	size_t waiting;                            /* of these */
	struct amounts want, held;                 /* sums of those that wait, and of the others */
	enum queue_why why;
	size_t place;        /* in the queue, from 1; if BUSY */
	struct amounts lack; /* what could not start */
	/* Of one pick: */
	struct queue_job *next; /* of this user */
	struct queue_task *at;
	size_t index;
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
	size_t places;
	void **started;
	size_t started_n, started_cap;
};

/* ---- pools ------------------------------------------------------------------------- */

static const struct amounts UNLIMITED = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };

/* `need` is within `room`, as far as it needs something. */
static bool queue_fits(const struct amounts *need, struct amounts room)
{
	for (enum resource r = 0; r < RESOURCES; r++) {
		int64_t n = queue_amount(need, r);
		if (n > 0 && n > queue_amount(&room, r))
			return false;
	}
	return true;
}

static struct amounts pool_free(const struct queue_pool *p)
{
	struct amounts room = p->total;
	amounts_subtract(&room, &p->held);
	return room;
}

/* What may be started past the head without delaying it. */
static struct amounts pool_spare(const struct queue_pool *p)
{
	struct amounts room = p->total;
	if (p->met) {
		amounts_subtract(&room, &p->head_need);
		amounts_subtract(&room, &p->passed);
	}
	return room;
}

static void pool_set_head(struct queue_pool *p, const struct queue_job *job)
{
	if (p->head == job)
		return;
	p->head = job;
	p->passed = (struct amounts){ 0 };
	p->turn++;
}

/* A job cannot start: if it is the first, it has the reservation. */
static void pool_meet(struct queue_pool *p, const struct queue_job *job, const struct amounts *need)
{
	if (p->met)
		return;
	p->met = true;
	pool_set_head(p, job);
	p->head_need = *need;
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

static void queue_task_wait(struct queue_task *t)
{
	t->job->waiting++;
	amounts_add(&t->job->want, &t->need);
}

static void queue_task_unwait(struct queue_task *t)
{
	t->job->waiting--;
	amounts_subtract(&t->job->want, &t->need);
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

/* The more important, or older, job is first. */
static bool queue_before(const struct queue_job *a, const struct queue_job *b)
{
	return a->priority != b->priority ? a->priority > b->priority
	                                  : a->submitted_ms < b->submitted_ms;
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
	TAILQ_INIT(&job->tasks);
	struct queue_job *after = TAILQ_LAST(&q->jobs, queue_jobs);
	while (after && queue_before(job, after))
		after = TAILQ_PREV(after, queue_jobs, link);
	if (after)
		TAILQ_INSERT_AFTER(&q->jobs, after, job, link);
	else
		TAILQ_INSERT_HEAD(&q->jobs, job, link);
	return job;
}

void queue_remove(struct queue *q, struct queue_job *job)
{
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

struct queue *queue_new(void)
{
	struct queue *q = xcalloc(1, sizeof(*q));
	TAILQ_INIT(&q->jobs);
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
		u->waited = u->waits;
		u->waits = false;
	}
	struct queue_job *job;
	TAILQ_FOREACH(job, &q->jobs, link)
	if ((job->why == NOT_SEEN || job->why == BUSY) && job->waiting)
		job->user->waits = true;
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

static enum queue_why queue_judge(const struct queue *q, const struct queue_job *job,
                                  const struct amounts *need)
{
	const struct queue_pool *quota = &job->cluster->pool;
	struct amounts all = *need;
	if (job->gang)
		amounts_add(&all, &job->held);
	if (!queue_fits(&all, q->total))
		return NEVER_MACHINE;
	if (!queue_fits(&all, quota->total))
		return NEVER_QUOTA;
	if (!queue_fits(need, pool_free(quota)) || !queue_fits(need, pool_spare(quota)))
		return QUOTA;
	if (!queue_fits(need, q->machine.total))
		return FOREIGN;
	if (!queue_fits(need, pool_free(&q->machine)) || !queue_fits(need, pool_spare(&q->machine)))
		return BUSY;
	return STARTS;
}

static void queue_start(struct queue *q, struct queue_task *t)
{
	double charge = START_S * queue_share_of(q, &t->need);
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
	if (why == QUOTA || why == BUSY)
		pool_meet(&job->cluster->pool, job, need);
	if (why == BUSY)
		pool_meet(&q->machine, job, need);
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
	return x->first->index < y->first->index ? -1 : 1;
}

/* Jobs of one priority, from this one on: always the next one of the user that has used least.
 * `turns` has room for all users.  Returns the first job of the next priority. */
static struct queue_job *queue_pick_level(struct queue *q, struct queue_job *job,
                                          struct queue_user **turns)
{
	int64_t priority = job->priority;
	size_t n = 0;
	for (size_t i = 0; job && job->priority == priority; job = TAILQ_NEXT(job, link)) {
		struct queue_user *u = job->user;
		if (job->waiting == 0)
			continue;
		job->why = NOT_SEEN;
		job->at = queue_waiting(TAILQ_FIRST(&job->tasks));
		job->next = NULL;
		job->index = i++;
		if (u->first == NULL) {
			u->end = &u->first;
			turns[n++] = u;
		}
		*u->end = job;
		u->end = &job->next;
	}
	qsort(turns, n, sizeof(struct queue_user *), queue_user_order);
	while (n) {
		struct queue_user *u = turns[0];
		if (queue_try(q, u->first))
			u->first = u->first->next;
		if (u->first == NULL) {
			turns++;
			n--;
			continue;
		}
		size_t i = 0;
		for (; i + 1 < n && queue_user_order(&turns[i + 1], &u) < 0; i++)
			turns[i] = turns[i + 1];
		turns[i] = u;
	}
	return job;
}

static void queue_pool_end(struct queue_pool *p)
{
	if (!p->met)
		pool_set_head(p, NULL);
	p->met = false; /* what is held from now on passes nobody */
}

size_t queue_pick(struct queue *q, void *const **owners)
{
	FREE_AUTO struct queue_user **turns = xcalloc(q->users_n + 1, sizeof(struct queue_user *));
	queue_enter(q);
	q->started_n = 0;
	q->places = 0;
	for (struct queue_user *u = q->users; u; u = u->next)
		u->key = u->use + HELD_S * queue_share(q, &u->held, &u->bare);
	for (struct queue_job *job = TAILQ_FIRST(&q->jobs); job;)
		job = queue_pick_level(q, job, turns);
	queue_pool_end(&q->machine);
	for (struct queue_cluster *c = q->clusters; c; c = c->next)
		queue_pool_end(&c->pool);
	*owners = q->started;
	return q->started_n;
}

/* ---- reasons ----------------------------------------------------------------------- */

/* "4 GPUs", "0.5 CPUs", "64 GiB of memory"; without a unit "4", "0.5", "64 GiB". */
static void queue_say(struct str *out, enum resource r, int64_t n, bool unit)
{
	static const double MIB = 1 << 20;
	static const double GIB = 1 << 30;
	static const char *const UNITS[] = { [GPUS] = "GPU", [CPUS] = "CPU", [PORTS] = "port" };
	if (r == GPUS || r == PORTS)
		str_int(out, n);
	else if (r == CPUS)
		str_printf(out, "%g", (double)n / 1000);
	else if ((double)n >= GIB)
		str_printf(out, "%.4g GiB", (double)n / GIB);
	else
		str_printf(out, "%.4g MiB", (double)n / MIB);
	if (unit && r == MEMORY)
		str_puts(out, " of memory");
	else if (unit)
		str_printf(out, " %s%s", UNITS[r], n == (r == CPUS ? 1000 : 1) ? "" : "s");
}

bool queue_exceeds(const struct amounts *need, const struct amounts *room, struct str *wanted,
                   struct str *there)
{
	for (enum resource r = 0; r < RESOURCES; r++) {
		int64_t n = queue_amount(need, r);
		int64_t has = queue_amount(room, r);
		if (n == 0 || n <= has)
			continue;
		str_puts(wanted, wanted->n ? " and " : "");
		str_puts(there, there->n ? " and " : "");
		queue_say(wanted, r, n, true);
		queue_say(there, r, has, false);
	}
	return wanted->n > 0;
}

/* "2nd". */
static void queue_say_place(struct str *out, size_t n)
{
	static const char *const ENDS[] = { "th", "st", "nd", "rd" };
	bool teen = n % 100 >= 11 && n % 100 <= 13;
	str_printf(out, "%zu%s", n, ENDS[!teen && n % 10 <= 3 ? n % 10 : 0]);
}

/* "6 held by jobs of alice and bob": the two that hold most of it. */
static void queue_say_holders(const struct queue *q, struct str *out, enum resource r)
{
	const struct queue_user *most = NULL;
	const struct queue_user *second = NULL;
	int64_t sum = 0;
	size_t n = 0;
	for (const struct queue_user *u = q->users; u; u = u->next) {
		int64_t has = queue_amount(&u->held, r);
		if (has == 0)
			continue;
		n++;
		sum += has;
		if (most == NULL || has > queue_amount(&most->held, r)) {
			second = most;
			most = u;
		} else if (second == NULL || has > queue_amount(&second->held, r)) {
			second = u;
		}
	}
	if (most == NULL)
		return;
	str_puts(out, ", ");
	queue_say(out, r, sum, false);
	str_printf(out, " held by jobs of %s", most->name);
	if (n == 2)
		str_printf(out, " and %s", second->name);
	else if (n > 2)
		str_printf(out, ", %s and %zu other%s", second->name, n - 2, n == 3 ? "" : "s");
}

/* "4 GPUs wanted, 2 free": of each resource of which `room` has too little. */
static void queue_say_missing(const struct queue *q, struct str *out, const struct amounts *need,
                              struct amounts room, const char *have)
{
	const char *comma = "";
	for (enum resource r = 0; r < RESOURCES; r++) {
		int64_t n = queue_amount(need, r);
		int64_t there = queue_amount(&room, r);
		if (n == 0 || n <= there)
			continue;
		str_puts(out, comma);
		queue_say(out, r, n, true);
		str_puts(out, " wanted, ");
		queue_say(out, r, there > 0 ? there : 0, false);
		str_printf(out, " %s", have);
		if (q)
			queue_say_holders(q, out, r);
		comma = "; ";
	}
}

static void queue_say_machine(const struct queue *q, const struct queue_job *job, struct str *out)
{
	queue_say_place(out, job->place);
	str_puts(out, " in the queue: ");
	struct amounts room = pool_free(&q->machine);
	if (!queue_fits(&job->lack, room)) {
		queue_say_missing(q, out, &job->lack, room, "free");
		return;
	}
	str_puts(out, "enough is free, but kept for a larger job that is ahead");
	if (q->machine.head && q->machine.head != job)
		str_printf(out, ", of %s", q->machine.head->user->name);
}

size_t queue_place(const struct queue_job *job)
{
	return job->waiting && job->why == BUSY ? job->place : 0;
}

bool queue_reason(const struct queue *q, const struct queue_job *job, struct str *out)
{
	if (job->waiting == 0)
		return false;
	struct amounts all = job->lack;
	if (job->gang)
		amounts_add(&all, &job->held);
	switch (job->why) {
	case NEVER_MACHINE:
		str_puts(out, "can never start: ");
		queue_say_missing(NULL, out, &all, q->total, "on this machine");
		break;
	case NEVER_QUOTA:
		str_puts(out, "can never start: ");
		queue_say_missing(NULL, out, &all, job->cluster->pool.total, "in the quota of ");
		str_printf(out, "virtual cluster %s", job->cluster->name);
		break;
	case QUOTA:
		str_printf(out, "waits for the quota of virtual cluster %s: ", job->cluster->name);
		if (queue_fits(&job->lack, pool_free(&job->cluster->pool)))
			str_puts(out, "enough is left of it, but kept for a job that is ahead");
		else
			queue_say_missing(NULL, out, &job->lack, pool_free(&job->cluster->pool),
			                  "left of it");
		break;
	case FOREIGN:
		str_puts(out, "waits for other programs of this machine: ");
		queue_say_missing(NULL, out, &job->lack, q->machine.total, "not held by them");
		break;
	case BUSY:
		queue_say_machine(q, job, out);
		break;
	case NOT_SEEN:
	case STARTS:
		str_puts(out, "is about to enter the queue");
		break;
	}
	return true;
}
