#pragma once
/* Who has a port, for a message: what /proc says, as far as this process may see it. */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { PORT_TCP = 1, PORT_UDP = 2 };

/* Append " (pid 12, sshd)", " (a process of user 1000)", or nothing.  `protocols` is PORT_TCP or
 * PORT_UDP or both.  Only names of programs: arguments may hold secrets. */
void socket_owner(uint16_t port, unsigned protocols, struct str *out);
