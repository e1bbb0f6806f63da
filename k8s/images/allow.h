#pragma once
/*
 * Which hosts may be asked about images: only those that the administrator has listed, and only at
 * addresses that anybody may reach, unless the list says otherwise.  Names of hosts come from jobs
 * and from what registries answer, and this server stands where many things trust it.  Pure.
 */
#include <stdbool.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/err.h"

struct allow_entry {
	const char *host; /* IPv6 without brackets; letters of both cases are equal */
	uint16_t port;
	bool local; /* may have an address of a private network, or of this machine */
};

struct allow {
	struct allow_entry *v;
	size_t n;
};

/*
 * "HOST[:PORT][=private],...": the port is 443 if none is given.  `docker.io` and
 * `index.docker.io` stand for the two hosts of Docker Hub.  Lives in the arena.  -1 and *e (400)
 * naming the entry that is none.
 */
int allow_read(const char *list, struct arena *a, struct allow *out, struct err *e);

/* The entry of a host, or NULL. */
const struct allow_entry *allow_find(const struct allow *l, const char *host, uint16_t port);

/*
 * May a host of this entry be connected to at this address?  Private networks and this machine:
 * only if the entry says so.  Link-local (where clouds keep their metadata), multicast, unspecified
 * and reserved addresses: never.
 */
bool allow_address(const struct allow_entry *entry, const struct sockaddr *address);
