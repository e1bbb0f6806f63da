#pragma once
/*
 * The inside of a view: Frameworks by the hash of their name, in a tree of two levels and buckets,
 * of which no part ever changes.  A change copies the way from the root to one bucket, and shares
 * the rest; each part is counted, and goes with the last tree that it is in.
 */
#include "base/crypto/hash.h"
#include "k8s/cache/cached.h"

enum { TREE_FAN_BITS = 5, TREE_FAN = 1 << TREE_FAN_BITS, TREE_BUCKETS = TREE_FAN * TREE_FAN };

struct tree_entry {
	uint64_t hash;       /* of the name */
	uint64_t generation; /* of the list that it was last in */
	uint64_t key;        /* as in `cached`: a search by key touches no more than the tree */
	const struct cached *cached;
};

struct bucket {
	atomic_uint refs;
	uint32_t n;
	struct tree_entry v[];
};

struct branch {
	atomic_uint refs;
	const struct bucket *bucket[TREE_FAN];
};

/* NULL: empty. */
struct tree {
	const struct branch *branch[TREE_FAN];
};

/* Borrowed, or NULL. */
const struct tree_entry *tree_find(const struct tree *t, uint64_t hash, struct span name);
const struct bucket *tree_bucket(const struct tree *t, size_t i);
/* A new tree, in *to, in which there is this one instead of what has its name.  Takes the
 * reference. */
void tree_with(struct tree *to, const struct tree *t, const struct tree_entry *e);
/* A new tree without this entry of it. */
void tree_without(struct tree *to, const struct tree *t, const struct tree_entry *e);
void tree_copy(struct tree *to, const struct tree *t);
void tree_drop(struct tree *t);
