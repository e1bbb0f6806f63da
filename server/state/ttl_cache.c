/* A hash table with chains, and a list of all entries by age. */
#include "server/state/ttl_cache.h"

#include <stdlib.h>

#include "base/hash.h"

struct ttl_cache_entry {
	struct ttl_cache_entry *next;          /* in its chain */
	struct ttl_cache_entry *newer, *older; /* by age */
	uint64_t hash;
	struct ttl_cache_terms terms;
	void *value;
	size_t n;
	char name[];
};

struct ttl_cache {
	void (*drop)(void *value);
	struct ttl_cache_limits limits;
	size_t n, bytes, mask;
	struct hash_key key;
	struct ttl_cache_entry *oldest, *newest;
	struct ttl_cache_entry *chains[];
};

struct ttl_cache *ttl_cache_new(struct ttl_cache_limits limits, void (*drop)(void *value))
{
	size_t chains = 16;
	while (chains < limits.n)
		chains *= 2;
	struct ttl_cache *c = xcalloc(1, sizeof(*c) + chains * sizeof(struct ttl_cache_entry *));
	c->drop = drop;
	c->limits = limits;
	c->mask = chains - 1;
	c->key = hash_key_new();
	return c;
}

static struct ttl_cache_entry **ttl_cache_find(struct ttl_cache *c, struct span name)
{
	uint64_t hash = hash_bytes(&c->key, name);
	struct ttl_cache_entry **at = &c->chains[hash & c->mask];
	while (*at &&
	       !((*at)->hash == hash && span_eq((struct span){ (*at)->name, (*at)->n }, name)))
		at = &(*at)->next;
	return at;
}

static void ttl_cache_take_out(struct ttl_cache *c, struct ttl_cache_entry *e)
{
	struct ttl_cache_entry **at = &c->chains[e->hash & c->mask];
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	*(e->older ? &e->older->newer : &c->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &c->newest) = e->older;
	c->n--;
	c->bytes -= e->terms.bytes;
	c->drop(e->value);
	free(e);
}

void *ttl_cache_get(struct ttl_cache *c, struct span name, int64_t now_ms, int64_t *until_ms)
{
	struct ttl_cache_entry **at = ttl_cache_find(c, name);
	if (!*at)
		return NULL;
	if ((*at)->terms.until_ms <= now_ms) {
		ttl_cache_take_out(c, *at);
		return NULL;
	}
	if (until_ms)
		*until_ms = (*at)->terms.until_ms;
	return (*at)->value;
}

static bool ttl_cache_fits(const struct ttl_cache *c, size_t bytes)
{
	return c->n < c->limits.n && c->bytes + bytes <= c->limits.bytes;
}

void ttl_cache_put(struct ttl_cache *c, struct span name, void *value, struct ttl_cache_terms terms)
{
	struct ttl_cache_entry **at = ttl_cache_find(c, name);
	if (*at)
		ttl_cache_take_out(c, *at);
	while (!ttl_cache_fits(c, terms.bytes) && c->oldest)
		ttl_cache_take_out(c, c->oldest);
	if (!ttl_cache_fits(c, terms.bytes)) {
		c->drop(value);
		return;
	}
	struct ttl_cache_entry *e = xcalloc(1, sizeof(*e) + name.n + 1);
	e->hash = hash_bytes(&c->key, name);
	e->terms = terms;
	e->value = value;
	e->n = name.n;
	memcpy(e->name, name.p, name.n);
	e->next = c->chains[e->hash & c->mask];
	c->chains[e->hash & c->mask] = e;
	e->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = e;
	c->newest = e;
	c->n++;
	c->bytes += terms.bytes;
}

void ttl_cache_forget(struct ttl_cache *c, bool (*unwanted)(const void *value, const void *arg),
                      const void *arg)
{
	struct ttl_cache_entry *newer;
	for (struct ttl_cache_entry *e = c->oldest; e; e = newer) {
		newer = e->newer;
		if (!unwanted || unwanted(e->value, arg))
			ttl_cache_take_out(c, e);
	}
}

void ttl_cache_free(struct ttl_cache *c)
{
	if (!c)
		return;
	ttl_cache_forget(c, NULL, NULL);
	free(c);
}
