#pragma once
/* How much the program takes from the heap.  Both are there only where bench.heap.so is loaded. */
#include <stddef.h>

struct heap_use {
	size_t calls;      /* of malloc, calloc, realloc */
	size_t peak_bytes; /* above what was in use at heap_begin */
};

void heap_begin(void) __attribute__((weak));
struct heap_use heap_end(void) __attribute__((weak));
