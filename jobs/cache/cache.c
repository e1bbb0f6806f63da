/* Keeps all Frameworks in an immutable tree, of which a change copies one path, and tells the
 * queues of changes. */
#include "jobs/cache/cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/posix/lock.h"

/* ---- the tree of a view ---- */

/* Frameworks by the hash of their name: two levels and buckets, all immutable.  A change copies the
 * path from the root to one bucket and shares the rest.  Each part counts the trees that share it.
 */
enum { TREE_FAN_BITS = 5, TREE_FAN = 1 << TREE_FAN_BITS, TREE_BUCKETS = TREE_FAN * TREE_FAN };

struct tree_entry {
	uint64_t hash;       /* of the name */
	uint64_t generation; /* of the last list that had it */
	uint64_t key;        /* job_entry.key: a search by key does not read the entries */
	const struct job_entry *entry;
};

/* Shared parts do not change, except for their counts. */
struct bucket {
	atomic_uint refs;
	uint32_t n;
	struct tree_entry v[];
};

struct branch {
	atomic_uint refs;
	struct bucket *bucket[TREE_FAN];
};

/* NULL: empty. */
struct tree {
	struct branch *branch[TREE_FAN];
};

static void tree_hold(atomic_uint *refs)
{
	atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

/* true: this was the last reference. */
static bool tree_release(atomic_uint *refs)
{
	return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

static void branch_drop(struct branch *branch)
{
	if (!branch || !tree_release(&branch->refs))
		return;
	for (size_t i = 0; i < TREE_FAN; i++) {
		struct bucket *b = branch->bucket[i];
		if (!b || !tree_release(&b->refs))
			continue;
		for (uint32_t k = 0; k < b->n; k++)
			job_entry_drop(b->v[k].entry);
		free(b);
	}
	free(branch);
}

static void tree_copy(struct tree *to, const struct tree *t)
{
	*to = *t;
	for (size_t i = 0; i < TREE_FAN; i++) {
		if (to->branch[i])
			tree_hold(&to->branch[i]->refs);
	}
}

static const struct bucket *tree_bucket(const struct tree *t, size_t i)
{
	const struct branch *b = t->branch[i >> TREE_FAN_BITS];
	return b ? b->bucket[i % TREE_FAN] : NULL;
}

static const struct tree_entry *tree_find(const struct tree *t, uint64_t hash, struct span name)
{
	const struct bucket *b = tree_bucket(t, hash % TREE_BUCKETS);
	for (uint32_t i = 0; b && i < b->n; i++) {
		if (b->v[i].hash == hash && span_is(name, b->v[i].entry->name))
			return &b->v[i];
	}
	return NULL;
}

/* *to is the tree without the entry `old` of this hash, if that is not NULL, and with `new`, if
 * that is not NULL, whose reference it takes. */
static void tree_change(struct tree *to, const struct tree *t, uint64_t hash,
                        const struct tree_entry *old, const struct tree_entry *new)
{
	size_t at = hash % TREE_BUCKETS;
	const struct bucket *from = tree_bucket(t, at);
	struct bucket *b = xmalloc(sizeof(*b) + ((from ? from->n : 0) + 1) * sizeof(b->v[0]));
	atomic_init(&b->refs, 1);
	b->n = 0;
	for (size_t i = 0; from && i < from->n; i++) {
		if (&from->v[i] == old)
			continue;
		b->v[b->n++] = from->v[i];
		(void)job_entry_hold(from->v[i].entry); /* the copy is the reference */
	}
	if (new)
		b->v[b->n++] = *new;

	tree_copy(to, t);
	struct branch **place = &to->branch[at >> TREE_FAN_BITS];
	struct branch *branch = xcalloc(1, sizeof(*branch));
	atomic_init(&branch->refs, 1);
	for (size_t i = 0; i < TREE_FAN; i++) {
		bool other = *place && i != at % TREE_FAN;
		branch->bucket[i] = other ? (*place)->bucket[i] : NULL;
		if (branch->bucket[i])
			tree_hold(&branch->bucket[i]->refs);
	}
	branch->bucket[at % TREE_FAN] = b;
	branch_drop(*place);
	*place = branch;
}

/* ---- the cache ---- */

struct listeners {
	pthread_mutex_t lock; /* of the list; taken before that of a queue */
	struct change_queue *first;
	bool told; /* since the last listeners_wake; only the writer uses it */
};

struct cache_view {
	struct cache_view *own; /* this view, for view_drop only */
	atomic_uint refs;
	const struct hash_key *key;
	struct tree tree;
	size_t count;
	uint32_t by_state[JOB_STATE_MAX]; /* view_count */
	bool warm;
};

/* uids that this server has deleted: the watch may still deliver older versions of them. */
enum { GONE = 512 };

struct cache {
	struct hash_key key;
	struct listeners listeners;
	size_t max;

	pthread_mutex_t writing; /* one writer at a time; protects all below except `view` */
	struct cache_figures figures;
	struct user_counts *users; /* has a lock of its own */
	_Atomic int64_t seen;      /* everything up to this version was received */
	bool listing;              /* between cache_list_begin and cache_list_end */
	uint64_t generation;       /* of the list */
	uint64_t gone[GONE];       /* hashes */
	size_t gone_next;

	pthread_mutex_t exchange; /* protects the pointer: */
	struct cache_view *view;
};

/* ---- change queues: each Framework occurs at most once ---- */

enum { QUEUE_MAX = 10000, QUEUE_FIRST = 16 };

struct queued_change {
	uint64_t hash;
	const struct job_entry *now, *before; /* references, or NULL */
	const struct job_entry *named;        /* an entry with the name of the Framework */
};

/* Changes in the order of the first change of each job.  `place` is a hash table of 2 * cap numbers
 * of changes, from 1; 0 is free. */
struct change_list {
	struct queued_change *v;
	uint32_t *place;
	size_t n, cap; /* a power of 2 */
	bool lost;     /* a change did not fit */
};

struct change_queue {
	struct change_queue *next;
	struct listeners *listeners;
	pthread_mutex_t lock; /* of the queue */
	struct change_list queue;
	bool awake; /* its descriptor is readable, or was since the last take */
	bool on;
	int fd;
};

/* The place of the change, or a free one for it. */
static uint32_t *cache_place_of(const struct change_list *q, uint64_t hash, const char *name)
{
	size_t mask = 2 * q->cap - 1;
	size_t at = hash & mask;
	while (q->place[at]) {
		const struct queued_change *c = &q->v[q->place[at] - 1];
		if (c->hash == hash && strcmp(c->named->name, name) == 0)
			break;
		at = (at + 1) & mask;
	}
	return &q->place[at];
}

static const struct job_entry *cache_hold(const struct job_entry *c)
{
	return c ? job_entry_hold(c) : NULL;
}

static void change_list_add(struct change_list *q, const struct queued_change *c)
{
	if (q->n == q->cap) {
		q->cap = q->cap ? 2 * q->cap : QUEUE_FIRST;
		q->v = xrealloc(q->v, q->cap * sizeof(q->v[0]));
		free(q->place);
		q->place = xcalloc(2 * q->cap, sizeof(q->place[0]));
		for (size_t i = 0; i < q->n; i++)
			*cache_place_of(q, q->v[i].hash, q->v[i].named->name) = (uint32_t)i + 1;
	}
	uint32_t *place = cache_place_of(q, c->hash, c->named->name);
	if (*place) {
		/* Keeps the oldest `before`; intermediate versions are not needed. */
		struct queued_change *old = &q->v[*place - 1];
		job_entry_drop(old->now);
		old->now = cache_hold(c->now);
	} else if (q->n == QUEUE_MAX) {
		q->lost = true;
	} else {
		q->v[q->n++] =
		    (struct queued_change){ c->hash, cache_hold(c->now), cache_hold(c->before),
			                    job_entry_hold(c->named) };
		*place = (uint32_t)q->n;
	}
}

static void change_list_done(struct change_list *q)
{
	for (size_t i = 0; i < q->n; i++) {
		job_entry_drop(q->v[i].now);
		job_entry_drop(q->v[i].before);
		job_entry_drop(q->v[i].named);
	}
	free(q->v);
	free(q->place);
	*q = (struct change_list){ .n = 0 };
}

struct change_queue *change_queue_new(struct cache *c, struct err *e)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0) {
		(void)err_set(e, UNKNOWN_ERROR, "eventfd: %m");
		return NULL;
	}
	struct change_queue *i = xcalloc(1, sizeof(*i));
	i->fd = fd;
	i->listeners = &c->listeners;
	(void)pthread_mutex_init(&i->lock, NULL); /* cannot fail */
	LOCK_AUTO(&i->listeners->lock);
	i->next = i->listeners->first;
	i->listeners->first = i;
	return i;
}

void change_queue_free(struct change_queue *i)
{
	if (!i)
		return;
	(void)pthread_mutex_lock(&i->listeners->lock);
	struct change_queue **at = &i->listeners->first;
	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	(void)pthread_mutex_unlock(&i->listeners->lock);
	change_list_done(&i->queue);
	(void)pthread_mutex_destroy(&i->lock);
	(void)close(i->fd);
	free(i);
}

/* An eventfd. */
int change_queue_fd(const struct change_queue *i)
{
	return i->fd;
}

void change_queue_listen(struct change_queue *i, bool on)
{
	LOCK_AUTO(&i->lock);
	i->on = on;
	if (!on)
		change_list_done(&i->queue);
}

/* Wakes the threads of queues with changes; called after `seen` is set, so that
 * cache_heard_version() is right for the woken thread. */
static void listeners_wake(struct listeners *l)
{
	if (!l->told)
		return;
	l->told = false;
	LOCK_AUTO(&l->lock);
	for (struct change_queue *i = l->first; i; i = i->next) {
		(void)pthread_mutex_lock(&i->lock);
		bool wake = i->queue.n && !i->awake;
		i->awake |= wake;
		(void)pthread_mutex_unlock(&i->lock);
		if (wake)
			(void)eventfd_write(i->fd, 1); /* fails if it is full, hence readable */
	}
}

/* Lost changes are news, too. */
bool change_queue_empty(struct change_queue *i)
{
	LOCK_AUTO(&i->lock);
	return i->queue.n == 0 && !i->queue.lost;
}

bool change_queue_take(struct change_queue *i, cache_changed *changed, void *arg)
{
	eventfd_t count;
	(void)eventfd_read(i->fd, &count); /* fails if it is 0 */
	(void)pthread_mutex_lock(&i->lock);
	struct change_list q = i->queue;
	i->queue = (struct change_list){ .n = 0 };
	i->awake = false;
	(void)pthread_mutex_unlock(&i->lock);
	for (size_t n = 0; n < q.n; n++) {
		if (q.v[n].now || q.v[n].before)
			changed(arg, q.v[n].now, q.v[n].before);
	}
	bool all = !q.lost;
	change_list_done(&q);
	return all;
}

struct cache *cache_new(size_t max_bytes)
{
	struct cache *c = xcalloc(1, sizeof(*c));
	c->key = hash_key_new();
	c->max = max_bytes;
	c->users = user_counts_new();
	/* These cannot fail. */
	(void)pthread_mutex_init(&c->writing, NULL);
	(void)pthread_mutex_init(&c->exchange, NULL);
	(void)pthread_mutex_init(&c->listeners.lock, NULL);
	c->view = xcalloc(1, sizeof(*c->view));
	c->view->own = c->view;
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
	user_counts_free(c->users);
	free(c);
}

int64_t cache_heard_version(struct cache *c)
{
	return atomic_load(&c->seen);
}

struct cache_figures cache_figures(struct cache *c)
{
	LOCK_AUTO(&c->writing);
	return c->figures;
}

/* ---- views ---- */

const struct cache_view *cache_view(struct cache *c)
{
	LOCK_AUTO(&c->exchange);
	tree_hold(&c->view->refs);
	return c->view;
}

void view_drop(const struct cache_view *v)
{
	if (!tree_release(&v->own->refs))
		return;
	for (size_t i = 0; i < TREE_FAN; i++)
		branch_drop(v->tree.branch[i]);
	free(v->own);
}

bool view_warm(const struct cache_view *v)
{
	return v->warm;
}

size_t view_count(const struct cache_view *v, enum job_state state)
{
	return state == JOB_STATE_MAX ? v->count : v->by_state[state];
}

const struct job_entry *view_find(const struct cache_view *v, struct span name)
{
	const struct tree_entry *e = tree_find(&v->tree, hash_bytes(v->key, name), name);
	return e ? e->entry : NULL;
}

static const struct tree_entry *view_next_entry(struct view_walk *w)
{
	for (; w->bucket < TREE_BUCKETS; w->bucket++, w->at = 0) {
		const struct bucket *b = tree_bucket(&w->view->tree, w->bucket);
		if (b && w->at < b->n)
			return &b->v[w->at++];
	}
	return NULL;
}

const struct job_entry *view_next(struct view_walk *w)
{
	const struct tree_entry *e = view_next_entry(w);
	return e ? e->entry : NULL;
}

/* Reads only the keys of the others. */
const struct job_entry *view_next_keyed(struct view_walk *w, uint64_t key)
{
	const struct tree_entry *e;
	do
		e = view_next_entry(w);
	while (e && e->key != key);
	return e ? e->entry : NULL;
}

/* ---- writing: under the lock `writing` ---- */

/* A copy of the current view without its tree. */
static struct cache_view *cache_copy_view(const struct cache *c)
{
	struct cache_view *v = xmalloc(sizeof(*v));
	v->own = v;
	atomic_init(&v->refs, 1);
	v->key = &c->key;
	v->count = c->view->count;
	memcpy(v->by_state, c->view->by_state, sizeof(v->by_state));
	v->warm = c->view->warm;
	return v;
}

static void cache_publish_view(struct cache *c, struct cache_view *v)
{
	(void)pthread_mutex_lock(&c->exchange);
	struct cache_view *old = c->view;
	c->view = v;
	(void)pthread_mutex_unlock(&c->exchange);
	view_drop(old);
}

static const struct tree_entry *cache_find(const struct cache *c, struct span name, uint64_t *hash)
{
	*hash = hash_bytes(&c->key, name);
	return tree_find(&c->view->tree, *hash, name);
}

/* Adds an entry to the figures, or subtracts it. */
static void cache_count_entry(struct cache *c, const struct job_entry *f, bool comes)
{
	size_t bytes = f->weight + sizeof(struct tree_entry);
	size_t bare = f->doc.n == 0;
	c->figures.frameworks += comes ? 1 : (size_t)-1;
	c->figures.bytes += comes ? bytes : -bytes;
	c->figures.without_doc += comes ? bare : -bare;
	c->figures.by_state[f->state] += comes ? 1 : (size_t)-1;
	if (!job_state_final(f->state) && f->user[0])
		user_counts_add(c->users, f->user, comes ? 1 : -1);
}

struct user_counts *cache_users(const struct cache *c)
{
	return c->users;
}

/* Publishes f, with the generation of a list, in place of `old`, and tells the queues; one of them
 * can be NULL, and f can be the entry of `old`, which is not told.  Takes the reference. */
static void cache_change(struct cache *c, uint64_t hash, const struct tree_entry *old,
                         struct job_entry *f, uint64_t generation)
{
	const struct job_entry *before = old ? job_entry_hold(old->entry) : NULL;
	if (before)
		cache_count_entry(c, before, false);
	if (f && f != before && f->doc.n && c->figures.bytes + f->weight > c->max) {
		struct job_entry *bare = job_entry_without_doc(f);
		job_entry_drop(f);
		f = bare;
	}
	if (f)
		cache_count_entry(c, f, true);
	const struct tree_entry e = { hash, generation, f ? f->key : 0, f };
	struct cache_view *v = cache_copy_view(c);
	tree_change(&v->tree, &c->view->tree, hash, old, f ? &e : NULL);
	v->count = c->figures.frameworks;
	if (f && !f->creating && !f->legacy)
		v->by_state[f->state]++;
	if (before && !before->creating && !before->legacy)
		v->by_state[before->state]--;
	cache_publish_view(c, v);
	if (f != before) {
		const struct queued_change change = { hash, f, before, f ? f : before };
		c->listeners.told = true;
		LOCK_AUTO(&c->listeners.lock);
		for (struct change_queue *i = c->listeners.first; i; i = i->next) {
			(void)pthread_mutex_lock(&i->lock);
			if (i->on)
				change_list_add(&i->queue, &change); /* the view holds f */
			(void)pthread_mutex_unlock(&i->lock);
		}
	}
	job_entry_drop(before);
}

static bool cache_was_deleted(const struct cache *c, struct span uid)
{
	uint64_t hash = hash_bytes(&c->key, uid);
	for (size_t i = 0; i < GONE; i++) {
		if (c->gone[i] == hash)
			return true;
	}
	return false;
}

static void cache_note_version(struct cache *c, int64_t version)
{
	if (!c->listing && version > c->seen)
		c->seen = version;
}

void cache_put(struct cache *c, struct job_entry *f)
{
	uint64_t hash;
	LOCK_AUTO(&c->writing);
	int64_t version = f->version;
	const struct tree_entry *old = cache_find(c, span_of(f->name), &hash);
	const struct job_entry *kept = old ? old->entry : NULL;
	bool same = kept && version && kept->version == version && strcmp(kept->uid, f->uid) == 0 &&
	            kept->doc.n == f->doc.n;
	/* During a list the cached entry must also be newer than the watch: an API server that was
	 * restored from a backup counts from an older version again. */
	bool newer =
	    kept && version && kept->version > version && (!c->listing || kept->version > c->seen);
	if (same || newer) {
		/* The list has this entry unchanged: only the generation changes. */
		if (c->listing && old->generation != c->generation)
			cache_change(c, hash, old, job_entry_hold(kept), c->generation);
	} else if (!cache_was_deleted(c, span_of(f->uid))) {
		cache_change(c, hash, old, TAKE(f), c->generation);
	}
	cache_note_version(c, version);
	job_entry_drop(f);
	listeners_wake(&c->listeners);
}

void cache_remove(struct cache *c, struct span name, struct span uid, int64_t version)
{
	uint64_t hash;
	LOCK_AUTO(&c->writing);
	const struct tree_entry *old = cache_find(c, name, &hash);
	if (old && span_is(uid, old->entry->uid))
		cache_change(c, hash, old, NULL, 0);
	cache_note_version(c, version);
	listeners_wake(&c->listeners);
}

/* Wakes no listener: the changes before have woken them. */
void cache_set_version(struct cache *c, int64_t version)
{
	LOCK_AUTO(&c->writing);
	cache_note_version(c, version);
}

void cache_note(struct cache *c, struct job_entry *f)
{
	uint64_t hash;
	LOCK_AUTO(&c->writing);
	const struct tree_entry *old = cache_find(c, span_of(f->name), &hash);
	bool newer = f->version > c->seen && (!old || f->version > old->entry->version);
	/* A later attempt of the Framework that is kept. */
	bool begins =
	    old && f->attempt > old->entry->attempt && strcmp(f->uid, old->entry->uid) == 0;
	if (newer && !begins && !cache_was_deleted(c, span_of(f->uid)))
		cache_change(c, hash, old, TAKE(f), c->generation - 1); /* not in a list */
	job_entry_drop(f);
	listeners_wake(&c->listeners);
}

void cache_note_deletion(struct cache *c, struct span name, struct span uid)
{
	uint64_t hash;
	LOCK_AUTO(&c->writing);
	const struct tree_entry *old = cache_find(c, name, &hash);
	if (uid.n) /* objects without uid cannot be distinguished */
		c->gone[c->gone_next++ % GONE] = hash_bytes(&c->key, uid);
	if (old && span_is(uid, old->entry->uid))
		cache_change(c, hash, old, NULL, 0);
	listeners_wake(&c->listeners);
}

/* Entries that the list does not have keep their generation. */
void cache_list_begin(struct cache *c)
{
	LOCK_AUTO(&c->writing);
	c->listing = true;
	c->generation++;
}

void cache_list_end(struct cache *c, int64_t version)
{
	LOCK_AUTO(&c->writing);
	/* After a restore from a backup the list is complete, for all versions. */
	int64_t newest = version < c->seen ? INT64_MAX : version;
	for (size_t at = 0; at < TREE_BUCKETS; at++) {
		const struct bucket *b = tree_bucket(&c->view->tree, at);
		for (size_t i = 0; b && i < b->n;) {
			const struct tree_entry *e = &b->v[i];
			if (e->generation == c->generation || e->entry->version > newest) {
				i++;
				continue;
			}
			cache_change(c, e->hash, e, NULL, 0);
			b = tree_bucket(&c->view->tree, at); /* without it */
		}
	}
	c->listing = false;
	c->seen = version;
	if (!c->view->warm) {
		struct cache_view *v = cache_copy_view(c);
		tree_copy(&v->tree, &c->view->tree);
		v->warm = true;
		cache_publish_view(c, v);
	}
	listeners_wake(&c->listeners);
}
