#include "server/auth/beliefs.h"

#include <stdlib.h>

#include "server/ttl_cache.h"

struct beliefs {
	struct ttl_cache *by_key;
};

static struct span name_of(const unsigned char *key)
{
	return (struct span){ (const char *)key, BELIEF_KEY };
}

struct beliefs *beliefs_new(size_t max)
{
	struct beliefs *all = xcalloc(1, sizeof(*all));
	all->by_key =
	    ttl_cache_new((struct ttl_cache_limits){ max, max * sizeof(struct belief) }, free);
	return all;
}

const struct belief *beliefs_find(struct beliefs *all, const unsigned char key[static BELIEF_KEY],
                                  int64_t now_ms, int64_t now_s)
{
	const struct belief *b = ttl_cache_get(all->by_key, name_of(key), now_ms, NULL);
	return b && (b->exp_s < 0 || now_s < b->exp_s) ? b : NULL;
}

void beliefs_add(struct beliefs *all, const struct belief *b)
{
	struct belief *copy = xmalloc(sizeof(*copy));
	*copy = *b;
	ttl_cache_put(all->by_key, name_of(b->key), copy,
	              (struct ttl_cache_terms){ b->until_ms, sizeof(*copy) });
}

static bool has_id(const void *value, const void *id)
{
	const struct belief *b = value;
	return strcmp(b->id, id) == 0;
}

void beliefs_forget(struct beliefs *all, const char *id)
{
	ttl_cache_forget(all->by_key, has_id, id);
}

void beliefs_forget_all(struct beliefs *all)
{
	ttl_cache_clear(all->by_key);
}

size_t beliefs_count(const struct beliefs *all)
{
	return ttl_cache_count(all->by_key);
}

void beliefs_free(struct beliefs *all)
{
	if (!all)
		return;
	ttl_cache_free(all->by_key);
	free(all);
}
