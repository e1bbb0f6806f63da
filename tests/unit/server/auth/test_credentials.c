/* Authorization headers. */

#include "tests/unit/base/cmocka.h"

#include "base/enc.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"

static struct arena arena;

FIXTURE(done)
{
	arena_wipe(&arena);
	return 0;
}

static const char *read(const char *header, struct credentials *out)
{
	return credentials_read(span_of(header), &arena, out);
}

TEST_WITH(test_bearer_headers_give_the_token, NULL, done)
{
	static const char *const ROWS[] = { "Bearer a.b-c_D.9", "bearer a.b-c_D.9",
		                            "BEARER   a.b-c_D.9", "bEaReR a.b-c_D.9 " };
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct credentials c;
		assert_null(read(ROWS[i], &c));
		assert_true(span_is(c.token, "a.b-c_D.9"));
		assert_null(c.user.p);
	}
}

TEST_WITH(test_basic_headers_give_user_and_token, NULL, done)
{
	struct credentials c;
	/* alice:a.b.c */
	assert_null(read("Basic YWxpY2U6YS5iLmM=", &c));
	assert_true(span_is(c.user, "alice"));
	assert_true(span_is(c.token, "a.b.c"));
	/* :a.b.c */
	assert_null(read("basic OmEuYi5j", &c));
	assert_non_null(c.user.p);
	assert_true(span_is(c.user, ""));
}

TEST_WITH(test_malformed_headers_are_refused, NULL, done)
{
	static const char *const ROWS[] = {
		"",
		"Bearer",
		"Bearer ",
		"Bearera.b.c",
		"Bearer\ta.b.c",
		"a.b.c",
		"Digest a.b.c",
		"Bearer a.b.c d",
		"Bearer a,b",
		"Bearer a.b.c=",
		"Bearer a+b",
		"Bearer a/b",
		"Bearer \xc3\xa9",
		"Basic",
		"Basic ",
		"Basic !",
		"Basic YQ",
		"Basic YWxpY2U=",
		/* alice: and alice:a b */
		"Basic YWxpY2U6",
		"Basic YWxpY2U6YSBi",
	};
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct credentials c;
		assert_non_null(read(ROWS[i], &c));
	}
}

TEST_WITH(test_nul_bytes_in_headers_are_refused, NULL, done)
{
	struct credentials c;
	assert_non_null(credentials_read(SPAN("Bearer a\0b"), &arena, &c));
	assert_non_null(credentials_read(SPAN("Bearer\0a"), &arena, &c));
}

TEST_WITH(test_tokens_beyond_the_maximum_are_refused, NULL, done)
{
	char text[7 + TOKEN_MAX + 1] = "Bearer ";
	struct credentials c;
	memset(text + 7, 'a', TOKEN_MAX + 1);
	assert_null(credentials_read((struct span){ text, 7 + TOKEN_MAX }, &arena, &c));
	assert_non_null(credentials_read((struct span){ text, 7 + TOKEN_MAX + 1 }, &arena, &c));
	STR_AUTO longer = STR_INIT(CREDENTIALS_MAX + 1);
	str_puts(&longer, "Basic ");
	while (longer.n <= CREDENTIALS_MAX)
		str_char(&longer, 'A');
	assert_non_null(credentials_read(str_view(&longer), &arena, &c));
}
