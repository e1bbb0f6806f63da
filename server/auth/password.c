#include "server/auth/password.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/enc.h"

enum { ROUNDS = 10000 };

bool password_hash(struct span user, struct span password, char out[static PASSWORD_HEX + 1])
{
	char salt[33];
	unsigned char hash[PASSWORD_HASH];
	STR_AUTO text = STR_SECRET(password.n); /* GnuTLS takes no const */
	str_span(&text, password);
	md5_hex(salt, user);
	const gnutls_datum_t key = { (unsigned char *)text.p, (unsigned)text.n };
	const gnutls_datum_t salted = { (unsigned char *)salt, sizeof(salt) - 1 };
	bool made =
	    gnutls_pbkdf2(GNUTLS_MAC_SHA512, &key, &salted, ROUNDS, hash, sizeof(hash)) == 0;
	hex_encode(out, hash, sizeof(hash));
	wipe(hash, sizeof(hash));
	return made;
}

bool password_same(const char hash[static PASSWORD_HEX + 1], struct span stored)
{
	return stored.n == PASSWORD_HEX && gnutls_memcmp(hash, stored.p, PASSWORD_HEX) == 0;
}
