#pragma once
/*
 * All Frameworks of the jobs' namespace, as they were last heard of: written by the thread that
 * watches them (follow.h), and by the loops, which know what they have just made; read by
 * everybody.
 *
 * Readers take a view: all of them at one moment.  It never changes, however long it is held, and
 * taking one waits for nobody (a lock that is held for the exchange of a pointer).  A write copies
 * one bucket of pointers.
 */
#include "base/err.h"
#include "base/hash.h"
#include "k8s/cache/job_entry.h"

struct cache;
struct change_queue;

struct cache *cache_new(size_t max_bytes); /* of all that is kept; beyond that, without docs */
void cache_free(struct cache *c); /* all views and inboxes are gone before; NULL is nothing */

/* ---- views: any thread ---- */

struct view;
const struct view *cache_view(struct cache *c); /* to be given back */
void view_drop(const struct view *v);
#define CACHE_VIEW_AUTO __attribute__((cleanup(view_cleanup))) const struct view
static inline void view_cleanup(const struct view **v)
{
	if (*v)
		view_drop(*v);
}
/* All Frameworks are known: a first LIST has come to its end. */
bool view_warm(const struct view *v);
size_t view_count(const struct view *v);
/* By metadata.name; borrowed while the view is held, job_entry_hold to keep it longer; or NULL. */
const struct job_entry *view_find(const struct view *v, struct span name);
/* One after the other, in no order: begin with { .view = v }; NULL at the end. */
struct view_walk {
	const struct view *view;
	size_t bucket, at;
};
const struct job_entry *view_next(struct view_walk *w);
/* The same, of those whose `key` is this one. */
const struct job_entry *view_next_keyed(struct view_walk *w, uint64_t key);

/* ---- writing: any thread ---- */

/* What the watch says.  Takes the reference. */
void cache_put(struct cache *c, struct job_entry *f);
void cache_remove(struct cache *c, struct span name, struct span uid, int64_t version);
/* It has heard all up to here (a bookmark). */
void cache_seen(struct cache *c, int64_t version);
/* Up to where it has heard all, and has told it to the inboxes.  Any thread; waits for nobody. */
int64_t cache_heard(struct cache *c);
/* What this server did itself, and the watch may not have told yet: kept only if it is newer than
 * all that the watch has said, so that what is long gone does not come back.  Takes the
 * reference. */
void cache_note(struct cache *c, struct job_entry *f);
/* The same of a DELETE. */
void cache_note_gone(struct cache *c, struct span name, struct span uid);
/* A LIST, page by page with cache_put: what was not in it by its end is gone, unless it is newer
 * than the list. */
void cache_list_begin(struct cache *c);
void cache_list_end(struct cache *c, int64_t version);

struct cache_figures {
	size_t frameworks, bytes;
	size_t without_doc;
};
struct cache_figures cache_figures(struct cache *c);

/* ---- what has changed: for one thread each ---- */

/* now: NULL if it is gone; before: NULL if it is new.  Both borrowed. */
typedef void cache_changed(void *arg, const struct job_entry *now, const struct job_entry *before);

/* While it is told to listen, notes changes, of which later ones of the same Framework may take the
 * place of earlier ones, at most 10 000.  NULL and *e: 500. */
struct change_queue *change_queue_new(struct cache *c, struct err *e);
int change_queue_fd(const struct change_queue *i); /* readable when there is something */
void change_queue_listen(struct change_queue *i, bool on);
/* Call for each, the earliest first.  false: there were too many, some are lost, and whoever wants
 * to know looks at a view. */
bool change_queue_take(struct change_queue *i, cache_changed *changed, void *arg);
void change_queue_free(struct change_queue *i);
