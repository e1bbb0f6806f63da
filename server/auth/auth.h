#pragma once
/*
 * Who asks?  From the Authorization header to an account: reads the token (token.h); if it must be
 * stored, or may have been revoked, or belongs to a service account, asks the store; then finds the
 * account (account.h).  What was found good is believed for --token-cache seconds, by the token's
 * SHA-256, in a bounded cache of the loop; what the API server refused in a TokenReview for 10.
 */
#include "base/arena.h"
#include "server/http/request.h"

struct auth;
struct credentials;
struct keyring;

/* Of one loop. */
struct auth *auth_new(struct loop *l);
/* What still waits is answered 503. */
void auth_free(struct auth *a);

/*
 * Before the body of a request is taken: find out who sends it.  true: r->principal is set, or r
 * has been answered (401 UnauthorizedUserError, 503 UnavailableError).  false: it waits; it will be
 * answered, or r->principal will be set and intake_known(r) called.
 */
bool auth_begin(struct request *r);

/* The request is this account's.  Takes over a reference, until r ends. */
void auth_set_account(struct request *r, struct account *a);

/* The token of a request, from its header, which is wiped, into r->token; *c: what else it said.
 * false: there is none, and r has been answered 401. */
bool auth_take_token(struct request *r, struct credentials *c);

/* The keys in force.  They may be replaced by others when the caller has returned to the loop, so
 * neither this nor what it points at is to be kept. */
const struct keyring *keyring_of(const struct loop *l);

/* For requests that last: is its token still good?  By what it says, and by what was revoked here
 * since auth_mark; what other servers were told is not asked for. */
uint64_t auth_mark(const struct loop *l);
bool auth_holds(const struct request *r, uint64_t mark);

/* Forget what is believed of this token, on all loops: it was revoked just now.  Other servers
 * believe it for --token-cache seconds at most. */
void auth_forget(struct loop *l, const char *token_id);

/* ---- what an Authorization header says: pure ---- */

/* The longest header that is read: a token of TOKEN_MAX bytes, and a name, in base64. */
enum { CREDENTIALS_MAX = 12288 };

struct credentials {
	struct span token; /* not empty; of the letters that tokens are made of; borrowed, or in the
	                      arena */
	struct span user;  /* of Basic; p is NULL with Bearer */
};

/*
 * Read `Bearer TOKEN`, or `Basic BASE64` of `USER:TOKEN`; the scheme in any case of letters.  NULL,
 * or static text: what is wrong, for the log.  With Basic the arena holds the token, and is to be
 * wiped, whatever comes back.
 */
const char *credentials_read(struct span header, struct arena *a, struct credentials *out);
