#pragma once
/* How much the program takes from the heap.  Counts nothing under a sanitizer, which has a heap of
 * its own. */
#include <stddef.h>

struct heap_use {
	size_t calls;      /* of malloc, calloc, realloc */
	size_t peak_bytes; /* above what was in use at heap_begin */
};

void heap_begin(void);
struct heap_use heap_end(void);
