#pragma once
/* What a program does to its own process before it takes jobs.  Once, before there are threads. */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* jansson gives back memory as it is, with secrets in it: from now on it wipes it first. */
void process_wipe_json(void);
/* No core, no ptrace, no new privileges, private files, no SIGPIPE. */
void process_harden(void);
/*
 * Give up all capabilities, for good, but for CAP_NET_BIND_SERVICE if low_port: then a port below
 * 1024 can still be listened on.  -1 and *e (500): the kernel refuses.
 */
int process_drop_capabilities(bool low_port, struct err *e);
/* Remove variables that would send tokens elsewhere or write down keys.  The name of the first
 * that was set, or NULL. */
const char *process_scrub(void);
/* Allow so many open files, or fewer if the hard limit is lower.  How many are allowed now: what
 * was asked for, or more, if all is well. */
size_t process_allow_files(size_t n);
