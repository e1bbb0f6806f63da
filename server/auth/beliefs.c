#include "server/auth/beliefs.h"

#include <stdlib.h>

#include "server/memo.h"

struct beliefs {
	struct memo *by_key;
};

static struct span name_of(const unsigned char *key)
{
	return (struct span){ (const char *)key, BELIEF_KEY };
}

struct beliefs *beliefs_new(size_t max)
{
	struct beliefs *all = xcalloc(1, sizeof(*all));
	all->by_key = memo_new((struct memo_limits){ max, max * sizeof(struct belief) }, free);
	return all;
}

const struct belief *beliefs_find(struct beliefs *all, const unsigned char key[static BELIEF_KEY],
                                  int64_t now_ms, int64_t now_s)
{
	const struct belief *b = memo_get(all->by_key, name_of(key), now_ms, NULL);
	return b && (b->exp_s < 0 || now_s < b->exp_s) ? b : NULL;
}

void beliefs_add(struct beliefs *all, const struct belief *b)
{
	struct belief *copy = xmalloc(sizeof(*copy));
	*copy = *b;
	memo_put(all->by_key, name_of(b->key), copy,
	         (struct memo_terms){ b->until_ms, sizeof(*copy) });
}

static bool has_id(const void *value, const void *id)
{
	const struct belief *b = value;
	return strcmp(b->id, id) == 0;
}

void beliefs_forget(struct beliefs *all, const char *id)
{
	memo_forget(all->by_key, has_id, id);
}

void beliefs_forget_all(struct beliefs *all)
{
	memo_clear(all->by_key);
}

size_t beliefs_count(const struct beliefs *all)
{
	return memo_count(all->by_key);
}

void beliefs_free(struct beliefs *all)
{
	if (!all)
		return;
	memo_free(all->by_key);
	free(all);
}
