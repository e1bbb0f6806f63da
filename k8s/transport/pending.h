#pragma once
/* Requests that wait, in lists.  Private to k8s/. */
#include "k8s/transport/store.h"

struct user_queue;

/* One request from store_request to its callback. */
struct pending {
	struct pending *next;
	struct store_request r;
	struct user_queue *lane; /* its user's (lanes.h); NULL if urgent, or refused */
	int64_t due_ms;          /* not to be started before */
	unsigned tries;          /* how often it was started */
	bool started;            /* the backend has it */
	bool maybe_executed;     /* an earlier try was handed over and got no answer */
	bool full;               /* it found no room */
	const char *why;         /* static text: what the last try came to, or NULL */
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
