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
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "k8s/transport/store.h"

struct lease {
	struct store *store;
	const char *name;
	int64_t duration_ms;
	char identity[96];
	char *trouble; /* the last one, for the log; NULL: none */
	bool busy;
	bool ending; /* by lease_release */
	int64_t next_ms, asked_ms, held_until_ms;
	/* The Lease as it was read or written last, and since when it has this resourceVersion. */
	char version[64];
	int64_t seen_ms;
	struct str body;
};

/* Store and name are borrowed. */
void lease_init(struct lease *l, struct store *s, const char *name, int64_t duration_s);
/* Asks or renews if it is due; call it in each run of the store's loop, after store_reap. */
void lease_run_once(struct lease *l);
int lease_timeout_ms(const struct lease *l); /* -1: a request is under way */
bool lease_held(const struct lease *l);
/* Before store_free: it is not held any more; another server may take it when the request that this
 * makes has ended (store_pending), instead of when it expires.  Trouble is not logged any more. */
void lease_release(struct lease *l);
/* After store_free, which ends a pending request. */
void lease_done(struct lease *l);
