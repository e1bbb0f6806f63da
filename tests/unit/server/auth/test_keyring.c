/* The secret that signs tokens, and its file. */

#include "tests/unit/base/cmocka.h"
#include <sys/stat.h>

#include "tests/unit/server/token_kit.h"

FIXTURE(set_up)
{
	schema_init();
	return 0;
}

static void secret_is_refused(struct span text, bool stored, const char *want)
{
	const char *path = unit_file("secret", text);
	assert_null(try_keyring(path, "", stored, no_err()));
	assert_int_equal(unit.e.http, 400);
	if (!strstr(err_msg(&unit.e), want) || !strstr(err_msg(&unit.e), path))
		fail_msg("%s", err_msg(&unit.e));
	if (text.n && strstr(err_msg(&unit.e), text.p))
		fail_msg("the secret stands in the message: %s", err_msg(&unit.e));
}

TEST(test_weak_secrets_are_refused)
{
	for (int stored = 0; stored < 2; stored++) {
		secret_is_refused(SPAN(""), stored, "empty");
		secret_is_refused(SPAN("\n"), stored, "empty");
		secret_is_refused(SPAN("fifteen letters\n"), stored, "too short");
		secret_is_refused(SPAN("                                "), stored, "guessed");
		secret_is_refused(SPAN("\t \t \t \t \t \t \t \t \r\n\n"), stored, "guessed");
		secret_is_refused(SPAN("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), stored, "guessed");
		secret_is_refused(SPAN("abcd abcd abcd abcd abcd abcd"), stored, "guessed");
		secret_is_refused(SPAN("-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEF\n"),
		                  stored, "public keys belong");
		secret_is_refused(SPAN("# key\n-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG\n"),
		                  stored, "public keys belong");
	}
}

TEST(test_shipped_secret_needs_stored_tokens)
{
	const char *path = unit_file("secret", SPAN("pai-secret\n"));
	struct keyring *k = try_keyring(path, "", true, no_err());
	assert_non_null(k);
	assert_true(keyring_weak(k));
	keyring_free(k);
	assert_null(try_keyring(path, "", false, no_err()));
	assert_non_null(strstr(err_msg(&unit.e), "OpenPAI's default"));
}

TEST(test_secrets_above_4_kib_are_refused)
{
	STR_AUTO text = STR_INIT(8192);
	str_many(&text, "x", 4097);
	secret_is_refused(str_view(&text), false, "more than 4096 bytes");
}

static void signs_as(struct span file, struct span secret)
{
	struct token t;
	struct keyring *k = good_keyring(unit_file("secret", file), "");
	struct str text =
	    unsigned_token("{\"alg\":\"HS256\"}", "{\"username\":\"alice\",\"application\":true}");
	sign_hmac(&text, GNUTLS_MAC_SHA256, secret);
	taken(k, text, &t);
	keyring_free(k);
}

TEST(test_last_newline_is_not_part_of_the_secret)
{
	signs_as(SPAN(SECRET), SPAN(SECRET));
	signs_as(SPAN(SECRET "\n"), SPAN(SECRET));
	signs_as(SPAN(SECRET "\n\n"), SPAN(SECRET "\n"));
	signs_as(SPAN(" " SECRET "\r\n"), SPAN(" " SECRET "\r"));
	signs_as(SPAN("0123456789\0abcdef"), SPAN("0123456789\0abcdef"));
}

TEST(test_files_that_are_not_regular_are_refused)
{
	assert_null(try_keyring(unit_path("nowhere"), "", false, no_err()));
	assert_int_equal(unit.e.http, 400);
	assert_null(try_keyring(unit_path(""), "", false, no_err()));
	assert_non_null(strstr(err_msg(&unit.e), "not a regular file"));
	assert_int_equal(mkfifo(unit_path("link"), 0600), 0);
	assert_null(try_keyring(unit_path("link"), "", false, no_err())); /* it does not wait */
	assert_non_null(strstr(err_msg(&unit.e), "not a regular file"));
}

TEST(test_files_readable_by_all_give_a_warning)
{
	const char *file;
	const char *path = unit_file("secret", SPAN(SECRET));
	for (int open_to_all = 0; open_to_all < 2; open_to_all++) {
		assert_int_equal(chmod(path, open_to_all ? 0644 : 0640), 0);
		struct keyring *k = good_keyring(path, "");
		assert_int_equal(keyring_warning(k, &file) != NULL, open_to_all);
		if (open_to_all)
			assert_string_equal(file, path);
		assert_false(keyring_weak(k));
		keyring_free(k);
	}
}

TEST(test_derived_keys_differ_by_purpose_and_secret)
{
	unsigned char one[32];
	unsigned char two[32];
	unsigned char other[32];
	struct keyring *k = good_keyring(unit_file("secret", SPAN(SECRET)), "");
	assert_true(keyring_derive(k, "log-link", one));
	assert_true(keyring_derive(k, "log-link", two));
	assert_true(keyring_derive(k, "another", other));
	assert_memory_equal(one, two, 32);
	assert_memory_not_equal(one, other, 32);
	keyring_free(k);
	k = good_keyring("", "");
	assert_false(keyring_derive(k, "log-link", one));
	keyring_free(k);
	keyring_free(NULL);
}

TEST_GROUP(set_up, NULL)
