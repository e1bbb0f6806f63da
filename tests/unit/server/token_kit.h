/* Makes tokens, good and bad, and the files that a keyring is read from. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/enc.h"
#include "schema/schema.h"
#include "server/auth/token.h"

#define NOW    INT64_C(1700000000)
#define SECRET "0123456789abcdef0123456789abcdef"

/* ---- keys --------------------------------------------------------------------------------- */

struct key {
	gnutls_privkey_t privkey;
	gnutls_pubkey_t pubkey;
	gnutls_datum_t pem; /* the public half */
};

static inline void key_make(struct key *k, gnutls_pk_algorithm_t type, unsigned bits)
{
	gnutls_privkey_init(&k->privkey);
	gnutls_pubkey_init(&k->pubkey);
	assert_int_equal(gnutls_privkey_generate(k->privkey, type, bits, 0), 0);
	assert_int_equal(gnutls_pubkey_import_privkey(k->pubkey, k->privkey, 0, 0), 0);
	assert_int_equal(gnutls_pubkey_export2(k->pubkey, GNUTLS_X509_FMT_PEM, &k->pem), 0);
}

static inline void key_done(struct key *k)
{
	gnutls_free(k->pem.data);
	gnutls_pubkey_deinit(k->pubkey);
	gnutls_privkey_deinit(k->privkey);
}

static inline struct span pem_of(const struct key *k)
{
	return (struct span){ (const char *)k->pem.data, k->pem.size };
}

static inline void url_base64(struct str *out, struct span bytes)
{
	size_t from = out->n;
	str_base64(out, bytes);
	while (out->n > from && out->p[out->n - 1] == '=')
		out->n--;
	for (size_t i = from; i < out->n; i++)
		out->p[i] = out->p[i] == '+' ? '-' : out->p[i] == '/' ? '_' : out->p[i];
	out->p[out->n] = '\0';
}

static inline void jwk_put(struct str *out, const struct key *k, const char *kid)
{
	gnutls_datum_t a = { 0 };
	gnutls_datum_t b = { 0 };
	gnutls_ecc_curve_t curve;
	bool is_ec = gnutls_pubkey_get_pk_algorithm(k->pubkey, NULL) == GNUTLS_PK_EC;
	if (is_ec)
		gnutls_pubkey_export_ecc_raw2(k->pubkey, &curve, &a, &b, 0);
	else
		gnutls_pubkey_export_rsa_raw2(k->pubkey, &a, &b, 0);
	str_printf(out, "{\"kid\":\"%s\",\"kty\":\"%s\",%s\"%s\":\"", kid, is_ec ? "EC" : "RSA",
	           is_ec ? "\"crv\":\"P-256\"," : "", is_ec ? "x" : "n");
	url_base64(out, (struct span){ (char *)a.data, a.size });
	str_printf(out, "\",\"%s\":\"", is_ec ? "y" : "e");
	url_base64(out, (struct span){ (char *)b.data, b.size });
	str_puts(out, "\"}");
	gnutls_free(a.data);
	gnutls_free(b.data);
}

/* ---- tokens ------------------------------------------------------------------------------- */

static inline void sign_hmac(struct str *out, gnutls_mac_algorithm_t mac, struct span key)
{
	unsigned char sum[64];
	gnutls_hmac_fast(mac, key.p, key.n, out->p, out->n, sum);
	str_char(out, '.');
	url_base64(out, (struct span){ (char *)sum, gnutls_hmac_get_len(mac) });
}

static inline void put_number(struct str *out, const gnutls_datum_t *v)
{
	for (size_t i = v->size; i < 32; i++)
		str_char(out, '\0');
	size_t skip = v->size > 32 ? v->size - 32 : 0;
	str_put(out, (char *)v->data + skip, v->size - skip);
}

static inline void sign_key(struct str *out, const struct key *k)
{
	STR_AUTO raw = STR_INIT(1024);
	gnutls_datum_t text = { (unsigned char *)out->p, (unsigned)out->n };
	gnutls_datum_t sum;
	gnutls_datum_t r;
	gnutls_datum_t s;
	assert_int_equal(gnutls_privkey_sign_data(k->privkey, GNUTLS_DIG_SHA256, 0, &text, &sum),
	                 0);
	if (gnutls_pubkey_get_pk_algorithm(k->pubkey, NULL) == GNUTLS_PK_EC) {
		assert_int_equal(gnutls_decode_rs_value(&sum, &r, &s), 0);
		put_number(&raw, &r);
		put_number(&raw, &s);
		gnutls_free(r.data);
		gnutls_free(s.data);
	} else {
		str_put(&raw, (char *)sum.data, sum.size);
	}
	gnutls_free(sum.data);
	str_char(out, '.');
	url_base64(out, str_view(&raw));
}

/* Header and payload as given, not signed yet. */
static inline struct str unsigned_token(const char *header, const char *payload)
{
	struct str t = STR_INIT(1 << 20);
	url_base64(&t, span_of(header));
	str_char(&t, '.');
	url_base64(&t, span_of(payload));
	return t;
}

static inline struct str hmac_token(const char *header, const char *payload)
{
	struct str t = unsigned_token(header, payload);
	sign_hmac(&t, GNUTLS_MAC_SHA256, SPAN(SECRET));
	return t;
}

static inline struct str key_token(const char *header, const char *payload, const struct key *k)
{
	struct str t = unsigned_token(header, payload);
	sign_key(&t, k);
	return t;
}

/* ---- keyrings ----------------------------------------------------------------------------- */

/* Opens a keyring of these files, "" for none; NULL and *e on failure. */
static inline struct keyring *try_keyring(const char *secret, const char *issuers, bool stored,
                                          struct err *e)
{
	const char *file;
	FREE_AUTO char *s = xstrdup(secret);
	FREE_AUTO char *i = xstrdup(issuers);
	struct keyring_options o = { s, i, stored };
	return keyring_new(&o, &file, e);
}

static inline struct keyring *good_keyring(const char *secret, const char *issuers)
{
	ERR_AUTO e = { 0 };
	struct keyring *k = try_keyring(secret, issuers, false, &e);
	if (!k)
		fail_msg("%s", err_msg(&e));
	return k;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Returns NULL if the token is accepted, else the reason. */
static inline const char *try_token(const struct keyring *k, struct span text, struct token *out)
{
	static char reason[1024];
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	const char *why = NULL;
	if (token_read(k, text, NOW, &a, out, &why, &e) == 0) {
		assert_int_equal(e.http, 0);
		return NULL;
	}
	assert_int_equal(e.http, 401);
	assert_string_equal(e.code, "UnauthorizedUserError");
	assert_string_equal(err_msg(&e), "Your token is invalid.");
	assert_non_null(why);
	(void)snprintf(reason, sizeof(reason), "%s", why); /* it may live in the arena */
	return reason;
}

static inline void taken(const struct keyring *k, struct str text, struct token *out)
{
	const char *why = try_token(k, str_view(&text), out);
	if (why)
		fail_msg("refused: %s: %s", why, str_c(&text));
	str_done(&text);
}

static inline void refused(const struct keyring *k, struct str text, const char *want)
{
	struct token t;
	const char *why = try_token(k, str_view(&text), &t);
	if (!strstr(why ? why : "", want))
		fail_msg("%s: %s", why ? why : "taken", str_c(&text));
	assert_non_null(why);
	str_done(&text);
}

/* Checks that a token with one byte changed, left out or doubled is refused.  (The test of ids is
 * about the other valid ES256 signature of a text.)  Takes the token. */
static inline void every_byte_counts(const struct keyring *k, struct str good)
{
	static const char TRY[] = "AaZz09-_.=+/ \n\x7f\xff";
	struct token t;
	for (size_t i = 0; i < good.n; i++) {
		char was = good.p[i];
		for (size_t n = 0; n < sizeof(TRY); n++) { /* NUL as well */
			good.p[i] = TRY[n];
			if (TRY[n] != was)
				assert_non_null(try_token(k, str_view(&good), &t));
		}
		good.p[i] = was;
		assert_non_null(try_token(k, (struct span){ good.p, i }, &t));
		FREE_AUTO char *without = xasprintf("%.*s%s", (int)i, good.p, good.p + i + 1);
		assert_non_null(try_token(k, span_of(without), &t));
		FREE_AUTO char *twice = xasprintf("%.*s%s", (int)i + 1, good.p, good.p + i);
		assert_non_null(try_token(k, span_of(twice), &t));
	}
	assert_null(try_token(k, str_view(&good), &t));
	str_done(&good);
}
