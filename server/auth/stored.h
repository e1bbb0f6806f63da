#pragma once
/*
 * Tokens in Secrets, on behalf of a request that waits: those of a user that are stored
 * (--token-check=stored), as OpenPAI keeps them, and the hashes of those that were revoked
 * (--deny-list).  A change is a merge patch of single keys: others may change the same Secret at
 * the same time, also an OpenPAI beside us, and nobody's change is lost.  What has expired is
 * removed by the same patch.
 */
#include "server/http/request.h"

/*
 * How many are kept for a user: beyond, the oldest that are no application's go.  A Secret may
 * have 1 MiB; so many hashes are about half of it.
 */
enum {
	STORED_MAX = 1000,
	STORED_APPLICATIONS = 900, /* of these */
	DENIED_MAX = 5000,
	DENIED_PER_USER = 250,
	STORED_NAME_MAX = 63,
};

struct token;

/* e->http is 0 if all is well; else 503, or 400: no room.  Called once; the request is as it was.
 */
typedef void stored_callback(struct request *r, const struct err *e);
/* The tokens that have not expired; they live in the request's arena. */
typedef void stored_list_callback(struct request *r, const struct span *tokens, size_t n,
                                  const struct err *e);

/*
 * All of these take a request that is neither answered nor waiting, or waits, and let it wait.
 * Texts live as long as the request.  `name` says what the token is for: NULL, or
 * [A-Za-z0-9_.-]{1,63}; it becomes part of the key.
 */
void stored_list(struct request *r, const char *user, stored_list_callback *done);
void stored_add(struct request *r, const char *user, struct span token, const char *name,
                stored_callback *done);
void stored_remove(struct request *r, const char *user, struct span token, stored_callback *done);

/* All tokens of a user; or, with logins, those that are not for applications. */
void stored_remove_all(struct request *r, const char *user, bool logins, stored_callback *done);

/* Put a token's id (token.h; not of one that is for TokenReview) on the deny list, which must
 * exist, until exp_s (-1: for ever). */
void stored_deny(struct request *r, const struct token *t, int64_t exp_s, stored_callback *done);
