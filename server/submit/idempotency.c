/* Finds an earlier submission with the same key, in the cache or under way on any loop. */
#include "server/submit/submit_internal.h"

#include <gnutls/crypto.h>
#include <stdlib.h>
#include <time.h>

#include "base/enc.h"
#include "base/posix/lock.h"
#include "jobs/cache/cache.h"
#include "jobs/submit/submission.h"
#include "server/auth/auth.h"
#include "server/auth/mac.h"
#include "server/auth/token.h"
#include "server/http/loop.h"

#define KEY_UNDER_WAY 409, "IdempotencyError"

enum { KEY_KEPT = 16, KEY_HEX = 2 * KEY_KEPT };

const char *idempotency_value(struct submit *s)
{
	struct request *r = s->r;
	if (!s->key)
		return NULL;
	const struct keyring *keys = r->loop->server->keyring ? keyring_of(r->loop) : NULL;
	unsigned char secret[MAC_BYTES];
	unsigned char sum[MAC_BYTES];
	const struct span v[] = { span_of(r->user), span_of(s->key), str_view(&r->body) };
	if ((!keys || !keyring_derive(keys, "idempotency", secret)) &&
	    gnutls_hash_fast(GNUTLS_DIG_SHA256, v[1].p, v[1].n, secret) < 0)
		abort(); /* the library is broken */
	char *out = arena_zero(&r->arena, 1, KEY_HEX + 1 + 2 * MAC_BYTES + 1);
	mac_of(secret, v, 2, sum);
	hex_encode(out, sum, KEY_KEPT);
	out[KEY_HEX] = '-';
	mac_of(secret, v, 3, sum);
	hex_encode(out + KEY_HEX + 1, sum, MAC_BYTES);
	memory_wipe(secret, sizeof(secret));
	return out;
}

/* ---- one key, one job ---- */

/* Lives in the arena of its request. */
struct idempotency_claim {
	struct idempotency_claim *next;
	const char *value; /* "KEY-BODY" */
	struct span job;
};

/* The name of the job that is being created with this key, in the arena; or NULL. */
static const char *claim_enter(struct submit *s, struct idempotency_claim *mine)
{
	struct request *r = s->r;
	struct key_claims *all = &r->loop->server->claims;
	const char *other = NULL;
	LOCK_AUTO(&all->lock);
	for (const struct idempotency_claim *c = all->first; c && !other; c = c->next)
		if (memcmp(c->value, mine->value, KEY_HEX) == 0)
			other = arena_dup(&r->arena, c->job);
	if (!other) {
		mine->next = all->first;
		all->first = mine;
		s->claim = mine;
	}
	return other;
}

void idempotency_release(void *arg)
{
	struct submit *s = arg;
	struct idempotency_claim *c = TAKE(s->claim);
	struct key_claims *all = &s->r->loop->server->claims;
	if (!c)
		return;
	LOCK_AUTO(&all->lock);
	struct idempotency_claim **link = &all->first;
	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
}

int idempotency_claim(struct submit *s, struct err *e)
{
	if (!s->value)
		return 0;
	struct idempotency_claim *mine = ARENA_NEW(&s->r->arena, struct idempotency_claim, 1);
	*mine = (struct idempotency_claim){ .value = s->value, .job = s->job->name };
	const char *other = claim_enter(s, mine);
	if (other)
		return err_set(e, KEY_UNDER_WAY,
		               "a request with this Idempotency-Key is creating job %s at this "
		               "moment; send it again in a second, or another job with another key",
		               other);
	request_on_end(s->r, idempotency_release, s);
	/* The cache may have another job of this user with this key from the last 24 hours. */
	CACHE_VIEW_AUTO *view = cache_view(s->r->loop->server->cache);
	struct view_walk walk = { .view = view };
	uint64_t key = job_entry_key(span_of(s->value));
	int64_t since_ms = ((int64_t)time(NULL) - SUBMISSION_KEY_S) * 1000;
	int again = 0;
	for (const struct job_entry *c; (c = view_next_keyed(&walk, key)) != NULL;) {
		bool counts = !c->deleting && strcmp(c->user, s->r->user) == 0;
		bool same = span_is(s->job->name, c->job);
		again |= counts && same;
		if (!counts || same || c->created_ms <= since_ms)
			continue;
		idempotency_release(s);
		return err_set(e, KEY_REUSED,
		               "this Idempotency-Key has created job %s; another job needs another "
		               "key",
		               c->job);
	}
	return again;
}
