#include "server/auth/mac.h"

#include <gnutls/crypto.h>
#include <stdlib.h>

void mac_of(const unsigned char key[static MAC_BYTES], const struct span *v, size_t n,
            unsigned char out[static MAC_BYTES])
{
	gnutls_hmac_hd_t h;
	int rc = gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, key, MAC_BYTES);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		rc = i ? gnutls_hmac(h, "", 1) : 0;
		if (rc >= 0)
			rc = gnutls_hmac(h, v[i].p, v[i].n);
	}
	if (rc < 0) /* only if the library is broken */
		abort();
	gnutls_hmac_deinit(h, out);
}
