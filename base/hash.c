/* Computes SipHash, SHA-256 and MD5, and gets random bytes also where the kernel refuses them. */
#include "base/hash.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/enc.h"

/* ---- SipHash-2-4, by Aumasson and Bernstein ---- */

struct hash_key hash_key_new(void)
{
	struct hash_key key;
	random_bytes(&key, sizeof(key));
	return key;
}

static uint64_t hash_turn(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void hash_mix(uint64_t v[static 4], unsigned rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = hash_turn(v[1], 13) ^ v[0];
		v[3] = hash_turn(v[3], 16) ^ v[2];
		v[0] = hash_turn(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = hash_turn(v[1], 17) ^ v[2];
		v[3] = hash_turn(v[3], 21) ^ v[0];
		v[2] = hash_turn(v[2], 32);
	}
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
		uint64_t word = 0;
		if (n)
			memcpy(&word, bytes.p, n);
		word = le64toh(word) | (n < 8 ? length : 0);
		v[3] ^= word;
		hash_mix(v, 2);
		v[0] ^= word;
		if (n < 8)
			break;
		bytes = span_from(bytes, n);
	}
	v[2] ^= 0xff;
	hash_mix(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- SHA-256, FIPS 180-4 ---- */

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

static uint32_t hash_rotate(uint32_t v, unsigned by)
{
	return v >> by | v << (32 - by);
}

/* A block becomes 64 words (6.2.2, step 1), which are mixed into the state.  The letters a to h of
 * the standard are v[0] to v[7]. */
static void sha256_take(uint32_t state[static 8], const unsigned char *block)
{
	uint32_t w[64];
	uint32_t v[8];
	memcpy(w, block, BLOCK);
	for (unsigned i = 0; i < 16; i++)
		w[i] = be32toh(w[i]);
	for (unsigned i = 16; i < 64; i++) {
		uint32_t a = w[i - 15];
		uint32_t b = w[i - 2];
		w[i] = w[i - 16] + (hash_rotate(a, 7) ^ hash_rotate(a, 18) ^ a >> 3) + w[i - 7] +
		       (hash_rotate(b, 17) ^ hash_rotate(b, 19) ^ b >> 10);
	}
	memcpy(v, state, sizeof(v));
	for (unsigned i = 0; i < 64; i++) {
		uint32_t e = v[4];
		uint32_t a = v[0];
		uint32_t choice = (e & v[5]) ^ (~e & v[6]);
		uint32_t majority = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]);
		uint32_t one = v[7] +
		               (hash_rotate(e, 6) ^ hash_rotate(e, 11) ^ hash_rotate(e, 25)) +
		               choice + ROOTS[i] + w[i];
		uint32_t two =
		    (hash_rotate(a, 2) ^ hash_rotate(a, 13) ^ hash_rotate(a, 22)) + majority;
		/* memmove of musl takes five times as long as all the rest. */
		v[7] = v[6];
		v[6] = v[5];
		v[5] = e;
		v[4] = v[3] + one;
		v[3] = v[2];
		v[2] = v[1];
		v[1] = a;
		v[0] = one + two;
	}
	for (unsigned i = 0; i < 8; i++)
		state[i] += v[i];
}

/* Both digests take the text in blocks of 64 bytes; then its rest, a 1 bit, zeroes, and the length
 * in bits: one block or two.  They differ in the byte order of the length. */
typedef void digest_taker(uint32_t *state, const unsigned char *block);

static void digest_end(uint32_t *state, struct span rest, uint64_t length, bool little,
                       digest_taker *take)
{
	unsigned char end[2 * BLOCK] = { 0 };
	size_t size = rest.n < LENGTH_AT ? BLOCK : 2 * BLOCK;
	if (rest.n)
		memcpy(end, rest.p, rest.n);
	end[rest.n] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		end[little ? size - 8 + i : size - 1 - i] = (unsigned char)(length * 8 >> 8 * i);
	for (size_t at = 0; at < size; at += BLOCK)
		take(state, end + at);
}

void sha256_begin(struct sha256 *d)
{
	/* The square roots of the first 8 primes: 5.3.3. */
	*d = (struct sha256){ .state = {
				  /* clang-format off */
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
				  /* clang-format on */
			      } };
}

void sha256_add(struct sha256 *d, struct span text)
{
	size_t kept = d->length % BLOCK;
	d->length += text.n;
	if (kept && text.n) {
		size_t n = text.n < BLOCK - kept ? text.n : BLOCK - kept;
		memcpy(d->rest + kept, text.p, n);
		text = span_from(text, n);
		if (kept + n < BLOCK)
			return;
		sha256_take(d->state, d->rest);
	}
	for (; text.n >= BLOCK; text = span_from(text, BLOCK))
		sha256_take(d->state, (const unsigned char *)text.p);
	if (text.n)
		memcpy(d->rest, text.p, text.n);
}

void sha256_end(struct sha256 *d, char out[static 65])
{
	struct span rest = { (const char *)d->rest, d->length % BLOCK };
	unsigned char bytes[32];
	digest_end(d->state, rest, d->length, false, sha256_take);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(d->state[i / 4] >> (24 - 8 * (i % 4)));
	hex_encode(out, bytes, sizeof(bytes));
}

void sha256_hex(char out[static 65], struct span text)
{
	struct sha256 d;
	sha256_begin(&d);
	sha256_add(&d, text);
	sha256_end(&d, out);
}

/* ---- MD5, RFC 1321 ---- */

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

/* The rotations of the steps of each round, and the word of step i: times * i + plus. */
static const struct {
	unsigned char rotate[4], times, plus;
} ROUNDS[4] = {
	{ { 7, 12, 17, 22 }, 1, 0 },
	{ { 5, 9, 14, 20 }, 5, 1 },
	{ { 4, 11, 16, 23 }, 3, 5 },
	{ { 6, 10, 15, 21 }, 7, 0 },
};

static void md5_take(uint32_t state[static 4], const unsigned char *block)
{
	uint32_t word[16];
	uint32_t a = state[0];
	uint32_t b = state[1];
	uint32_t c = state[2];
	uint32_t d = state[3];
	memcpy(word, block, BLOCK);
	for (unsigned i = 0; i < 64; i++) {
		unsigned round = i / 16;
		unsigned by = ROUNDS[round].rotate[i % 4];
		uint32_t mixed = round == 0   ? (b & c) | (~b & d)
		                 : round == 1 ? (b & d) | (c & ~d)
		                 : round == 2 ? b ^ c ^ d
		                              : c ^ (b | ~d);
		uint32_t sum = a + mixed + SINES[i] +
		               le32toh(word[(ROUNDS[round].times * i + ROUNDS[round].plus) % 16]);
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

void md5_bytes(unsigned char out[static 16], struct span text)
{
	uint32_t state[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	struct span rest = text;
	for (; rest.n >= BLOCK; rest = span_from(rest, BLOCK))
		md5_take(state, (const unsigned char *)rest.p);
	digest_end(state, rest, text.n, true, md5_take);
	for (unsigned i = 0; i < 16; i++)
		out[i] = (unsigned char)(state[i / 4] >> 8 * (i % 4));
}

void md5_hex(char out[static 33], struct span text)
{
	unsigned char bytes[16];
	md5_bytes(bytes, text);
	hex_encode(out, bytes, sizeof(bytes));
}

/*
 * ---- random bytes ----
 *
 * If getrandom is refused (seccomp filter, kernel before 3.17), /dev/urandom is read.  In a root
 * without /dev, the bytes are SipHash of a counter and the time, with the 16 random bytes that the
 * kernel passes to every program (AT_RANDOM) as the key.
 */

static ssize_t random_from_kernel(void *p, size_t n)
{
	ssize_t got = getrandom(p, n, 0);
	if (got > 0 || errno == EINTR)
		return got > 0 ? got : 0;
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd < 0)
		return -1;
	/* The device can be a regular file in a container image. */
	got = fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) ? read(fd, p, n) : -1;
	close(fd);
	return got;
}

static void random_from_start(void *p, size_t n)
{
	static _Atomic unsigned long counter;
	struct hash_key key = { { 0, 0 } };
	const void *start =
	    (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
	if (start)
		memcpy(&key, start, sizeof(key));
	for (size_t i = 0; i < n;) {
		struct {
			struct timespec now;
			unsigned long number;
			long pid;
		} once = { .number = ++counter, .pid = getpid() };
		(void)clock_gettime(CLOCK_REALTIME, &once.now); /* cannot fail */
		uint64_t word =
		    hash_bytes(&key, (struct span){ (const char *)&once, sizeof(once) });
		size_t part = n - i < sizeof(word) ? n - i : sizeof(word);
		memcpy((char *)p + i, &word, part);
		i += part;
	}
	memory_wipe(&key, sizeof(key));
}

void random_bytes(void *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		ssize_t got = random_from_kernel((char *)p + i, n - i);
		if (got < 0) {
			random_from_start((char *)p + i, n - i);
			return;
		}
		i += (size_t)got;
	}
}
