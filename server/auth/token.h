#pragma once
/*
 * Reads, verifies and makes tokens.  Pure: no store, no clock, no log.  The only user of libjwt.
 *
 *	struct token token;
 *	const char *why = NULL;
 *	if (token_read(keyring, text, now_s, a, &token, &why, e) < 0)
 *		log_event(LOG_INFO, "token refused", "reason", why);
 *
 * The `iss` claim selects the issuer.  The issuer's configured algorithm and key then verify the
 * signature, before any other claim is used.
 *
 * - no iss: the secret of --jwt-secret-file, HS256: tokens as OpenPAI makes them
 * - iss of an issuer: its keys (PEM or JWKS), RS256 or ES256
 * - iss of the cluster: the API server (TokenReview), with the configured audience; see auth.c
 *
 * Texts of a token live in the arena.  A keyring is immutable.
 *
 * Thread: any
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct keyring;

enum { TOKEN_MAX = 8192, TOKEN_SECRET_MIN = 16, TOKEN_ID = 65, TOKEN_USER = 64 };

struct keyring_options {
	const char *jwt_secret_file, *issuers_file; /* "" for none */
	bool stored; /* tokens must be stored as well, so OpenPAI's default secret is accepted */
};

/*
 * Secret, issuers and their keys, read from files; immutable, shared by all loops.  NULL and *e
 * (400, with file and line): a secret that is empty, shorter than TOKEN_SECRET_MIN, PEM text, or
 * OpenPAI's default (unless `stored`); an issuer without audience; a bad key; an algorithm other
 * than RS256 and ES256.  One newline at the end of the secret is ignored.  *file: the file of the
 * places in *e, or NULL.  Needs schema_init.
 * Thread: main. */
struct keyring *keyring_new(const struct keyring_options *o, const char **file, struct err *e);
void keyring_free(struct keyring *k); /* wipes it; NULL is allowed */
bool keyring_has_secret(const struct keyring *k);
/* The i-th issuer at which people log in, and its client id; false: there are fewer. */
bool keyring_login(const struct keyring *k, size_t i, const char **issuer, const char **client);
bool keyring_weak(const struct keyring *k); /* OpenPAI's default secret */
/* A warning about owner or mode of a file, static text, or NULL.  *file lives as long as the
 * keyring. */
const char *keyring_warning(const struct keyring *k, const char **file);

/* A key for another purpose: HKDF-SHA256(secret, label).  false without a secret. */
bool keyring_derive(const struct keyring *k, const char *label, unsigned char out[static 32]);

/* The accepted tokens of service accounts; NULL: none. */
struct service_accounts {
	const char *issuer, *audience;
};
const struct service_accounts *keyring_service_accounts(const struct keyring *k);
/* The user configured for "system:serviceaccount:NAMESPACE:NAME", or NULL. */
const char *keyring_service_account_user(const struct keyring *k, struct span subject);

enum token_kind {
	TOKEN_OWN,    /* verified by the secret; in mode `stored` it must be stored, too */
	TOKEN_ISSUER, /* verified by an issuer's key */
	/* The API server must verify it.  Audience, account and expiry are plausible. */
	TOKEN_REVIEW,
};

/* The claims of a token whose signature, algorithm, times and audience have been checked. */
struct token {
	enum token_kind kind;
	char user[TOKEN_USER]; /* valid by user_name_ok; "" with TOKEN_REVIEW */
	bool application;      /* does not expire, or is an issuer's: may not manage tokens */
	int64_t iat_s, exp_s;  /* -1: absent */
	/* Identifies the token in revocations: SHA-256 of its text, in hex.  For issuers it is the
	 * digest of header and payload only, because ES256 signatures are malleable. */
	char id[TOKEN_ID];
};

/*
 * Verifies a token.  now_s: seconds since 1970.  -1 and *e: 401 UnauthorizedUserError, with the
 * same message for all reasons; *why (static text, or in the arena) is for the log.
 */
int token_read(const struct keyring *k, struct span text, int64_t now_s, struct arena *a,
               struct token *out, const char **why, struct err *e);

/* Makes a token as OpenPAI does: {username, application, jobSpecific, encodedFrameworkName, iat [,
 * exp]} and a random jti.  lifetime_s 0: no expiry.  -1 and *e (400): no secret.  Appends. */
int token_make(const struct keyring *k, const char *user, bool application, int64_t now_s,
               int64_t lifetime_s, struct str *out, struct err *e);

/* Reads application, iat_s and exp_s of a stored token, without verification, to find expired
 * tokens.  false: not TOKEN_OWN. */
bool token_times(struct span text, struct arena *a, struct token *out);
