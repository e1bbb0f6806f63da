#include "k8s/cache/cache_tree.h"

#include <stdlib.h>

/* All that is shared is constant to those who share it, but for its count. */
static void hold(const atomic_uint *refs)
{
	union {
		const atomic_uint *shared;
		atomic_uint *counted;
	} p = { .shared = refs };
	atomic_fetch_add_explicit(p.counted, 1, memory_order_relaxed);
}

/* Whether it was the last one. */
static bool drop(const atomic_uint *refs)
{
	union {
		const atomic_uint *shared;
		atomic_uint *counted;
	} p = { .shared = refs };
	return atomic_fetch_sub_explicit(p.counted, 1, memory_order_acq_rel) == 1;
}

static void discard(const void *part)
{
	union {
		const void *shared;
		void *own;
	} p = { .shared = part };
	free(p.own);
}

static void bucket_drop(const struct bucket *b)
{
	if (!b || !drop(&b->refs))
		return;
	for (uint32_t i = 0; i < b->n; i++)
		cached_drop(b->v[i].cached);
	discard(b);
}

static void branch_drop(const struct branch *b)
{
	if (!b || !drop(&b->refs))
		return;
	for (size_t i = 0; i < TREE_FAN; i++)
		bucket_drop(b->bucket[i]);
	discard(b);
}

void tree_drop(struct tree *t)
{
	for (size_t i = 0; i < TREE_FAN; i++)
		branch_drop(t->branch[i]);
}

void tree_copy(struct tree *to, const struct tree *t)
{
	*to = *t;
	for (size_t i = 0; i < TREE_FAN; i++) {
		if (to->branch[i])
			hold(&to->branch[i]->refs);
	}
}

static struct branch *branch_copy(const struct branch *from)
{
	struct branch *b = xcalloc(1, sizeof(*b));
	atomic_init(&b->refs, 1);
	for (size_t i = 0; from && i < TREE_FAN; i++) {
		b->bucket[i] = from->bucket[i];
		if (b->bucket[i])
			hold(&b->bucket[i]->refs);
	}
	return b;
}

/* A copy without one entry, if that is not NULL, and with room for another one. */
static struct bucket *bucket_copy(const struct bucket *from, const struct tree_entry *without,
                                  size_t room)
{
	size_t n = from ? from->n : 0;
	struct bucket *b = xmalloc(sizeof(*b) + (n + room) * sizeof(b->v[0]));
	atomic_init(&b->refs, 1);
	b->n = 0;
	for (size_t i = 0; i < n; i++) {
		if (&from->v[i] == without)
			continue;
		b->v[b->n++] = from->v[i];
		(void)cached_hold(from->v[i].cached); /* it is in the entry */
	}
	return b;
}

/* The buckets of a tree by the lowest bits of a hash. */
static size_t bucket_of(uint64_t hash)
{
	return hash % TREE_BUCKETS;
}

const struct bucket *tree_bucket(const struct tree *t, size_t i)
{
	const struct branch *b = t->branch[i >> TREE_FAN_BITS];
	return b ? b->bucket[i % TREE_FAN] : NULL;
}

const struct tree_entry *tree_find(const struct tree *t, uint64_t hash, struct span name)
{
	const struct bucket *b = tree_bucket(t, bucket_of(hash));
	for (uint32_t i = 0; b && i < b->n; i++) {
		if (b->v[i].hash == hash && span_is(name, b->v[i].cached->name))
			return &b->v[i];
	}
	return NULL;
}

/* The tree with another bucket in that place, which it takes. */
static void replace(struct tree *to, const struct tree *t, size_t at, const struct bucket *b)
{
	tree_copy(to, t);
	const struct branch **place = &to->branch[at >> TREE_FAN_BITS];
	struct branch *branch = branch_copy(*place);
	bucket_drop(branch->bucket[at % TREE_FAN]);
	branch->bucket[at % TREE_FAN] = b;
	branch_drop(*place);
	*place = branch;
}

void tree_with(struct tree *to, const struct tree *t, const struct tree_entry *e)
{
	size_t at = bucket_of(e->hash);
	const struct tree_entry *old = tree_find(t, e->hash, span_of(e->cached->name));
	struct bucket *b = bucket_copy(tree_bucket(t, at), old, 1);
	b->v[b->n++] = *e;
	replace(to, t, at, b);
}

void tree_without(struct tree *to, const struct tree *t, const struct tree_entry *e)
{
	size_t at = bucket_of(e->hash);
	replace(to, t, at, bucket_copy(tree_bucket(t, at), e, 0));
}
