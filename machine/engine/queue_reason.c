/* The reasons why tasks wait, as sentences. */
#include "machine/engine/queue.h"

#include <stdio.h>

enum { SIZE_TEXT = 48, DIGITS = 4, DIGITS_MOST = 15 };

/* "31.25 GiB", "512 MiB" */
static void queue_reason_size(char out[static SIZE_TEXT], int64_t n, int digits)
{
	bool large = n >> 30;
	(void)snprintf(out, SIZE_TEXT, "%.*g %s", digits, (double)n / (large ? 1 << 30 : 1 << 20),
	               large ? "GiB" : "MiB");
}

/* "4 GPUs", "0.5 CPUs", "64 GiB of memory"; without a unit "4", "0.5", "64 GiB".  beside: the
 * amount that it stands beside; amounts that differ are shown as different. */
static void queue_reason_put(struct str *out, enum amount i, int64_t n, int64_t beside, bool unit)
{
	static const char *const UNITS[] = { "GPU", "CPU", " of memory", "port" };
	int one = i == AMOUNT_CPUS ? 1000 : 1;
	char text[SIZE_TEXT];
	char other[SIZE_TEXT];
	for (int digits = DIGITS; i == AMOUNT_MEMORY && digits <= DIGITS_MOST; digits++) {
		queue_reason_size(text, n, digits);
		queue_reason_size(other, beside, digits);
		if (n == beside || strcmp(text, other) != 0)
			break;
	}
	if (i == AMOUNT_MEMORY)
		str_printf(out, "%s%s", text, unit ? UNITS[i] : "");
	else if (unit)
		str_printf(out, "%.15g %s%s", (double)n / one, UNITS[i], n == one ? "" : "s");
	else
		str_printf(out, "%.15g", (double)n / one);
}

bool queue_never(const struct queue *q, const struct queue_bounds *b, const struct amounts *need,
                 const char *each, struct str *out)
{
	const struct queue_group *p = q->machine.next;
	while (p && !span_is(b->virtual_cluster, p->name))
		p = p->next;
	const struct amounts *room = !amounts_fit(need, q->total)        ? &q->total
	                             : p && !amounts_fit(need, p->total) ? &p->total
	                                                                 : b->limit;
	STR_AUTO there = STR_INIT(1024);
	for (enum amount i = 0; i < AMOUNTS; i++) {
		if (need->of[i] == 0 || need->of[i] <= room->of[i])
			continue;
		str_puts(out, there.n ? " and " : "");
		str_puts(&there, there.n ? " and " : "");
		queue_reason_put(out, i, need->of[i], room->of[i], true);
		queue_reason_put(&there, i, room->of[i], need->of[i], false);
	}
	if (!there.n)
		return false;
	if (room == &q->total)
		str_printf(out, "%s; this machine has %s", each, str_c(&there));
	else if (room == b->limit)
		str_printf(out, "%s; your limit is %s", each, str_c(&there));
	else
		str_printf(out, "%s; the quota of virtual cluster %s is %s", each, p->name,
		           str_c(&there));
	return true;
}

/* Returns the amount that a user holds; i == AMOUNTS: 1 if the head waits for the user. */
static int64_t reason_has(const struct queue_group *u, enum amount i)
{
	return i == AMOUNTS ? u->endless : u->sum.held.of[i];
}

/* " held by jobs of alice, bob and 2 others": the two that have most.  Nothing, if nobody has. */
static void reason_put_users(const struct queue *q, struct str *out, const char *text,
                             enum amount i)
{
	const struct queue_group *most[2] = { NULL };
	size_t n = 0;
	for (size_t k = 0; k < 2; k++)
		for (const struct queue_group *u = q->users; u; u = u->next) {
			n += k && reason_has(u, i) > 0;
			if (u != most[0] &&
			    reason_has(u, i) > (most[k] ? reason_has(most[k], i) : 0))
				most[k] = u;
		}
	if (n > 0)
		str_printf(out, "%s%s", text, most[0]->name);
	if (n == 2)
		str_printf(out, " and %s", most[1]->name);
	else if (n > 2)
		str_printf(out, ", %s and %zu other%s", most[1]->name, n - 2, n == 3 ? "" : "s");
}

/* "4 GPUs wanted, 2 free": of each resource of which `room` has too little; with q also who holds
 * it. */
static void reason_put_missing(const struct queue *q, struct str *out, const struct amounts *need,
                               const struct amounts *room, const char *have)
{
	const char *comma = "";
	for (enum amount i = 0; i < AMOUNTS; i++) {
		if (need->of[i] == 0 || need->of[i] <= room->of[i])
			continue;
		int64_t there = room->of[i] > 0 ? room->of[i] : 0;
		str_puts(out, comma);
		queue_reason_put(out, i, need->of[i], there, true);
		str_puts(out, " wanted, ");
		queue_reason_put(out, i, there, need->of[i], false);
		str_printf(out, " %s", have);
		comma = "; ";
		if (!q || q->machine.sum.held.of[i] == 0)
			continue;
		str_puts(out, ", ");
		queue_reason_put(out, i, q->machine.sum.held.of[i], 0, false);
		reason_put_users(q, out, " held by jobs of ", i);
	}
}

/* "2nd in the queue: ...". */
static void reason_put_busy(const struct queue *q, const struct queue_job *job, struct str *out)
{
	static const char *const ENDS[] = { "th", "st", "nd", "rd" };
	size_t n = job->place;
	bool teen = n % 100 >= 11 && n % 100 <= 13;
	str_printf(out, "%zu%s in the queue: ", n, ENDS[!teen && n % 10 <= 3 ? n % 10 : 0]);
	const struct amounts room = pool_free(&q->machine);
	if (!amounts_fit(&job->lack, room)) {
		reason_put_missing(q, out, &job->lack, &room, "free");
		return;
	}
	str_puts(out, "enough is free, but kept for a larger job that is ahead");
	if (!q->machine.head || q->machine.head == job)
		return;
	str_printf(out, ", of %s", q->machine.head->user->name);
	if (q->machine.at_ms != QUEUE_NEVER)
		str_puts(out, "; a job passes it whose time limit (extras.maxDurationSec) ends "
		              "before it can start");
	else
		reason_put_users(q, out, ", which waits for jobs without a time limit, of ",
		                 AMOUNTS);
}

bool queue_reason(const struct queue *q, const struct queue_job *job, struct str *out)
{
	const struct queue_group *quota = job->pool[QUEUE_QUOTA];
	const struct amounts own = pool_free(job->user);
	const struct amounts left = pool_free(quota);
	struct amounts all = job->lack;
	if (job->gang)
		amounts_add(&all, &job->sum.held, 1);
	if (job->sum.waiting == 0)
		return false;
	if (job->why == NOT_SEEN) {
		str_puts(out, "is about to enter the queue");
	} else if (job->why == NEVER_MACHINE) {
		str_puts(out, "can never start: ");
		reason_put_missing(NULL, out, &all, &q->total, "on this machine");
	} else if (job->why == NEVER_QUOTA) {
		str_puts(out, "can never start: ");
		reason_put_missing(NULL, out, &all, &quota->total, "in the quota of ");
		str_printf(out, "virtual cluster %s", quota->name);
	} else if (job->why == NEVER_LIMIT) {
		str_puts(out, "can never start: ");
		reason_put_missing(NULL, out, &all, &job->user->total, "in the limit of ");
		str_printf(out, "%s", job->user->name);
	} else if (job->why == LIMIT || !amounts_fit(&job->lack, own)) {
		str_printf(out, "waits for other jobs of %s to end: ", job->user->name);
		if (amounts_fit(&job->lack, own))
			str_puts(
			    out,
			    "enough is left of the user's limit, but kept for a job that is ahead");
		else
			reason_put_missing(NULL, out, &job->lack, &own, "left of the user's limit");
	} else if (job->why == FOREIGN) {
		str_puts(out, "waits for other programs of this machine: ");
		reason_put_missing(NULL, out, &job->lack, &q->machine.total, "not held by them");
	} else if (job->why == BUSY && amounts_fit(&job->lack, left)) {
		reason_put_busy(q, job, out);
	} else { /* if BUSY, tasks that have passed it hold its quota */
		str_printf(out, "waits for the quota of virtual cluster %s: ", quota->name);
		if (amounts_fit(&job->lack, left))
			str_puts(out, "enough is left of it, but kept for a job that is ahead");
		else
			reason_put_missing(NULL, out, &job->lack, &left, "left of it");
	}
	return true;
}
