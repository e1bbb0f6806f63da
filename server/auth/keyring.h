#pragma once
/* What is inside a keyring; for token.c and those who fill it. */
#include "base/tree.h"
#include "server/auth/token.h"

enum { KEYS_PER_ISSUER = 64, KID_MAX = 128 };

struct token_key {
	const char *kid; /* NULL: has no name, and is the only one */
	struct span pem; /* a public key */
};

/* One entry of the file of issuers; all of it lives in the keyring's arena. */
struct token_issuer {
	const char *issuer;
	const struct node *audiences; /* a list of texts, not empty */
	bool es256;                   /* else RS256 */
	struct token_key *keys;
	size_t n_keys;
	int64_t leeway_s;
	const char *claim;                  /* that says who it is */
	const char *azp;                    /* NULL: if a token has one, it must be an audience */
	const struct node *require, *users; /* maps from text to text; require may be NULL */
};

struct keyring {
	struct str secret;
	bool weak;
	const char *warning, *warning_file; /* of the first file that there is one about, or NULL */
	struct token_issuer *issuers;
	size_t n_issuers;
	struct service_accounts review; /* issuer is NULL if none come in */
	const struct node *review_users;
	struct arena arena;
};

/* Append a file's bytes, at most out->max; notes what speaks against its owner and mode.  -1 and
 * *e: 400. */
int keyring_read_file(struct keyring *k, const char *path, bool secret, struct str *out,
                      struct err *e);

/* Read the file of issuers and their keys into a keyring.  -1 and *e: 400, with the place in that
 * file. */
int issuers_read(struct keyring *k, const char *file, struct err *e);

/* Fill in an issuer's keys out of a file's text, PEM (one) or JWKS: those that fit its algorithm.
 * -1 and *e (400): a private key, none that fits, RSA of less than 2048 bits. */
int public_keys_read(struct span text, struct arena *a, struct token_issuer *i, struct err *e);

/* Unpadded base64url, strictly; the bytes live in the arena.  0 or -1.  In token.c. */
int base64url_decode(struct arena *a, struct span text, struct span *bytes);
