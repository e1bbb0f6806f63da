#pragma once
/*
 * Hashes for tables whose keys come from outside: SipHash-2-4, with which nobody who does not have
 * the key can choose texts that meet in one place.  Pure, but for the making of a key.
 */
#include <stdint.h>

#include "base/str.h"

struct hash_key {
	uint64_t v[2];
};

struct hash_key hash_key_new(void); /* random, from the kernel */
uint64_t hash_bytes(const struct hash_key *key, struct span bytes);

/* SHA-256 (FIPS 180-4), for names made of what they name.  Pure; no thread rule.  Takes no care to
 * hide the text from who measures time: not for secrets. */
/* In lower-case hex, with its final NUL. */
void sha256_hex(char out[static 65], struct span text);
