/* Why tasks wait, as sentences. */
#include "machine/engine/queue_internal.h"

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

/* "alice, bob and 2 others": the names of two of n users. */
static void queue_say_users(struct str *out, const struct queue_user *a, const struct queue_user *b,
                            size_t n)
{
	str_puts(out, a->name);
	if (n == 2)
		str_printf(out, " and %s", b->name);
	else if (n > 2)
		str_printf(out, ", %s and %zu other%s", b->name, n - 2, n == 3 ? "" : "s");
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
	str_puts(out, " held by jobs of ");
	queue_say_users(out, most, second, n);
}

/* Why the head's start is not known. */
static void queue_say_endless(const struct queue *q, struct str *out)
{
	const struct queue_user *two[2] = { NULL };
	size_t n = 0;
	for (const struct queue_user *u = q->users; u; u = u->next) {
		if (u->endless && n++ < 2)
			two[n - 1] = u;
	}
	if (n == 0)
		return;
	str_puts(out, ", which waits for jobs without a time limit, of ");
	queue_say_users(out, two[0], two[1], n);
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
	if (!q->machine.head || q->machine.head == job)
		return;
	str_printf(out, ", of %s", q->machine.head->user->name);
	if (q->machine.at_ms == NEVER)
		queue_say_endless(q, out);
	else
		str_puts(out, "; a job passes it whose time limit (extras.maxDurationSec) ends "
		              "before it can start");
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
	case BUSY:
		if (queue_fits(&job->lack, pool_free(&job->cluster->pool))) {
			queue_say_machine(q, job, out);
			break;
		} /* what has passed it holds its quota */
		__attribute__((fallthrough));
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
	case NOT_SEEN:
	case STARTS:
		str_puts(out, "is about to enter the queue");
		break;
	}
	return true;
}
