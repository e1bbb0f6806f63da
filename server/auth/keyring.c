/* Reads the secret, the issuers and their public keys from files, and refuses weak and private
 * ones. */
#include "server/auth/auth_internal.h"

#include <ctype.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/enc.h"
#include "base/posix/fd.h"
#include "schema/schema.h"
#include "server/config/system.h"

enum {
	SECRET_MAX = 4096,
	/* Random hex of 16 digits has fewer distinct digits once in two million times. */
	DISTINCT_MIN = 5,
};

/* OpenPAI's default, which is public. */
static const char SHIPPED_SECRET[] = "pai-secret";

/* Public keys and certificates are no secrets. */
static const char PEM_MARK[] = "-----BEGIN ";

/* Appends a file to out, at most out->max bytes; records a warning about owner or mode.  -1 and *e:
 * 400. */
static int keyring_read_file(struct keyring *k, const char *path, bool secret, struct str *out,
                             struct err *e)
{
	struct stat about;
	if (file_read_regular(path, out, &about, e) < 0) {
		e->http = 400;
		return -1;
	}
	const char *warning = file_warning(&about, secret);
	if (warning && !k->warning) {
		k->warning = warning;
		k->warning_file = arena_dup(&k->arena, span_of(path));
	}
	return 0;
}

/* Counts distinct bytes other than blanks. */
static size_t count_distinct(struct span text)
{
	bool seen[256] = { false };
	size_t n = 0;
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		n += !seen[c] && !isspace(c);
		seen[c] = true;
	}
	return n;
}

static int check_secret(struct keyring *k, bool stored, struct err *e)
{
	struct span secret = str_view(&k->secret);
	k->weak = span_is(secret, SHIPPED_SECRET);
	if (k->weak && stored)
		return 0;
	if (k->weak)
		return err_set(e, 400, NULL,
		               "this is OpenPAI's default secret, which is public; it is accepted "
		               "only with --token-check=stored");
	if (secret.n < TOKEN_SECRET_MIN)
		return err_set(e, 400, NULL,
		               "%s: a secret for tokens needs at least %d bytes, better 32",
		               secret.n ? "it is too short" : "it is empty", TOKEN_SECRET_MIN);
	if (count_distinct(secret) < DISTINCT_MIN)
		return err_set(e, 400, NULL,
		               "it can be guessed: it has fewer than %d different characters; make "
		               "one with `head -c 32 /dev/urandom | base64`",
		               DISTINCT_MIN);
	if (span_find(secret, 0, PEM_MARK) != SIZE_MAX)
		return err_set(e, 400, NULL,
		               "it is a key or certificate, not a secret; public keys belong into "
		               "the file of --issuers");
	return 0;
}

static int read_secret(struct keyring *k, const struct keyring_options *o, struct err *e)
{
	struct str *s = &k->secret;
	if (keyring_read_file(k, o->jwt_secret_file, true, s, e) < 0)
		return err_wrap(e, "--jwt-secret-file");
	if (s->n && s->p[s->n - 1] == '\n')
		s->n--;
	if (s->p)
		s->p[s->n] = '\0';
	if (check_secret(k, o->stored, e) < 0)
		return err_wrap(e, "--jwt-secret-file: %s", o->jwt_secret_file);
	return 0;
}

/* ---- public keys of issuers: one in PEM, or a JSON Web Key Set (RFC 7517) ---- */

enum { RSA_BITS_MIN = 2048 };

static const char PRIVATE[] = "it has a private key; only public keys belong here";

static void close_key(gnutls_pubkey_t *key)
{
	if (*key)
		gnutls_pubkey_deinit(*key);
}
#define KEY_AUTO __attribute__((cleanup(close_key))) gnutls_pubkey_t

static int keyring_check_key(gnutls_pubkey_t key, bool es256, struct err *e)
{
	unsigned bits = 0;
	int type = gnutls_pubkey_get_pk_algorithm(key, &bits);
	if (type != (es256 ? GNUTLS_PK_EC : GNUTLS_PK_RSA))
		return err_set(e, 400, NULL, "it is not a key for %s", es256 ? "ES256" : "RS256");
	if (gnutls_pubkey_verify_params(key) < 0)
		return err_set(e, 400, NULL, "it is not a valid key");
	if (!es256 && bits < RSA_BITS_MIN)
		return err_set(e, 400, NULL, "an RSA key needs at least %d bits, has %u",
		               RSA_BITS_MIN, bits);
	gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
	if (es256 && (gnutls_pubkey_export_ecc_raw2(key, &curve, NULL, NULL, 0) < 0 ||
	              curve != GNUTLS_ECC_CURVE_SECP256R1))
		return err_set(e, 400, NULL, "ES256 needs a key on the curve P-256");
	return 0;
}

static int keyring_keep_key(struct token_issuer *k, struct arena *a, gnutls_pubkey_t key,
                            const char *kid, struct err *e)
{
	gnutls_datum_t pem = { NULL, 0 };
	if (keyring_check_key(key, k->es256, e) < 0)
		return -1;
	if (gnutls_pubkey_export2(key, GNUTLS_X509_FMT_PEM, &pem) < 0)
		return err_set(e, 400, NULL, "it is not a valid key");
	struct span text = { (const char *)pem.data, pem.size };
	k->keys[k->n_keys++] = (struct token_key){ kid, arena_span(a, text) };
	gnutls_free(pem.data);
	return 0;
}

static int keyring_read_pem(struct token_issuer *k, struct arena *a, struct span text,
                            struct err *e)
{
	KEY_AUTO key = NULL;
	gnutls_datum_t pem = { (unsigned char *)arena_dup(a, text), (unsigned)text.n };
	size_t first = span_find(text, 0, "-----BEGIN ");
	if (span_find(text, first + 1, "-----BEGIN ") != SIZE_MAX)
		return err_set(e, 400, NULL,
		               "a PEM file may have one key only; use a JWKS for several");
	if (gnutls_pubkey_init(&key) < 0 ||
	    gnutls_pubkey_import(key, &pem, GNUTLS_X509_FMT_PEM) < 0)
		return err_set(e, 400, NULL, "it is not a public key (-----BEGIN PUBLIC KEY-----)");
	return keyring_keep_key(k, a, key, NULL, e);
}

static bool jwk_number(const json_t *jwk, const char *name, struct arena *a, gnutls_datum_t *out)
{
	struct span bytes;
	const char *text = json_string_value(json_object_get(jwk, name));
	if (!text || base64url_decode(a, span_of(text), &bytes) < 0 || bytes.n == 0)
		return false;
	*out = (gnutls_datum_t){ (unsigned char *)arena_dup(a, bytes), (unsigned)bytes.n };
	return true;
}

static bool jwk_member_equals(const json_t *jwk, const char *name, const char *value, bool absent)
{
	const json_t *v = json_object_get(jwk, name);
	const char *text = json_string_value(v);
	return v ? text && strcmp(text, value) == 0 : absent;
}

static int read_jwk(struct token_issuer *k, struct arena *a, const json_t *jwk, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	KEY_AUTO key = NULL;
	gnutls_datum_t one;
	gnutls_datum_t two;
	const char *kid = json_string_value(json_object_get(jwk, "kid"));
	if (json_object_get(jwk, "d") || jwk_member_equals(jwk, "kty", "oct", false))
		return err_set(e, 400, NULL, "%s", PRIVATE);
	if (!jwk_member_equals(jwk, "kty", k->es256 ? "EC" : "RSA", false) ||
	    (k->es256 && !jwk_member_equals(jwk, "crv", "P-256", false)) ||
	    !jwk_member_equals(jwk, "use", "sig", true) ||
	    !jwk_member_equals(jwk, "alg", k->es256 ? "ES256" : "RS256", true))
		return 0; /* a set may have keys for other purposes */
	bool own = kid && strlen(kid) <= KID_MAX;
	for (size_t i = 0; own && i < k->n_keys; i++)
		own = strcmp(k->keys[i].kid, kid) != 0;
	if (!own)
		return err_set(e, 400, NULL, "each key needs a kid of its own, of at most %d bytes",
		               KID_MAX);
	bool good =
	    gnutls_pubkey_init(&key) == 0 && jwk_number(jwk, k->es256 ? "x" : "n", a, &one) &&
	    jwk_number(jwk, k->es256 ? "y" : "e", a, &two) &&
	    (k->es256 ? gnutls_pubkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_SECP256R1, &one, &two)
	              : gnutls_pubkey_import_rsa_raw(key, &one, &two)) == 0;
	if (!good)
		(void)err_set(e, 400, NULL, "it is not a valid key");
	if (!good || keyring_keep_key(k, a, key, arena_dup(a, span_of(kid)), e) < 0)
		return err_wrap(e, "key %s", quote(shown, span_of(kid)));
	return 0;
}

static int read_set(struct token_issuer *k, struct arena *a, struct span text, struct err *e)
{
	json_auto_t *set = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	const json_t *list = json_object_get(set, "keys");
	size_t i;
	json_t *jwk;
	if (!json_is_array(list))
		return err_set(e, 400, NULL, "it is neither PEM nor a JSON Web Key Set");
	if (json_array_size(list) > KEYS_PER_ISSUER)
		return err_set(e, 400, NULL, "it has more than %d keys", KEYS_PER_ISSUER);
	json_array_foreach (list, i, jwk) {
		if (read_jwk(k, a, jwk, e) < 0)
			return -1;
	}
	if (k->n_keys == 0)
		return err_set(e, 400, NULL, "it has no key for %s", k->es256 ? "ES256" : "RS256");
	return 0;
}

/* Fills in the keys of i from a file, PEM (one key) or JWKS; skips keys for other algorithms.  -1
 * and *e (400): a private key, no usable key, RSA below 2048 bits. */
static int public_keys_read(struct span text, struct arena *a, struct token_issuer *i,
                            struct err *e)
{
	i->keys = ARENA_NEW(a, struct token_key, KEYS_PER_ISSUER);
	if (span_find(text, 0, "PRIVATE KEY-----") != SIZE_MAX)
		return err_set(e, 400, NULL, "%s", PRIVATE);
	bool pem = span_find(text, 0, "-----BEGIN ") != SIZE_MAX;
	return pem ? keyring_read_pem(i, a, text, e) : read_set(i, a, text, e);
}

/* ---- the file of issuers (--issuers; schema/issuers.schema.json) and the files of keys ---- */

enum { FILE_MAX = 1 << 20, KEYS_MAX = 64 * 1024, LEEWAY_S = 60 };

struct issuer_entry {
	struct keyring *keyring;
	const char *file; /* of the issuers */
	const struct node *node;
	struct path at;
};

static const char *keyring_text_of(const struct node *map, const char *key, const char *absent)
{
	const struct node *n = node_get(map, key);
	return n ? n->text : absent;
}

static int keyring_fail(const struct issuer_entry *entry, const char *member, const char *why,
                        struct err *e)
{
	struct path at = PATH_KEY(&entry->at, span_of(member));
	struct place where = path_place(&entry->keyring->arena, &at, node_get(entry->node, member));
	return err_at(e, 400, NULL, where, "%s", why);
}

static bool issuers_have(const struct keyring *k, const char *issuer)
{
	for (size_t i = 0; i < k->n_issuers; i++)
		if (strcmp(k->issuers[i].issuer, issuer) == 0)
			return true;
	return false;
}

static int read_issuer(const struct issuer_entry *entry, struct err *e)
{
	struct keyring *k = entry->keyring;
	ERR_AUTO why = { 0 };
	STR_AUTO text = STR_INIT(KEYS_MAX);
	const struct node *leeway = node_get(entry->node, "leeway");
	struct token_issuer *i = &k->issuers[k->n_issuers];
	*i = (struct token_issuer){
		.issuer = keyring_text_of(entry->node, "issuer", ""),
		.audiences = node_get(entry->node, "audiences"),
		.es256 = strcmp(keyring_text_of(entry->node, "algorithm", ""), "ES256") == 0,
		.leeway_s = leeway ? leeway->integer : LEEWAY_S,
		.claim = keyring_text_of(entry->node, "claim", "sub"),
		.client = keyring_text_of(entry->node, "clientId", NULL),
		.azp = keyring_text_of(entry->node, "azp", NULL),
		.require = node_get(entry->node, "require"),
		.users = node_get(entry->node, "users"),
	};
	if (issuers_have(k, i->issuer))
		return keyring_fail(entry, "issuer", "this issuer is listed already", e);
	/* A relative path is relative to the directory of the file of issuers. */
	const char *keys = keyring_text_of(entry->node, "keys", "");
	const char *slash = keys[0] == '/' ? NULL : strrchr(entry->file, '/');
	FREE_AUTO char *path =
	    xasprintf("%.*s%s", slash ? (int)(slash + 1 - entry->file) : 0, entry->file, keys);
	if (keyring_read_file(k, path, false, &text, &why) < 0)
		return keyring_fail(entry, "keys", err_msg(&why), e);
	if (public_keys_read(str_view(&text), &k->arena, i, &why) < 0) {
		(void)err_wrap(&why, "%s", path);
		return keyring_fail(entry, "keys", err_msg(&why), e);
	}
	k->n_issuers++;
	return 0;
}

static int issuers_read_accounts(struct keyring *k, const struct node *root, const char *file,
                                 struct err *e)
{
	const struct node *n = node_get(root, "serviceAccounts");
	const struct issuer_entry entry = { k, file, n, PATH_KEY(NULL, SPAN("serviceAccounts")) };
	if (!n)
		return 0;
	k->review.issuer = keyring_text_of(n, "issuer", NULL);
	k->review.audience = keyring_text_of(n, "audience", NULL);
	k->review_users = node_get(n, "users");
	if (issuers_have(k, k->review.issuer))
		return keyring_fail(&entry, "issuer", "this issuer is also listed in `issuers`", e);
	return 0;
}

static int issuers_take(struct keyring *k, const struct node *root, const char *file, struct err *e)
{
	const struct path list = PATH_KEY(NULL, SPAN("issuers"));
	const struct node *issuers = node_get(root, "issuers");
	size_t n = issuers ? issuers->n : 0;
	k->issuers = ARENA_NEW(&k->arena, struct token_issuer, n);
	for (size_t i = 0; i < n; i++) {
		struct issuer_entry entry = { k, file, &issuers->item[i], PATH_INDEX(&list, i) };
		if (read_issuer(&entry, e) < 0)
			return -1;
	}
	return issuers_read_accounts(k, root, file, e);
}

static int issuers_read(struct keyring *k, const char *file, struct err *e)
{
	STR_AUTO text = STR_INIT(FILE_MAX);
	struct budget budget = BUDGET_DEFAULT;
	struct doc *doc = ARENA_NEW(&k->arena, struct doc, 1);
	if (keyring_read_file(k, file, false, &text, e) < 0)
		return err_wrap(e, "--issuers");
	if (doc_read(str_view(&text), &budget, &k->arena, doc, NULL, e) < 0 ||
	    schema_check(schema_get(SCHEMA_ISSUERS), &doc->root, "InvalidParametersError", NULL,
	                 e) < 0)
		return -1;
	return issuers_take(k, &doc->root, file, e);
}

struct keyring *keyring_new(const struct keyring_options *o, const char **file, struct err *e)
{
	struct keyring *k = xcalloc(1, sizeof(*k));
	k->secret = STR_SECRET(SECRET_MAX);
	*file = NULL; /* errors of the secret have no line */
	if (o->jwt_secret_file[0] && read_secret(k, o, e) < 0) {
		keyring_free(k);
		return NULL;
	}
	*file = o->issuers_file;
	if (o->issuers_file[0] && issuers_read(k, o->issuers_file, e) < 0) {
		keyring_free(k);
		return NULL;
	}
	return k;
}

void keyring_free(struct keyring *k)
{
	if (!k)
		return;
	str_wipe(&k->secret);
	arena_wipe(&k->arena);
	free(k);
}

bool keyring_has_secret(const struct keyring *k)
{
	return k->secret.n > 0;
}

bool keyring_weak(const struct keyring *k)
{
	return k->weak;
}

const char *keyring_warning(const struct keyring *k, const char **file)
{
	*file = k->warning_file;
	return k->warning;
}

bool keyring_derive(const struct keyring *k, const char *label, unsigned char out[static 32])
{
	unsigned char extracted[32];
	const gnutls_datum_t secret = { (unsigned char *)k->secret.p, (unsigned)k->secret.n };
	const gnutls_datum_t none = { NULL, 0 };
	const gnutls_datum_t key = { extracted, sizeof(extracted) };
	struct span info = span_of(label);
	unsigned char text[64]; /* GnuTLS takes no const */
	const gnutls_datum_t datum = { text, (unsigned)info.n };
	if (!keyring_has_secret(k) || info.n > sizeof(text))
		return false;
	memcpy(text, info.p, info.n);
	bool made = gnutls_hkdf_extract(GNUTLS_MAC_SHA256, &secret, &none, extracted) == 0 &&
	            gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &key, &datum, out, 32) == 0;
	memory_wipe(extracted, sizeof(extracted));
	return made;
}

const struct service_accounts *keyring_service_accounts(const struct keyring *k)
{
	return k->review.issuer ? &k->review : NULL;
}

const char *keyring_service_account_user(const struct keyring *k, struct span subject)
{
	static const struct span PREFIX = SPAN("system:serviceaccount:");
	char name[512];
	if (!k->review_users || !span_starts(subject, PREFIX.p) ||
	    subject.n - PREFIX.n >= sizeof(name))
		return NULL;
	struct span rest = { subject.p + PREFIX.n, subject.n - PREFIX.n };
	memcpy(name, rest.p, rest.n);
	/* The keys of the map are NAMESPACE/NAME. */
	char *colon = memchr(name, ':', rest.n);
	if (!colon || memchr(name, '/', rest.n))
		return NULL;
	*colon = '/';
	const struct member *m = node_member(k->review_users, (struct span){ name, rest.n });
	return m ? m->value.text : NULL;
}

bool keyring_login(const struct keyring *k, size_t i, const char **issuer, const char **client)
{
	for (size_t n = 0; k && n < k->n_issuers; n++) {
		if (!k->issuers[n].client || i-- > 0)
			continue;
		*issuer = k->issuers[n].issuer;
		*client = k->issuers[n].client;
		return true;
	}
	return false;
}
