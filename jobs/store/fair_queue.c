/* A queue for each user, served in turn. */
#include "jobs/store/store_internal.h"

#include <assert.h>
#include <stdlib.h>

struct user_queue {
	struct user_queue *next_in_bucket;
	struct user_queue *next_in_turn;
	struct pending_list waiting;
	size_t held;
	bool in_round;
	char user[];
};

/* FNV-1a.  The limit of waiting requests also limits the users, and so the chains. */
static size_t fair_queue_bucket_of(const char *user)
{
	uint32_t h = 2166136261u;
	for (const char *p = user; *p != '\0'; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	return h % FAIR_QUEUE_BUCKETS;
}

static struct user_queue *fair_queue_find(const struct fair_queue *q, const char *user)
{
	struct user_queue *u = q->bucket[fair_queue_bucket_of(user)];
	while (u != NULL && strcmp(u->user, user) != 0)
		u = u->next_in_bucket;
	return u;
}

/* Returns 0 for users without requests: they have no queue. */
size_t fair_queue_held(const struct fair_queue *q, const char *user)
{
	const struct user_queue *u = fair_queue_find(q, user ? user : "");
	return u ? u->held : 0;
}

/* The order of users. */
static void turn_append(struct fair_queue *q, struct user_queue *u)
{
	u->in_round = true;
	u->next_in_turn = NULL;
	if (q->first != NULL)
		q->last->next_in_turn = u;
	else
		q->first = u;
	q->last = u;
}

void fair_queue_join(struct fair_queue *q, struct pending *p, bool waits)
{
	const char *user = p->r.user ? p->r.user : "";
	struct user_queue *u = fair_queue_find(q, user);
	if (u == NULL) {
		size_t n = strlen(user) + 1;
		struct user_queue **bucket = &q->bucket[fair_queue_bucket_of(user)];
		u = xcalloc(1, sizeof(*u) + n);
		memcpy(u->user, user, n);
		u->next_in_bucket = *bucket;
		*bucket = u;
	}
	u->held++;
	p->queue = u;
	if (!waits)
		return;
	pending_append(&u->waiting, p);
	q->n++;
	if (!u->in_round)
		turn_append(q, u);
}

void fair_queue_leave(struct fair_queue *q, struct pending *p)
{
	struct user_queue *u = p->queue;
	if (u == NULL)
		return;
	p->queue = NULL;
	if (--u->held > 0)
		return;
	assert(u->waiting.n == 0); /* waiting requests are held */
	if (u->in_round) {
		struct user_queue *all = q->first;
		q->first = NULL;
		while (all != NULL) {
			struct user_queue *other = all;
			all = other->next_in_turn;
			if (other != u)
				turn_append(q, other);
		}
	}
	struct user_queue **at = &q->bucket[fair_queue_bucket_of(u->user)];
	while (*at != u)
		at = &(*at)->next_in_bucket;
	*at = u->next_in_bucket;
	free(u);
}

struct pending *fair_queue_take(struct fair_queue *q)
{
	while (q->first != NULL) {
		struct user_queue *u = q->first;
		q->first = u->next_in_turn;
		u->in_round = false;
		struct pending *p = pending_take(&u->waiting);
		if (u->waiting.n > 0)
			turn_append(q, u);
		if (p != NULL) {
			q->n--;
			return p;
		}
	}
	return NULL;
}

int64_t fair_queue_expire(struct fair_queue *q, int64_t now_ms, struct pending_list *out)
{
	int64_t earliest = INT64_MAX;
	for (struct user_queue *u = q->first; u != NULL; u = u->next_in_turn) {
		struct pending_list all = pending_take_all(&u->waiting);
		struct pending *p;
		while ((p = pending_take(&all)) != NULL) {
			bool late = p->r.deadline_ms <= now_ms;
			pending_append(late ? out : &u->waiting, p);
			q->n -= late;
			if (!late && p->r.deadline_ms < earliest)
				earliest = p->r.deadline_ms;
		}
	}
	return earliest;
}
