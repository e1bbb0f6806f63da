#pragma once
/* Is a port in use?  Opens sockets for a moment.  No thread rule. */
#include <stdbool.h>
#include <stdint.h>

/* For this family and type (SOCK_STREAM, SOCK_DGRAM), on any address.  False only if the port is in
 * use; another failure (no IPv6, no permission) is no conflict. */
bool port_can_bind(int family, int type, uint16_t port);

/* For TCP and UDP of both families. */
bool port_is_free(uint16_t port);
