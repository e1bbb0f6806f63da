#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/posix/lock.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"

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

bool revocations_since(struct revocations *r, uint64_t count, const char *id)
{
	LOCK_AUTO(&r->lock);
	uint64_t added = atomic_load(&r->added);
	bool found = added - count > REVOCATIONS_KEPT;
	for (; !found && count < added; count++)
		found = strcmp(r->ids[count % REVOCATIONS_KEPT], id) == 0;
	return found;
}
