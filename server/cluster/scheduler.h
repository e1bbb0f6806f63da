#pragma once
/*
 * HiveD as this server knows it: its configuration (--hived-config), read at start and again on
 * SIGHUP, and what its web service (--hived-webservice) said last of what virtual clusters have.
 * Neither is ever changed: another one takes its place, and whoever works with the old one holds
 * it.
 */
#include "server/options.h"
#include "translate/hived/hived.h"

struct scheduler;
struct scheduler_part; /* the configuration, or a status */

/* What holds at one moment. */
struct scheduler_view {
	const struct hived *hived;         /* NULL: the scheduler is not HiveD */
	const struct hived_status *status; /* NULL: not known; the configuration alone counts */
	struct scheduler_part *parts[2];
};
#define VIEW_AUTO __attribute__((cleanup(scheduler_drop))) struct scheduler_view

/* Read the configuration, and begin to ask the web service.  With --hived-config only.  NULL and
 * *e: 400 or 500; with a place if the file says something wrong. */
struct scheduler *scheduler_new(const struct options *o, struct err *e);
/* Read the configuration again.  -1 and *e: the old one stays.  One thread. */
int scheduler_reload(struct scheduler *s, struct err *e);
/* All views must be gone.  NULL is nothing. */
void scheduler_free(struct scheduler *s);

/* What holds now, till it is dropped; of no scheduler (NULL): nothing.  Any thread, never waits for
 * long. */
struct scheduler_view scheduler_hold(struct scheduler *s);
void scheduler_drop(struct scheduler_view *v);

/*
 * Put it into facts, which must not outlive the view and the arena.  Who may use any virtual
 * cluster may use those that HiveD has: of no other is there a scheduler.
 */
void scheduler_facts(const struct scheduler_view *v, struct arena *a, struct facts *f);
