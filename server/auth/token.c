/* Parses tokens more strictly than libjwt does, and has libjwt verify and sign them. */
#include "server/auth/token.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <jwt.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/enc.h"
#include "base/hash.h"
#include "server/auth/auth_internal.h"
#include "translate/translate.h"

/* AHEAD_S: maximum lead of an issuer's clock over this server's. */
enum { AHEAD_S = 300, ID_BYTES = 12 };

/* ---- the claims of a token ---- */

/*
 * A token (JWS, compact), parsed strictly before it is verified.  libjwt accepts duplicate members,
 * numbers that are not numbers, lists instead of objects and `crit` headers; this parser does not.
 */
struct claims {
	struct arena *arena;
	const char *text;         /* the whole token, NUL-terminated; in the arena */
	struct span signed_part;  /* header and payload, as signed */
	json_t *header, *payload; /* objects without duplicate members; freed by claims_done */
	const char *alg, *kid, *issuer; /* borrowed; kid and issuer may be NULL */
	int64_t iat_s, exp_s, nbf_s;    /* -1: absent */
	const char *user;               /* of the token, unchecked; NULL: none yet */
};
#define CLAIMS_AUTO __attribute__((cleanup(claims_done))) struct claims

enum { PARTS = 3 };

static json_t *token_read_object(struct span text)
{
	json_t *v = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(v))
		return v;
	json_decref(v);
	return NULL;
}

static const char *check_header(struct claims *c)
{
	const char *name;
	json_t *value;
	json_object_foreach (c->header, name, value) {
		/* Others change the meaning of the signature (crit, b64) or let the sender choose
		 * the key (jwk, jku, x5u, x5c). */
		if (strcmp(name, "alg") != 0 && strcmp(name, "typ") != 0 &&
		    strcmp(name, "kid") != 0)
			return "its header has members that are not accepted";
		if (!json_is_string(value))
			return "its header has a member that is not a text";
	}
	c->alg = json_string_value(json_object_get(c->header, "alg"));
	c->kid = json_string_value(json_object_get(c->header, "kid"));
	if (!c->alg)
		return "its header names no algorithm";
	const char *typ = json_string_value(json_object_get(c->header, "typ"));
	if (typ && strcasecmp(typ, "JWT") != 0)
		return "its header has a typ other than JWT";
	return c->kid && strlen(c->kid) > KID_MAX ? "its kid is too long" : NULL;
}

/* A non-negative integer; -1 if absent. */
static bool token_read_time(const struct claims *c, const char *name, int64_t *out)
{
	const json_t *v = json_object_get(c->payload, name);
	*out = v ? json_integer_value(v) : -1;
	return !v || (json_is_integer(v) && *out >= 0 && *out < INT64_MAX / 2);
}

/* NULL, or static text about the first error. */
static const char *claims_read(struct span token, struct arena *a, struct claims *out)
{
	struct span part[PARTS];
	struct span bytes[PARTS];
	struct span rest = token;
	bool split = true;
	*out = (struct claims){ .arena = a };
	if (token.n > TOKEN_MAX)
		return "it is too long";
	for (size_t i = 0; i < PARTS; i++) {
		bool dot = span_chr(rest, '.') < rest.n;
		part[i] = span_next(&rest, '.');
		split = split && part[i].n > 0 && dot == (i < PARTS - 1);
	}
	if (!split)
		return "it does not have three parts, separated by dots";
	for (size_t i = 0; i < PARTS; i++)
		if (base64url_decode(a, part[i], &bytes[i]) < 0)
			return "it is not base64url";
	out->text = arena_dup(a, token);
	out->signed_part = (struct span){ out->text, part[0].n + 1 + part[1].n };
	out->header = token_read_object(bytes[0]);
	out->payload = token_read_object(bytes[1]);
	if (!out->header || !out->payload)
		return "header or payload is not a JSON object, or has a duplicate member";
	const char *wrong = check_header(out);
	if (wrong)
		return wrong;
	if (!token_read_time(out, "exp", &out->exp_s) ||
	    !token_read_time(out, "nbf", &out->nbf_s) || !token_read_time(out, "iat", &out->iat_s))
		return "exp, nbf or iat is not a time in whole seconds";
	const json_t *iss = json_object_get(out->payload, "iss");
	if (iss && !json_is_string(iss))
		return "iss is not a text";
	out->issuer = json_string_value(iss);
	return NULL;
}

static void claims_done(struct claims *c)
{
	json_decref(c->header);
	json_decref(c->payload);
}

static const char *claims_text(const struct claims *c, const char *name)
{
	return json_string_value(json_object_get(c->payload, name));
}

/* ---- signatures ---- */

/*
 * The only caller of jwt_decode.  libjwt lets the token choose the algorithm: `none` without a key,
 * HS384 with a key for HS256, HS256 with the text of a public key.  Therefore a key is required,
 * and `alg` is compared with the configured algorithm before and after.
 */
static const char *check_signature(const struct claims *c, struct span key, jwt_alg_t alg)
{
	assert(key.n > 0);
	if (strcmp(c->alg, jwt_alg_str(alg)) != 0)
		return "its signature is not by the configured algorithm";
	jwt_t *jwt = NULL;
	if (jwt_decode(&jwt, c->text, (const unsigned char *)key.p, (int)key.n) != 0)
		return "its signature is wrong";
	bool good = jwt_get_alg(jwt) == alg;
	jwt_free(jwt);
	return good ? NULL : "its signature is not by the configured algorithm";
}

static const char *check_times(const struct claims *c, int64_t now_s, int64_t leeway_s)
{
	if (c->exp_s >= 0 && c->exp_s + leeway_s <= now_s)
		return "it has expired";
	if (c->nbf_s > now_s + leeway_s)
		return "it is not valid yet";
	if (c->iat_s > now_s + AHEAD_S)
		return "its iat is in the future";
	return NULL;
}

/* ---- own tokens ---- */

static const char *read_own(const struct keyring *k, struct claims *c, int64_t now_s,
                            struct token *out)
{
	if (!keyring_has_secret(k))
		return "this server has no secret to verify it";
	const char *wrong = check_signature(c, str_view(&k->secret), JWT_ALG_HS256);
	if (!wrong)
		wrong = check_times(c, now_s, 0);
	if (wrong)
		return wrong;
	const json_t *app = json_object_get(c->payload, "application");
	if (app && !json_is_boolean(app))
		return "application is neither true nor false";
	out->application = json_is_true(app);
	if (c->exp_s < 0 && !out->application)
		return "it does not expire, but is not an application token";
	/* Such tokens expire with their job, which the server does not track. */
	const json_t *job = json_object_get(c->payload, "jobSpecific");
	if (job && !json_is_false(job))
		return "tokens for a single job are not accepted";
	out->kind = TOKEN_OWN;
	c->user = claims_text(c, "username");
	sha256_hex(out->id, span_of(c->text));
	return c->user ? NULL : "it has no username";
}

/* ---- tokens of issuers ---- */

/* `aud` is a text or a list of texts. */
static bool has_audience(const json_t *aud, struct span wanted)
{
	size_t n;
	const json_t *one;
	const char *text = json_string_value(aud);
	bool found = text && span_is(wanted, text);
	json_array_foreach (aud, n, one) {
		text = json_string_value(one);
		found |= text && span_is(wanted, text);
	}
	return found;
}

static const char *check_issued_claims(const struct token_issuer *i, const struct claims *c)
{
	char key[4 * QUOTE_MAX];
	char shown[4 * QUOTE_MAX];
	const char *azp = claims_text(c, "azp");
	bool for_us = false;
	/* If no client is configured, the token must name none, or have an audience. */
	bool client =
	    i->azp ? azp && strcmp(azp, i->azp) == 0 : !json_object_get(c->payload, "azp");
	for (size_t n = 0; n < i->audiences->n; n++) {
		struct span wanted = node_span(&i->audiences->item[n]);
		for_us |= has_audience(json_object_get(c->payload, "aud"), wanted);
		client |= !i->azp && azp && span_is(wanted, azp);
	}
	if (!for_us)
		return "its audience (aud) is another one";
	if (!client)
		return "its client (azp) is another one";
	for (size_t n = 0; i->require && n < i->require->n; n++) {
		const struct member *m = &i->require->member[n];
		const char *have = claims_text(c, m->key);
		if (!have || !span_is(node_span(&m->value), have))
			return arena_printf(
			    c->arena, "a required claim is absent or has another value: %s is `%s`",
			    quote(key, member_key(m)), quote(shown, span_of(have ? have : "")));
	}
	return NULL;
}

static const char *find_user(const struct token_issuer *i, struct claims *c)
{
	char shown[4 * QUOTE_MAX];
	const char *value = claims_text(c, i->claim);
	if (strcmp(i->claim, "email") == 0 &&
	    !json_is_true(json_object_get(c->payload, "email_verified")))
		return "its email is not verified";
	const struct member *m = value ? node_member(i->users, span_of(value)) : NULL;
	/* The log may show the value: the signature is valid, and the administrator may list it. */
	if (!m)
		return arena_printf(c->arena, "its user is not listed for its issuer: %s is `%s`",
		                    i->claim, quote(shown, span_of(value ? value : "")));
	c->user = m->value.text;
	return NULL;
}

static const char *read_issued(const struct token_issuer *i, struct claims *c, int64_t now_s,
                               struct token *out)
{
	const struct token_key *key = NULL;
	for (size_t n = 0; c->kid && n < i->n_keys; n++)
		if (i->keys[n].kid && strcmp(i->keys[n].kid, c->kid) == 0)
			key = &i->keys[n];
	if (i->n_keys == 1 && (!c->kid || !i->keys[0].kid))
		key = &i->keys[0];
	if (!key)
		return "its issuer has no key with its kid";
	const char *wrong = check_signature(c, key->pem, i->es256 ? JWT_ALG_ES256 : JWT_ALG_RS256);
	if (!wrong && c->exp_s < 0)
		wrong = "it does not expire";
	if (!wrong)
		wrong = check_times(c, now_s, i->leeway_s);
	if (!wrong)
		wrong = check_issued_claims(i, c);
	if (!wrong)
		wrong = find_user(i, c);
	out->kind = TOKEN_ISSUER;
	out->application = true;
	sha256_hex(out->id, c->signed_part);
	return wrong;
}

/* ---- tokens of service accounts ---- */

/* The API server verifies this token.  These checks save TokenReviews, of which there are ten per
 * second, for tokens that would be refused afterwards. */
static const char *read_reviewed(const struct keyring *k, const struct claims *c, int64_t now_s,
                                 struct token *out)
{
	const char *subject = claims_text(c, "sub");
	if (!subject || !keyring_service_account_user(k, span_of(subject)))
		return "no user is listed for this service account";
	if (!has_audience(json_object_get(c->payload, "aud"), span_of(k->review.audience)))
		return "its audience (aud) is another one";
	out->kind = TOKEN_REVIEW;
	out->application = true;
	sha256_hex(out->id, span_of(c->text));
	return check_times(c, now_s, AHEAD_S);
}

/* ---- interface ---- */

static const char *auth_token_check(const struct keyring *k, struct claims *c, int64_t now_s,
                                    struct token *out)
{
	if (!c->issuer)
		return read_own(k, c, now_s, out);
	if (k->review.issuer && strcmp(c->issuer, k->review.issuer) == 0)
		return read_reviewed(k, c, now_s, out);
	for (size_t i = 0; i < k->n_issuers; i++)
		if (strcmp(k->issuers[i].issuer, c->issuer) == 0)
			return read_issued(&k->issuers[i], c, now_s, out);
	return "its issuer is not known here";
}

/* NOLINTNEXTLINE(readability-function-size) */
int token_read(const struct keyring *k, struct span text, int64_t now_s, struct arena *a,
               struct token *out, const char **why, struct err *e)
{
	CLAIMS_AUTO c = { 0 };
	struct token t = { .iat_s = -1, .exp_s = -1 };
	*why = claims_read(text, a, &c);
	if (!*why)
		*why = auth_token_check(k, &c, now_s, &t);
	if (!*why && c.user && !user_name_ok(span_of(c.user)))
		*why = "its user name is invalid";
	if (*why)
		return err_set(e, UNAUTHORIZED, "Your token is invalid.");
	t.iat_s = c.iat_s;
	t.exp_s = c.exp_s;
	if (c.user)
		(void)snprintf(t.user, sizeof(t.user), "%s", c.user);
	*out = t;
	return 0;
}

bool token_times(struct span text, struct arena *a, struct token *out)
{
	CLAIMS_AUTO c = { 0 };
	if (claims_read(text, a, &c) || c.issuer)
		return false;
	*out = (struct token){ .kind = TOKEN_OWN, .iat_s = c.iat_s, .exp_s = c.exp_s };
	out->application = json_is_true(json_object_get(c.payload, "application"));
	return true;
}

/* ---- making tokens ---- */

static void close_jwt(jwt_t **jwt)
{
	jwt_free(*jwt);
}

/* NOLINTNEXTLINE(readability-function-size) */
int token_make(const struct keyring *k, const char *user, bool application, int64_t now_s,
               int64_t lifetime_s, struct str *out, struct err *e)
{
	__attribute__((cleanup(close_jwt))) jwt_t *jwt = NULL;
	char id[2 * ID_BYTES + 1];
	if (!keyring_has_secret(k))
		return err_set(e, NOT_IMPLEMENTED,
		               "this server cannot make tokens: it has no secret");
	/* A random jti: a logout must not revoke another login of the same second. */
	random_hex(id, ID_BYTES);
	if (jwt_new(&jwt) != 0 || jwt_add_grant(jwt, "jti", id) != 0 ||
	    jwt_add_grant(jwt, "username", user) != 0 ||
	    jwt_add_grant_bool(jwt, "application", application) != 0 ||
	    jwt_add_grant_bool(jwt, "jobSpecific", 0) != 0 ||
	    jwt_add_grant(jwt, "encodedFrameworkName", "") != 0 ||
	    jwt_add_grant_int(jwt, "iat", now_s) != 0 ||
	    (lifetime_s && jwt_add_grant_int(jwt, "exp", now_s + lifetime_s) != 0))
		abort(); /* out of memory */
	char *text = NULL;
	if (jwt_set_alg(jwt, JWT_ALG_HS256, (const unsigned char *)k->secret.p, (int)k->secret.n) ==
	    0)
		text = jwt_encode_str(jwt);
	if (!text)
		return err_set(e, UNKNOWN_ERROR, "the token could not be signed");
	str_puts(out, text);
	free_wiped(text);
	return 0;
}
