#pragma once
/*
 * The certificate that the server shows, and its reload.  What is read is one chain with its key,
 * which never changes; connections hold the one that was there when they began.
 */
#include "base/err.h"

struct tls;
struct tls_chain;

/* TLS 1.3 and 1.2 only, and nothing below 128 bits: GnuTLS's words for it. */
#define TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Read and check a chain and its key (PEM).  NULL and *e (400): unreadable, not a regular file, not
 * a certificate, or the key of another. */
struct tls *tls_new(const char *cert_file, const char *key_file, struct err *e);
/* Read them again if they changed (force: in any case); on any error the old ones stay, and *e says
 * why (once: what was read and refused is not looked at again until it changes, but for force).
 * 1: new ones, 0: the same, -1: error.  The main thread; connections that exist keep what they
 * have. */
int tls_refresh(struct tls *t, bool force, struct err *e);
/* A sentence about what is not as it should be, though not wrong (a key that others may read, a
 * certificate that is over), or NULL; of what was read last. */
const char *tls_warning(const struct tls *t);
void tls_free(struct tls *t); /* NULL is nothing; those who hold a chain keep it */

/* A reference to what is shown at the moment.  Any thread. */
struct tls_chain *tls_hold(struct tls *t);
void tls_drop(struct tls_chain *c); /* NULL is nothing */

/* For GnuTLS, which borrows them: the chain, how many, and the key.  The types are its
 * gnutls_pcert_st and gnutls_privkey_t. */
struct gnutls_pcert_st;
struct gnutls_privkey_st;
struct gnutls_pcert_st *tls_chain_certs(struct tls_chain *c, unsigned *n);
struct gnutls_privkey_st *tls_chain_key(struct tls_chain *c);
