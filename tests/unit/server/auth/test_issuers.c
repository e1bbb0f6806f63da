/* Tokens of issuers with their keys, and of service accounts. */

#include "tests/unit/base/cmocka.h"

#include "tests/unit/server/token_kit.h"

#define RS256 "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"one\"}"
#define ES256 "{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"e\"}"
#define TIMES "\"iat\":1699999000,\"exp\":1700000600"
#define GIT_REST                                                                                   \
	"\"aud\":\"rest-lit\",\"sub\":\"repo:org/app:ref:refs/heads/main\","                       \
	"\"repository\":\"org/app\",\"ref\":\"refs/heads/main\"," TIMES "}"
#define GIT "{\"iss\":\"https://git.example\"," GIT_REST
#define EC_REST                                                                                    \
	"\"aud\":[\"x\",\"pai\"],\"email\":\"a@b.example\",\"email_verified\":true," TIMES "}"
#define EC "{\"iss\":\"https://ec.example\"," EC_REST

static const char ISSUERS[] = "issuers:\n"
			      "- issuer: https://git.example\n"
			      "  audiences: [rest-lit]\n"
			      "  algorithm: RS256\n"
			      "  keys: keys.json\n"
			      "  require: {repository: org/app, ref: refs/heads/main}\n"
			      "  users: {'repo:org/app:ref:refs/heads/main': alice}\n"
			      "- issuer: https://ec.example\n"
			      "  audiences: [pai, rest-lit]\n"
			      "  algorithm: ES256\n"
			      "  keys: ec.pem\n"
			      "  leeway: 0\n"
			      "  claim: email\n"
			      "  users: {a@b.example: bob}\n"
			      "- issuer: https://azp.example\n"
			      "  audiences: [rest-lit]\n"
			      "  algorithm: RS256\n"
			      "  keys: rsa.pem\n"
			      "  azp: ci\n"
			      "  claim: preferred_username\n"
			      "  users: {carol: carol}\n"
			      "serviceAccounts:\n"
			      "  issuer: https://kubernetes.default.svc\n"
			      "  audience: rest-lit\n"
			      "  users: {ci/deployer: dave}\n";

static struct key rsa, other_rsa, small_rsa, ec, p384;
static struct keyring *ring;

FIXTURE(set_up)
{
	schema_init();
	key_make(&rsa, GNUTLS_PK_RSA, 2048);
	key_make(&other_rsa, GNUTLS_PK_RSA, 2048);
	key_make(&small_rsa, GNUTLS_PK_RSA, 1024);
	key_make(&ec, GNUTLS_PK_EC, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
	key_make(&p384, GNUTLS_PK_EC, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP384R1));
	STR_AUTO set = STR_INIT(16384);
	str_puts(&set, "{\"keys\":[");
	jwk_put(&set, &rsa, "one");
	str_char(&set, ',');
	jwk_put(&set, &ec, "for something else");
	str_char(&set, ',');
	jwk_put(&set, &other_rsa, "two");
	str_puts(&set, "]}");
	(void)unit_file("keys.json", str_view(&set));
	(void)unit_file("ec.pem", pem_of(&ec));
	(void)unit_file("rsa.pem", pem_of(&rsa));
	(void)unit_file("secret", SPAN(SECRET));
	ring = good_keyring(unit_path("secret"), unit_file("issuers", span_of(ISSUERS)));
	return 0;
}

FIXTURE(tear_down)
{
	keyring_free(ring);
	struct key *keys[] = { &rsa, &other_rsa, &small_rsa, &ec, &p384 };
	for (size_t i = 0; i < 5; i++)
		key_done(keys[i]);
	return 0;
}

/* ---- accepted tokens ---------------------------------------------------------------------- */

TEST(test_rs256_tokens_of_known_keys_are_accepted)
{
	struct token t;
	taken(ring, key_token(RS256, GIT, &rsa), &t);
	assert_int_equal(t.kind, TOKEN_ISSUER);
	assert_string_equal(t.user, "alice");
	assert_true(t.application);
	assert_int_equal(t.exp_s, 1700000600);
	taken(ring, key_token("{\"alg\":\"RS256\",\"kid\":\"two\"}", GIT, &other_rsa), &t);
}

TEST(test_es256_tokens_of_known_keys_are_accepted)
{
	struct token t;
	taken(ring, key_token(ES256, EC, &ec), &t);
	assert_string_equal(t.user, "bob");
	taken(ring, key_token("{\"alg\":\"ES256\"}", EC, &ec), &t);
}

/* There are two signatures of one text; a revocation is about the signed text. */
TEST(test_id_of_a_token_does_not_depend_on_its_signature)
{
	struct token one;
	struct token two;
	STR_AUTO a = key_token(ES256, EC, &ec);
	STR_AUTO b = key_token(ES256, EC, &ec);
	while (strcmp(str_c(&a), str_c(&b)) == 0) {
		str_done(&b);
		b = key_token(ES256, EC, &ec);
		if (strcmp(str_c(&a), str_c(&b)) == 0)
			break; /* signatures without chance */
	}
	assert_null(try_token(ring, str_view(&a), &one));
	assert_null(try_token(ring, str_view(&b), &two));
	assert_string_equal(one.id, two.id);
}

TEST(test_leeway_of_a_minute_applies_to_times)
{
	struct token t;
	taken(ring,
	      key_token(RS256,
	                "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\",\"exp\":1699999941,"
	                "\"nbf\":1700000060,\"sub\":\"repo:org/app:ref:refs/heads/main\","
	                "\"repository\":\"org/app\",\"ref\":\"refs/heads/main\"}",
	                &rsa),
	      &t);
	refused(ring,
	        key_token(RS256,
	                  "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\","
	                  "\"exp\":1699999940}",
	                  &rsa),
	        "expired");
	refused(ring,
	        key_token(ES256,
	                  "{\"iss\":\"https://ec.example\",\"aud\":\"pai\",\"exp\":1700000000}",
	                  &ec),
	        "expired");
	refused(ring,
	        key_token(RS256,
	                  "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\","
	                  "\"exp\":1700000600,\"nbf\":1700000061}",
	                  &rsa),
	        "not valid yet");
}

TEST(test_azp_must_match_the_expected_client)
{
	struct token t;
	static const char *const GOOD =
	    "{\"iss\":\"https://azp.example\",\"aud\":\"rest-lit\",\"azp\":\"ci\","
	    "\"preferred_username\":\"carol\"," TIMES "}";
	taken(ring, key_token("{\"alg\":\"RS256\"}", GOOD, &rsa), &t);
	assert_string_equal(t.user, "carol");
	refused(ring,
	        key_token("{\"alg\":\"RS256\"}",
	                  "{\"iss\":\"https://azp.example\",\"aud\":\"rest-lit\","
	                  "\"preferred_username\":\"carol\"," TIMES "}",
	                  &rsa),
	        "another one");
	refused(
	    ring,
	    key_token(RS256, "{\"azp\":\"evil\",\"iss\":\"https://git.example\"," GIT_REST, &rsa),
	    "another one");
	refused(ring,
	        key_token(RS256, "{\"azp\":7,\"iss\":\"https://git.example\"," GIT_REST, &rsa),
	        "another one");
	taken(ring,
	      key_token(RS256, "{\"azp\":\"rest-lit\",\"iss\":\"https://git.example\"," GIT_REST,
	                &rsa),
	      &t);
}

/* ---- refused tokens ----------------------------------------------------------------------- */

/* A public key is public: its text must not be accepted as the secret of an HMAC. */
TEST(test_public_key_is_no_secret_for_hmac)
{
	static const char *const HEADERS[] = { "{\"alg\":\"HS256\",\"kid\":\"one\"}", RS256,
		                               "{\"alg\":\"none\",\"kid\":\"one\"}" };
	for (size_t i = 0; i < 3; i++) {
		struct str t = unsigned_token(HEADERS[i], GIT);
		sign_hmac(&t, GNUTLS_MAC_SHA256, pem_of(&rsa));
		refused(ring, t, "signature");
		t = unsigned_token(HEADERS[i], GIT);
		sign_hmac(&t, GNUTLS_MAC_SHA256, SPAN(SECRET));
		refused(ring, t, "signature");
	}
}

TEST(test_every_changed_byte_makes_the_token_invalid)
{
	every_byte_counts(ring, key_token(RS256, GIT, &rsa));
	every_byte_counts(ring, key_token(ES256, EC, &ec));
}

TEST(test_keys_of_other_issuers_are_refused)
{
	refused(ring, key_token(RS256, GIT, &other_rsa), "signature");
	refused(ring, key_token("{\"alg\":\"RS256\",\"kid\":\"../../etc/passwd\"}", GIT, &rsa),
	        "kid");
	refused(ring, key_token("{\"alg\":\"RS256\",\"kid\":\"for something else\"}", GIT, &rsa),
	        "kid");
	refused(ring, key_token("{\"alg\":\"RS256\"}", GIT, &rsa), "kid"); /* which of two? */
	refused(ring, key_token("{\"alg\":\"ES256\",\"kid\":\"one\"}", GIT, &ec), "signature");
	refused(ring, key_token("{\"alg\":\"RS256\"}", EC, &rsa), "signature");
	refused(ring, key_token("{\"alg\":\"ES256\"}", EC, &p384), "signature");
	/* Good for one issuer is not good for another. */
	refused(ring, key_token("{\"alg\":\"RS256\"}", EC, &rsa), "signature");
	refused(ring, key_token(ES256, GIT, &ec), "kid");
}

TEST(test_claims_that_do_not_match_are_refused)
{
	static const struct {
		const char *payload, *why;
	} CASES[] = {
		{ "{\"iss\":\"https://git.example\",\"aud\":\"rest-li\"," TIMES "}", "aud" },
		{ "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit2\"," TIMES "}", "aud" },
		{ "{\"iss\":\"https://git.example\",\"aud\":[]," TIMES "}", "aud" },
		{ "{\"iss\":\"https://git.example\",\"aud\":{\"rest-lit\":1}," TIMES "}", "aud" },
		{ "{\"iss\":\"https://git.example\"," TIMES "}", "aud" },
		{ "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\"}", "does not expire" },
		{ "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\",\"repository\":\"org/"
		  "app\","
		  "\"ref\":\"refs/heads/main2\"," TIMES "}",
		  "required claim is absent or has another value: ref is `refs/heads/main2`" },
		{ "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\",\"repository\":\"org/"
		  "app\","
		  "\"ref\":[\"refs/heads/main\"]," TIMES "}",
		  "required" },
		{ "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\","
		  "\"ref\":\"refs/heads/main\"," TIMES "}",
		  "required" },
		{ "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\",\"repository\":\"org/"
		  "app\","
		  "\"ref\":\"refs/heads/main\",\"sub\":\"repo:org/app2\"," TIMES "}",
		  "not listed for its issuer: sub is `repo:org/app2`" },
		{ "{\"iss\":\"https://git.example\",\"aud\":\"rest-lit\",\"repository\":\"org/"
		  "app\","
		  "\"ref\":\"refs/heads/main\",\"username\":\"alice\"," TIMES "}",
		  "not listed" },
		{ "{\"iss\":\"https://git.example/\"," GIT_REST, "not known" },
		{ "{\"iss\":[\"https://git.example\"]," GIT_REST, "iss" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++)
		refused(ring, key_token(RS256, CASES[i].payload, &rsa), CASES[i].why);
}

TEST(test_email_claims_must_be_verified)
{
	static const char *const VERIFIED[] = { "", "\"email_verified\":false,",
		                                "\"email_verified\":\"true\",",
		                                "\"email_verified\":1," };
	for (size_t i = 0; i < 4; i++) {
		FREE_AUTO char *p = xasprintf("{\"iss\":\"https://ec.example\",\"aud\":\"pai\",%s"
		                              "\"email\":\"a@b.example\"," TIMES "}",
		                              VERIFIED[i]);
		refused(ring, key_token(ES256, p, &ec), "verified");
	}
}

/* ---- service accounts --------------------------------------------------------------------- */

#define ACCOUNT(name, aud, times)                                                                  \
	"{\"iss\":\"https://kubernetes.default.svc\",\"sub\":\"system:serviceaccount:" name "\""   \
	",\"aud\":" aud "," times "}"

TEST(test_service_account_tokens_need_a_token_review)
{
	struct token t;
	taken(ring,
	      key_token(RS256, ACCOUNT("ci:deployer", "[\"x\",\"rest-lit\"]", TIMES), &other_rsa),
	      &t);
	assert_int_equal(t.kind, TOKEN_REVIEW);
	assert_true(t.application);
	assert_string_equal(t.user, "");
	assert_string_equal(keyring_service_accounts(ring)->audience, "rest-lit");
}

/* TokenReviews are limited to ten a second, so hopeless tokens are refused without one. */
TEST(test_service_account_tokens_that_cannot_be_valid_are_refused)
{
	refused(ring, key_token(RS256, "{\"iss\":\"https://kubernetes.default.svc\"}", &rsa),
	        "no user is listed");
	refused(ring, key_token(RS256, ACCOUNT("evil:deployer", "\"rest-lit\"", TIMES), &rsa),
	        "no user is listed");
	refused(ring, key_token(RS256, ACCOUNT("ci:deployer", "\"rest-lit2\"", TIMES), &rsa),
	        "its audience");
	refused(ring, key_token(RS256, ACCOUNT("ci:deployer", "[]", TIMES), &rsa), "its audience");
	refused(ring, key_token(RS256, ACCOUNT("ci:deployer", "7", TIMES), &rsa), "its audience");
	refused(ring,
	        key_token(RS256, ACCOUNT("ci:deployer", "\"rest-lit\"", "\"exp\":1000"), &rsa),
	        "expired");
}

TEST(test_service_accounts_must_be_listed)
{
	static const char *const OTHERS[] = { "system:serviceaccount:ci:deployer2",
		                              "system:serviceaccount:ci/deployer",
		                              "system:serviceaccount:ci:deployer:x",
		                              "system:serviceaccount:ci",
		                              "system:serviceaccount:evil:deployer",
		                              "ci:deployer",
		                              "system:node:ci:deployer",
		                              "" };
	assert_string_equal(
	    keyring_service_account_user(ring, SPAN("system:serviceaccount:ci:deployer")), "dave");
	for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++)
		assert_null(keyring_service_account_user(ring, span_of(OTHERS[i])));
}

/* ---- the files ---------------------------------------------------------------------------- */

static void file_is_refused(const char *text, const char *want, unsigned line)
{
	if (try_keyring("", unit_file("try", span_of(text)), false, no_err()))
		fail_msg("taken: %s", text);
	assert_int_equal(unit.e.http, 400);
	if (!strstr(err_msg(&unit.e), want))
		fail_msg("%s: %s", text, err_msg(&unit.e));
	assert_int_equal(unit.e.notes.v[0].line, line);
}

#define ENTRY "issuers:\n- issuer: a\n  audiences: [b]\n  users: {}\n"

TEST(test_issuers_file_errors_have_their_line)
{
	file_is_refused("issuers: 7\n", "list", 1);
	file_is_refused("issuer: []\n", "issuers", 1);
	file_is_refused("issuers:\n- issuer: a\n", "audiences", 2);
	file_is_refused(ENTRY "  algorithm: HS256\n  keys: keys.json\n", "RS256", 5);
	file_is_refused(ENTRY "  algorithm: none\n  keys: keys.json\n", "RS256", 5);
	file_is_refused(ENTRY "  algorithm: RS256\n  keys: nowhere\n", "No such file", 6);
	file_is_refused(ENTRY "  algorithm: RS256\n  keys: keys.json\n  leeway: 3600\n", "300", 7);
	file_is_refused("issuers:\n- issuer: a\n  audiences: []\n  users: {}\n  algorithm: RS256\n"
	                "  keys: keys.json\n",
	                "item", 3);
	file_is_refused("issuers:\n- issuer: a\n  audiences: [b]\n  users: {x: ..}\n"
	                "  algorithm: RS256\n  keys: keys.json\n",
	                "user names", 4);
	file_is_refused("serviceAccounts: {issuer: a, audience: b, users: {x: y}}\n",
	                "namespace/name", 1);
	file_is_refused(ENTRY "  algorithm: RS256\n  keys: keys.json\n"
	                      "serviceAccounts: {issuer: a, audience: b, users: {}}\n",
	                "also listed", 7);
	file_is_refused(
	    "issuers:\n- {issuer: a, audiences: [b], users: {}, algorithm: RS256, keys: "
	    "keys.json}\n- {issuer: a, audiences: [b], users: {}, algorithm: RS256, "
	    "keys: keys.json}\n",
	    "already", 3);
}

static void key_is_refused(const char *algorithm, struct span key, const char *want)
{
	FREE_AUTO char *text = xasprintf(ENTRY "  algorithm: %s\n  keys: bad\n", algorithm);
	(void)unit_file("bad", key);
	file_is_refused(text, want, 6);
}

TEST(test_weak_and_malformed_keys_are_refused)
{
	gnutls_datum_t private;
	gnutls_x509_privkey_t x509;
	STR_AUTO two = STR_INIT(8192);
	str_span(&two, pem_of(&rsa));
	str_span(&two, pem_of(&other_rsa));
	key_is_refused("RS256", SPAN(""), "neither PEM nor");
	key_is_refused("RS256", SPAN("{}"), "neither PEM nor");
	key_is_refused("RS256", SPAN("{\"keys\":[]}"), "no key for RS256");
	key_is_refused("RS256", SPAN("{\"keys\":[7]}"), "no key for RS256");
	key_is_refused("RS256",
	               SPAN("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
	               "not a public key");
	key_is_refused("RS256", pem_of(&ec), "not a key for RS256");
	key_is_refused("ES256", pem_of(&rsa), "not a key for ES256");
	key_is_refused("ES256", pem_of(&p384), "P-256");
	key_is_refused("RS256", pem_of(&small_rsa), "2048 bits");
	key_is_refused("RS256", str_view(&two), "one key");
	assert_int_equal(gnutls_privkey_export_x509(rsa.privkey, &x509), 0);
	assert_int_equal(gnutls_x509_privkey_export2(x509, GNUTLS_X509_FMT_PEM, &private), 0);
	key_is_refused("RS256", (struct span){ (char *)private.data, private.size }, "private key");
	gnutls_free(private.data);
	gnutls_x509_privkey_deinit(x509);
	key_is_refused(
	    "RS256",
	    SPAN("{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"a\",\"n\":\"AQAB\",\"e\":\"AQAB\","
	         "\"d\":\"AQAB\"}]}"),
	    "private key");
	key_is_refused("RS256", SPAN("{\"keys\":[{\"kty\":\"oct\",\"kid\":\"a\",\"k\":\"AQAB\"}]}"),
	               "private key");
	key_is_refused(
	    "RS256",
	    SPAN("{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"a\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}"),
	    "key a");
	key_is_refused(
	    "ES256",
	    SPAN("{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"a\",\"x\":\"AQAB\","
	         "\"y\":\"AQAB\"}]}"),
	    "valid key"); /* no point of the curve */
}

TEST(test_kids_must_be_unique_in_a_set)
{
	STR_AUTO set = STR_INIT(16384);
	str_puts(&set, "{\"keys\":[");
	jwk_put(&set, &rsa, "a");
	str_char(&set, ',');
	jwk_put(&set, &other_rsa, "a");
	str_puts(&set, "]}");
	key_is_refused("RS256", str_view(&set), "kid of its own");
}

TEST(test_key_files_above_64_kib_are_refused)
{
	STR_AUTO text = STR_INIT(100000);
	str_many(&text, " ", 65537);
	key_is_refused("RS256", str_view(&text), "more than 65536 bytes");
}

TEST_GROUP(set_up, tear_down)
