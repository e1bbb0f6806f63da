#pragma once
/*
 * A Lease (coordination.k8s.io/v1): of several servers one holds it, as client-go's leader election
 * does it.  The holder renews it four times in its duration; another server takes it when it has
 * seen no renewal for the duration by its own clock, so clocks may differ.  A holder that cannot
 * renew it considers it lost after two thirds.  Writes carry the resourceVersion, so one of two
 * wins.
 *
 * Rights: leases create, get, patch.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "k8s/transport/call.h"

struct lease {
	/* Any thread: it is held until then, but not while `ending`. */
	_Atomic int64_t held_until_ms;
	atomic_bool ending;
	/* All below: its thread. */
	struct caller caller;
	const char *name;
	int64_t duration_ms;
	char identity[96];
	char *trouble; /* the last one, for the log; NULL: none */
	/* The Lease as it was read or written last, and since when it has this resourceVersion. */
	char version[64];
	int64_t seen_ms;
};

/* Begins a thread that takes the Lease and renews it.  The store is owned, the name is borrowed.
 * 0, or -1 and *e; lease_done in all cases, and also if *l is zero. */
int lease_start(struct lease *l, struct store *s, const char *name, int64_t duration_s,
                struct err *e);
/* Gives the Lease back, so that another server may take it before it expires.  Does not wait. */
void lease_stop(struct lease *l);
/* The same; waits until it is given back, about CALL_END_MS at most. */
void lease_done(struct lease *l);
