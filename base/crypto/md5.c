/* MD5 by RFC 1321; see enc.h. */
#include <stdint.h>

#include "base/enc.h"

enum { BLOCK = 64, LENGTH_AT = 56 };

/* floor(2^32 * |sin(i + 1)|), i in radians: section 3.4. */
static const uint32_t SINES[64] = {
	/* clang-format off */
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
	0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
	0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
	0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
	0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
	0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
	0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
	/* clang-format on */
};

/* Of each round: how far its four kinds of step rotate, and which word step i takes. */
static const struct {
	unsigned char rotate[4], times, plus;
} ROUNDS[4] = {
	{ { 7, 12, 17, 22 }, 1, 0 },
	{ { 5, 9, 14, 20 }, 5, 1 },
	{ { 4, 11, 16, 23 }, 3, 5 },
	{ { 6, 10, 15, 21 }, 7, 0 },
};

static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
	switch (round) {
	case 0:
		return (b & c) | (~b & d);
	case 1:
		return (b & d) | (c & ~d);
	case 2:
		return b ^ c ^ d;
	default:
		return c ^ (b | ~d);
	}
}

static uint32_t word_at(const unsigned char *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void take_block(uint32_t state[static 4], const unsigned char *block)
{
	uint32_t a = state[0];
	uint32_t b = state[1];
	uint32_t c = state[2];
	uint32_t d = state[3];
	for (unsigned i = 0; i < 64; i++) {
		unsigned round = i / 16;
		unsigned word = (ROUNDS[round].times * i + ROUNDS[round].plus) % 16;
		unsigned by = ROUNDS[round].rotate[i % 4];
		uint32_t sum =
		    a + mix(round, b, c, d) + SINES[i] + word_at(block + (size_t)4 * word);
		a = d;
		d = c;
		c = b;
		b += sum << by | sum >> (32 - by);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

/* The rest of the text, a 1 bit, zeroes, and the length in bits: one block or two. */
static void take_end(uint32_t state[static 4], struct span rest, uint64_t length)
{
	unsigned char end[2 * BLOCK] = { 0 };
	size_t blocks = rest.n < LENGTH_AT ? 1 : 2;
	if (rest.n)
		memcpy(end, rest.p, rest.n);
	end[rest.n] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		end[(blocks - 1) * BLOCK + LENGTH_AT + i] = (unsigned char)(length * 8 >> 8 * i);
	for (size_t i = 0; i < blocks; i++)
		take_block(state, end + i * BLOCK);
}

void md5_hex(char out[static 33], struct span text)
{
	static const char hex[] = "0123456789abcdef";
	uint32_t state[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	size_t at = 0;
	for (; text.n - at >= BLOCK; at += BLOCK)
		take_block(state, (const unsigned char *)text.p + at);
	take_end(state, (struct span){ text.n ? text.p + at : NULL, text.n - at }, text.n);
	for (unsigned i = 0; i < 16; i++) {
		unsigned byte = state[i / 4] >> 8 * (i % 4) & 0xff;
		*out++ = hex[byte >> 4];
		*out++ = hex[byte & 15];
	}
	*out = '\0';
}
