#pragma once
/*
 * Ports of tasks.  All programs of one network share them, so a port is given to one task of this
 * machine only, whoever has started it: its lock is a Unix socket with an abstract name, which
 * disappears with the last descriptor.  No thread rule.
 */
#include "base/port.h"

#define PORTS_NO_FILE SIZE_MAX

/* Locks n ports that nobody listens on: descriptors (close-on-exec; close them when the shim has
 * its own), and *list, the numbers with commas, which the caller frees.  Returns n; less: only so
 * many are free, and nothing is locked; PORTS_NO_FILE: nor is anything because there is no
 * descriptor for a lock. */
size_t ports_take(const struct port_range *r, size_t n, char **list, int *fd);
/* The same for the n ports of a list; less than n: one of them is not free. */
size_t ports_take_again(const char *list, size_t n, int *fd);
