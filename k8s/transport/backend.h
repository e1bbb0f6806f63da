#pragma once
/*
 * What the backends of the store share; private to k8s/ and its tests.
 *
 * A backend embeds `struct store` as its first member and fills in the ops.  The
 * shared part keeps the queues, the deadlines of what waits, and the callbacks;
 * a backend sends what `begin` gives it and answers, from `poll`
 * or `abort` only, with store_finish or store_later.
 */
#include "k8s/transport/fair_queue.h"
#include "k8s/transport/pending.h"
#include "k8s/transport/store.h"

struct store_ops {
	void (*begin)(struct store *s, struct pending *p); /* send it */
	void (*poll)(struct store *s);                     /* finish what has been answered */
	int (*fd)(const struct store *s);
	int (*timeout_ms)(const struct store *s); /* -1: for ever */
	void (*abort)(struct store *s);           /* finish all that was started, now */
	void (*free)(struct store *s);            /* nothing is pending any more */
};

struct store {
	const struct store_ops *ops;
	char *namespace_name;
	struct store_limits limits;
	struct pending_list urgent;  /* to be started, before */
	struct fair_queue fresh;     /* what is new, by user */
	struct pending_list later;   /* waiting for their due_ms */
	struct pending_list refused; /* to be called back as STORE_FULL or BUSY */
	size_t in_flight;
	size_t at_once;  /* at most so many; less than limits.in_flight while it is tried out */
	size_t held;     /* bytes, by store_hold */
	int64_t wake_ms; /* no deadline or due_ms of what waits is earlier */
	int64_t paused_until_ms; /* nothing is started before: the API server is not there */
	bool closing;
};

void store_init(struct store *s, const struct store_ops *ops, const char *namespace_name,
                const struct store_limits *limits);
/* Free what store_init made; the memory of *s itself is the backend's. */
void store_done(struct store *s);

/* Answer: calls back and frees p. */
void store_finish(struct store *s, struct pending *p, const struct store_reply *reply);
/* Answer without a reply of the server: outcome and a sentence. */
void store_fail(struct store *s, struct pending *p, enum store_outcome outcome,
                const char *message);
/* Try again at due_ms, or finish at the deadline if that comes first. */
void store_later(struct store *s, struct pending *p, int64_t due_ms);
/* Start nothing before that time, and then at most so many at once. */
void store_pause(struct store *s, int64_t until_ms);
void store_throttle(struct store *s, size_t at_once);
