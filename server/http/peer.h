#pragma once
/*
 * Addresses of clients, in one form: 16 bytes, as IPv6; those of IPv4 are mapped (::ffff:a.b.c.d),
 * so that a client is the same one whichever listener it came by.  Pure.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct sockaddr;

enum { PEER_BYTES = 16, PEER_TEXT = 46 /* INET6_ADDRSTRLEN */, NETWORKS_MAX = 64 };

struct peer {
	unsigned char b[PEER_BYTES];
};

/* Of a connection.  false: neither IPv4 nor IPv6. */
bool peer_of(const struct sockaddr *from, struct peer *out);
/* "10.0.0.1", "fd00::1", and both with a port: "10.0.0.1:80", "[fd00::1]:80". */
bool peer_parse(struct span text, struct peer *out);
/* As people write it. */
void peer_text(const struct peer *p, char out[static PEER_TEXT]);
/* What is counted as one client: an IPv4 address, or a /64 of IPv6, which one machine has. */
struct span peer_key(const struct peer *p);

struct networks {
	struct {
		struct peer base;
		unsigned bits; /* of 128 */
	} v[NETWORKS_MAX];
	size_t n;
};

/* "10.0.0.0/8, fd00::/8, 192.0.2.7".  -1 and *e (400): what is no network; bits beyond the length
 * that are not 0 are refused too, for they are a mistake. */
int networks_parse(struct span text, struct networks *out, struct err *e);
bool networks_have(const struct networks *all, const struct peer *p);
