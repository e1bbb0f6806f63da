#pragma once
/* Addresses of registries and of what they refer to: https only. */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* Where a request goes. */
struct registry_place {
	const char *authority; /* HOST[:PORT], for the header Host and for lists of hosts */
	const char *host;      /* to connect to; IPv6 without brackets */
	uint16_t port;
	const char *target; /* path and query */
};

/* HOST[:PORT] that image_host_ok() likes, in its parts; they live in the arena. */
struct registry_place registry_place_at(struct span authority, const char *target, struct arena *a);

/* Read https://HOST[:PORT][/PATH][?QUERY], without a user or a fragment.  -1 if it is anything
 * else. */
int registry_place_read(struct span url, struct arena *a, struct registry_place *out);

/* Printable ASCII that may stand in the first line of a request; no fragment. */
bool registry_target_ok(struct span target);
