/*
 * A bucket is one number: the time at which it is full again, which each token taken moves on by
 * period / count.  (That is the "generic cell rate algorithm".)
 */
#include "server/http/rate.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"

enum { NONE = UINT32_MAX };

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

struct entry {
	char key[RATE_KEY];
	uint32_t key_n;
	uint32_t chain;        /* next of the same slot */
	uint32_t newer, older; /* by use */
	int64_t full_ns;
};

struct rate {
	pthread_mutex_t lock;
	int64_t step_ns, depth_ns; /* 0: no limit */
	struct hash_key hash;
	struct entry *entries;
	uint32_t *slots; /* as many as a power of two; entry + 1, 0 for none */
	size_t room, used, mask;
	uint32_t newest, oldest;
};

struct rate *rate_new(int64_t count, int64_t period_s, size_t entries)
{
	struct rate *r = xcalloc(1, sizeof(*r));
	assert(entries > 0 && entries < NONE && count >= 0 && period_s > 0);
	(void)pthread_mutex_init(&r->lock, NULL); /* cannot fail on Linux */
	r->newest = r->oldest = NONE;
	if (count == 0)
		return r;
	r->step_ns = period_s * NS_PER_S / count;
	r->depth_ns = r->step_ns * count;
	r->hash = hash_key_new();
	r->room = entries;
	size_t slots = 1;
	while (slots < entries)
		slots *= 2;
	r->mask = slots - 1;
	/* Fresh pages of the kernel's zeroes, touched only as keys come. */
	r->entries = xcalloc(entries, sizeof(*r->entries));
	r->slots = xcalloc(slots, sizeof(*r->slots));
	return r;
}

void rate_free(struct rate *r)
{
	if (!r)
		return;
	(void)pthread_mutex_destroy(&r->lock);
	free(r->entries);
	free(r->slots);
	free(r);
}

static void unlink_use(struct rate *r, uint32_t i)
{
	struct entry *x = &r->entries[i];
	if (x->newer == NONE)
		r->newest = x->older;
	else
		r->entries[x->newer].older = x->older;
	if (x->older == NONE)
		r->oldest = x->newer;
	else
		r->entries[x->older].newer = x->newer;
}

static void link_use(struct rate *r, uint32_t i)
{
	struct entry *x = &r->entries[i];
	x->newer = NONE;
	x->older = r->newest;
	if (r->newest == NONE)
		r->oldest = i;
	else
		r->entries[r->newest].newer = i;
	r->newest = i;
}

static struct span key_of(const struct entry *x)
{
	return (struct span){ x->key, x->key_n };
}

static uint32_t *slot_of(struct rate *r, struct span key)
{
	return &r->slots[hash_bytes(&r->hash, key) & r->mask];
}

static uint32_t find(struct rate *r, uint32_t first, struct span key)
{
	for (uint32_t i = first; i; i = r->entries[i - 1].chain)
		if (span_eq(key_of(&r->entries[i - 1]), key))
			return i - 1;
	return NONE;
}

/* The entry of the key that was not seen for longest, out of its slot. */
static uint32_t evict(struct rate *r)
{
	uint32_t i = r->oldest;
	uint32_t *at = slot_of(r, key_of(&r->entries[i]));
	while (*at != i + 1)
		at = &r->entries[*at - 1].chain;
	*at = r->entries[i].chain;
	unlink_use(r, i);
	return i;
}

static struct entry *entry_of(struct rate *r, uint32_t *slot, struct span key)
{
	uint32_t i = find(r, *slot, key);
	if (i != NONE) {
		unlink_use(r, i);
	} else {
		i = r->used < r->room ? (uint32_t)r->used++ : evict(r);
		struct entry *x = &r->entries[i];
		memcpy(x->key, key.p, key.n);
		x->key_n = (uint32_t)key.n;
		x->full_ns = 0;
		x->chain = *slot;
		*slot = i + 1;
	}
	link_use(r, i);
	return &r->entries[i];
}

int64_t rate_take(struct rate *r, struct span key, int64_t now_ms)
{
	int64_t now = now_ms * NS_PER_MS;
	int64_t wait = 0;
	if (!r->step_ns)
		return 0;
	key.n = key.n > RATE_KEY ? RATE_KEY : key.n;
	uint32_t *slot = slot_of(r, key);
	(void)pthread_mutex_lock(&r->lock); /* ours, and sound */
	struct entry *x = entry_of(r, slot, key);
	int64_t full = (x->full_ns > now ? x->full_ns : now) + r->step_ns;
	if (full - now <= r->depth_ns)
		x->full_ns = full;
	else
		wait = full - now - r->depth_ns;
	(void)pthread_mutex_unlock(&r->lock);
	return (wait + NS_PER_S - 1) / NS_PER_S;
}
