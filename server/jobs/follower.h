#pragma once
/*
 * Who waits for changes of jobs at one loop: of one job, or of all.  They are told on the loop's
 * thread, as the cache hears of them (k8s/cache/cache.h).
 */
#include "k8s/cache/cache.h"
#include "server/http/loop.h"

struct followers;

struct follower {
	struct follower *next, **at;
	struct span name; /* metadata.name, borrowed; "": all jobs */
	/* now: NULL if it is gone; before: NULL if it is new.  Both borrowed.  `told`: whoever
	 * follows all has been told of all up to this version, once this is told; 0: not more than
	 * before. It may end this follower, and no other. */
	void (*changed)(struct follower *f, const struct job_entry *now,
	                const struct job_entry *before, int64_t told);
	/* Changes were lost: look at a view.  The same. */
	void (*lost)(struct follower *f);
};

/* Of one loop.  NULL and *e: 500. */
struct followers *followers_new(struct cache *c, struct err *e);
int followers_fd(const struct followers *all); /* readable when there is something to tell */
void followers_run_once(struct followers *all);
void followers_free(struct followers *all); /* nobody follows any more; NULL is nothing */

/* From now on; look at a view afterwards for how it is. */
void follower_begin(struct followers *all, struct follower *f);
void follower_end(struct followers *all, struct follower *f);
