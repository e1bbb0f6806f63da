#pragma once
/* The address of a server: http[s]://HOST[:PORT].  HOST is a name, or an IP address. */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { HOST_NAME_MAX_BYTES = 253 }; /* of a host, a namespace, an object */

struct address {
	bool tls;
	uint16_t port;
	char *host; /* IPv6 without brackets; NULL before it is set */
};

/* Set host and port; an empty port is that of the protocol.  -1 if they are not valid. */
int address_set(struct address *a, struct span host, struct span port);

/* Read http[s]://HOST[:PORT], which may end in a slash.  -1 if it is anything else. */
int address_read(struct address *a, struct span url);

void address_done(struct address *a);

/* "https://HOST:PORT"; free() it. */
char *address_url(const struct address *a);

bool address_is_ip(const char *host);

/* Does it lead to this machine only: localhost, 127.0.0.0/8, ::1? */
bool address_is_loopback(const struct address *a);

/* Small letters, digits, and the characters of `also`; 1 to HOST_NAME_MAX_BYTES of them. */
bool name_has_only(struct span name, const char *also);
bool is_host_name(struct span name);
