#pragma once
/*
 * Tokens: reading, checking and making them.  Pure, but for what it was given: no store, no clock
 * of its own, no log.  The only caller of libjwt.
 *
 * Who checks a token is chosen by configuration: by its `iss`, which is only a hint until the
 * signature has been found good with the one algorithm and key that are configured for it.
 *
 *	no iss                  the secret of --jwt-secret-file, HS256: tokens as OpenPAI makes them
 *	iss of an issuer        its keys (PEM or JWKS), RS256 or ES256
 *	iss of the cluster      the API server (TokenReview), with our audience; see auth.h
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct keyring;

enum { TOKEN_MAX = 8192, TOKEN_SECRET_MIN = 16 };

struct keyring_options {
	const char *jwt_secret_file, *issuers_file; /* "" for none */
	bool stored; /* tokens must be stored, too: then the secret that OpenPAI ships will do */
};

/*
 * Secret, issuers and their keys, from files; shared by all loops, read only.  NULL and *e: 400
 * what is wrong with them, with its place (file, line): a secret that is empty, shorter than 16
 * bytes, OpenPAI's shipped one (unless stored), or PEM text; an issuer without audience, a key
 * that is none, an algorithm other than RS256 and ES256.  One newline at the secret's end is not
 * part of it.  *file is the file that *e has places in, or NULL.  Needs schema_init.
 */
struct keyring *keyring_new(const struct keyring_options *o, const char **file, struct err *e);
void keyring_free(struct keyring *k); /* wipes it; NULL is nothing */
bool keyring_has_secret(const struct keyring *k);
bool keyring_weak(const struct keyring *k); /* the secret that OpenPAI ships */
/* What speaks against owner or mode of one of its files, or NULL; static text.  *file lives as long
 * as the keyring. */
const char *keyring_warning(const struct keyring *k, const char **file);

/* A key made from the secret for another purpose: HKDF-SHA256(secret, label).  false if there is
 * no secret. */
bool keyring_derive(const struct keyring *k, const char *label, unsigned char out[static 32]);

/* From which service account tokens come in, or NULL if none do. */
struct service_accounts {
	const char *issuer, *audience;
};
const struct service_accounts *keyring_service_accounts(const struct keyring *k);
/* "system:serviceaccount:NAMESPACE:NAME" -> user, by the file's list only; NULL if not listed. */
const char *keyring_service_account_user(const struct keyring *k, struct span subject);

enum token_kind {
	TOKEN_OWN, /* by our secret; good if its signature is, and (mode stored) if it is stored */
	TOKEN_ISSUER, /* by an issuer's key; good */
	/* The API server must be asked: nothing of it has been checked, but that it says that it is
	 * for us, of a listed account, and has not expired. */
	TOKEN_REVIEW,
};

/* What a token says, after its signature, algorithm, times and audience have been checked. */
struct token {
	enum token_kind kind;
	const char *user; /* fit for a user's name; NULL with TOKEN_REVIEW; in the arena */
	bool application; /* does not expire, or comes from an issuer: not for managing tokens */
	int64_t iat_s, exp_s; /* -1: not said */
	/* What it is revoked by: the SHA-256 of the text; for those of issuers, of header and
	 * payload as they are signed, for an ES256 signature can be changed without becoming wrong.
	 */
	char id[65];
};

/*
 * now_s: seconds since 1970.  -1 and *e: 401 UnauthorizedUserError; what the client is told is one
 * and the same sentence for all reasons, and *why (static text, or in the arena) is for the log.
 */
int token_read(const struct keyring *k, struct span text, int64_t now_s, struct arena *a,
               struct token *out, const char **why, struct err *e);

/* A token as OpenPAI makes them: {username, application, jobSpecific, encodedFrameworkName, iat
 * [, exp]}, and a jti, so that each is another one.  lifetime_s 0: does not expire.  -1 and *e
 * (400): there is no secret.  Appends. */
int token_make(const struct keyring *k, const char *user, bool application, int64_t now_s,
               int64_t lifetime_s, struct str *out, struct err *e);

/* Application, iat_s and exp_s of one of our own tokens that is stored, whoever signed it, so that
 * what has expired can be thrown away.  Nothing has been checked.  false: it is none. */
bool token_times(struct span text, struct arena *a, struct token *out);

/*
 * The inside of a token (JWS, compact), read strictly and before anything of it is believed.
 * libjwt takes duplicate members, numbers that are none, lists instead of objects, and headers
 * that say what must be understood: none of that comes past here.
 */
struct claims {
	struct arena *arena;
	const char *text;         /* the whole token, NUL-terminated; in the arena */
	struct span signed_part;  /* header and payload, as signed */
	json_t *header, *payload; /* objects without duplicate members; claims_done frees them */
	const char *alg, *kid, *issuer; /* borrowed; kid and issuer are NULL if not there */
	int64_t iat_s, exp_s, nbf_s;    /* -1: not there */
};
#define CLAIMS_AUTO __attribute__((cleanup(claims_done))) struct claims

/* NULL, or what is wrong (static text). */
const char *claims_read(struct span token, struct arena *a, struct claims *out);
void claims_done(struct claims *c);

/* A member that is text, else NULL; borrowed. */
const char *claims_text(const struct claims *c, const char *name);
