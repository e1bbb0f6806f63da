#pragma once
/*
 * A Lease (coordination.k8s.io/v1): of several processes one holds it, as client-go's leader
 * election does it.
 *
 *	l->lease = lease_new(&settings);
 *	if (lease_start(l->lease, store, e) < 0)
 *		return -1;
 *	...
 *	if (lease_is_held(l->lease, &left_ms))
 *		(send requests whose deadlines are earlier)
 *
 * The holder renews it four times in its duration; another process takes it when it has seen no
 * renewal for the duration by its own clock, so clocks may differ.  A holder that cannot renew it
 * considers it lost after two thirds; time while the machine sleeps counts.  Writes carry the
 * resourceVersion, so one of two wins.
 *
 * Rights: leases create, get, patch.
 *
 * Thread: own
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "jobs/store/store.h"

struct lease;

struct lease_settings {
	const char *name; /* copied; of a Lease in the namespace of the store */
	int64_t duration_s;
	/* Called by its thread after each round: why the Lease cannot be used, for people; NULL: it
	 * can. */
	void (*trouble)(void *arg, const char *why);
	void *arg;
};

struct lease *lease_new(const struct lease_settings *s);
/* HOST_RANDOM, new for each struct; of the life of *l. */
const char *lease_identity(const struct lease *l);
/* Begins a thread that takes the Lease and renews it.  The store is owned.  0, or -1 and *e. */
int lease_start(struct lease *l, struct store *s, struct err *e);
/* It is held, for *left_ms more if nothing renews it; not after lease_stop.  left_ms can be NULL.
 * Thread: any. */
bool lease_is_held(const struct lease *l, int64_t *left_ms);
/* How often it was taken, and not only renewed: between two times others may have held it.
 * Thread: any. */
unsigned lease_terms(const struct lease *l);
/* Another one holds it, as it was read last (in the last quarter of the duration, if there is no
 * trouble).  Thread: any. */
bool lease_is_others(const struct lease *l);
/* Gives the Lease back, so that another process may take it before it expires.  Does not wait. */
void lease_stop(struct lease *l);
/* The same; waits until it is given back, about CALL_END_MS of jobs/store/call.h at most.
 * Accepts NULL. */
void lease_free(struct lease *l);
