#include "k8s/images/images_cache.h"

#include <stdlib.h>

static const int64_t KEEP_MS[] = {
	[REGISTRY_FOUND] = 600000,
	[REGISTRY_MISSING] = 10000,
	[REGISTRY_UNSURE] = 10000,
};

static bool is_of(const char *key, const struct image *i)
{
	struct span k = span_of(key);
	struct span parts[] = { span_of(i->host), span_of(i->repository), span_of(i->reference) };
	for (size_t n = 0; n < 3; n++) {
		if (k.n <= parts[n].n || memcmp(k.p, parts[n].p, parts[n].n) != 0 ||
		    k.p[parts[n].n] != ' ')
			return false;
		k = (struct span){ k.p + parts[n].n + 1, k.n - parts[n].n - 1 };
	}
	return k.n == 0;
}

bool images_cache_get(const struct images_cache *c, const struct image *image, int64_t now_ms,
                      enum registry_verdict *verdict, const char **sentence)
{
	for (size_t i = 0; i < IMAGES_CACHE_SIZE; i++) {
		const struct images_cache_entry *e = &c->v[i];
		if (!e->key || now_ms >= e->until_ms || !is_of(e->key, image))
			continue;
		*verdict = e->verdict;
		*sentence = e->sentence;
		return true;
	}
	return false;
}

static void empty(struct images_cache_entry *e)
{
	free(e->key);
	free(e->sentence);
	*e = (struct images_cache_entry){ .key = NULL };
}

void images_cache_put(struct images_cache *c, const struct image *image,
                      enum registry_verdict verdict, const char *sentence, int64_t now_ms)
{
	struct images_cache_entry *to = &c->v[c->next];
	for (size_t i = 0; i < IMAGES_CACHE_SIZE; i++) {
		if (c->v[i].key && is_of(c->v[i].key, image))
			to = &c->v[i];
	}
	if (to == &c->v[c->next])
		c->next = (c->next + 1) % IMAGES_CACHE_SIZE;
	empty(to);
	*to = (struct images_cache_entry){
		.key = xasprintf("%s %s %s ", image->host, image->repository, image->reference),
		.sentence = xstrdup(sentence),
		.verdict = verdict,
		.until_ms = now_ms + KEEP_MS[verdict],
	};
}

void images_cache_done(struct images_cache *c)
{
	for (size_t i = 0; i < IMAGES_CACHE_SIZE; i++)
		empty(&c->v[i]);
}
