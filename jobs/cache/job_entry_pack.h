#pragma once
/*
 * Frameworks as they are kept in memory: compressed, with a preset dictionary of typical ones.
 *
 * Thread: any
 */
#include "base/arena.h"

/* Appends the compressed text; false if it exceeds out->max. */
bool job_entry_pack(struct str *out, struct span text);
/* The reverse, to exactly n bytes in the arena.  false: it is damaged. */
bool job_entry_unpack(struct span packed, size_t n, struct arena *a, struct span *text);
