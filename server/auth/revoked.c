#include "server/auth/revoked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/auth/auth.h"
#include "server/auth/beliefs.h"
#include "server/http/loop.h"

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

/* The longest leeway of an issuer: so much later a token of his is still good. */
enum { LEEWAY_MAX_S = 300 };

struct revocation {
	char id[sizeof(((struct token *)NULL)->id)];
	stored_callback *done;
};

static void revoked(struct request *r, const struct err *e)
{
	const struct revocation *v = r->state;
	/* Also if it is not known whether it happened: then the store is asked again. */
	auth_forget(r->loop, v->id);
	v->done(r, e);
}

static int may(const struct options *o, const struct token *t, struct err *e)
{
	if (t->kind == TOKEN_REVIEW)
		return err_set(e, NOT_IMPLEMENTED,
		               "tokens of service accounts are revoked in the cluster: delete the "
		               "account, or the object that the token is bound to");
	if (t->kind == TOKEN_OWN && strcmp(o->token_check, "stored") == 0)
		return 0;
	if (!o->deny_list[0])
		return err_set(e, NOT_IMPLEMENTED,
		               "tokens cannot be revoked here: this server has no --deny-list");
	return 0;
}

void token_revoke(struct request *r, struct span text, const struct token *t, stored_callback *done)
{
	ERR_AUTO e = { 0 };
	const struct options *o = r->loop->server->options;
	struct revocation *v = ARENA_NEW(&r->arena, struct revocation, 1);
	memcpy(v->id, t->id, sizeof(v->id));
	v->done = done;
	if (may(o, t, &e) < 0) {
		done(r, &e);
		return;
	}
	r->state = v;
	if (t->kind == TOKEN_OWN && strcmp(o->token_check, "stored") == 0)
		stored_remove(r, t->user, text, revoked);
	else
		stored_deny(r, t, t->exp_s < 0 ? -1 : t->exp_s + LEEWAY_MAX_S, revoked);
}
