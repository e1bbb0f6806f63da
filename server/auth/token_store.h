#pragma once
/*
 * Tokens in Secrets: the stored tokens of a user (--token-check=stored), in OpenPAI's format, and
 * the hashes of revoked tokens (--deny-list).  A change is a merge patch of single keys, so that
 * concurrent changes, also by OpenPAI, are not lost.  The same patch removes expired entries.
 *
 * Thread: worker
 */
#include "base/str.h"

/* Limits per Secret, whose size Kubernetes limits to 1 MiB.  A new token evicts the user's oldest
 * token that is not an application token. */
enum {
	TOKENS_PER_USER = 1000,
	APPLICATION_TOKENS_PER_USER = 900, /* included in TOKENS_PER_USER */
	DENIED_MAX = 5000,
	DENIED_PER_USER = 250,
	TOKEN_NAME_MAX = 63,
};

struct edit;
struct err;
struct options;
struct token;

/* Returns true if valid tokens must be in their user's Secret (--token-check=stored).
 * Thread: any. */
bool tokens_stored(const struct options *o);

/*
 * Steps of an edit (server/http/edit.h).  0, or -1 and its error: 503, 504, or 400 if a limit is
 * reached.  The texts must live as long as the edit.
 */
struct named_token {
	struct span text, name; /* name: of the Secret's key; empty if it has none */
};

/* The tokens that have not expired; in the edit's arena. */
int token_store_list(struct edit *t, const char *user, struct named_token **tokens, size_t *n);
/* name: NULL, or [A-Za-z0-9_.-]{1,63}, which becomes part of the Secret's key. */
int token_store_add(struct edit *t, const char *user, struct span token, const char *name);
/* Removes all tokens of a user, or only those that are not application tokens. */
int token_store_remove_all(struct edit *t, const char *user, bool logins);
/* Revoke a verified token: remove it from its user's Secret, or add it to the deny list.  This
 * process forgets it at once, other servers when their cache entry expires. */
int token_revoke(struct edit *t, struct span text, const struct token *token);
/* -1 and *e: 400 NotImplementedError, it cannot be revoked here.  Thread: any. */
int token_check_revocable(const struct options *o, const struct token *token, struct err *e);
