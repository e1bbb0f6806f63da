/* Takes blocks of doubling size, and gives out pieces of the newest one. */
#include "base/arena.h"

#include <assert.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct arena_block {
	struct arena_block *next;
	size_t size; /* of data */
	char data[] __attribute__((aligned(8)));
};

enum { BLOCK_FIRST = 1024, BLOCK_MAX = 1024 * 1024, KEEP_MAX = 4 * 1024 * 1024 };

void *arena_alloc_slow(struct arena *a, size_t n)
{
	assert(n < SIZE_MAX / 2);
	n = (n + 7) & ~(size_t)7;
	/* Blocks double from 1 KiB to 1 MiB; a larger allocation gets its own block. */
	size_t size = a->block ? a->block->size * 2 : BLOCK_FIRST;
	if (size > BLOCK_MAX)
		size = BLOCK_MAX;
	if (size < n)
		size = n;
	struct arena_block *b = xmalloc(sizeof(*b) + size);
	b->size = size;
	b->next = a->block;
	a->block = b;
	a->next = b->data + n;
	a->end = b->data + size;
	a->used += n;
	return b->data;
}

/* Hides that these hints belong to glibc, and that musl has none. */
void arena_keep_heap(void)
{
#ifdef M_TRIM_THRESHOLD
	/* NOLINTBEGIN(concurrency-mt-unsafe): no thread yet */
	(void)mallopt(M_MMAP_THRESHOLD, KEEP_MAX);
	(void)mallopt(M_TRIM_THRESHOLD, KEEP_MAX);
	/* NOLINTEND(concurrency-mt-unsafe) */
#endif
}

void *arena_zero(struct arena *a, size_t n, size_t size)
{
	size_t bytes = 0;
	if (__builtin_mul_overflow(n, size, &bytes))
		abort();
	void *p = arena_alloc(a, bytes);
	memset(p, 0, bytes);
	return p;
}

char *arena_dup(struct arena *a, struct span t)
{
	char *p = arena_alloc(a, t.n + 1);
	bytes_copy(p, t.p, t.n);
	p[t.n] = '\0';
	return p;
}

struct span arena_span(struct arena *a, struct span t)
{
	return (struct span){ arena_dup(a, t), t.n };
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	va_list again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	assert(n >= 0);
	char *p = arena_alloc(a, (size_t)n + 1);
	(void)vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return p;
}

void arena_adopt(struct arena *to, struct arena *from)
{
	if (to->block == NULL) {
		*to = *from;
	} else {
		struct arena_block *last = to->block;
		while (last->next)
			last = last->next;
		last->next = from->block;
		to->used += from->used;
	}
	*from = (struct arena){ 0 };
}

void arena_wipe(struct arena *a)
{
	for (struct arena_block *b = a->block; b; b = b->next)
		explicit_bzero(b->data, b == a->block ? (size_t)(a->next - b->data) : b->size);
	arena_done(a);
}

void arena_done(struct arena *a)
{
	struct arena_block *b = a->block;
	while (b) {
		struct arena_block *next = b->next;
		free(b);
		b = next;
	}
	*a = (struct arena){ 0 };
}
