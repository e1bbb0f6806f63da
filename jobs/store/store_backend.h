#pragma once
/*
 * The part of the store that its backends use: k8s/transport/api.c, and machine/store/local.c.
 *
 * A backend embeds `struct store` as its first member and fills in the ops.  The shared part keeps
 * the queues, the deadlines of waiting requests, and the callbacks.  A backend sends each request
 * that `begin` gets, and answers with store_finish or store_later, from `poll` or `abort` only.
 *
 * Thread: own
 */
#include <sys/queue.h>

#include "jobs/store/store.h"

/* ---- requests in lists ---- */

/* One request from store_request to its callback. */
struct pending {
	struct pending *next;
	struct store_request r;
	struct user_queue *queue; /* its user's; NULL if urgent or refused */
	int64_t due_ms;           /* earliest start */
	unsigned tries;           /* number of starts */
	int64_t started_us;       /* the last of them */
	bool started;             /* the backend has it */
	bool maybe_executed;      /* an earlier try was sent and got no answer */
	bool full;                /* the queue was full */
	const char *why;          /* static text: result of the last try, or NULL */
};

struct pending_list {
	struct pending *head, *last;
	size_t n;
};

static inline void pending_append(struct pending_list *l, struct pending *p)
{
	p->next = NULL;
	if (l->head != NULL)
		l->last->next = p;
	else
		l->head = p;
	l->last = p;
	l->n++;
}

/* The first one; NULL if there is none. */
static inline struct pending *pending_take(struct pending_list *l)
{
	struct pending *p = l->head;
	if (p != NULL) {
		l->head = p->next;
		l->n--;
	}
	return p;
}

static inline struct pending_list pending_take_all(struct pending_list *l)
{
	struct pending_list all = *l;
	*l = (struct pending_list){ 0 };
	return all;
}

/* ---- the fair queue ---- */

/*
 * One queue for each user, served in turn: a user with a thousand jobs delays only these, not the
 * single job of another user.  A request counts for its user from fair_queue_join to
 * fair_queue_leave, also while it is under way or waits for its next try.
 */
struct fair_queue {
	TAILQ_HEAD(user_queues, user_queue) users; /* those with requests, in turn */
	size_t n;                                  /* number of waiting requests */
};

/* ---- the store ---- */

struct store_ops {
	void (*begin)(struct store *s, struct pending *p); /* send it */
	void (*poll)(struct store *s);                     /* finish answered requests */
	int (*fd)(const struct store *s);
	int (*timeout_ms)(const struct store *s); /* -1: no limit; may be NULL */
	void (*abort)(struct store *s);           /* finish all started requests now */
	void (*free)(struct store *s);            /* nothing is pending any more */
	bool atomic;                              /* store_is_atomic */
};

struct store {
	const struct store_ops *ops;
	char *namespace_name;
	struct store_limits limits;
	struct pending_list urgent;  /* started before all new ones */
	struct fair_queue fresh;     /* new ones, by user */
	struct pending_list later;   /* waiting for their due_ms */
	struct pending_list refused; /* to be called back as STORE_FULL or STORE_BUSY */
	size_t in_flight;
	size_t at_once;          /* limit of in_flight; lower after an outage */
	int64_t wake_ms;         /* no deadline or due_ms of a waiting request is earlier */
	int64_t paused_until_ms; /* no request is started before */
	bool closing;
	struct store_counts *counts; /* NULL: not counted */
};

void store_init(struct store *s, const struct store_ops *ops, const char *namespace_name,
                const struct store_limits *limits);
/* Frees the members that store_init made; the memory of *s itself is the backend's. */
void store_done(struct store *s);

/* Calls back and frees p. */
void store_finish(struct store *s, struct pending *p, const struct store_reply *reply);
/* The same without a reply of the API server. */
void store_fail(struct store *s, struct pending *p, enum store_outcome outcome,
                const char *message);
/* Tries again at due_ms, or finishes at the deadline if that comes first. */
void store_later(struct store *s, struct pending *p, int64_t due_ms);
/* Limits the requests under way, and starts none before that time. */
void store_slow(struct store *s, size_t at_once, int64_t until_ms);
