/* Put in front of malloc by LD_PRELOAD: what is timed runs without it. */
#include "tests/bench/heap.h"

#include <malloc.h>
#include <stdbool.h>

/* Counted only between begin and end. */
static bool counting;
static size_t calls;
static ptrdiff_t now;
static ptrdiff_t peak;

/* The allocator of glibc under its other names: ours stand in front of it.
 * NOLINTBEGIN(cert-dcl37-c,cert-dcl51-cpp,bugprone-reserved-identifier) */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void __libc_free(void *p);
/* NOLINTEND(cert-dcl37-c,cert-dcl51-cpp,bugprone-reserved-identifier) */

static void *took(void *p)
{
	if (!counting)
		return p;
	calls++;
	if (p)
		now += (ptrdiff_t)malloc_usable_size(p);
	if (now > peak)
		peak = now;
	return p;
}

static void gave(void *p)
{
	if (p && counting)
		now -= (ptrdiff_t)malloc_usable_size(p);
}

void *malloc(size_t n)
{
	return took(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
	return took(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
	gave(p);
	return took(__libc_realloc(p, n));
}

void free(void *p)
{
	gave(p);
	__libc_free(p);
}

void heap_begin(void)
{
	calls = 0;
	now = peak = 0;
	counting = true;
}

struct heap_use heap_end(void)
{
	counting = false;
	return (struct heap_use){ calls, (size_t)peak };
}
