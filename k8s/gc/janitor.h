#pragma once
/*
 * Removes what a server that was killed has left behind: Frameworks of this installation that were
 * never started, and PriorityClasses whose Framework is gone.  What may be removed stands in
 * leftover.h.  Besides, a Framework must have been seen so by this janitor for `age_ms`, and the
 * Framework of a PriorityClass must have been looked for and not been there twice, so long apart;
 * or the object was made twice `age_ms` ago by the API server's clock, so that a server which is
 * restarted often collects as well.
 * DELETE carries uid and resourceVersion, so that whoever changes an object in between wins: a
 * start, or a second janitor.  At most 20 of each per round.
 *
 * What a round costs does not grow with the number of jobs: it lists what has the label
 * rest-lit/creating; of the PriorityClasses, one page of 500 with a GET for each, and the next
 * page in the next round.
 *
 * Trouble (no right, no API server) ends the round, or the part of it.  The next round comes after
 * an eighth of the interval, since most outages are short; after each further failure the pause is
 * twice as long, up to ten minutes (or the interval, if that is longer).  A round that could not
 * remove all it wanted to is followed by the next after a quarter of the interval.
 *
 * Rights that it needs: frameworks list, get, delete; if there are priority classes,
 * priorityclasses list, delete.
 */
#include "k8s/transport/store.h"

struct janitor;

struct janitor_options {
	const char *instance;
	const char *namespace_name; /* of the jobs, as the objects say it */
	int64_t interval_ms, age_ms;
	bool priority_classes;
};

/* What a round came to, for the log. */
struct janitor_report {
	size_t frameworks, classes; /* removed */
	const char *trouble;        /* NULL, or why it could not go on; for people */
};
typedef void janitor_callback(void *arg, const struct janitor_report *report);

/* The store is borrowed, for its life; options are copied.  The first round begins at once. */
struct janitor *janitor_new(struct store *s, const struct janitor_options *o,
                            janitor_callback *report, void *arg);
/* Begin a round if it is time.  Call it in each turn of the store's loop, after store_reap. */
void janitor_run_once(struct janitor *j);
int janitor_timeout_ms(const struct janitor *j); /* until it must be called; -1: a request is out */
/* The store must be freed before: that ends what is under way. */
void janitor_free(struct janitor *j);
