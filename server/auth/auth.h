#pragma once
/*
 * Authentication: from the Authorization header of a request to an account.  Begin with auth.c.
 *
 *	token.c         verifies and makes tokens      keyring.c      reads secrets and public keys
 *	token_lookup.c  asks the API server            token_store.c  keeps tokens in Secrets
 *	revocations.c   tokens that were revoked       token_routes.c the routes about tokens
 *	peer.c          accounts instead of tokens
 *
 * Thread: loop
 */
#include "base/arena.h"
#include "server/http/route.h"

struct auth;
struct credentials;
struct keyring;

/* State of one loop. */
struct auth *auth_new(struct loop *l);
/* The store must have been freed before, so that no request waits. */
void auth_free(struct auth *a);

/*
 * Authenticate a request before its body is received.  true: r->principal is set, or r has been
 * answered (401 UnauthorizedUserError, 503 UnavailableError).  false: r waits; later it is
 * answered, or r->principal is set and request_identified(r) is called.
 */
bool auth_begin(struct request *r);

/* Sets r->principal.  Takes over a reference, which is dropped when r ends. */
void auth_set_account(struct request *r, struct account *a);

/* Moves the token from the header, which is wiped, into r->token; *c has the rest of the header.
 * false: r has been answered 401. */
bool auth_take_token(struct request *r, struct credentials *c);

/* The current keys.  A reload may replace them as soon as the caller returns to the loop. */
const struct keyring *keyring_of(const struct loop *l);

/* Checks for long-lived requests: auth_holds returns true if the token is still valid.  It checks
 * the claims, and revocations by this process since auth_mark; it does not ask the API server. */
uint64_t auth_mark(const struct loop *l);
bool auth_holds(const struct request *r, uint64_t mark);

/* ---- the Authorization header: pure.  Thread: any. ---- */

/* Maximum length of the header: a token of TOKEN_MAX bytes and a user name, in base64. */
enum { CREDENTIALS_MAX = 12288 };

struct credentials {
	struct span token; /* not empty; token characters only; borrowed, or in the arena */
	struct span user;  /* of Basic; p is NULL with Bearer */
};

/*
 * Reads `Bearer TOKEN`, or `Basic BASE64` of `USER:TOKEN`; the scheme is case-insensitive.  Returns
 * NULL, or static text for the log.  With Basic the arena holds the token: the caller wipes it, on
 * errors too.
 */
const char *credentials_read(struct span header, struct arena *a, struct credentials *out);

/*
 * The ids of tokens that this process has revoked, shared by all loops, each of which has a token
 * cache of its own.  A ring: a loop that has missed more than REVOCATIONS_KEPT clears its cache.
 * Thread: any.
 */
struct revocations;

enum { REVOCATIONS_KEPT = 256 };

/* The last REVOCATIONS_KEPT revoked tokens of this server, a ring that all loops share. */
struct revocations *revocations_new(void);
void revocations_free(struct revocations *r); /* NULL is allowed */
/* Copies the id (token.h).  All loops remove the token from their caches; other servers forget it
 * when their cache entry expires. */
void revocations_add(struct revocations *r, const char *id);
uint64_t revocations_count(struct revocations *r);
/* Returns true if the id was added after the count was `count`.  Also true if the ring has
 * overflowed since. */
bool revocations_since(struct revocations *r, uint64_t count, const char *id);
/*
 * Calls forget(arg, id) for each id added since *seen, which starts at 0 and is advanced; id is
 * NULL if the ring has overflowed.  Costs one atomic read if nothing was added.
 */
void revocations_poll(struct revocations *r, uint64_t *seen,
                      void (*forget)(void *arg, const char *id), void *arg);

/* Handlers: token_routes.c */
handler logout_delete, tokens_get, token_check_get, application_post, token_delete;
