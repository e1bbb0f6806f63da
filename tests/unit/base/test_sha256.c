/* SHA-256 against the examples of the standard, and against itself at the edges of blocks. */

#include "tests/unit/base/cmocka.h"

#include "base/hash.h"

static void hash_is(struct span text, const char *want)
{
	char got[65];
	sha256_hex(got, text);
	assert_string_equal(got, want);
}

TEST(test_sha256_hex_nothing)
{
	hash_is(SPAN(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	hash_is((struct span){ NULL, 0 },
	        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(test_sha256_hex_one_block)
{
	hash_is(SPAN("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(test_sha256_hex_two_blocks)
{
	hash_is(SPAN("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
	        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(test_sha256_hex_million_letters)
{
	enum { MILLION = 1000000 };
	FREE_AUTO char *text = xmalloc(MILLION);
	memset(text, 'a', MILLION);
	hash_is((struct span){ text, MILLION },
	        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Made with sha256sum: `head -c N /dev/zero | tr '\0' x`. */
TEST(test_sha256_hex_where_blocks_end)
{
	static const struct {
		size_t n;
		const char *want;
	} EDGES[] = {
		{ 55, "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072" },
		{ 56, "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e" },
		{ 63, "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2" },
		{ 64, "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c" },
		{ 65, "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9" },
		{ 119, "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c" },
		{ 120, "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98" },
	};
	char text[130];
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < sizeof(EDGES) / sizeof(*EDGES); i++)
		hash_is((struct span){ text, EDGES[i].n }, EDGES[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sha256_hex_nothing),
		cmocka_unit_test(test_sha256_hex_one_block),
		cmocka_unit_test(test_sha256_hex_two_blocks),
		cmocka_unit_test(test_sha256_hex_million_letters),
		cmocka_unit_test(test_sha256_hex_where_blocks_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
