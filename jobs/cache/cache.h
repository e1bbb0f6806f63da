#pragma once
/*
 * The cache of all Frameworks in the jobs' namespace.  The watching thread writes it, and the loops
 * add objects that they have just created.
 *
 * Readers take a view, an immutable snapshot; taking one never waits for a write.  A write copies
 * one bucket of pointers.  Read this header first, then job_entry.h (one Framework), reflector.h
 * (LIST and WATCH) and events.h.
 *
 * Thread: any
 */
#include "base/err.h"
#include "base/hash.h"
#include "jobs/cache/job_entry.h"
#include "jobs/cache/user_counts.h"

struct cache;
struct change_queue;

struct cache *cache_new(size_t max_bytes); /* beyond that, entries have no docs */
void cache_free(struct cache *c);          /* after all views and queues; accepts NULL */

/* ---- views ---- */

struct cache_view;
const struct cache_view *cache_view(struct cache *c); /* release with view_drop */
void view_drop(const struct cache_view *v);
#define CACHE_VIEW_AUTO __attribute__((cleanup(view_cleanup))) const struct cache_view
static inline void view_cleanup(const struct cache_view **v)
{
	if (*v)
		view_drop(*v);
}
/* A first LIST has completed. */
bool view_warm(const struct cache_view *v);
/* Returns the number of entries in this state, without those that are being created (`creating`) or
 * were created by other programs (`legacy`); JOB_STATE_MAX: all entries.  They are counted at each
 * change, so that the total of a list needs no walk. */
size_t view_count(const struct cache_view *v, enum job_state state);
/* Finds an entry by metadata.name, or returns NULL.  It is borrowed while the view is held;
 * job_entry_hold keeps it longer. */
const struct job_entry *view_find(const struct cache_view *v, struct span name);
/* Iterate in no order; begin with { .view = v }.  NULL at the end. */
struct view_walk {
	const struct cache_view *view;
	size_t bucket, at;
};
const struct job_entry *view_next(struct view_walk *w);
/* The same, for entries with this `key`. */
const struct job_entry *view_next_keyed(struct view_walk *w, uint64_t key);

/* ---- writing ---- */

/* Stores an object that the watch has delivered.  Takes the reference. */
void cache_put(struct cache *c, struct job_entry *f);
void cache_remove(struct cache *c, struct span name, struct span uid, int64_t version);
/* A bookmark: everything up to this version has been received. */
void cache_set_version(struct cache *c, int64_t version);
/* Returns the version up to which all changes are in the change queues.  Does not block. */
int64_t cache_heard_version(struct cache *c);
/* An object that this server has written; ignored unless it is newer than the watch.  Also ignored
 * if it has a later attempt than the entry: the watch first reports how the one before has ended.
 * Takes the reference. */
void cache_note(struct cache *c, struct job_entry *f);
/* The same for a DELETE. */
void cache_note_deletion(struct cache *c, struct span name, struct span uid);
/* A LIST, page by page with cache_put.  Its end removes the entries that it lacks, except newer
 * ones. */
void cache_list_begin(struct cache *c);
void cache_list_end(struct cache *c, int64_t version);

/* Counts the jobs that have not ended, by their users; callers add submissions under way, which
 * they give back when the job is in the cache, or has failed. */
struct user_counts *cache_users(const struct cache *c);

struct cache_figures {
	size_t frameworks, bytes;
	size_t without_doc;
	size_t by_state[JOB_STATE_MAX];
};
struct cache_figures cache_figures(struct cache *c);

/* ---- change queues.  Thread: own. ---- */

/* now: NULL if removed; before: NULL if new.  Both borrowed. */
typedef void cache_changed(void *arg, const struct job_entry *now, const struct job_entry *before);

/* Records changes while it listens, at most 10 000; changes of the same Framework are merged.  NULL
 * and *e: 500. */
struct change_queue *change_queue_new(struct cache *c, struct err *e);
int change_queue_fd(const struct change_queue *i); /* readable when there are changes */
void change_queue_listen(struct change_queue *i, bool on);
bool change_queue_empty(struct change_queue *i);
/* Takes a change, the earliest first; call it until no change is left.  false: some were lost; the
 * caller must use a view. */
bool change_queue_take(struct change_queue *i, cache_changed *changed, void *arg);
void change_queue_free(struct change_queue *i);
