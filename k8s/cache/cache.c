#include "k8s/cache/cache.h"

#include <assert.h>
#include <stdlib.h>

#include "k8s/cache/cache_parts.h"

struct view {
	atomic_uint refs;
	const struct hash_key *key;
	struct tree tree;
	size_t count;
	bool warm;
};

/* uids of what this server has deleted: the watch may still tell of how it was before. */
enum { GONE = 512 };

struct cache {
	struct hash_key key;
	struct listeners listeners;
	size_t max;

	pthread_mutex_t writing; /* one writer at a time; of all that follows, but for `view` */
	struct cache_figures figures;
	_Atomic int64_t seen; /* all up to this version has been heard of */
	bool listing;         /* between cache_list_begin and cache_list_end */
	uint64_t generation;  /* of the list */
	uint64_t gone[GONE];  /* hashes */
	size_t gone_next;

	pthread_mutex_t exchange; /* of the pointer: */
	struct view *view;
};

struct cache *cache_new(size_t max_bytes)
{
	struct cache *c = xcalloc(1, sizeof(*c));
	c->key = hash_key_new();
	c->max = max_bytes;
	/* These cannot fail. */
	(void)pthread_mutex_init(&c->writing, NULL);
	(void)pthread_mutex_init(&c->exchange, NULL);
	(void)pthread_mutex_init(&c->listeners.lock, NULL);
	c->view = xcalloc(1, sizeof(*c->view));
	atomic_init(&c->view->refs, 1);
	c->view->key = &c->key;
	return c;
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	assert(!c->listeners.first && atomic_load(&c->view->refs) == 1);
	view_drop(c->view);
	(void)pthread_mutex_destroy(&c->writing);
	(void)pthread_mutex_destroy(&c->exchange);
	(void)pthread_mutex_destroy(&c->listeners.lock);
	free(c);
}

struct listeners *cache_listeners(struct cache *c)
{
	return &c->listeners;
}

int64_t cache_heard(struct cache *c)
{
	return atomic_load(&c->seen);
}

struct cache_figures cache_figures(struct cache *c)
{
	(void)pthread_mutex_lock(&c->writing);
	struct cache_figures f = c->figures;
	(void)pthread_mutex_unlock(&c->writing);
	return f;
}

/* ---- views ---- */

const struct view *cache_view(struct cache *c)
{
	(void)pthread_mutex_lock(&c->exchange);
	struct view *v = c->view;
	atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	(void)pthread_mutex_unlock(&c->exchange);
	return v;
}

void view_drop(const struct view *v)
{
	union {
		const struct view *shared;
		struct view *counted;
	} p = { .shared = v };
	if (atomic_fetch_sub_explicit(&p.counted->refs, 1, memory_order_acq_rel) != 1)
		return;
	tree_drop(&p.counted->tree);
	free(p.counted);
}

bool view_warm(const struct view *v)
{
	return v->warm;
}

size_t view_count(const struct view *v)
{
	return v->count;
}

const struct cached *view_find(const struct view *v, struct span name)
{
	const struct tree_entry *e = tree_find(&v->tree, hash_bytes(v->key, name), name);
	return e ? e->cached : NULL;
}

static const struct tree_entry *next_entry(struct view_walk *w)
{
	for (; w->bucket < TREE_BUCKETS; w->bucket++, w->at = 0) {
		const struct bucket *b = tree_bucket(&w->view->tree, w->bucket);
		if (b && w->at < b->n)
			return &b->v[w->at++];
	}
	return NULL;
}

const struct cached *view_next(struct view_walk *w)
{
	const struct tree_entry *e = next_entry(w);
	return e ? e->cached : NULL;
}

const struct cached *view_next_keyed(struct view_walk *w, uint64_t key)
{
	const struct tree_entry *e;
	do
		e = next_entry(w);
	while (e && e->key != key);
	return e ? e->cached : NULL;
}

/* ---- writing: all below is called by the one writer ---- */

static void begin(struct cache *c)
{
	(void)pthread_mutex_lock(&c->writing);
}

static void end(struct cache *c)
{
	listeners_wake(&c->listeners);
	(void)pthread_mutex_unlock(&c->writing);
}

/* A view to come, as the last one is, but for its tree. */
static struct view *next_view(const struct cache *c)
{
	struct view *v = xmalloc(sizeof(*v));
	atomic_init(&v->refs, 1);
	v->key = &c->key;
	v->count = c->view->count;
	v->warm = c->view->warm;
	return v;
}

static void publish(struct cache *c, struct view *v)
{
	(void)pthread_mutex_lock(&c->exchange);
	struct view *old = c->view;
	c->view = v;
	(void)pthread_mutex_unlock(&c->exchange);
	view_drop(old);
}

static const struct tree_entry *find(const struct cache *c, struct span name, uint64_t *hash)
{
	*hash = hash_bytes(&c->key, name);
	return tree_find(&c->view->tree, *hash, name);
}

/* What one that is kept takes; + or -. */
static void account(struct cache *c, const struct cached *f, bool comes)
{
	size_t bytes = f->weight + sizeof(struct tree_entry);
	size_t bare = f->doc.n == 0;
	c->figures.frameworks += comes ? 1 : (size_t)-1;
	c->figures.bytes += comes ? bytes : -bytes;
	c->figures.without_doc += comes ? bare : -bare;
}

/* As of this list.  Takes the reference. */
static void keep(struct cache *c, uint64_t hash, const struct tree_entry *old, struct cached *f,
                 uint64_t generation)
{
	const struct cached *before = old ? cached_hold(old->cached) : NULL;
	if (before)
		account(c, before, false);
	if (f->doc.n && c->figures.bytes + f->weight > c->max) {
		struct cached *bare = cached_without_doc(f);
		cached_drop(f);
		f = bare;
	}
	account(c, f, true);
	const struct tree_entry e = { hash, generation, f->key, f };
	struct view *v = next_view(c);
	tree_with(&v->tree, &c->view->tree, &e);
	v->count += !old;
	publish(c, v);
	listeners_tell(&c->listeners, hash, f, before); /* f is in the view of this writer */
	cached_drop(before);
}

static void forget(struct cache *c, const struct tree_entry *old)
{
	uint64_t hash = old->hash;
	const struct cached *before = cached_hold(old->cached);
	account(c, before, false);
	struct view *v = next_view(c);
	tree_without(&v->tree, &c->view->tree, old);
	v->count--;
	publish(c, v);
	listeners_tell(&c->listeners, hash, NULL, before);
	cached_drop(before);
}

/* It is in the list, and as it was known. */
static void mark(struct cache *c, const struct tree_entry *old)
{
	struct view *v = next_view(c);
	const struct tree_entry e = { old->hash, c->generation, old->key,
		                      cached_hold(old->cached) };
	tree_with(&v->tree, &c->view->tree, &e);
	publish(c, v);
}

static bool is_gone(const struct cache *c, struct span uid)
{
	uint64_t hash = hash_bytes(&c->key, uid);
	for (size_t i = 0; i < GONE; i++) {
		if (c->gone[i] == hash)
			return true;
	}
	return false;
}

static void see(struct cache *c, int64_t version)
{
	if (!c->listing && version > c->seen)
		c->seen = version;
}

/* What is kept is newer than what comes.  (While a list comes, only if the watch has not told of
 * it either: a server that was restored from a backup counts from there again.) */
static bool is_newer(const struct cache *c, const struct cached *kept, const struct cached *f)
{
	return f->version && kept->version > f->version && (!c->listing || kept->version > c->seen);
}

void cache_put(struct cache *c, struct cached *f)
{
	uint64_t hash;
	int64_t version = f->version;
	begin(c);
	const struct tree_entry *old = find(c, span_of(f->name), &hash);
	const struct cached *kept = old ? old->cached : NULL;
	bool same = kept && f->version && kept->version == f->version &&
	            strcmp(kept->uid, f->uid) == 0 && kept->doc.n == f->doc.n;
	if (kept && (same || is_newer(c, kept, f))) {
		if (c->listing && old->generation != c->generation)
			mark(c, old);
	} else if (!is_gone(c, span_of(f->uid))) {
		keep(c, hash, old, TAKE(f), c->generation);
	}
	see(c, version);
	cached_drop(f);
	end(c);
}

void cache_remove(struct cache *c, struct span name, struct span uid, int64_t version)
{
	uint64_t hash;
	begin(c);
	const struct tree_entry *old = find(c, name, &hash);
	if (old && span_is(uid, old->cached->uid))
		forget(c, old);
	see(c, version);
	end(c);
}

void cache_seen(struct cache *c, int64_t version)
{
	begin(c);
	see(c, version);
	end(c);
}

void cache_note(struct cache *c, struct cached *f)
{
	uint64_t hash;
	begin(c);
	const struct tree_entry *old = find(c, span_of(f->name), &hash);
	bool newer = f->version > c->seen && (!old || f->version > old->cached->version);
	if (newer && !is_gone(c, span_of(f->uid)))
		keep(c, hash, old, TAKE(f), c->generation - 1); /* no list had it */
	cached_drop(f);
	end(c);
}

void cache_note_gone(struct cache *c, struct span name, struct span uid)
{
	uint64_t hash;
	begin(c);
	const struct tree_entry *old = find(c, name, &hash);
	if (uid.n) /* what has none cannot be told from others */
		c->gone[c->gone_next++ % GONE] = hash_bytes(&c->key, uid);
	if (old && span_is(uid, old->cached->uid))
		forget(c, old);
	end(c);
}

void cache_list_begin(struct cache *c)
{
	begin(c);
	c->listing = true;
	c->generation++;
	end(c);
}

/* One that was not in the list; NULL if there is none. */
static const struct tree_entry *unlisted(const struct cache *c, size_t *bucket, int64_t version)
{
	for (; *bucket < TREE_BUCKETS; ++*bucket) {
		const struct bucket *b = tree_bucket(&c->view->tree, *bucket);
		for (size_t i = 0; b && i < b->n; i++) {
			if (b->v[i].generation != c->generation &&
			    b->v[i].cached->version <= version)
				return &b->v[i];
		}
	}
	return NULL;
}

void cache_list_end(struct cache *c, int64_t version)
{
	begin(c);
	const struct tree_entry *old;
	/* A server that counts from an earlier version again knows of nothing newer. */
	int64_t newest = version < c->seen ? INT64_MAX : version;
	for (size_t bucket = 0; (old = unlisted(c, &bucket, newest)) != NULL;)
		forget(c, old);
	c->listing = false;
	c->seen = version;
	if (!c->view->warm) {
		struct view *v = next_view(c);
		tree_copy(&v->tree, &c->view->tree);
		v->warm = true;
		publish(c, v);
	}
	end(c);
}
