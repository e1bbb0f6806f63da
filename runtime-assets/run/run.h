#pragma once
/*
 * Was a process of this container killed because memory ran out?  The kernel counts that in the
 * container's cgroup, of version 1 or 2.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* In bytes where they are sizes; -1: not known, or no limit. */
struct memory_use {
	int64_t kills; /* processes killed so far */
	int64_t hits;  /* how often this cgroup's own limit was in the way */
	int64_t limit, peak;
};

/* As the kernel shows it below `root`.  Never fails. */
void memory_use_read(struct memory_use *m, const char *root);

/* Append "killed for memory: limit 60 MiB, peak 60 MiB (1 process)" if one was killed between the
 * two; false if not, or if that is not known. */
bool memory_use_explain(const struct memory_use *before, const struct memory_use *after,
                        struct str *out);
