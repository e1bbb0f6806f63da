#pragma once
/* What an Authorization header says.  Pure. */
#include "base/arena.h"

/* The longest header that is read: a token of TOKEN_MAX bytes, and a name, in base64. */
enum { CREDENTIALS_MAX = 12288 };

struct credentials {
	struct span token; /* not empty; of the letters that tokens are made of; borrowed, or in the
	                      arena */
	struct span user;  /* of Basic; p is NULL with Bearer */
};

/*
 * Read `Bearer TOKEN`, or `Basic BASE64` of `USER:TOKEN`; the scheme in any case of letters.  NULL,
 * or static text: what is wrong, for the log.  With Basic the arena holds the token, and is to be
 * wiped, whatever comes back.
 */
const char *credentials_read(struct span header, struct arena *a, struct credentials *out);
