#include "server/auth/auth_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "server/auth/auth.h"
#include "server/http/loop.h"
#include "server/ttl_cache.h"

static struct span key_span(const unsigned char *key)
{
	return (struct span){ (const char *)key, TOKEN_CACHE_KEY };
}

struct ttl_cache *token_cache_new(size_t max)
{
	return ttl_cache_new((struct ttl_cache_limits){ max, max * sizeof(struct cached_token) },
	                     free);
}

const struct cached_token *token_cache_find(struct ttl_cache *all,
                                            const unsigned char key[static TOKEN_CACHE_KEY],
                                            int64_t now_ms, int64_t now_s)
{
	const struct cached_token *b = ttl_cache_get(all, key_span(key), now_ms, NULL);
	return b && (b->exp_s < 0 || now_s < b->exp_s) ? b : NULL;
}

void token_cache_add(struct ttl_cache *all, const struct cached_token *b)
{
	struct cached_token *copy = xmalloc(sizeof(*copy));
	*copy = *b;
	ttl_cache_put(all, key_span(b->key), copy,
	              (struct ttl_cache_terms){ b->until_ms, sizeof(*copy) });
}

static bool has_id(const void *value, const void *id)
{
	const struct cached_token *b = value;
	return strcmp(b->id, id) == 0;
}

void token_cache_forget(struct ttl_cache *all, const char *id)
{
	ttl_cache_forget(all, has_id, id);
}

struct revocations {
	pthread_mutex_t lock; /* guards ids */
	atomic_ullong added;  /* the next goes to ids[added % REVOCATIONS_KEPT] */
	char ids[REVOCATIONS_KEPT][TOKEN_ID];
};

struct revocations *revocations_new(void)
{
	struct revocations *r = xcalloc(1, sizeof(*r));
	(void)pthread_mutex_init(&r->lock, NULL); /* cannot fail without attributes */
	return r;
}

void revocations_free(struct revocations *r)
{
	if (r)
		(void)pthread_mutex_destroy(&r->lock);
	free(r);
}

void revocations_add(struct revocations *r, const char *id)
{
	LOCK_AUTO(&r->lock);
	char *at = r->ids[atomic_load(&r->added) % REVOCATIONS_KEPT];
	size_t n = strnlen(id, TOKEN_ID - 1);
	memcpy(at, id, n);
	at[n] = '\0';
	(void)atomic_fetch_add(&r->added, 1);
}

void revocations_poll(struct revocations *r, uint64_t *seen,
                      void (*forget)(void *arg, const char *id), void *arg)
{
	if (atomic_load(&r->added) == *seen)
		return;
	LOCK_AUTO(&r->lock);
	uint64_t added = atomic_load(&r->added);
	if (added - *seen > REVOCATIONS_KEPT) {
		forget(arg, NULL);
		*seen = added;
	}
	for (; *seen < added; ++*seen)
		forget(arg, r->ids[*seen % REVOCATIONS_KEPT]);
}

uint64_t revocations_count(struct revocations *r)
{
	return atomic_load(&r->added);
}

struct id_search {
	const char *id;
	bool found;
};

static void match_id(void *arg, const char *id)
{
	struct id_search *s = arg;
	s->found = s->found || !id || strcmp(id, s->id) == 0;
}

bool revocations_since(struct revocations *r, uint64_t count, const char *id)
{
	struct id_search s = { .id = id };
	revocations_poll(r, &count, match_id, &s);
	return s.found;
}
