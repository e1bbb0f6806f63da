#include "server/idempotency.h"

#include <gnutls/crypto.h>
#include <stdlib.h>

#include "base/enc.h"
#include "server/account.h"
#include "server/auth.h"
#include "server/loop.h"
#include "server/token.h"

enum { MAC = 32, KEY_KEPT = 16, KEY_HEX = 2 * KEY_KEPT, KEY_MAX = 128 };

bool idempotency_key_ok(struct span key)
{
	for (size_t i = 0; i < key.n; i++)
		if (key.p[i] < '!' || key.p[i] > '~')
			return false;
	return key.n >= 1 && key.n <= KEY_MAX;
}

/* These fail only where the library is broken: then nothing that is signed can be trusted. */
static void must(int rc)
{
	if (rc < 0)
		abort();
}

/* The MAC of texts, each followed by a NUL, which none of them but the last holds. */
static void mac(const unsigned char secret[static MAC], const struct span *v, size_t n,
                unsigned char out[static MAC])
{
	gnutls_hmac_hd_t h;
	must(gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, secret, MAC));
	for (size_t i = 0; i < n; i++) {
		if (i)
			must(gnutls_hmac(h, "", 1));
		must(gnutls_hmac(h, v[i].p, v[i].n));
	}
	gnutls_hmac_deinit(h, out);
}

const char *idempotency_value(struct request *r)
{
	if (!r->key)
		return NULL;
	const struct keyring *keys = r->loop->server->keyring ? keyring_of(r->loop) : NULL;
	unsigned char secret[MAC];
	unsigned char sum[MAC];
	const struct span v[] = { span_of(r->who->name), span_of(r->key), str_view(&r->body) };
	if (!keys || !keyring_derive(keys, "idempotency", secret))
		must(gnutls_hash_fast(GNUTLS_DIG_SHA256, v[1].p, v[1].n, secret));
	char *out = arena_zero(&r->arena, 1, KEY_HEX + 1 + 2 * MAC + 1);
	mac(secret, v, 2, sum);
	hex_encode(out, sum, KEY_KEPT);
	out[KEY_HEX] = '-';
	mac(secret, v, 3, sum);
	hex_encode(out + KEY_HEX + 1, sum, MAC);
	wipe(secret, sizeof(secret));
	return out;
}
