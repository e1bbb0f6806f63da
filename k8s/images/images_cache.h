#pragma once
/* What registries said of images that anybody may pull, for a short while and of few. */
#include "base/image/image.h"
#include "base/image/registry.h"

enum { IMAGES_CACHE_SIZE = 256 };

struct images_cache {
	struct images_cache_entry {
		char *key, *sentence; /* owned; NULL: free */
		enum registry_verdict verdict;
		int64_t until_ms;
	} v[IMAGES_CACHE_SIZE];
	size_t next; /* the one that is replaced next */
};

/* true if it is known; *sentence is borrowed until the next call. */
bool images_cache_get(const struct images_cache *c, const struct image *image, int64_t now_ms,
                      enum registry_verdict *verdict, const char **sentence);
/* Remember: what is there for 10 minutes; what is not there, or not known, for some seconds:
 * somebody may be mending it. */
void images_cache_put(struct images_cache *c, const struct image *image,
                      enum registry_verdict verdict, const char *sentence, int64_t now_ms);
void images_cache_done(struct images_cache *c);
