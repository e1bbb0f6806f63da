/*
 * A page of a list, without sorting all of it.  Jobs are gathered until there are twice as many
 * as can come into the page; then the better half stays, and the worst of it says which of those to
 * come are looked at any further.  What is in the page is sorted at the end.
 */
#include <endian.h>
#include <stdlib.h>

#include "base/hash.h"
#include "k8s/cache/cache.h"
#include "server/jobs/job_list.h"
#include "server/jobs/job_show.h"

enum {
	ROOM_MIN = 64,
	AHEAD = 8, /* jobs that are fetched from memory before they are looked at */
	LINE = 64,
};

/* ---- what is compared ---- */

/* So that numbers without a sign are in the order of those with one. */
static uint64_t rank(int64_t number)
{
	return (uint64_t)number ^ (UINT64_C(1) << 63);
}

static uint64_t first_bytes(const char *text)
{
	uint64_t first = 0;
	size_t n = strlen(text);
	memcpy(&first, text, n < sizeof(first) ? n : sizeof(first));
	return be64toh(first);
}

/* As in PostgreSQL: behind all others, in descending order before them. */
static const uint64_t NOTHING = UINT64_MAX;

/* What an order is by: a text, or if that is NULL, a number. */
struct field {
	const char *text;
	int64_t number;
};

static struct field field_of(const struct job_query *q, const struct job_entry *job)
{
	switch (q->order) {
	case ORDER_NAME:
		return (struct field){ .text = job->job };
	case ORDER_USER:
		return (struct field){ .text = job_entry_shown_user(job) };
	case ORDER_CLUSTER:
		return (struct field){ .text = job->cluster };
	case ORDER_STATE:
		return (struct field){ .text = JOB_STATES[job_shown_state(job, q->v1)] };
	case ORDER_PRIORITY:
		return (struct field){ .text = job->priority };
	case ORDER_RETRIES:
		return (struct field){ .number = job->retries };
	case ORDER_TASKS:
		return (struct field){ .number = job->tasks };
	case ORDER_GPUS:
		return (struct field){ .number = job->gpus };
	case ORDER_COMPLETED:
		return (struct field){ .number = job->completed_ms };
	case ORDER_SUBMITTED:
	case ORDER_MAX:
		break;
	}
	return (struct field){ .number = job->created_ms };
}

static bool is_nothing(enum job_order order, struct field field)
{
	return (order == ORDER_PRIORITY && !field.text[0]) ||
	       (order == ORDER_COMPLETED && field.number == JOB_ENTRY_NONE);
}

static struct job_key key_of(const struct job_query *q, const struct job_entry *job)
{
	struct field by = field_of(q, job);
	uint64_t field = is_nothing(q->order, by) ? NOTHING
	                 : by.text                ? first_bytes(by.text)
	                                          : rank(by.number);
	return (struct job_key){ .field = q->descending ? ~field : field,
		                 .age = ~rank(job->created_ms),
		                 .job = job };
}

/* Of texts that begin alike; most that do are shorter than that, and the same. */
static int compare_texts(const struct job_query *q, const struct job_key *a,
                         const struct job_key *b)
{
	uint64_t field = q->descending ? ~a->field : a->field;
	const char *text = (field & 0xff) ? field_of(q, a->job).text : NULL;
	int order = text ? strcmp(text, field_of(q, b->job).text) : 0;
	return q->descending ? -order : order;
}

/* Of jobs made in the same second: the latest first, unless the order asked for is the other one.
 */
static int compare_submitted(const struct job_query *q, const struct job_entry *a,
                             const struct job_entry *b)
{
	int order = (b->submitted_ms > a->submitted_ms) - (b->submitted_ms < a->submitted_ms);
	return q->order == ORDER_SUBMITTED && !q->descending ? -order : order;
}

static int compare(const struct job_query *query, const struct job_key *a, const struct job_key *b)
{
	if (a->field != b->field)
		return a->field < b->field ? -1 : 1;
	int order = compare_texts(query, a, b);
	if (order)
		return order;
	if (a->age != b->age)
		return a->age < b->age ? -1 : 1;
	order = compare_submitted(query, a->job, b->job);
	return order ? order : strcmp(a->job->name, b->job->name);
}

static int compare_for_qsort(const void *a, const void *b, void *query)
{
	return compare(query, a, b);
}

/* ---- the page ---- */

/* xorshift64: so that nobody can choose jobs among which selecting is slow. */
static size_t random_below(struct job_page *p, size_t n)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return (size_t)(p->random % n);
}

/* What belongs before the pivot to the left, the rest to the right; all before *left, and all
 * behind *right, are where they belong. */
static void partition(struct job_page *p, ptrdiff_t *left, ptrdiff_t *right)
{
	struct job_key pivot = p->v[*left + (ptrdiff_t)random_below(p, *right - *left + 1)];
	while (*left <= *right) {
		while (compare(p->query, &p->v[*left], &pivot) < 0)
			++*left;
		while (compare(p->query, &p->v[*right], &pivot) > 0)
			--*right;
		if (*left > *right)
			break;
		struct job_key swapped = p->v[*left];
		p->v[(*left)++] = p->v[*right];
		p->v[(*right)--] = swapped;
	}
}

/* Put the job to `at` that is there when all are sorted, and what is before it before it
 * (quickselect). */
static void place(struct job_page *p, size_t at)
{
	ptrdiff_t first = 0;
	ptrdiff_t last = (ptrdiff_t)p->n - 1;
	ptrdiff_t wanted = (ptrdiff_t)at;
	while (first < last) {
		ptrdiff_t left = first;
		ptrdiff_t right = last;
		partition(p, &left, &right);
		if (wanted <= right)
			last = right;
		else if (wanted >= left)
			first = left;
		else
			return;
	}
}

static void keep_best(struct job_page *p)
{
	place(p, p->wanted - 1);
	p->n = p->wanted;
	p->worst = p->v[p->n - 1];
	p->cut = true;
}

void job_page_begin(struct job_page *p, const struct job_query *q)
{
	*p = (struct job_page){ .query = q, .random = hash_key_new().v[0] | 1 };
	p->wanted = q->limit ? (size_t)(q->offset + q->limit) : 0;
}

void job_page_add(struct job_page *p, const struct job_entry *job)
{
	p->total++;
	if (p->wanted == 0)
		return;
	struct job_key key = key_of(p->query, job);
	if (p->cut && compare(p->query, &key, &p->worst) > 0)
		return;
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : ROOM_MIN;
		p->v = xrealloc(p->v, p->cap * sizeof(*p->v));
	}
	p->v[p->n++] = key;
	if (p->n >= 2 * p->wanted && p->n >= ROOM_MIN)
		keep_best(p);
}

static void fetch(const struct job_entry *job)
{
	for (size_t at = 0; at < sizeof(*job); at += LINE)
		__builtin_prefetch((const char *)job + at);
}

void job_page_gather(struct job_page *p, const struct view *view)
{
	const struct job_entry *ahead[AHEAD] = { NULL };
	struct view_walk walk = { view, 0, 0 };
	size_t rounds = view_count(view) + AHEAD;
	for (size_t i = 0; i < rounds; i++) {
		const struct job_entry *job = ahead[i % AHEAD];
		const struct job_entry *next = view_next(&walk);
		fetch(next);
		ahead[i % AHEAD] = next;
		if (job && job_query_takes(p->query, job))
			job_page_add(p, job);
	}
}

void job_page_end(struct job_page *p)
{
	size_t offset = (size_t)p->query->offset;
	if (p->n > p->wanted)
		keep_best(p);
	if (offset >= p->n) {
		p->n = 0;
		return;
	}
	if (offset)
		place(p, offset);
	p->n -= offset;
	memmove(p->v, p->v + offset, p->n * sizeof(*p->v));
	struct job_query query = *p->query; /* qsort_r takes no const */
	qsort_r(p->v, p->n, sizeof(*p->v), compare_for_qsort, &query);
}

void job_page_done(struct job_page *p)
{
	free(p->v);
}
