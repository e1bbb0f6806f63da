#pragma once
/*
 * Ports of tasks: their numbers, and which are in use (opens sockets for a moment).
 *
 * Thread: any
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct port_range {
	int64_t start, end; /* 0 <= start <= p < end <= 65536 */
};

/* Port i of a label of the pod with this uid.  The arithmetic is that of OpenPAI's runtime, so that
 * tasks of a job agree with either. */
uint16_t port_hashed(struct port_range r, struct span uid, struct span label, int64_t i);

/* Returns true if a socket of this family and type (SOCK_STREAM, SOCK_DGRAM) can bind to the port
 * on any address.  False only if the port is in use; another failure (no IPv6, no permission) is no
 * conflict. */
bool port_can_bind(int family, int type, uint16_t port);

/* The same for TCP and UDP of both families. */
bool port_is_free(uint16_t port);
