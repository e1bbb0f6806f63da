/* Verdicts about a token from objects of the store. */

#include "tests/unit/base/cmocka.h"

#include "server/auth/token_lookup.h"

/* base64 of "a.b.c" */
#define STORED_TOKEN "YS5iLmM="

static enum token_verdict stored(const char *secret)
{
	return token_verdict_stored(span_of(secret), SPAN("a.b.c"));
}

TEST(test_stored_tokens_are_valid)
{
	assert_int_equal(
	    stored("{\"kind\":\"Secret\",\"data\":{\"x\":\"eA==\",\"y\":\"" STORED_TOKEN "\"}}"),
	    TOKEN_VALID);
	static const char *const BAD[] = {
		"{\"kind\":\"Secret\",\"data\":{\"x\":\"eA==\"}}",
		"{\"kind\":\"Secret\",\"data\":{}}",
		"{\"kind\":\"Secret\",\"data\":null}",
		"{\"kind\":\"Secret\"}",
		/* among the keys it is no token, nor in another member */
		"{\"kind\":\"Secret\",\"data\":{\"" STORED_TOKEN "\":\"eA==\"}}",
		"{\"kind\":\"Secret\",\"stringData\":{\"y\":\"" STORED_TOKEN "\"}}",
		"{\"kind\":\"Secret\",\"data\":{\"x\":{\"y\":\"" STORED_TOKEN "\"}}}",
		"{\"kind\":\"Secret\",\"data\":{\"x\":1,\"y\":null,\"z\":[]}}",
		/* as long, and longer */
		"{\"kind\":\"Secret\",\"data\":{\"x\":\"YS5iLmQ=\",\"y\":\"YS5iLmNk\"}}",
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_int_equal(stored(BAD[i]), TOKEN_INVALID);
}

static const char *const NO_SECRETS[] = {
	"",
	"null",
	"[]",
	"7",
	"\"Secret\"",
	"{}",
	"{\"kind\":\"Secret\",\"data\":[]}",
	"{\"kind\":\"Secret\",\"data\":\"" STORED_TOKEN "\"}",
	"{\"kind\":\"ConfigMap\",\"data\":{\"x\":\"" STORED_TOKEN "\"}}",
	"{\"data\":{\"x\":\"" STORED_TOKEN "\"}}",
	"{\"kind\":[\"Secret\"],\"data\":{\"x\":\"" STORED_TOKEN "\"}}",
	"{\"kind\":\"Secret\",\"data\":{\"x\":\"" STORED_TOKEN "\"}",
	"{\"kind\":\"Secret\",\"data\":{\"x\":\"eA==\"},\"data\":{\"x\":\"" STORED_TOKEN "\"}}",
};

TEST(test_malformed_secrets_give_no_verdict)
{
	for (size_t i = 0; i < sizeof(NO_SECRETS) / sizeof(NO_SECRETS[0]); i++) {
		assert_int_equal(stored(NO_SECRETS[i]), TOKEN_UNKNOWN);
		assert_int_equal(token_verdict_denied(span_of(NO_SECRETS[i]), "x"), TOKEN_UNKNOWN);
	}
}

TEST(test_tokens_in_the_deny_list_are_invalid)
{
	struct span list = SPAN("{\"kind\":\"Secret\",\"data\":{\"x\":\"MA==\",\"y\":null}}");
	assert_int_equal(token_verdict_denied(list, "x"), TOKEN_INVALID);
	assert_int_equal(token_verdict_denied(list, "y"), TOKEN_INVALID);
	assert_int_equal(token_verdict_denied(list, "z"), TOKEN_VALID);
	assert_int_equal(token_verdict_denied(SPAN("{\"kind\":\"Secret\"}"), "x"), TOKEN_VALID);
}

static struct review_user who;

static enum token_verdict review(const char *status)
{
	STR_AUTO text = STR_INIT(4096);
	str_printf(&text, "{\"kind\":\"TokenReview\",\"status\":%s}", status);
	who = (struct review_user){ "", "", "" };
	return token_verdict_review(str_view(&text), "rest-lit", &who);
}

#define USER "\"user\":{\"username\":\"system:serviceaccount:ci:builder\"}"

TEST(test_review_with_the_audience_is_valid)
{
	assert_int_equal(
	    review("{\"authenticated\":true,\"audiences\":[\"x\",\"rest-lit\"]," USER "}"),
	    TOKEN_VALID);
	assert_string_equal(who.subject, "system:serviceaccount:ci:builder");
}

TEST(test_review_that_is_incomplete_is_invalid)
{
	static const char *const BAD[] = {
		"{}",
		"{\"error\":\"x\"}",
		"{\"authenticated\":true," USER "}",
		"{\"authenticated\":true,\"audiences\":[]," USER "}",
		"{\"authenticated\":true,\"audiences\":\"rest-lit\"," USER "}",
		"{\"authenticated\":true,\"audiences\":[\"rest-lit2\",\"rest\"]," USER "}",
		"{\"authenticated\":true,\"audiences\":[[\"rest-lit\"]]," USER "}",
		"{\"authenticated\":true,\"audiences\":{\"rest-lit\":1}," USER "}",
		"{\"authenticated\":false,\"audiences\":[\"rest-lit\"]," USER "}",
		"{\"authenticated\":\"true\",\"audiences\":[\"rest-lit\"]," USER "}",
		"{\"authenticated\":1,\"audiences\":[\"rest-lit\"]," USER "}",
		"{\"audiences\":[\"rest-lit\"]," USER "}",
		"{\"authenticated\":true,\"audiences\":[\"rest-lit\"]}",
		"{\"authenticated\":true,\"audiences\":[\"rest-lit\"],\"user\":\"alice\"}",
		"{\"authenticated\":true,\"audiences\":[\"rest-lit\"],\"user\":{\"name\":\"x\"}}",
		"{\"authenticated\":true,\"audiences\":[\"rest-lit\"],\"user\":{\"username\":7}}",
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		assert_int_equal(review(BAD[i]), TOKEN_INVALID);
		assert_string_equal(who.subject, "");
	}
	assert_int_equal(review("{\"authenticated\":true,\"audiences\":[\"rest-lit\"],\"user\":"
	                        "{\"username\":\"\"}}"),
	                 TOKEN_INVALID);
	assert_int_equal(review("null"), TOKEN_UNKNOWN);
	assert_int_equal(review("[]"), TOKEN_UNKNOWN);
	assert_int_equal(token_verdict_review(SPAN("{}"), "rest-lit", &who), TOKEN_UNKNOWN);
}

#define POD                                                                                        \
	"\"authentication.kubernetes.io/pod-name\":[\"p-0\"],"                                     \
	"\"authentication.kubernetes.io/pod-uid\":[\"u\"]"

TEST(test_review_gives_the_pod_of_the_token)
{
	static const struct {
		const char *extra, *name, *uid;
	} CASES[] = {
		{ "{" POD "}", "p-0", "u" },
		{ "{}", "", "" },
		{ "null", "", "" },
		{ "{\"authentication.kubernetes.io/pod-uid\":[\"u\",\"v\"]}", "", "" },
		{ "{\"authentication.kubernetes.io/pod-uid\":\"u\"}", "", "" },
		{ "{\"authentication.kubernetes.io/pod-uid\":[7]}", "", "" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		STR_AUTO status = STR_INIT(4096);
		str_printf(&status,
		           "{\"authenticated\":true,\"audiences\":[\"rest-lit\"],\"user\":"
		           "{\"username\":\"a\",\"extra\":%s}}",
		           CASES[i].extra);
		assert_int_equal(review(str_c(&status)), TOKEN_VALID);
		assert_string_equal(who.pod_name, CASES[i].name);
		assert_string_equal(who.pod_uid, CASES[i].uid);
	}
}

TEST(test_review_refuses_names_that_are_too_long)
{
	for (int n = SUBJECT_MAX; n <= SUBJECT_MAX + 1; n++) {
		STR_AUTO status = STR_INIT(4096);
		str_printf(&status,
		           "{\"authenticated\":true,\"audiences\":[\"rest-lit\"],\"user\":"
		           "{\"username\":\"%0*d\"}}",
		           n, 7);
		assert_int_equal(review(str_c(&status)),
		                 n == SUBJECT_MAX ? TOKEN_VALID : TOKEN_INVALID);
	}
}
