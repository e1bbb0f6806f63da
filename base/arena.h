#pragma once
/*
 * Memory of one request: allocated piece by piece, freed as a whole.
 *
 *	ARENA_AUTO a = { 0 };
 *	struct point *points = ARENA_NEW(&a, struct point, n);
 *	const char *path = arena_printf(&a, "%s/%s", dir, name);
 *
 * ARENA_AUTO frees everything at the end of the block; ARENA_SECRET wipes it before.  An arena of
 * zeroes is empty.  Allocation never returns NULL (it aborts if memory runs out), so callers limit
 * sizes that come from outside.
 *
 * Thread: own
 */
#include <stddef.h>

#include "base/str.h"

struct arena_block;

struct arena {
	struct arena_block *block; /* newest first */
	char *next, *end;
	size_t used; /* bytes allocated, for budgets and reports */
};

#define ARENA_AUTO   __attribute__((cleanup(arena_done))) struct arena
#define ARENA_SECRET __attribute__((cleanup(arena_wipe))) struct arena

void *arena_alloc_slow(struct arena *a, size_t n);

/* n bytes, aligned to 8, not initialized. */
static inline void *arena_alloc(struct arena *a, size_t n)
{
	/* The remaining room is a multiple of 8: if n fits, n rounded up fits. */
	if ((size_t)(a->end - a->next) < n || a->next == NULL)
		return arena_alloc_slow(a, n);
	n = (n + 7) & ~(size_t)7;
	void *p = a->next;
	a->next += n;
	a->used += n;
	return p;
}

/* n * size bytes of zeroes; aborts on overflow. */
void *arena_zero(struct arena *a, size_t n, size_t size);
#define ARENA_NEW(a, type, n) ((type *)arena_zero((a), (n), sizeof(type)))

/* A NUL-terminated copy. */
char *arena_dup(struct arena *a, struct span t);
struct span arena_span(struct arena *a, struct span t);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Called once, at the start of a program: makes malloc keep up to 4 MiB of freed memory.  Otherwise
 * page faults take more than half of the time of a large job. */
void arena_keep_heap(void);

/* Moves all memory of `from` to `to`; `from` is empty afterwards. */
void arena_adopt(struct arena *to, struct arena *from);

/* Overwrites everything that was allocated (secrets), then frees it. */
void arena_wipe(struct arena *a);
/* Frees everything. */
void arena_done(struct arena *a);
