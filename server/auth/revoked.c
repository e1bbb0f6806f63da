#include "server/auth/revoked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/auth/beliefs.h"

struct revoked {
	pthread_mutex_t lock; /* of ids */
	atomic_ullong told;   /* how many there were; the next goes to ids[told % REVOKED_KEPT] */
	char ids[REVOKED_KEPT][BELIEF_ID];
};

struct revoked *revoked_new(void)
{
	struct revoked *r = xcalloc(1, sizeof(*r));
	(void)pthread_mutex_init(&r->lock, NULL); /* cannot fail without attributes */
	return r;
}

void revoked_free(struct revoked *r)
{
	if (r)
		(void)pthread_mutex_destroy(&r->lock); /* nobody holds it any more */
	free(r);
}

void revoked_tell(struct revoked *r, const char *id)
{
	(void)pthread_mutex_lock(&r->lock);
	char *at = r->ids[atomic_load(&r->told) % REVOKED_KEPT];
	size_t n = strnlen(id, BELIEF_ID - 1);
	memcpy(at, id, n);
	at[n] = '\0';
	(void)atomic_fetch_add(&r->told, 1);
	(void)pthread_mutex_unlock(&r->lock);
}

void revoked_hear(struct revoked *r, uint64_t *seen, void (*forget)(void *arg, const char *id),
                  void *arg)
{
	if (atomic_load(&r->told) == *seen)
		return;
	(void)pthread_mutex_lock(&r->lock);
	uint64_t told = atomic_load(&r->told);
	if (told - *seen > REVOKED_KEPT) {
		forget(arg, NULL);
		*seen = told;
	}
	for (; *seen < told; ++*seen)
		forget(arg, r->ids[*seen % REVOKED_KEPT]);
	(void)pthread_mutex_unlock(&r->lock);
}

uint64_t revoked_count(struct revoked *r)
{
	return atomic_load(&r->told);
}

struct search {
	const char *id;
	bool found;
};

static void compare(void *arg, const char *id)
{
	struct search *s = arg;
	s->found = s->found || !id || strcmp(id, s->id) == 0;
}

bool revoked_since(struct revoked *r, uint64_t count, const char *id)
{
	struct search s = { .id = id };
	revoked_hear(r, &count, compare, &s);
	return s.found;
}
