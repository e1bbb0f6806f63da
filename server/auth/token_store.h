#pragma once
/*
 * Tokens in Secrets: the stored tokens of a user (--token-check=stored), in OpenPAI's format, and
 * the hashes of revoked tokens (--deny-list).  A change is a merge patch of single keys, so that
 * concurrent changes, also by OpenPAI, are not lost.  The same patch removes expired entries.
 */
#include "server/http/request.h"

/* Limits per Secret, whose size Kubernetes limits to 1 MiB.  A new token evicts the user's oldest
 * token that is not an application token. */
enum {
	TOKENS_PER_USER = 1000,
	APPLICATION_TOKENS_PER_USER = 900, /* included in TOKENS_PER_USER */
	DENIED_MAX = 5000,
	DENIED_PER_USER = 250,
	TOKEN_NAME_MAX = 63,
};

struct options;
struct token;

/* Whether valid tokens must be in their user's Secret (--token-check=stored). */
bool tokens_stored(const struct options *o);

/* e->http: 0, 503, or 400 if a limit is reached.  Called once. */
typedef void token_store_callback(struct request *r, const struct err *e);
/* The tokens that have not expired; in the request's arena. */
typedef void token_store_list_callback(struct request *r, const struct span *tokens, size_t n,
                                       const struct err *e);

/*
 * All of these suspend a request that has not been answered.  Texts must live as long as the
 * request.  `name`: NULL, or [A-Za-z0-9_.-]{1,63}, which becomes part of the Secret's key.
 */
void token_store_list(struct request *r, const char *user, token_store_list_callback *done);
void token_store_add(struct request *r, const char *user, struct span token, const char *name,
                     token_store_callback *done);

/* Remove all tokens of a user, or only those that are not application tokens. */
void token_store_remove_all(struct request *r, const char *user, bool logins,
                            token_store_callback *done);

/*
 * Revoke a verified token: remove it from its user's Secret, or add it to the deny list.  This
 * process forgets it at once, other servers when their cache entry expires.  400
 * NotImplementedError if it cannot be revoked here; then `done` is called at once.
 */
void token_revoke(struct request *r, struct span text, const struct token *t,
                  token_store_callback *done);
