/* A queue for each user, served in turn. */
#include "jobs/store/store_internal.h"

#include <assert.h>
#include <stdlib.h>

struct user_queue {
	TAILQ_ENTRY(user_queue) turn;
	struct pending_list waiting;
	size_t held;
	char user[];
};

/* The limit of waiting requests also limits the users. */
static struct user_queue *fair_queue_find(const struct fair_queue *q, const char *user)
{
	struct user_queue *u = NULL;
	TAILQ_FOREACH(u, &q->users, turn)
	if (strcmp(u->user, user) == 0)
		break;
	return u;
}

/* Returns 0 for users without requests: they have no queue. */
size_t fair_queue_held(const struct fair_queue *q, const char *user)
{
	const struct user_queue *u = fair_queue_find(q, user ? user : "");
	return u ? u->held : 0;
}

static void fair_queue_to_end(struct fair_queue *q, struct user_queue *u)
{
	TAILQ_REMOVE(&q->users, u, turn);
	TAILQ_INSERT_TAIL(&q->users, u, turn);
}

void fair_queue_join(struct fair_queue *q, struct pending *p, bool waits)
{
	const char *user = p->r.user ? p->r.user : "";
	struct user_queue *u = fair_queue_find(q, user);
	if (u == NULL) {
		size_t n = strlen(user) + 1;
		u = xcalloc(1, sizeof(*u) + n);
		memcpy(u->user, user, n);
		TAILQ_INSERT_TAIL(&q->users, u, turn);
	}
	u->held++;
	p->queue = u;
	if (!waits)
		return;
	if (u->waiting.n == 0)
		fair_queue_to_end(q, u);
	pending_append(&u->waiting, p);
	q->n++;
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
	TAILQ_REMOVE(&q->users, u, turn);
	free(u);
}

struct pending *fair_queue_take(struct fair_queue *q)
{
	struct user_queue *u = NULL;
	TAILQ_FOREACH(u, &q->users, turn)
	{
		struct pending *p = pending_take(&u->waiting);
		if (p == NULL)
			continue;
		q->n--;
		fair_queue_to_end(q, u);
		return p;
	}
	return NULL;
}

int64_t fair_queue_expire(struct fair_queue *q, int64_t now_ms, struct pending_list *out)
{
	int64_t earliest = INT64_MAX;
	struct user_queue *u = NULL;
	TAILQ_FOREACH(u, &q->users, turn)
	{
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
