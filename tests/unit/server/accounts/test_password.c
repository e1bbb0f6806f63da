/* Passwords, compared with OpenPAI's hashes. */

#include "tests/unit/base/cmocka.h"

#include "server/accounts/account.h"

/* Recorded from OpenPAI. */
static const char ALICE[] = "032ea7e6abbb31516e819d7980116826acc8d16a1b5b32190cdfe6bf6c79c2cb"
			    "90f55da8efae515c45b0a951e3950e01d0ca69d578a8fc999f3d5a4180040913";

TEST(test_hash_equals_that_of_openpai)
{
	char hash[PASSWORD_HEX + 1];
	assert_true(password_hash(SPAN("alice"), SPAN("alice-password"), hash));
	assert_string_equal(hash, ALICE);
	assert_true(password_same(hash, span_of(ALICE)));
}

TEST(test_hash_differs_by_password_and_user)
{
	char hash[PASSWORD_HEX + 1];
	assert_true(password_hash(SPAN("alice"), SPAN("alice-passwore"), hash));
	assert_false(password_same(hash, span_of(ALICE)));
	assert_true(password_hash(SPAN("bob"), SPAN("alice-password"), hash));
	assert_false(password_same(hash, span_of(ALICE)));
	assert_true(password_hash(SPAN("alice"), SPAN(""), hash));
	assert_false(password_same(hash, span_of(ALICE)));
}

TEST(test_text_that_is_no_hash_never_matches)
{
	assert_false(password_same(ALICE, SPAN("")));
	assert_false(password_same(ALICE, (struct span){ ALICE, PASSWORD_HEX - 1 }));
	assert_false(password_same(ALICE, (struct span){ ALICE, PASSWORD_HEX + 1 }));
}
