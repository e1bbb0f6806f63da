#pragma once
/*
 * Passwords as OpenPAI keeps them: PBKDF2-HMAC-SHA512, 10000 rounds, 64 bytes, in hex; the salt is
 * the MD5 of the user's name, as hex text.  About 7 ms of CPU: not on a loop (worker.h).
 */
#include <stdbool.h>

#include "base/str.h"

enum { PASSWORD_HASH = 64, PASSWORD_HEX = 2 * PASSWORD_HASH };

/* The hash in hex, with its final NUL.  false: GnuTLS refuses (never with these figures). */
bool password_hash(struct span user, struct span password, char out[static PASSWORD_HEX + 1]);

/* Whether two hashes are the same, in a time that does not depend on where they differ.  `stored`
 * is what the user's Secret says, lower case; anything but such a hash is never the same. */
bool password_same(const char hash[static PASSWORD_HEX + 1], struct span stored);
