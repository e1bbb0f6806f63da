/* One lane for each user; see lanes.h. */
#include "k8s/transport/fair_queue.h"

#include <assert.h>
#include <stdlib.h>

struct user_queue {
	struct user_queue *next_in_bucket;
	struct user_queue *next_in_turn;
	struct pending_list waiting;
	size_t held;
	bool in_turn;
	char user[];
};

/* FNV-1a.  Users are bounded by the requests that wait, so a chain can only be that long. */
static size_t bucket_of(const char *user)
{
	uint32_t h = 2166136261u;
	for (const char *p = user; *p != '\0'; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	return h % FAIR_QUEUE_BUCKETS;
}

static struct user_queue *find(const struct fair_queue *l, const char *user)
{
	struct user_queue *lane = l->bucket[bucket_of(user)];
	while (lane != NULL && strcmp(lane->user, user) != 0)
		lane = lane->next_in_bucket;
	return lane;
}

size_t fair_queue_held(const struct fair_queue *l, const char *user)
{
	const struct user_queue *lane = find(l, user ? user : "");
	return lane ? lane->held : 0;
}

void fair_queue_join(struct fair_queue *l, struct pending *p)
{
	const char *user = p->r.user ? p->r.user : "";
	struct user_queue *lane = find(l, user);
	if (lane == NULL) {
		size_t n = strlen(user) + 1;
		struct user_queue **bucket = &l->bucket[bucket_of(user)];
		lane = xcalloc(1, sizeof(*lane) + n);
		memcpy(lane->user, user, n);
		lane->next_in_bucket = *bucket;
		*bucket = lane;
	}
	lane->held++;
	p->lane = lane;
}

/* ---- whose turn it is -------------------------------------------------------------- */

static void turn_append(struct fair_queue *l, struct user_queue *lane)
{
	lane->in_turn = true;
	lane->next_in_turn = NULL;
	if (l->first != NULL)
		l->last->next_in_turn = lane;
	else
		l->first = lane;
	l->last = lane;
}

static struct user_queue *turn_take(struct fair_queue *l)
{
	struct user_queue *lane = l->first;
	l->first = lane->next_in_turn;
	lane->in_turn = false;
	return lane;
}

static void turn_remove(struct fair_queue *l, const struct user_queue *gone)
{
	struct user_queue *all = l->first;
	l->first = NULL;
	while (all != NULL) {
		struct user_queue *lane = all;
		all = lane->next_in_turn;
		if (lane != gone)
			turn_append(l, lane);
	}
}

void fair_queue_leave(struct fair_queue *l, struct pending *p)
{
	struct user_queue *lane = p->lane;
	if (lane == NULL)
		return;
	p->lane = NULL;
	if (--lane->held > 0)
		return;
	assert(lane->waiting.n == 0); /* what waits is held */
	if (lane->in_turn)
		turn_remove(l, lane);
	struct user_queue **at = &l->bucket[bucket_of(lane->user)];
	while (*at != lane)
		at = &(*at)->next_in_bucket;
	*at = lane->next_in_bucket;
	free(lane);
}

void fair_queue_append(struct fair_queue *l, struct pending *p)
{
	pending_append(&p->lane->waiting, p);
	l->n++;
	if (!p->lane->in_turn)
		turn_append(l, p->lane);
}

struct pending *fair_queue_take(struct fair_queue *l)
{
	while (l->first != NULL) {
		struct user_queue *lane = turn_take(l);
		struct pending *p = pending_take(&lane->waiting);
		if (lane->waiting.n > 0)
			turn_append(l, lane);
		if (p != NULL) {
			l->n--;
			return p;
		}
	}
	return NULL;
}

int64_t fair_queue_expire(struct fair_queue *l, int64_t now_ms, struct pending_list *out)
{
	int64_t earliest = INT64_MAX;
	for (struct user_queue *lane = l->first; lane != NULL; lane = lane->next_in_turn) {
		struct pending_list all = pending_take_all(&lane->waiting);
		struct pending *p;
		while ((p = pending_take(&all)) != NULL) {
			bool late = p->r.deadline_ms <= now_ms;
			pending_append(late ? out : &lane->waiting, p);
			l->n -= late;
			if (!late && p->r.deadline_ms < earliest)
				earliest = p->r.deadline_ms;
		}
	}
	return earliest;
}
