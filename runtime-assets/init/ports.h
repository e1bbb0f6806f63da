#pragma once
/* Sockets of this network namespace, by /proc/net. */
#include <stdbool.h>
#include <stdint.h>

enum { PORT_TCP = 1, PORT_UDP = 2 };

/* Is the port taken only by the near ends of connections, or by closed ones that are in TIME_WAIT?
 * Those go away.  `protocols` is PORT_TCP or PORT_UDP or both.  false also if no table has it. */
bool socket_only_connected(uint16_t port, unsigned protocols);
