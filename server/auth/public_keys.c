/* Public keys of issuers: one in PEM, or those of a JSON Web Key Set (RFC 7517). */
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <jansson.h>

#include "server/auth/keyring.h"

enum { RSA_BITS_MIN = 2048 };

static const char PRIVATE[] = "it holds a private key: only public ones belong here";

/* The keys of one file, as they are read. */
struct keys {
	bool es256;
	struct arena *a;
	struct token_key *v;
	size_t n;
};

/* ---- checks that all keys pass, and the form in which libjwt wants them ---------------------- */

static void close_key(gnutls_pubkey_t *key)
{
	if (*key)
		gnutls_pubkey_deinit(*key);
}
#define KEY_AUTO __attribute__((cleanup(close_key))) gnutls_pubkey_t

static int check_curve(gnutls_pubkey_t key, struct err *e)
{
	gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
	if (gnutls_pubkey_export_ecc_raw2(key, &curve, NULL, NULL, 0) < 0 ||
	    curve != GNUTLS_ECC_CURVE_SECP256R1)
		return err_set(e, 400, NULL, "ES256 needs a key on the curve P-256");
	return 0;
}

static int check_key(gnutls_pubkey_t key, bool es256, struct err *e)
{
	unsigned bits = 0;
	int type = gnutls_pubkey_get_pk_algorithm(key, &bits);
	if (type != (es256 ? GNUTLS_PK_EC : GNUTLS_PK_RSA))
		return err_set(e, 400, NULL, "it is no key for %s", es256 ? "ES256" : "RS256");
	if (gnutls_pubkey_verify_params(key) < 0)
		return err_set(e, 400, NULL, "it is no valid key");
	if (!es256 && bits < RSA_BITS_MIN)
		return err_set(e, 400, NULL, "RSA needs %d bits at least, this has %u",
		               RSA_BITS_MIN, bits);
	return es256 ? check_curve(key, e) : 0;
}

static int keep_key(struct keys *k, gnutls_pubkey_t key, const char *kid, struct err *e)
{
	gnutls_datum_t pem = { NULL, 0 };
	if (check_key(key, k->es256, e) < 0)
		return -1;
	if (gnutls_pubkey_export2(key, GNUTLS_X509_FMT_PEM, &pem) < 0)
		return err_set(e, 400, NULL, "it is no valid key");
	struct span text = { (const char *)pem.data, pem.size };
	k->v[k->n++] = (struct token_key){ kid, arena_span(k->a, text) };
	gnutls_free(pem.data);
	return 0;
}

/* ---- PEM ------------------------------------------------------------------------------------- */

static int read_pem(struct keys *k, struct span text, struct err *e)
{
	KEY_AUTO key = NULL;
	/* It is only read. */
	gnutls_datum_t pem = { (unsigned char *)arena_dup(k->a, text), (unsigned)text.n };
	size_t first = span_find(text, 0, "-----BEGIN ");
	if (span_find(text, first + 1, "-----BEGIN ") != SIZE_MAX)
		return err_set(e, 400, NULL, "a PEM file may hold one key; several go into a JWKS");
	if (gnutls_pubkey_init(&key) < 0 ||
	    gnutls_pubkey_import(key, &pem, GNUTLS_X509_FMT_PEM) < 0)
		return err_set(e, 400, NULL, "it is no public key (-----BEGIN PUBLIC KEY-----)");
	return keep_key(k, key, NULL, e);
}

/* ---- JWKS ------------------------------------------------------------------------------------ */

static bool number_of(const json_t *jwk, const char *name, struct arena *a, gnutls_datum_t *out)
{
	struct span bytes;
	const char *text = json_string_value(json_object_get(jwk, name));
	if (!text || base64url_decode(a, span_of(text), &bytes) < 0 || bytes.n == 0)
		return false;
	*out = (gnutls_datum_t){ (unsigned char *)arena_dup(a, bytes), (unsigned)bytes.n };
	return true;
}

static bool import_rsa(gnutls_pubkey_t key, const json_t *jwk, struct arena *a)
{
	gnutls_datum_t n;
	gnutls_datum_t exponent;
	return number_of(jwk, "n", a, &n) && number_of(jwk, "e", a, &exponent) &&
	       gnutls_pubkey_import_rsa_raw(key, &n, &exponent) == 0;
}

static bool import_ec(gnutls_pubkey_t key, const json_t *jwk, struct arena *a)
{
	gnutls_datum_t x;
	gnutls_datum_t y;
	return number_of(jwk, "x", a, &x) && number_of(jwk, "y", a, &y) &&
	       gnutls_pubkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_SECP256R1, &x, &y) == 0;
}

static bool member_is(const json_t *jwk, const char *name, const char *value, bool absent)
{
	const json_t *v = json_object_get(jwk, name);
	const char *text = json_string_value(v);
	return v ? text && strcmp(text, value) == 0 : absent;
}

/* Sets hold keys for other purposes as well. */
static bool fits(const json_t *jwk, bool es256)
{
	return member_is(jwk, "kty", es256 ? "EC" : "RSA", false) &&
	       (!es256 || member_is(jwk, "crv", "P-256", false)) &&
	       member_is(jwk, "use", "sig", true) &&
	       member_is(jwk, "alg", es256 ? "ES256" : "RS256", true);
}

static bool known_kid(const struct keys *k, const char *kid)
{
	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->v[i].kid, kid) == 0)
			return true;
	return false;
}

static int read_fitting(struct keys *k, const json_t *jwk, const char *kid, struct err *e)
{
	KEY_AUTO key = NULL;
	if (gnutls_pubkey_init(&key) < 0 ||
	    !(k->es256 ? import_ec(key, jwk, k->a) : import_rsa(key, jwk, k->a)))
		return err_set(e, 400, NULL, "it is no valid key");
	return keep_key(k, key, arena_dup(k->a, span_of(kid)), e);
}

static int read_jwk(struct keys *k, const json_t *jwk, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	const char *kid = json_string_value(json_object_get(jwk, "kid"));
	if (json_object_get(jwk, "d") || member_is(jwk, "kty", "oct", false))
		return err_set(e, 400, NULL, "%s", PRIVATE);
	if (!fits(jwk, k->es256))
		return 0;
	if (!kid || strlen(kid) > KID_MAX || known_kid(k, kid))
		return err_set(e, 400, NULL, "each key needs a kid of its own, of at most %d bytes",
		               KID_MAX);
	if (read_fitting(k, jwk, kid, e) < 0)
		return err_wrap(e, "key %s", quote(shown, span_of(kid)));
	return 0;
}

static int read_set(struct keys *k, struct span text, struct err *e)
{
	json_auto_t *set = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	const json_t *list = json_object_get(set, "keys");
	size_t i;
	json_t *jwk;
	if (!json_is_array(list))
		return err_set(e, 400, NULL, "it is neither PEM nor a JSON Web Key Set");
	if (json_array_size(list) > KEYS_PER_ISSUER)
		return err_set(e, 400, NULL, "it holds more than %d keys", KEYS_PER_ISSUER);
	json_array_foreach (list, i, jwk) {
		if (read_jwk(k, jwk, e) < 0)
			return -1;
	}
	if (k->n == 0)
		return err_set(e, 400, NULL, "it holds no key for %s",
		               k->es256 ? "ES256" : "RS256");
	return 0;
}

int public_keys_read(struct span text, struct arena *a, struct token_issuer *i, struct err *e)
{
	struct keys k = { i->es256, a, ARENA_NEW(a, struct token_key, KEYS_PER_ISSUER), 0 };
	if (span_find(text, 0, "PRIVATE KEY-----") != SIZE_MAX)
		return err_set(e, 400, NULL, "%s", PRIVATE);
	bool pem = span_find(text, 0, "-----BEGIN ") != SIZE_MAX;
	if ((pem ? read_pem(&k, text, e) : read_set(&k, text, e)) < 0)
		return -1;
	i->keys = k.v;
	i->n_keys = k.n;
	return 0;
}
