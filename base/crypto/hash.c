/* SipHash-2-4, by Aumasson and Bernstein; see hash.h. */
#include "base/crypto/hash.h"

#include "base/enc.h"

struct hash_key hash_key_new(void)
{
	struct hash_key key;
	random_bytes(&key, sizeof(key));
	return key;
}

static uint64_t turn(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[static 4], unsigned rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = turn(v[1], 13) ^ v[0];
		v[3] = turn(v[3], 16) ^ v[2];
		v[0] = turn(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = turn(v[1], 17) ^ v[2];
		v[3] = turn(v[3], 21) ^ v[0];
		v[2] = turn(v[2], 32);
	}
}

static uint64_t little_endian(const char *p, size_t n)
{
	uint64_t x = 0;
	for (size_t i = 0; i < n; i++)
		x |= (uint64_t)(unsigned char)p[i] << (8 * i);
	return x;
}

uint64_t hash_bytes(const struct hash_key *key, struct span bytes)
{
	uint64_t v[4] = { key->v[0] ^ UINT64_C(0x736f6d6570736575),
		          key->v[1] ^ UINT64_C(0x646f72616e646f6d),
		          key->v[0] ^ UINT64_C(0x6c7967656e657261),
		          key->v[1] ^ UINT64_C(0x7465646279746573) };
	uint64_t length = (uint64_t)bytes.n << 56;
	for (;;) {
		size_t n = bytes.n < 8 ? bytes.n : 8;
		uint64_t word = little_endian(bytes.p, n) | (n < 8 ? length : 0);
		v[3] ^= word;
		mix(v, 2);
		v[0] ^= word;
		if (n < 8)
			break;
		bytes = (struct span){ bytes.p + n, bytes.n - n };
	}
	v[2] ^= 0xff;
	mix(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
