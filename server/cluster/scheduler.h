#pragma once
/*
 * The HiveD scheduler: its configuration (--hived-config), read at start and on SIGHUP, and the
 * last status of virtual clusters from its web service (--hived-webservice).  Both are immutable
 * and reference-counted; an update replaces them.
 *
 * Thread: any
 */
#include "translate/hived/hived.h"

struct options;
struct scheduler;
struct scheduler_part; /* a configuration or a status */

/* The state at one moment. */
struct scheduler_view {
	const struct hived *hived;         /* NULL: the scheduler is not HiveD */
	const struct hived_status *status; /* NULL: unknown; only the configuration counts */
	struct scheduler_part *parts[2];
};
#define VIEW_AUTO __attribute__((cleanup(scheduler_drop))) struct scheduler_view

/* Reads the configuration and begins to poll the web service; with --hived-config only.  NULL and
 * *e: 400 or 500, with the place of an error in the file.  Thread: main. */
struct scheduler *scheduler_new(const struct options *o, struct err *e);
/* Reads the configuration again.  -1 and *e: the old one stays.  Thread: main. */
int scheduler_reload(struct scheduler *s, struct err *e);
/* Frees the scheduler after all views are dropped.  NULL is allowed.  Thread: main. */
void scheduler_free(struct scheduler *s);

/* The present state, until it is dropped; empty if s is NULL.  Does not block. */
struct scheduler_view scheduler_hold(struct scheduler *s);
void scheduler_drop(struct scheduler_view *v);

/* Puts the state into facts, which must not outlive the view and the arena.  "Any virtual cluster"
 * becomes those of HiveD: no other one has a scheduler. */
void scheduler_facts(const struct scheduler_view *v, struct arena *a, struct facts *f);
