#pragma once
/*
 * Memory of one request: handed out in order, given back at once.  What lives in
 * an arena is never freed singly.  Never returns NULL (aborts when memory runs
 * out), so sizes from outside are capped before.  One thread at a time.
 */
#include <stddef.h>

#include "base/str.h"

struct arena_block;

struct arena {
	struct arena_block *block; /* newest first */
	char *next, *end;
	size_t used; /* bytes handed out, for budgets and reports */
};

#define ARENA_AUTO __attribute__((cleanup(arena_done))) struct arena

void *arena_alloc_slow(struct arena *a, size_t n);

/* n bytes, aligned to 8, not initialised. */
static inline void *arena_alloc(struct arena *a, size_t n)
{
	/* What is left is a multiple of 8: if n fits, n rounded up does. */
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

/* A copy that ends in NUL. */
char *arena_dup(struct arena *a, struct span t);
struct span arena_span(struct arena *a, struct span t);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Once, at the start of a program: blocks that a request gives back stay in the process, up to
 * 4 MiB, instead of going back to the kernel page by page and coming again, emptied, for the
 * next request.  That alone costs more than half of what it takes to write a large job.
 */
void arena_keep_heap(void);

/* What is in `from` belongs to `to` from now on; `from` is empty afterwards. */
void arena_adopt(struct arena *to, struct arena *from);

/* Overwrite all that was handed out (secrets), then free everything. */
void arena_wipe(struct arena *a);
/* Free everything. */
void arena_done(struct arena *a);
