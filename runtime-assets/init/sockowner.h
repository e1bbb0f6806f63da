#pragma once
/* Who has a port, for a message: what /proc says, as far as this process may see it. */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { PORT_TCP = 1, PORT_UDP = 2 };

/* Has it only the near end of connections, or what is left of one?  Those go away. */
bool socket_only_connected(uint16_t port, unsigned protocols);

/* Append " (pid 12, sshd)", " (a process of user 1000)", or nothing.  `protocols` is PORT_TCP or
 * PORT_UDP or both.  Only names of programs: arguments may hold secrets. */
void socket_owner(uint16_t port, unsigned protocols, struct str *out);
