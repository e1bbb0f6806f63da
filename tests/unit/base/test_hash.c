/* Hashes for tables, and SHA-256 against the examples of the standard and at the edges of blocks.
 */

#include "tests/unit/base/cmocka.h"

#include "base/hash.h"

/* The last vector of the paper by Aumasson and Bernstein. */
TEST(test_hash_bytes_gives_the_published_value)
{
	const struct hash_key key = { { UINT64_C(0x0706050403020100),
		                        UINT64_C(0x0f0e0d0c0b0a0908) } };
	char text[15];
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)i;
	assert_true(hash_bytes(&key, (struct span){ text, sizeof(text) }) ==
	            UINT64_C(0xa129ca6149be45e5));
	assert_true(hash_bytes(&key, SPAN("")) == UINT64_C(0x726fdb47dd0e0e31));
}

TEST(test_hash_key_new_is_random)
{
	const struct hash_key a = hash_key_new();
	const struct hash_key b = hash_key_new();
	assert_memory_not_equal(&a, &b, sizeof(a));
}

TEST(test_sha256_hex_gives_the_sums_of_the_standard)
{
	static const struct {
		const char *text, *want;
	} CASES[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};
	/* Made with sha256sum: `head -c N /dev/zero | tr '\0' C`. */
	static const struct {
		size_t n;
		char c;
		const char *want;
	} EDGES[] = {
		{ 0, 'x', "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ 55, 'x', "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072" },
		{ 56, 'x', "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e" },
		{ 63, 'x', "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2" },
		{ 64, 'x', "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c" },
		{ 65, 'x', "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9" },
		{ 119, 'x', "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c" },
		{ 120, 'x', "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98" },
		{ 1000000, 'a',
		  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
	};
	char got[65];
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		sha256_hex(got, span_of(CASES[i].text));
		assert_string_equal(got, CASES[i].want);
	}
	for (size_t i = 0; i < ARRAY_SIZE(EDGES); i++) {
		FREE_AUTO char *text = EDGES[i].n ? xmalloc(EDGES[i].n) : NULL;
		if (text)
			memset(text, EDGES[i].c, EDGES[i].n);
		sha256_hex(got, (struct span){ text, EDGES[i].n });
		assert_string_equal(got, EDGES[i].want);
	}
}

TEST(test_sha256_gives_the_same_in_pieces)
{
	char text[300];
	char want[65];
	char got[65];
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7);
	for (size_t n = 0; n <= sizeof(text); n++) {
		sha256_hex(want, (struct span){ text, n });
		for (size_t piece = 1; piece < 140; piece += 23) {
			struct sha256 d;
			sha256_begin(&d);
			for (size_t at = 0; at < n; at += piece)
				sha256_add(&d, (struct span){ text + at,
				                              piece < n - at ? piece : n - at });
			sha256_add(&d, (struct span){ NULL, 0 });
			sha256_end(&d, got);
			assert_string_equal(got, want);
		}
	}
}
