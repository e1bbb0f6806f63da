/*
 * The steps of a request: header -> token -> cached_token (from the cache, or after a look-up that
 * all requests with this token share) -> user name -> account.  Each step may answer the request.
 */
#include "server/auth/auth.h"

#include <assert.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "jobs/store/store.h"
#include "server/accounts/account.h"
#include "server/auth/auth_internal.h"
#include "server/auth/token.h"
#include "server/auth/token_lookup.h"
#include "server/auth/token_store.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/http/request.h"
#include "server/state/server.h"

enum { REFUSED_MS = 10000, REVIEWS_PER_SECOND = 10, ROOT = 1 /* of a client_address */ };

/* A request that is being authenticated; in its arena. */
struct auth_waiter {
	struct auth_waiter *next;
	struct request *r;
	struct span basic_user; /* p is NULL with Bearer */
	bool reviewed;
};

/* A token that is being looked up. */
struct token_wait {
	struct token_wait *next, **link;
	struct auth *auth;
	struct cached_token b; /* cached if the token is valid */
	struct auth_waiter *waiters;
	int64_t since_ms;
	bool stale; /* revoked, or keys replaced, since the start: not to be cached */
};

struct auth {
	struct loop *loop;
	struct ttl_cache *cache;
	struct peers *peers; /* NULL: users have tokens */
	struct token_wait *waits;
	unsigned generation; /* of the keys that verified the cached tokens */
	uint64_t revoked;    /* revocations applied so far */
};

struct auth *auth_new(struct loop *l)
{
	struct auth *a = xcalloc(1, sizeof(*a));
	a->loop = l;
	a->cache = ttl_cache_new(
	    (struct ttl_cache_limits){ TOKEN_CACHE_MAX,
	                               TOKEN_CACHE_MAX * sizeof(struct cached_token) },
	    free);
	a->peers = l->of_accounts ? peers_new() : NULL;
	return a;
}

const struct keyring *keyring_of(const struct loop *l)
{
	return atomic_load(&l->server->keyring);
}

static void auth_refuse(struct request *r, const char *why)
{
	r->why = why;
	answer_header(r, "WWW-Authenticate", "Bearer");
	answer_refuse(r, UNAUTHORIZED,
	              "your token is not valid here: it may have expired or been revoked; log in "
	              "again");
}

static void auth_refuse_unknown(struct request *r, const char *why)
{
	r->why = why;
	answer_refuse(r, UNAVAILABLE, "your token cannot be verified at the moment; try again");
}

/* ---- from a user name to an account ---- */

static void auth_drop_account(void *account)
{
	account_drop(account);
}

void auth_set_account(struct request *r, struct account *a)
{
	r->principal = a;
	r->user = a->name;
	request_on_end(r, auth_drop_account, a);
}

static void account_known(const struct auth_waiter *q, struct account *a)
{
	struct request *r = q->r;
	auth_set_account(r, a);
	if (q->reviewed && a->admin)
		auth_refuse(r, "a service account may not be an admin");
	else if (r->application && r->route->auth == AUTH_PERSON)
		answer_refuse(r, FORBIDDEN,
		              "application tokens may not do this: log in as a person");
}

static void account_unknown(const struct auth_waiter *q, const struct err *e)
{
	struct request *r = q->r;
	r->why = arena_dup(&r->arena, span_of(err_msg(e)));
	if (e->http == 401) {
		answer_header(r, "WWW-Authenticate", "Bearer");
		answer_refuse(r, UNAUTHORIZED,
		              arena_printf(&r->arena,
		                           "your token is valid, but %s; ask its administrator",
		                           r->why));
	} else {
		answer_error(r, e);
	}
}

static void auth_account_found(void *arg, struct account *a, const struct err *e)
{
	const struct auth_waiter *q = arg;
	if (a)
		account_known(q, a);
	else
		account_unknown(q, e);
	if (!request_answered(q->r))
		request_identified(q->r);
}

static void find_account(struct auth_waiter *q, const char *name)
{
	ERR_AUTO e = { 0 };
	struct account *a =
	    account_find(q->r->loop->has->accounts, name, auth_account_found, q, &e);
	if (a)
		account_known(q, a);
	else if (e.http)
		account_unknown(q, &e);
	else
		request_wait(q->r);
}

static void auth_decide(struct auth_waiter *q, const struct cached_token *b)
{
	struct request *r = q->r;
	if (b->refused) {
		auth_refuse(r, b->refused);
	} else if (q->basic_user.p && !b->t.application) {
		auth_refuse(r, "Basic is for application tokens only");
	} else if (q->basic_user.p && !span_is(q->basic_user, b->t.user)) {
		auth_refuse(r, "Basic names another user than the token");
	} else {
		q->reviewed = b->t.kind == TOKEN_REVIEW;
		r->application = b->t.application;
		r->token_iat_s = b->t.iat_s;
		r->token_exp_s = b->t.exp_s;
		find_account(q, b->t.user);
	}
}

/* ---- look-ups ---- */

static void token_wait_join(struct token_wait *p, struct auth_waiter *q)
{
	q->next = p->waiters;
	p->waiters = q;
	request_wait(q->r);
}

/* Caches the token until until_ms, unless that is over. */
static void auth_cache(struct auth *a, const struct cached_token *b)
{
	const struct span key = { (const char *)b->key, TOKEN_CACHE_KEY };
	if (b->until_ms <= clock_ms())
		return;
	struct cached_token *copy = xmalloc(sizeof(*copy));
	*copy = *b;
	ttl_cache_put(a->cache, key, copy, (struct ttl_cache_terms){ b->until_ms, sizeof(*copy) });
}

static void auth_token_looked_up(void *arg, enum token_verdict f, const struct review_user *who,
                                 const char *why)
{
	struct token_wait *p = arg;
	bool keep = false;
	bool reviewed = p->b.t.kind == TOKEN_REVIEW;
	/* The lifetime of an entry counts from the start of the look-up. */
	p->b.until_ms = p->since_ms + p->auth->loop->server->options->token_cache_s * 1000;
	if (f == TOKEN_VALID && reviewed) {
		const char *user =
		    keyring_service_account_user(keyring_of(p->auth->loop), span_of(who->subject));
		if (!user || strlen(user) >= sizeof(p->b.t.user))
			p->b.refused = "no user is listed for this service account";
		else
			memcpy(p->b.t.user, user, strlen(user) + 1);
	}
	if (f == TOKEN_VALID && !p->b.refused)
		keep = true;
	if (f == TOKEN_INVALID)
		p->b.refused = "the API server refused it a moment ago";
	if (p->b.refused && reviewed) {
		p->b.until_ms = p->since_ms + REFUSED_MS;
		keep = true;
	}
	if (keep && !p->stale)
		auth_cache(p->auth, &p->b);
	for (struct auth_waiter *q = p->waiters, *next; q; q = next) {
		next = q->next;
		struct request *r = q->r;
		const char *reason = arena_dup(&r->arena, span_of(why));
		if (f == TOKEN_UNKNOWN)
			auth_refuse_unknown(r, reason);
		else if (f == TOKEN_INVALID)
			auth_refuse(r, reason);
		else
			auth_decide(q, &p->b);
		if (!request_answered(r) && r->principal)
			request_identified(r);
	}
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	free(p);
}

/* Limits TokenReviews of all loops together. */
static bool may_review(struct server *s)
{
	uint64_t second = (uint64_t)clock_ms() / 1000;
	unsigned long long seen = atomic_load(&s->reviews);
	unsigned long long next;
	do {
		uint64_t n = seen >> 8 == second ? seen & 0xff : 0;
		if (n == REVIEWS_PER_SECOND)
			return false;
		next = second << 8 | (n + 1);
	} while (!atomic_compare_exchange_weak(&s->reviews, &seen, next));
	return true;
}

static void auth_find_account(struct auth *a, struct auth_waiter *q, const struct cached_token *b,
                              enum lookup_how how)
{
	const struct service_accounts *accounts = keyring_service_accounts(keyring_of(a->loop));
	struct token_question question = {
		.how = how,
		.token = span_of(q->r->token),
		.user = b->t.user,
		.id = b->t.id,
		.audience = accounts ? accounts->audience : "",
	};
	if (how == LOOKUP_REVIEW && !may_review(a->loop->server)) {
		auth_refuse_unknown(q->r, "too many TokenReviews in this second");
		return;
	}
	struct token_wait *p = xcalloc(1, sizeof(*p));
	*p = (struct token_wait){
		.next = a->waits,
		.link = &a->waits,
		.auth = a,
		.b = *b,
		.since_ms = clock_ms(),
	};
	if (p->next)
		p->next->link = &p->next;
	a->waits = p;
	token_lookup_start(a->loop, &question, auth_token_looked_up, p);
	token_wait_join(p, q);
}

/* ---- verification ---- */

static void auth_check_token(struct auth *a, struct auth_waiter *q, struct cached_token *b)
{
	const struct options *o = a->loop->server->options;
	if (b->t.kind == TOKEN_REVIEW) {
		b->t.exp_s = -1; /* not verified by us */
		auth_find_account(a, q, b, LOOKUP_REVIEW);
	} else if (b->t.kind == TOKEN_OWN && tokens_stored(o)) {
		auth_find_account(a, q, b, LOOKUP_STORED);
	} else if (o->deny_list[0]) {
		auth_find_account(a, q, b, LOOKUP_DENIED);
	} else {
		b->until_ms = clock_ms() + o->token_cache_s * 1000;
		auth_cache(a, b);
		auth_decide(q, b);
	}
}

bool auth_take_token(struct request *r, struct credentials *c)
{
	struct span header = r->head.value[HEADER_AUTHORIZATION];
	if (!header.p) {
		r->why = "no Authorization header";
		answer_header(r, "WWW-Authenticate", "Bearer");
		answer_refuse(r, UNAUTHORIZED,
		              "Guests may not do this: log in, and send your token (Authorization: "
		              "Bearer TOKEN)");
		return false;
	}
	r->secret = true;
	const char *wrong = credentials_read(header, &r->arena, c);
	if (!wrong)
		r->token = arena_dup(&r->arena, c->token);
	/* MHD keeps the header until the next request; it is in the connection's memory. */
	memory_wipe((void *)(uintptr_t)header.p, header.n); /* NOLINT(performance-no-int-to-ptr) */
	if (wrong)
		auth_refuse(r, wrong);
	return !wrong;
}

static void find_token(struct auth *a, struct auth_waiter *q)
{
	struct request *r = q->r;
	struct credentials c;
	ERR_AUTO e = { 0 };
	const char *why = NULL;
	struct cached_token b = { 0 };
	if (!auth_take_token(r, &c))
		return;
	struct span text = { r->token, c.token.n };
	q->basic_user = c.user;
	int failed = gnutls_hash_fast(GNUTLS_DIG_SHA256, text.p, text.n, b.key);
	assert(!failed);
	struct span key = { (const char *)b.key, TOKEN_CACHE_KEY };
	const struct cached_token *known = ttl_cache_get(a->cache, key, clock_ms(), NULL);
	struct token_wait *p = a->waits;
	while (p && memcmp(p->b.key, b.key, TOKEN_CACHE_KEY) != 0)
		p = p->next;
	if (known && (known->t.exp_s < 0 || time(NULL) < known->t.exp_s))
		auth_decide(q, known);
	else if (p && !p->stale)
		token_wait_join(p, q);
	else if (token_read(keyring_of(a->loop), text, time(NULL), &r->arena, &b.t, &why, &e) < 0)
		auth_refuse(r, why ? why : "it is not a token");
	else
		auth_check_token(a, q, &b);
}

/* The user is the account of the client's process. */
static void find_peer(struct auth *a, struct auth_waiter *q)
{
	struct request *r = q->r;
	ERR_AUTO e = { 0 };
	const char *name = NULL;
	if (r->head.value[HEADER_AUTHORIZATION].p)
		(void)err_set(&e, INVALID_PARAMETERS,
		              "this socket knows users by their accounts, and takes no token: "
		              "send it to the port");
	else
		name = peer_user(a->peers, r->client.account, &e);
	if (!name)
		answer_error(r, &e);
	else if (r->client.account == ROOT)
		auth_set_account(r, account_administrator(r->loop->has->accounts, name));
	else
		find_account(q, name);
}

static bool auth_has_id(const void *value, const void *id)
{
	const struct cached_token *b = value;
	return strcmp(b->t.id, id) == 0;
}

/* Forgets one token, or all (NULL).  Look-ups in progress started too early to be cached. */
static void apply_revocation(void *arg, const char *id)
{
	struct auth *a = arg;
	if (id)
		ttl_cache_forget(a->cache, auth_has_id, id);
	else
		ttl_cache_forget(a->cache, NULL, NULL);
	for (struct token_wait *p = a->waits; p; p = p->next)
		if (!id || strcmp(p->b.t.id, id) == 0)
			p->stale = true;
}

bool auth_begin(struct request *r)
{
	struct auth *a = r->loop->has->auth;
	struct auth_waiter *q = ARENA_NEW(&r->arena, struct auth_waiter, 1);
	q->r = r;
	if (!a) {
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return true;
	}
	/* Replaced keys and revocations change the cache. */
	unsigned now = atomic_load(&a->loop->server->generation);
	if (a->generation != now)
		apply_revocation(a, NULL);
	a->generation = now;
	revocations_poll(a->loop->server->revoked, &a->revoked, apply_revocation, a);
	if (a->loop->server->options->no_auth)
		find_account(q, a->loop->server->options->user);
	else if (a->peers)
		find_peer(a, q);
	else
		find_token(a, q);
	return r->principal || request_answered(r);
}

uint64_t auth_mark(const struct loop *l)
{
	return revocations_count(l->server->revoked);
}

bool auth_holds(const struct request *r, uint64_t mark)
{
	struct token t;
	const char *why;
	if (!r->token)
		return true;
	struct arena a = { 0 };
	ERR_AUTO e = { 0 };
	bool good =
	    token_read(keyring_of(r->loop), span_of(r->token), time(NULL), &a, &t, &why, &e) == 0 &&
	    !revocations_since(r->loop->server->revoked, mark, t.id);
	arena_wipe(&a);
	return good;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	assert(!a->waits); /* the end of the store has ended all look-ups */
	ttl_cache_free(a->cache);
	peers_free(a->peers);
	free(a);
}

static const char *token_wrong(struct span token)
{
	if (token.n == 0)
		return "no token in the Authorization header";
	if (token.n > TOKEN_MAX)
		return "the token is too long";
	/* base64url, and the dots between parts */
	return span_only_alnum_or(token, "-_.") ? NULL : "the token has invalid characters";
}

/* The text after a scheme; p is NULL for another scheme. */
static struct span after_scheme(struct span header, const char *scheme)
{
	size_t n = strlen(scheme);
	if (header.n <= n || strncasecmp(header.p, scheme, n) != 0 || header.p[n] != ' ')
		return (struct span){ NULL, 0 };
	return span_trim((struct span){ header.p + n, header.n - n });
}

const char *credentials_read(struct span header, struct arena *a, struct credentials *out)
{
	*out = (struct credentials){ .token = after_scheme(header, "bearer") };
	if (header.n > CREDENTIALS_MAX)
		return "the Authorization header is too long";
	if (out->token.p)
		return token_wrong(out->token);
	struct span both;
	struct span basic = after_scheme(header, "basic");
	if (!basic.p)
		return "the Authorization header is neither Bearer nor Basic";
	if (base64_decode(a, basic, &both) < 0)
		return "the Authorization header is not base64";
	const char *colon = memchr(both.p, ':', both.n);
	if (!colon)
		return "no colon in the Authorization header";
	out->user = (struct span){ both.p, (size_t)(colon - both.p) };
	out->token = (struct span){ colon + 1, both.n - out->user.n - 1 };
	return token_wrong(out->token);
}
