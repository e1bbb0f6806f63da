/* The area: memory at a fixed address whose used part is a state of the rules and of all around
 * them. */
#include "tests/controller/explore/explore.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { AREA_SIZE = 4 << 20, STEP = 32, SMALL = 4096, CLASSES = SMALL / STEP + 16 };
enum { LARGE = 16000, SCRATCH_SIZE = 64 << 20, HEAD = 16 };

struct area {
	char *top;
	void *free[CLASSES];
};

#define AREA ((struct area *)0x200000000000)

bool area_inside;
static char scratch[SCRATCH_SIZE];
static size_t scratch_top, scratch_live;

/* Of the C library. */
/* NOLINTBEGIN(cert-dcl37-c,bugprone-reserved-identifier) */
extern void *__libc_malloc(size_t n);
extern void __libc_free(void *p);
extern void *__libc_realloc(void *p, size_t n);
/* NOLINTEND(cert-dcl37-c,bugprone-reserved-identifier) */

void area_begin(void)
{
	void *at = mmap(AREA, AREA_SIZE, PROT_READ | PROT_WRITE,
	                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (at != AREA)
		abort();
}

size_t area_used(void)
{
	return (size_t)(AREA->top - (char *)AREA);
}

void *area_alloc_root(size_t size)
{
	memset(AREA, 0, area_used() < AREA_SIZE ? area_used() : 0);
	memset(AREA->free, 0, sizeof(AREA->free));
	char *at = (char *)(AREA + 1);
	AREA->top = at + ((size + HEAD - 1) & ~(size_t)(HEAD - 1));
	memset(at, 0, size);
	return at;
}

void area_save(void *to)
{
	memcpy(to, AREA, area_used());
}

void area_restore(const void *from, size_t used)
{
	memcpy(AREA, from, used);
}

size_t area_scratch_live(void)
{
	return scratch_live;
}

static bool area_has(const void *p)
{
	return (const char *)p >= (char *)AREA && (const char *)p < (char *)AREA + AREA_SIZE;
}

static bool scratch_has(const void *p)
{
	return (const char *)p >= scratch && (const char *)p < scratch + SCRATCH_SIZE;
}

/* Blocks of multiples of 32 bytes, above 4 KiB of powers of two; `n` becomes that size. */
static size_t area_class(size_t *n)
{
	size_t class = (*n + STEP - 1) / STEP;
	if (*n <= SMALL) {
		*n = class * STEP;
		return class;
	}
	size_t size = SMALL;
	for (class = SMALL / STEP; size < *n; class ++)
		size *= 2;
	*n = size;
	return class;
}

static void *scratch_alloc(size_t n)
{
	if (!scratch_live)
		scratch_top = 0;
	char *at = scratch + scratch_top;
	scratch_top += HEAD + ((n + HEAD - 1) & ~(size_t)(HEAD - 1));
	if (scratch_top > SCRATCH_SIZE)
		abort();
	*(size_t *)at = n;
	scratch_live++;
	return at + HEAD;
}

void *malloc(size_t n)
{
	if (!area_inside)
		return __libc_malloc(n);
	if (n > LARGE)
		return scratch_alloc(n);
	size_t size = n + HEAD;
	size_t class = area_class(&size);
	char *at = AREA->free[class];
	if (at) {
		AREA->free[class] = *(void **)(at + HEAD);
	} else {
		at = AREA->top;
		AREA->top += size;
		if (area_used() > AREA_SIZE)
			abort();
	}
	*(size_t *)at = n;
	return at + HEAD;
}

void free(void *p)
{
	if (scratch_has(p)) {
		scratch_live--;
	} else if (area_has(p)) {
		char *at = (char *)p - HEAD;
		size_t size = *(size_t *)at + HEAD;
		size_t class = area_class(&size);
		*(void **)p = AREA->free[class];
		AREA->free[class] = at;
	} else {
		__libc_free(p);
	}
}

void *calloc(size_t n, size_t size)
{
	size_t bytes = 0;
	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	void *p = malloc(bytes);
	return p ? memset(p, 0, bytes) : NULL;
}

void *realloc(void *p, size_t n)
{
	bool inside = area_has(p) || scratch_has(p);
	if (p && !inside && !area_inside)
		return __libc_realloc(p, n);
	if (p && !inside)
		abort(); /* a block from outside would move into the area */
	void *to = malloc(n);
	if (!p || !to)
		return to;
	size_t had = ((size_t *)p)[-2];
	memcpy(to, p, had < n ? had : n);
	free(p);
	return to;
}

void *outside_alloc(size_t n)
{
	void *p = __libc_malloc(n);
	if (!p)
		abort();
	return p;
}

void outside_free(void *p)
{
	__libc_free(p);
}
