#pragma once
/* What a program does to its own process before it takes jobs.  Once, before there are threads. */
#include <stddef.h>

/* jansson gives back memory as it is, with secrets in it: from now on it wipes it first. */
void process_wipe_json(void);
/* No core, no ptrace, no new privileges, private files, no SIGPIPE. */
void process_harden(void);
/* Remove variables that would send tokens elsewhere or write down keys.  The name of the first
 * that was set, or NULL. */
const char *process_scrub(void);
/* Allow so many open files, as far as the hard limit goes. */
void process_allow_files(size_t n);
