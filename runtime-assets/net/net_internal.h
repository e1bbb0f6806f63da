#pragma once
/*
 * A connection with a deadline, in two forms: plain (net.c) and TLS (tls.c).  For http.c only.
 *
 * Functions return 0 or an enum http_trouble, and then a sentence in *w->e that names the other
 * side.  Nothing here blocks beyond w->deadline_ms.
 */
#include "runtime-assets/net/http.h"

struct tls;

struct wire {
	int fd;              /* not blocking; -1 before net_open */
	int64_t deadline_ms; /* on clock_ms() */
	const char *where;   /* "10.0.0.1:443", for messages */
	const char *doing;   /* "connecting", for messages about time */
	struct err *e;
};

/* Look the name up and connect to whichever of its addresses answers first.  `host` may be an
 * address.  The caller closes w->fd. */
int net_open(struct wire *w, const char *host, uint16_t port);
/* At least one byte; *n is 0 at the end of the stream. */
int net_read(struct wire *w, void *p, size_t max, size_t *n);
/* As much as goes. */
int net_write(struct wire *w, const void *p, size_t n, size_t *done);
/* Is this an IPv4 or IPv6 address? */
bool net_is_address(const char *host);

/* Handshake.  NULL and *trouble: the certificate is checked against the trust and the name, which
 * are borrowed.  To be given back with tls_close, which also wipes. */
struct tls *tls_open(struct wire *w, const struct ca_bundle *t, const char *name, int *trouble);
/* As net_read; an end that the other side has not announced is a cut. */
int tls_read(struct tls *t, void *p, size_t max, size_t *n);
/* All of it; or less, if the other side answers before it has heard all. */
int tls_write(struct tls *t, struct span text);
void tls_close(struct tls *t);
