/* Tokens that this server signs: accepted ones, and no others. */

#include "tests/unit/base/cmocka.h"

#include "tests/unit/server/token_kit.h"

#define HS256 "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"
/* Claims of tokens that OpenPAI makes. */
#define CLAIMS                                                                                     \
	"\"username\":\"alice\",\"application\":false,\"jobSpecific\":false,"                      \
	"\"encodedFrameworkName\":\"\",\"iat\":1699999000"
#define USER_TOKEN        "{" CLAIMS ",\"exp\":1700600000}"
#define APPLICATION_TOKEN "{\"username\":\"alice\",\"application\":true,\"iat\":1699999000}"

static struct keyring *ring;
static struct key rsa;

FIXTURE(set_up)
{
	schema_init();
	key_make(&rsa, GNUTLS_PK_RSA, 2048);
	ring = good_keyring(unit_file("secret", SPAN(SECRET "\n")), "");
	return 0;
}

FIXTURE(tear_down)
{
	keyring_free(ring);
	key_done(&rsa);
	return 0;
}

/* ---- accepted tokens ---------------------------------------------------------------------- */

TEST(test_user_token_gives_name_and_times)
{
	struct token t;
	taken(ring, hmac_token(HS256, USER_TOKEN), &t);
	assert_int_equal(t.kind, TOKEN_OWN);
	assert_string_equal(t.user, "alice");
	assert_false(t.application);
	assert_int_equal(t.iat_s, 1699999000);
	assert_int_equal(t.exp_s, 1700600000);
	assert_int_equal(strlen(t.id), 64);
}

TEST(test_application_token_does_not_expire)
{
	struct token t;
	taken(ring, hmac_token(HS256, APPLICATION_TOKEN), &t);
	assert_true(t.application);
	assert_int_equal(t.exp_s, -1);
}

TEST(test_application_token_may_expire)
{
	struct token t;
	taken(ring,
	      hmac_token(HS256, "{\"username\":\"a\",\"application\":true,\"exp\":1700000001}"),
	      &t);
	assert_int_equal(t.exp_s, 1700000001);
	assert_int_equal(t.iat_s, -1);
}

TEST(test_admin_claim_of_an_old_openpai_is_ignored)
{
	/* Tokens of v0.9 have a claim about administrators, which is ignored. */
	struct token t;
	STR_AUTO text = STR_INIT(4096);
	str_puts(&text, "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.");
	url_base64(&text, SPAN("{\"username\":\"alice\",\"admin\":true,\"iat\":1600000000,"
	                       "\"exp\":9999999999}"));
	sign_hmac(&text, GNUTLS_MAC_SHA256, SPAN(SECRET));
	assert_null(try_token(ring, str_view(&text), &t));
	assert_string_equal(t.user, "alice");
	assert_false(t.application);
}

TEST(test_kid_and_typ_are_optional)
{
	struct token t;
	taken(ring, hmac_token("{\"alg\":\"HS256\"}", USER_TOKEN), &t);
	taken(ring, hmac_token("{\"alg\":\"HS256\",\"kid\":\"1\"}", USER_TOKEN), &t);
}

TEST(test_iat_may_be_five_minutes_ahead)
{
	struct token t;
	taken(ring,
	      hmac_token(HS256, "{\"username\":\"alice\",\"iat\":1700000300,\"exp\":1700600000}"),
	      &t);
}

/* ---- round trip --------------------------------------------------------------------------- */

TEST(test_made_tokens_are_accepted)
{
	struct token t;
	struct str user = STR_INIT(TOKEN_MAX);
	struct str app = STR_INIT(TOKEN_MAX);
	assert_int_equal(token_make(ring, "j.doe-2", false, NOW, 60, &user, no_err()), 0);
	taken(ring, user, &t);
	assert_string_equal(t.user, "j.doe-2");
	assert_false(t.application);
	assert_int_equal(t.iat_s, NOW);
	assert_int_equal(t.exp_s, NOW + 60);
	assert_int_equal(token_make(ring, "alice", true, NOW, 0, &app, no_err()), 0);
	taken(ring, app, &t);
	assert_true(t.application);
	assert_int_equal(t.exp_s, -1);
}

TEST(test_each_token_made_is_different)
{
	STR_AUTO one = STR_INIT(TOKEN_MAX);
	STR_AUTO two = STR_INIT(TOKEN_MAX);
	assert_int_equal(token_make(ring, "alice", false, NOW, 60, &one, no_err()), 0);
	assert_int_equal(token_make(ring, "alice", false, NOW, 60, &two, no_err()), 0);
	assert_string_not_equal(str_c(&one), str_c(&two));
}

TEST(test_times_of_expired_stored_tokens_are_read)
{
	struct token t;
	STR_AUTO old = hmac_token(HS256, "{\"username\":\"alice\",\"exp\":5}");
	assert_true(token_times(str_view(&old), &unit.a, &t));
	assert_int_equal(t.exp_s, 5);
	assert_false(t.application);
	assert_false(token_times(SPAN("no token"), &unit.a, &t));
}

/* ---- refused tokens ----------------------------------------------------------------------- */

TEST(test_algorithm_none_is_refused)
{
	static const char *const HEADERS[] = { "{\"alg\":\"none\"}", "{\"alg\":\"NONE\"}",
		                               "{\"alg\":\"None\",\"typ\":\"JWT\"}" };
	for (size_t i = 0; i < 3; i++) {
		refused(ring, hmac_token(HEADERS[i], USER_TOKEN), "signature");
		struct str bare = unsigned_token(HEADERS[i], USER_TOKEN);
		str_char(&bare, '.');
		refused(ring, bare, "three parts");
	}
}

TEST(test_other_algorithms_with_our_secret_are_refused)
{
	struct str t = unsigned_token("{\"alg\":\"HS384\",\"typ\":\"JWT\"}", USER_TOKEN);
	sign_hmac(&t, GNUTLS_MAC_SHA384, SPAN(SECRET));
	refused(ring, t, "signature");
	t = unsigned_token("{\"alg\":\"HS512\",\"typ\":\"JWT\"}", USER_TOKEN);
	sign_hmac(&t, GNUTLS_MAC_SHA512, SPAN(SECRET));
	refused(ring, t, "signature");
	refused(ring, hmac_token("{\"alg\":\"hs256\",\"typ\":\"JWT\"}", USER_TOKEN), "signature");
	refused(ring, key_token("{\"alg\":\"RS256\"}", USER_TOKEN, &rsa), "signature");
}

TEST(test_tokens_of_another_secret_are_refused)
{
	struct str t = unsigned_token(HS256, USER_TOKEN);
	sign_hmac(&t, GNUTLS_MAC_SHA256, SPAN(SECRET "\n"));
	refused(ring, t, "signature");
	t = unsigned_token(HS256, USER_TOKEN);
	sign_hmac(&t, GNUTLS_MAC_SHA256, SPAN(""));
	refused(ring, t, "signature");
}

TEST(test_headers_with_other_members_are_refused)
{
	static const char *const HEADERS[] = {
		"{\"alg\":\"HS256\",\"crit\":[\"exp\"]}",
		"{\"alg\":\"HS256\",\"crit\":\"exp\"}",
		"{\"alg\":\"HS256\",\"jku\":\"https://evil.example/keys\"}",
		"{\"alg\":\"HS256\",\"x5u\":\"https://evil.example/keys\"}",
		"{\"alg\":\"HS256\",\"jwk\":{\"kty\":\"oct\",\"k\":\"AA\"}}",
		"{\"alg\":\"HS256\",\"x5c\":[\"AA\"]}",
		"{\"alg\":\"HS256\",\"b64\":false}",
		"{\"alg\":\"HS256\",\"zip\":\"DEF\"}",
		"{\"alg\":\"HS256\",\"kid\":7}",
		"{\"alg\":\"HS256\",\"typ\":\"at+jwt\"}",
		"{\"alg\":[\"HS256\"]}",
		"{\"typ\":\"JWT\"}",
		"{}",
	};
	for (size_t i = 0; i < sizeof(HEADERS) / sizeof(HEADERS[0]); i++)
		refused(ring, hmac_token(HEADERS[i], USER_TOKEN), "header");
}

TEST(test_long_kids_are_refused)
{
	STR_AUTO header = STR_INIT(1024);
	str_puts(&header, "{\"alg\":\"HS256\",\"kid\":\"");
	str_many(&header, "k", 129);
	str_puts(&header, "\"}");
	refused(ring, hmac_token(str_c(&header), USER_TOKEN), "kid");
}

TEST(test_payloads_that_are_no_objects_are_refused)
{
	static const char *const PAYLOADS[] = {
		"[1]",
		"1",
		"\"alice\"",
		"",
		"{",
		USER_TOKEN "x",
		"{\"username\":\"bob\"," CLAIMS ",\"exp\":1700600000}",
		"{" CLAIMS ",\"exp\":1700600000,\"exp\":9}",
		"{\"username\":\"al\\u0000ice\",\"exp\":1700600000}",
		"{\"username\":\"al\xff\",\"exp\":1700600000}",
		"{\"username\":\"alice\",\"exp\":99999999999999999999}",
	};
	for (size_t i = 0; i < sizeof(PAYLOADS) / sizeof(PAYLOADS[0]); i++)
		refused(ring, hmac_token(HS256, PAYLOADS[i]), i == 3 ? "three parts" : "JSON");
	refused(ring, hmac_token("{\"alg\":\"none\",\"alg\":\"HS256\"}", USER_TOKEN), "JSON");
	refused(ring, hmac_token("[\"HS256\"]", USER_TOKEN), "JSON");
}

TEST(test_invalid_and_past_times_are_refused)
{
	static const struct {
		const char *claims, *why;
	} CASES[] = {
		{ "\"exp\":1699999999", "expired" },
		{ "\"exp\":1700000000", "expired" },
		{ "\"exp\":0", "expired" },
		{ "\"exp\":-1", "whole seconds" },
		{ "\"exp\":1.5", "whole seconds" },
		{ "\"exp\":1700600000.0", "whole seconds" },
		{ "\"exp\":\"1700600000\"", "whole seconds" },
		{ "\"exp\":null", "whole seconds" },
		{ "\"exp\":true", "whole seconds" },
		{ "\"exp\":1700600000,\"nbf\":1700000001", "not valid yet" },
		{ "\"exp\":1700600000,\"nbf\":\"0\"", "whole seconds" },
		{ "\"exp\":1700600000,\"iat\":1700000301", "future" },
		{ "\"exp\":1700600000,\"iat\":null", "whole seconds" },
		{ "\"iat\":1699999999", "does not expire" },
		{ "\"application\":false", "does not expire" },
		{ "\"application\":\"true\"", "neither true nor false" },
		{ "\"application\":1,\"exp\":1700600000", "neither true nor false" },
		{ "\"exp\":1700600000,\"jobSpecific\":true", "single job" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		FREE_AUTO char *p = xasprintf("{\"username\":\"alice\",%s}", CASES[i].claims);
		refused(ring, hmac_token(HS256, p), CASES[i].why);
	}
}

TEST(test_invalid_user_names_are_refused)
{
	static const char *const NAMES[] = { "\".\"",   "\"..\"",  "\"a.\"",      "\"\"",
		                             "\"a b\"", "\"a/b\"", "\"\\u00e9\"", "7",
		                             "null",    "[\"a\"]", "\"a~b\"",     "\"a\\n\"" };
	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
		FREE_AUTO char *p = xasprintf("{\"username\":%s,\"exp\":1700600000}", NAMES[i]);
		refused(ring, hmac_token(HS256, p), "name");
	}
	refused(ring, hmac_token(HS256, "{\"exp\":1700600000}"), "username");
}

TEST(test_unknown_issuers_are_refused)
{
	refused(ring, hmac_token(HS256, "{" CLAIMS ",\"exp\":1700600000,\"iss\":\"me\"}"),
	        "not known");
	refused(ring, hmac_token(HS256, "{" CLAIMS ",\"exp\":1700600000,\"iss\":null}"), "iss");
	refused(ring, hmac_token(HS256, "{" CLAIMS ",\"exp\":1700600000,\"iss\":\"\"}"),
	        "not known");
}

static struct str text_of(const char *text)
{
	struct str s = STR_INIT(4 * (size_t)TOKEN_MAX);
	str_puts(&s, text);
	return s;
}

TEST(test_texts_that_are_no_tokens_are_refused)
{
	static const char *const TEXTS[] = { "",     ".", "..",   "a.b",  "a.b.c.d",
		                             "a..c", "a", "a.b.", ".b.c", "....." };
	for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
		refused(ring, text_of(TEXTS[i]), "three parts");
	refused(ring, text_of("a.b.c"), "base64url");
	refused(ring, text_of("e30.e30.\xc3\xa9"), "base64url");
	refused(ring, text_of("e30=.e30.e30"), "base64url");
	refused(ring, text_of("e30.e30.e3/"), "base64url");
	refused(ring, text_of("e30.e30.e31"), "base64url"); /* bits that mean nothing */
}

TEST(test_long_tokens_are_refused)
{
	STR_AUTO payload = STR_INIT(TOKEN_MAX);
	str_puts(&payload, "{\"x\":\"");
	str_many(&payload, "x", 6500);
	str_puts(&payload, "\"," CLAIMS ",\"exp\":1700600000}");
	refused(ring, hmac_token(HS256, str_c(&payload)), "too long");
}

TEST(test_every_changed_byte_makes_the_token_invalid)
{
	every_byte_counts(ring, hmac_token(HS256, USER_TOKEN));
}

/* A server with a publicly known secret would accept tokens of anybody. */
TEST(test_without_a_secret_every_token_is_refused)
{
	STR_AUTO out = STR_INIT(TOKEN_MAX);
	struct keyring *none = good_keyring("", "");
	assert_false(keyring_has_secret(none));
	struct str t = unsigned_token("{\"alg\":\"none\"}", USER_TOKEN);
	str_puts(&t, ".AAAA");
	refused(none, t, "no secret");
	t = unsigned_token(HS256, USER_TOKEN);
	sign_hmac(&t, GNUTLS_MAC_SHA256, SPAN(""));
	refused(none, t, "no secret");
	assert_int_equal(token_make(none, "alice", false, NOW, 60, &out, no_err()), -1);
	assert_string_equal(unit.e.code, "NotImplementedError");
	keyring_free(none);
}

TEST_GROUP(set_up, tear_down)
