/* SHA-256 by FIPS 180-4; see sha256.h.  One block of 64 bytes after the other. */
#include "base/crypto/sha256.h"

#include <stdint.h>

enum { BLOCK = 64, LENGTH_AT = 56 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes: 4.2.2. */
static const uint32_t ROOTS[64] = {
	/* clang-format off */
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
	/* clang-format on */
};

static uint32_t rotate(uint32_t v, unsigned by)
{
	return v >> by | v << (32 - by);
}

/* Big-endian. */
static uint32_t word_at(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The 64 words that a block becomes: 6.2.2, step 1. */
static void schedule(uint32_t w[static 64], const unsigned char *block)
{
	for (unsigned i = 0; i < 16; i++)
		w[i] = word_at(block + (size_t)4 * i);
	for (unsigned i = 16; i < 64; i++) {
		uint32_t a = w[i - 15];
		uint32_t b = w[i - 2];
		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

/* The letters a to h of the standard are v[0] to v[7]. */
static void take_block(uint32_t state[static 8], const unsigned char *block)
{
	uint32_t w[64];
	uint32_t v[8];
	schedule(w, block);
	memcpy(v, state, sizeof(v));
	for (unsigned i = 0; i < 64; i++) {
		uint32_t e = v[4];
		uint32_t a = v[0];
		uint32_t choice = (e & v[5]) ^ (~e & v[6]);
		uint32_t majority = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]);
		uint32_t one = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice +
		               ROOTS[i] + w[i];
		uint32_t two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += one;
		v[0] = one + two;
	}
	for (unsigned i = 0; i < 8; i++)
		state[i] += v[i];
}

/* The rest of the text, a 1 bit, zeroes, and the length in bits: one block or two. */
static void take_end(uint32_t state[static 8], struct span rest, uint64_t length)
{
	unsigned char end[2 * BLOCK] = { 0 };
	size_t blocks = rest.n < LENGTH_AT ? 1 : 2;
	if (rest.n)
		memcpy(end, rest.p, rest.n);
	end[rest.n] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		end[blocks * BLOCK - 1 - i] = (unsigned char)(length * 8 >> 8 * i);
	for (size_t i = 0; i < blocks; i++)
		take_block(state, end + i * BLOCK);
}

void sha256_hex(char out[static 65], struct span text)
{
	static const char HEX[] = "0123456789abcdef";
	/* The same of the square roots of the first 8: 5.3.3. */
	uint32_t state[8] = {
		/* clang-format off */
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
		/* clang-format on */
	};
	size_t at = 0;
	for (; text.n - at >= BLOCK; at += BLOCK)
		take_block(state, (const unsigned char *)text.p + at);
	take_end(state, (struct span){ text.n ? text.p + at : NULL, text.n - at }, text.n);
	for (unsigned i = 0; i < 64; i++)
		out[i] = HEX[state[i / 8] >> (28 - 4 * (i % 8)) & 15];
	out[64] = '\0';
}
