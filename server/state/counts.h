#pragma once
/*
 * The counts of the server for /metrics (metrics.h): a set of counts for each loop and each further
 * store, written by its thread only, read by any.  They have no texts of clients: routes, dialects
 * and outcomes are rows of tables, so the size is fixed.
 *
 * Thread: main
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/counter.h"
#include "jobs/store/store.h"
#include "translate/translate.h"

struct route;

/* The codes of answers that have a counter of their own, CODES[0] for all others: requests whose
 * client has left before the answer. */
enum { CODES_N = 29 };
extern const short CODES[CODES_N];

/* The outcomes of the body of a submission. */
enum submit_outcome {
	SUBMIT_CREATED,
	SUBMIT_REPEATED, /* an earlier request with the same Idempotency-Key has created it */
	SUBMIT_DRY_RUN,
	SUBMIT_INVALID,     /* 400, 404, 413, 415, 422 */
	SUBMIT_DENIED,      /* 401, 403, 429 */
	SUBMIT_EXISTS,      /* 409 */
	SUBMIT_UNAVAILABLE, /* 503 */
	SUBMIT_UNKNOWN,     /* 504 */
	SUBMIT_ERROR,       /* other 5xx */
	SUBMIT_LEFT,        /* the client has left */
	SUBMIT_OUTCOME_MAX
};

/* The index for jobs that could not be read, behind the rows of the table of dialects. */
enum { DIALECT_UNREAD = DIALECTS_MAX };

struct route_counts {
	atomic_ullong answers[CODES_N];
	struct histogram latency; /* to the answer; without streams and long polls */
};

struct loop_counts {
	const struct route *routes; /* of this loop */
	size_t n_routes;
	atomic_ullong submissions[DIALECT_UNREAD + 1][SUBMIT_OUTCOME_MAX];
	struct histogram translation;
	/* The values of the last round. */
	atomic_ullong requests, connections, long_lived, log_streams;
	struct store_counts store;
	struct route_counts route[]; /* n_routes, then one for requests without a route */
};

/* The counts of the janitor; the thread of server/cluster/gc.c writes them. */
struct janitor_counts {
	atomic_ullong good, failed; /* rounds */
	atomic_ullong frameworks, classes;
};

/* The counts of --webhook; the main thread writes them. */
struct webhook_counts {
	atomic_ullong sent, failed; /* attempts */
	atomic_ullong pending;      /* jobs, in the last round */
};

enum { COUNTED_LOOPS = 66, COUNTED_STORES = 12 };

struct counts {
	struct loop_counts *loop[COUNTED_LOOPS];
	size_t n_loops;
	struct store_counts store[COUNTED_STORES]; /* of no loop */
	size_t n_stores;
	struct janitor_counts janitor;
	struct webhook_counts webhook;
};

/* Frees the counts, which are zero at the beginning; no thread uses them any more.  Accepts NULL.
 */
void counts_free(struct counts *c);
/* Makes the counts of a loop with these routes, or of a store of another thread.  At start only. */
struct loop_counts *counts_loop(struct counts *c, const struct route *routes, size_t n);
struct store_counts *counts_store(struct counts *c);
/* route: index in the routes of the loop, or n_routes.  us: to the answer; -1: not measured.
 * Thread: loop. */
void counts_request(struct loop_counts *c, size_t route, int status, int64_t us);
