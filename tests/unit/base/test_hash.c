/* Hashes for tables. */

#include "tests/unit/base/cmocka.h"

#include "base/hash.h"

/* The last vector of the paper by Aumasson and Bernstein. */
TEST(test_hash_bytes_vector)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hash_bytes_vector),
		cmocka_unit_test(test_hash_key_new_is_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
