#pragma once
/*
 * The server's certificate and its reload.  A chain with its key never changes; a connection holds
 * the chain with which it began.
 *
 * Thread: main
 */
#include "base/err.h"

struct tls;
struct tls_chain;

/* TLS 1.3 and 1.2, forward secrecy, AEAD; in the syntax of GnuTLS. */
#define TLS_PRIORITIES                                                                             \
	"SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:"                                      \
	"-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD"

/* Reads and checks a chain and its key (PEM).  NULL and *e (400): unreadable, not a regular file,
 * not a certificate, or the key does not match. */
struct tls *tls_new(const char *cert_file, const char *key_file, struct err *e);
/* Reads the files again if they have changed (force: always).  1: new chain or warning, 0:
 * unchanged, -1 and *e: the old chain stays; the same bad files are reported once. */
int tls_refresh(struct tls *t, bool force, struct err *e);
/* A warning about the files read last (readable key, expiry), or NULL. */
const char *tls_warning(const struct tls *t);
void tls_free(struct tls *t); /* NULL is allowed; holders of a chain keep it */

/* A certificate that no file has, for a host (name or address, at most TLS_HOST_MAX bytes):
 * self-signed, valid until 2100.  The same seed makes the same key, the same host as well the same
 * bytes, in every process; a client that trusts a certificate of a key trusts all of that key.
 * Takes up to a second.  If *made is not NULL, it is replaced, for the same host, unless it has
 * this seed.  -1 and *e: 400, the host; 500, GnuTLS. */
enum { TLS_HOST_MAX = 253, TLS_SEED = 32 };
int tls_make(struct tls **made, struct span host, const unsigned char seed[static TLS_SEED],
             struct err *e);
/* The certificate of tls_make in PEM, until the next.  Thread: any. */
const char *tls_pem(const struct tls *t);

/* A reference to the current chain.  Thread: any. */
struct tls_chain *tls_hold(struct tls *t);
/* NULL is allowed.  Thread: any. */
void tls_drop(struct tls_chain *c);

/* Chain, length and (returned) key, borrowed by GnuTLS as gnutls_pcert_st and gnutls_privkey_t.
 * Thread: any. */
struct gnutls_pcert_st;
struct gnutls_privkey_st;
struct gnutls_privkey_st *tls_chain_show(struct tls_chain *c, struct gnutls_pcert_st **certs,
                                         unsigned *n);
