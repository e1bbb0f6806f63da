#pragma once
/* Shared by the files of this folder: the contents of a keyring, and the token cache. */
#include "base/doc/tree.h"
#include "server/accounts/account.h"
#include "server/auth/token.h"
#include "server/state/ttl_cache.h"

enum { KEYS_PER_ISSUER = 64, KID_MAX = 128 };

struct token_key {
	const char *kid; /* NULL: the only key, without a name */
	struct span pem; /* a public key */
};

/* One entry of the file of issuers; lives in the keyring's arena. */
struct token_issuer {
	const char *issuer;
	const struct node *audiences; /* a list of texts, not empty */
	bool es256;                   /* else RS256 */
	struct token_key *keys;
	size_t n_keys;
	int64_t leeway_s;
	const char *claim;                  /* identifies the user */
	const char *client;                 /* clientId: people log in there; NULL: they do not */
	const char *azp;                    /* NULL: azp, if present, must be an audience */
	const struct node *require, *users; /* maps from text to text; require may be NULL */
};

struct keyring {
	struct str secret;
	bool weak;
	const char *warning, *warning_file; /* about the first unsafe file, or NULL */
	struct token_issuer *issuers;
	size_t n_issuers;
	struct service_accounts review; /* issuer is NULL if service accounts are not accepted */
	const struct node *review_users;
	struct arena arena;
};

/* Constant-time comparison.  Defined in token_store.c. */
bool secret_equal(struct span a, struct span b);

/*
 * The tokens that one loop has verified, by the SHA-256 of their text, so that no token is kept.
 * Bounded: the oldest entry is evicted.  One thread.
 */
enum { TOKEN_CACHE_MAX = 4096, TOKEN_CACHE_KEY = 32 };

struct cached_token {
	unsigned char key[TOKEN_CACHE_KEY]; /* SHA-256 of the token's text */
	int64_t until_ms;                   /* by clock_ms */
	const char *refused;                /* reason why it is not valid, static text; else NULL */
	struct token t; /* user: also that of a service account, once it is verified */
};

/* The names of the accounts that have asked; of the loop of accounts. */
struct peers;
struct peers *peers_new(void);
void peers_free(struct peers *p); /* NULL is allowed */
/* The user of a client with this account (struct client_address); borrowed until the next call.
 * NULL and *e: 403, or 503, the name service has failed.  Can block as long as that. */
const char *peer_user(struct peers *p, uint32_t account, struct err *e);
