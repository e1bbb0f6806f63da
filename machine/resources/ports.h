#pragma once
/*
 * Ports of tasks.  All programs of one network share them, so a port is given to one task of this
 * machine only, whoever has started it: its lock is a Unix socket with an abstract name, which
 * disappears with the last descriptor.  No thread rule.
 */
#include "base/port.h"

#define PORTS_NO_FILE SIZE_MAX

/* Locks n ports that nobody listens on: those of *list, numbers with commas, or, if it is NULL,
 * some of the range, which are then in *list, which the caller frees.  fd: descriptors
 * (close-on-exec; close them when the shim has its own).  Returns n; less: only so many are free,
 * and nothing is locked; PORTS_NO_FILE: nor is anything because there is no descriptor for a lock.
 */
size_t ports_take(const struct port_range *r, char **list, size_t n, int *fd);
