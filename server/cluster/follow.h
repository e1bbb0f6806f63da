#pragma once
/*
 * Keeps the cache of all Frameworks (jobs/cache/cache.h) and the Events of their pods
 * (jobs/cache/events.h) up to date, each by a thread that watches the API server; with --local
 * the store of --local reports changes.  server->cache and server->events exist from follow_start
 * to follow_free; follow_stop ends the threads.
 *
 * Thread: any
 */
#include "jobs/cache/job_entry.h"
#include "server/state/server.h"

struct follow;
struct reflector_counts;

/* Thread: main. */
struct follow *follow_start(struct server *s, struct err *e);
/* Thread: main. */
void follow_stop(struct follow *f);
/* Thread: main. */
void follow_free(struct follow *f);
/* Returns the reason why lists cannot be answered now, in the arena; NULL: they can. */
const char *follow_problem(const struct server *s, struct arena *a);
/* Milliseconds since the API server was heard about Frameworks: a change, a bookmark (about once a
 * minute) or the end of a list; before that, since the start.  0: a directory. */
int64_t follow_age_ms(const struct server *s);
/* Returns the counts of the reflector of Frameworks, or of Events; NULL: a directory. */
const struct reflector_counts *follow_counts(const struct server *s, bool events);

/* The reasons why nothing in the cluster processes a waiting job. now_ms since 1970. */
enum neglect {
	NEGLECT_NONE,
	NEGLECT_NO_ENGINE,  /* --engine=none: nothing processes objects */
	NEGLECT_CONTROLLER, /* no controller has touched it for NEGLECT_MS */
};
enum neglect job_neglect(const struct server *s, const struct job_entry *job, int64_t now_ms);
