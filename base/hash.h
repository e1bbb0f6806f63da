#pragma once
/*
 * Digests: SipHash-2-4 for hash tables, SHA-256 for names derived from content.  MD5 is declared in
 * enc.h.
 *
 *	struct hash_key key = hash_key_new();
 *	size_t slot = hash_bytes(&key, SPAN("a name")) % ARRAY_SIZE(table);
 *	char digest[65];
 *	sha256_hex(digest, text);
 *
 * Pure, except for hash_key_new.
 *
 * Thread: any
 */
#include <stdint.h>

#include "base/str.h"

/* Without the key, a client cannot choose texts that collide. */
struct hash_key {
	uint64_t v[2];
};

/* A random key from the kernel. */
struct hash_key hash_key_new(void);
uint64_t hash_bytes(const struct hash_key *key, struct span bytes);

/* SHA-256 (FIPS 180-4) in lower-case hex, NUL-terminated.  Not in constant time: not for secrets.
 */
void sha256_hex(char out[static 65], struct span text);

/* The same of a text that comes in pieces: begin, add any number of times, end once. */
struct sha256 {
	uint32_t state[8];
	uint64_t length;
	unsigned char rest[64]; /* the first length % 64 bytes */
};
void sha256_begin(struct sha256 *d);
void sha256_add(struct sha256 *d, struct span text);
void sha256_end(struct sha256 *d, char out[static 65]);
