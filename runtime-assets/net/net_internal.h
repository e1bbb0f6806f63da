#pragma once
/*
 * Connections with a deadline: plain (net.c) and TLS (tls.c), for http.c only.
 *
 * Functions return 0, or an enum http_trouble and a sentence in *w->e that names the server.  None
 * blocks beyond w->deadline_ms.
 */
#include "runtime-assets/net/http.h"

struct tls_session;

struct wire {
	int fd;              /* non-blocking; -1 before net_open */
	int64_t deadline_ms; /* on clock_ms() */
	const char *where;   /* "10.0.0.1:443", for messages */
	const char *doing;   /* "connecting", for messages about time-outs */
	struct err *e;
};

/* Sets *w->e to w->where and the text; returns `trouble`. */
int wire_fail(struct wire *w, int trouble, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Resolves the name, or address, and connects to the first address that answers: one after the
 * other, each with an equal share of the time that is left.  The caller closes w->fd. */
int net_open(struct wire *w, const char *host, uint16_t port);
/* Reads at least one byte; *n is 0 at the end of the stream. */
int net_read(struct wire *w, void *p, size_t max, size_t *n);
/* Writes everything. */
int net_write(struct wire *w, struct span text);

/* Does the handshake; checks the certificate against the authorities and the name, which are
 * borrowed.  NULL and *trouble.  The caller frees it with tls_close. */
struct tls_session *tls_open(struct wire *w, const struct ca_bundle *t, const char *name,
                             int *trouble);
/* Reads as net_read; an end without close_notify is an error. */
int tls_read(struct tls_session *t, void *p, size_t max, size_t *n);
/* Writes everything. */
int tls_write(struct tls_session *t, struct span text);
/* Wipes and frees; for the attribute cleanup. */
void tls_close(struct tls_session **session);
