#pragma once
/*
 * Removes orphans that a killed server has left: Frameworks of this installation that were never
 * started, and PriorityClasses whose Framework is gone.  gc_internal.h states the rules.  In
 * addition the object must be older than `age_ms` by the API server's clock.  DELETE carries uid
 * and resourceVersion, so that a concurrent change wins.  At most 20 of each kind are removed per
 * round.
 *
 * The cost of a round does not depend on the number of jobs: one list by the label
 * rest-lit/creating, and one page of 500 PriorityClasses with a GET for each.  The next round goes
 * on behind the last name.
 *
 * An error ends the round, or its part.  The next one begins after an eighth of the interval; each
 * further failure doubles the pause, up to ten minutes or the interval.  After a round that reached
 * its limit the next one begins after a quarter of the interval.
 *
 * Rights: frameworks list, get, delete; with priority classes: priorityclasses list, delete.
 *
 * Thread: worker
 */
#include "jobs/store/call.h"

struct janitor;

/* Texts are borrowed until janitor_free. */
struct janitor_options {
	const char *instance;
	const char *namespace_name; /* of the jobs, as in the label rest-lit/namespace */
	int64_t interval_ms, age_ms;
	bool priority_classes;
};

struct janitor_report {
	size_t frameworks, classes; /* removed */
	const char *trouble; /* NULL, or the error; for people; borrowed until the next round */
};

/* The caller is borrowed until janitor_free. */
struct janitor *janitor_new(struct caller *c, const struct janitor_options *o);
/* One round; returns the milliseconds until the next one is due. */
int64_t janitor_round(struct janitor *j, struct janitor_report *report);
void janitor_free(struct janitor *j);
