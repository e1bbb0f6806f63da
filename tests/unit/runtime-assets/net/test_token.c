/* Token files and the claims of tokens. */
#include "runtime-assets/net/kube.h"

#include <unistd.h>

#include "tests/unit/base/cmocka.h"

#include "base/enc.h"

static const char *path;

static void write_file(const char *text, size_t n)
{
	path = unit_file("token", (struct span){ text, n });
}

/* ---- files ------------------------------------------------------------------------------- */

TEST(test_token_append_removes_the_line_end)
{
	STR_AUTO out = STR_SECRET(100);
	write_file("abc.def\r\n", 9);
	str_puts(&out, "Bearer ");
	assert_int_equal(token_append(path, &out, no_err()), 0);
	assert_string_equal(str_c(&out), "Bearer abc.def");
}

static void refuse(const char *text, size_t n)
{
	STR_AUTO out = STR_SECRET(100000);
	write_file(text, n);
	assert_int_equal(token_append(path, &out, no_err()), -1);
	assert_int_equal(out.n, 0);
	assert_non_null(strstr(err_msg(&unit.e), path));
	/* Messages do not quote the file. */
	assert_null(strstr(err_msg(&unit.e), "secret"));
}

TEST(test_token_append_refuses_bytes_that_end_a_header)
{
	refuse("", 0);
	refuse(" \n", 2);
	refuse("secret\r\nImpersonate-User: x", 27);
	refuse("secret\nx", 8);
	refuse("secret x", 8);
	refuse("secret\tx", 8);
	refuse("secret\0x", 8);
	refuse("secret\x7f", 7);
	refuse("secret\xc3\xa9", 8);
}

TEST(test_token_append_has_a_maximum)
{
	static char text[TOKEN_MAX + 1000];
	memset(text, 'x', sizeof(text));
	refuse(text, TOKEN_MAX + 1);
	refuse(text, sizeof(text));
	STR_AUTO out = STR_SECRET(TOKEN_MAX);
	text[TOKEN_MAX] = '\n';
	write_file(text, TOKEN_MAX + 1);
	assert_int_equal(token_append(path, &out, no_err()), 0);
	assert_int_equal(out.n, TOKEN_MAX);
}

TEST(test_token_append_reports_a_missing_file)
{
	STR_AUTO out = STR_SECRET(100);
	assert_int_equal(token_append("/nowhere/token", &out, no_err()), -1);
	assert_string_equal(err_msg(&unit.e), "/nowhere/token is not there");
}

/* ---- claims -------------------------------------------------------------------------------- */

/* A JWT with this payload; the arena's. */
static struct span jwt(const char *payload, struct arena *a)
{
	STR_AUTO out = STR_INIT(20000);
	STR_AUTO middle = STR_INIT(20000);

	str_base64(&middle, span_of(payload));
	str_puts(&out, "eyJhbGciOiJub25lIn0.");
	for (size_t i = 0; i < middle.n && middle.p[i] != '='; i++) {
		if (middle.p[i] == '+')
			middle.p[i] = '-';
		if (middle.p[i] == '/')
			middle.p[i] = '_';
		str_char(&out, middle.p[i]);
	}
	str_puts(&out, ".signature");
	return arena_span(a, str_view(&out));
}

TEST(test_token_claims_give_the_service_account)
{
	struct token_claims c;
	struct span t = jwt("{\"sub\":\"system:serviceaccount:jobs:runtime-account\","
	                    "\"iat\":1700000000,\"exp\":1700003600,\"x\":\"\\u00ff>>>???\"}",
	                    &unit.a);
	assert_int_equal(token_claims(t, &unit.a, &c), 0);
	assert_string_equal(c.account, "runtime-account");
	assert_string_equal(c.namespace_name, "jobs");
	assert_int_equal(c.expires_s, 1700003600);
}

TEST(test_token_claims_take_only_valid_names)
{
	static const char *const SUBJECTS[] = {
		"admin",
		"system:serviceaccount:",
		"system:serviceaccount:jobs",
		"system:serviceaccount:jobs:",
		"system:serviceaccount::x",
		"system:serviceaccount:a:b:c",
		"system:serviceaccount:jobs:x; rm -rf /",
		"system:serviceaccount:jobs:x\\u001b[31m",
	};
	for (size_t i = 0; i < ARRAY_SIZE(SUBJECTS); i++) {
		struct token_claims c;
		char *payload =
		    arena_printf(&unit.a, "{\"sub\":\"%s\",\"exp\":\"soon\"}", SUBJECTS[i]);
		assert_int_equal(token_claims(jwt(payload, &unit.a), &unit.a, &c), 0);
		assert_null(c.account);
		assert_null(c.namespace_name);
		assert_int_equal(c.expires_s, 0);
	}
}

TEST(test_token_claims_refuse_text_that_is_no_jwt)
{
	static const char *const OTHERS[] = { "",         "abc", "a.b", "a..b",   "a.!!!.b",
		                              "a.AAAA.b", ".",   "..",  "a.eyJ.b" };
	for (size_t i = 0; i < ARRAY_SIZE(OTHERS); i++) {
		struct token_claims c;
		assert_int_equal(token_claims(span_of(OTHERS[i]), &unit.a, &c), -1);
	}
}

TEST(test_token_describe_has_account_and_expiry)
{
	STR_AUTO out = STR_INIT(1000);
	struct token_claims c = { 0 };
	struct span t =
	    jwt("{\"sub\":\"system:serviceaccount:jobs:me\",\"exp\":4000000000}", &unit.a);
	write_file(t.p, t.n);
	token_describe(path, 4000000000 - 3600, &unit.a, &c, &out);
	assert_string_equal(c.account, "me");
	assert_non_null(strstr(str_c(&out), "service account jobs/me, expires in 60 min, file "));
	assert_null(strstr(str_c(&out), "signature"));
	STR_AUTO late = STR_INIT(1000);
	token_describe(path, 4000000000 + INT64_C(86400) * 3, &unit.a, &c, &late);
	assert_non_null(strstr(str_c(&late), "EXPIRED 3 d ago"));
}

TEST(test_token_describe_of_other_tokens_has_the_time_of_the_file)
{
	STR_AUTO out = STR_INIT(1000);
	struct token_claims c;
	write_file("0123456789abcdef", 16);
	token_describe(path, 0, &unit.a, &c, &out);
	assert_true(span_starts(str_view(&out), "no token of a service account, file written "));
	assert_null(strstr(str_c(&out), "0123456789abcdef"));
}

TEST(test_duration_text_has_one_unit)
{
	static const struct {
		int64_t seconds;
		const char *text;
	} CASES[] = { { -5, "0 s" },       { 0, "0 s" },    { 119, "119 s" },   { 120, "2 min" },
		      { 7199, "119 min" }, { 7200, "2 h" }, { 172799, "47 h" }, { 172800, "2 d" } };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO out = STR_INIT(100);
		duration_in_words(&out, CASES[i].seconds);
		assert_string_equal(str_c(&out), CASES[i].text);
	}
}
